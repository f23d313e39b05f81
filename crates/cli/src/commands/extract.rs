//! `keyprint extract`.

use std::fs;
use std::path::Path;

use keyprint_store::Store;

use crate::find;
use crate::humanize::{clean, shown, size};
use crate::output::Output;
use crate::{Done, Failure};

/// Writes a part of an entry, verified, to a file or to where results go.
pub(crate) fn run(store: &Store, key: &str, part: &str, to: Option<&Path>, output: &mut Output<'_>) -> Done {
    let found = find::entry(store, key)?;
    let entry = store.get(&found.listed.key).ok_or_else(|| {
        Failure::Said("the entry is damaged\nhint: `keyprint verify` looks for others".to_owned())
    })?;
    let Some(bytes) = entry.part(part) else {
        let names: Vec<String> = entry.names().map(|name| format!("`{}`", clean(name))).collect();
        return Err(Failure::Said(format!(
            "there is no part `{}`\nhint: the parts are {}",
            clean(part),
            names.join(", ")
        )));
    };
    match to {
        None => output.raw(bytes),
        Some(path) => {
            fs::write(path, bytes).map_err(Failure::io(format!("cannot write `{}`", shown(path))))?;
            output.line(format!("wrote {} to {}", size(bytes.len() as u64), shown(path)));
        }
    }
    Ok(0)
}
