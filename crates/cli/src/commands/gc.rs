//! `keyprint gc`.

use keyprint_store::{ConfigError, Store, parse_size};
use serde_json::json;

use crate::humanize::{entries, size};
use crate::output::Output;
use crate::{Done, Failure};

pub(crate) fn run(store: &Store, limit: Option<&str>, output: &mut Output<'_>) -> Done {
    let limit = match limit {
        None => None,
        Some(text) => {
            Some(parse_size(text).ok_or_else(|| ConfigError::Size { text: text.to_owned(), from: None })?)
        }
    };
    let freed = store.gc(limit).map_err(Failure::io("cannot clean the store"))?;
    let Some(freed) = freed else {
        return Err(Failure::Said("another process is cleaning the store right now".to_owned()));
    };
    if output.is_json() {
        output.value(&json!({
            "removed": freed.entries,
            "removed_bytes": freed.bytes,
            "leftovers": freed.swept,
            "entries": freed.left_entries,
            "bytes": freed.left_bytes,
        }));
        return Ok(0);
    }
    output.line(format!(
        "removed {} ({}), {} leftovers",
        entries(freed.entries),
        size(freed.bytes),
        freed.swept
    ));
    output.line(format!("{} left ({})", entries(freed.left_entries), size(freed.left_bytes)));
    Ok(0)
}
