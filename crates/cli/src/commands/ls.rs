//! `keyprint ls`.

use std::cmp::Reverse;
use std::time::SystemTime;

use keyprint_store::Store;
use serde_json::json;

use crate::Done;
use crate::args::{Ls, Sort};
use crate::find;
use crate::humanize::{ago, clean, duration, entries, from_millis, size, to_millis};
use crate::output::{Look, Output};

pub(crate) fn run(store: &Store, what: &Ls, output: &mut Output<'_>, now: SystemTime) -> Done {
    let (mut found, damaged) = find::entries(store, what.pattern.as_deref())?;
    // Ties go by key, so that the same store is always listed the same way.
    found.sort_by_key(|one| one.listed.key);
    match what.sort {
        Sort::Used => found.sort_by_key(|one| Reverse(one.listed.used)),
        Sort::Size => found.sort_by_key(|one| Reverse(one.listed.bytes)),
        Sort::Age => found.sort_by_key(|one| Reverse(one.notes.info.created_ms)),
        Sort::Name => found.sort_by(|a, b| a.notes.manifest.name().cmp(b.notes.manifest.name())),
    }
    if what.reverse {
        found.reverse();
    }
    let total = found.len();
    found.truncate(what.limit.unwrap_or(usize::MAX));
    if output.is_json() {
        let rows = found.iter().map(|one| {
            json!({
                "key": one.listed.key.hex(),
                "name": one.notes.manifest.name(),
                "bytes": one.listed.bytes,
                "build_ns": one.notes.info.build_ns,
                "created_ms": one.notes.info.created_ms,
                "used_ms": to_millis(one.listed.used),
                "parts": one.notes.parts.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            })
        });
        output.value(&rows.collect::<Vec<_>>());
        return Ok(0);
    }
    let rows: Vec<_> = found
        .iter()
        .map(|one| {
            vec![
                one.listed.key.short(),
                clean(one.notes.manifest.name()),
                size(one.listed.bytes),
                duration(one.notes.info.build_ns),
                ago(from_millis(one.notes.info.created_ms), now),
                ago(one.listed.used, now),
            ]
        })
        .collect();
    if rows.is_empty() {
        output.line(match &what.pattern {
            Some(pattern) => format!("no entry has a name like `{pattern}`"),
            None => "the store is empty".to_owned(),
        });
    } else {
        output.table(&["KEY", "NAME", "SIZE", "BUILD", "BUILT", "USED"], &[2, 3], &rows);
    }
    if total > rows.len() {
        let more = output.look(Look::Faint, &format!("… and {} more", total - rows.len()));
        output.line(more);
    }
    if !damaged.is_empty() {
        let count = entries(damaged.len() as u64);
        let text = format!("{count} could not be read: `keyprint verify` says why");
        let text = output.look(Look::Bad, &text);
        output.line(text);
    }
    Ok(0)
}
