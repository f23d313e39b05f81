//! `keyprint clear` and `keyprint rm`.

use std::collections::HashSet;

use keyprint_key::Key;
use keyprint_store::{Cleared, Store};
use serde_json::json;

use crate::find::{self, Wanted};
use crate::humanize::{clean, entries, size};
use crate::output::Output;
use crate::progress::Progress;
use crate::{Done, Failure};

pub(crate) fn run(
    store: &Store,
    pattern: Option<&str>,
    dry_run: bool,
    output: &mut Output<'_>,
    progress: &mut Progress<'_>,
) -> Done {
    let keys: Option<HashSet<Key>> = pattern.map(|pattern| {
        let wanted = Wanted { pattern: Some(pattern), internal: false };
        find::keys(store, wanted, progress)
    });
    let is_wanted = |key: &Key| keys.as_ref().is_none_or(|keys| keys.contains(key));
    let cleared = if dry_run {
        let mut cleared = Cleared::default();
        cleared.skipped = store.visit(|listed| {
            if is_wanted(&listed.key) {
                cleared.entries += 1;
                cleared.bytes += listed.bytes;
            }
        });
        cleared
    } else {
        let which: Option<&dyn Fn(&Key) -> bool> = if keys.is_some() { Some(&is_wanted) } else { None };
        let cleared = store.clear(which, |count| progress.show("removing", count, None));
        cleared.map_err(Failure::io("cannot clear the store"))?
    };
    if output.is_json() {
        output.value(&json!({
            "removed": cleared.entries,
            "removed_bytes": cleared.bytes,
            "skipped": cleared.skipped.count,
            "dry_run": dry_run,
        }));
    } else {
        let verb = if dry_run { "would remove" } else { "removed" };
        output.line(format!("{verb} {} ({})", entries(cleared.entries), size(cleared.bytes)));
        output.skipped(&cleared.skipped);
    }
    Ok(0)
}

/// Removes one entry.
pub(crate) fn remove(store: &Store, key: &str, output: &mut Output<'_>) -> Done {
    if key.trim().is_empty() {
        return Err(Failure::Said("a key, or the beginning of one, says what to remove".to_owned()));
    }
    let find::Found { listed, notes } = find::entry(store, key)?;
    let removed = store.remove(&listed.key).map_err(Failure::io("cannot remove the entry"))?;
    if output.is_json() {
        output.value(&json!({"key": listed.key.hex(), "removed": removed}));
    } else {
        output.line(format!(
            "removed {} {} ({})",
            listed.key.short(),
            clean(notes.manifest.name()),
            size(listed.bytes)
        ));
    }
    Ok(0)
}
