//! `keyprint clear`.

use std::collections::HashSet;

use keyprint_key::Key;
use keyprint_store::Store;
use serde_json::json;

use crate::find;
use crate::humanize::{entries, size};
use crate::output::Output;
use crate::{Done, Failure};

pub(crate) fn run(store: &Store, pattern: Option<&str>, dry_run: bool, output: &mut Output<'_>) -> Done {
    let (matched, damaged) = find::entries(store, pattern)?;
    let (count, bytes) = if dry_run {
        let others = if pattern.is_none() { &damaged[..] } else { &[] };
        let all = matched.iter().map(|entry| &entry.listed).chain(others);
        all.fold((0, 0), |(count, bytes), listed| (count + 1, bytes + listed.bytes))
    } else {
        let keys: HashSet<Key> = matched.iter().map(|entry| entry.listed.key).collect();
        let which = |key: &Key| keys.contains(key);
        let which: Option<&dyn Fn(&Key) -> bool> = if pattern.is_some() { Some(&which) } else { None };
        store.clear(which).map_err(Failure::io("cannot clear the store"))?
    };
    if output.is_json() {
        output.value(&json!({"removed": count, "removed_bytes": bytes, "dry_run": dry_run}));
    } else {
        let verb = if dry_run { "would remove" } else { "removed" };
        output.line(format!("{verb} {} ({})", entries(count), size(bytes)));
    }
    Ok(0)
}
