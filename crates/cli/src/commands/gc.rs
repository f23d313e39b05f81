//! `keyprint gc`.

use keyprint_store::{ConfigError, Store, parse_size};
use serde_json::json;

use crate::args::Gc;
use crate::humanize::{entries, parse_age, size};
use crate::output::Output;
use crate::progress::Progress;
use crate::{Done, Failure};

pub(crate) fn run(store: &Store, what: &Gc, output: &mut Output<'_>, progress: &mut Progress<'_>) -> Done {
    let limit = match &what.size {
        None => None,
        Some(text) => {
            Some(parse_size(text).ok_or_else(|| ConfigError::Size { text: text.clone(), from: None })?)
        }
    };
    let age = match &what.older_than {
        None => None,
        Some(text) => Some(parse_age(text).ok_or_else(|| {
            Failure::Said(format!("`{text}` is not a time\nhint: write `30 days`, `12h` or `45 min`"))
        })?),
    };
    let freed = store.gc(limit, age, what.dry_run, &mut progress.showing("indexing"));
    let freed = freed.map_err(Failure::io("cannot clean the store"))?;
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
            "skipped": freed.skipped.count,
            "dry_run": what.dry_run,
        }));
        return Ok(0);
    }
    let verb = if what.dry_run { "would remove" } else { "removed" };
    let leftovers = if what.dry_run { String::new() } else { format!(", {} leftovers", freed.swept) };
    output.line(format!("{verb} {} ({}){leftovers}", entries(freed.entries), size(freed.bytes)));
    output.line(format!("{} left ({})", entries(freed.left_entries), size(freed.left_bytes)));
    output.skipped(&freed.skipped);
    Ok(0)
}
