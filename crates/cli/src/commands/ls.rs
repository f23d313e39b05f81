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
    let (mut matched, damaged) = find::entries(store, what.pattern.as_deref())?;
    // Ties go by key, so that the same store is always listed the same way.
    matched.sort_by_key(|entry| entry.listed.key);
    match what.sort {
        Sort::Used => matched.sort_by_key(|entry| Reverse(entry.listed.used)),
        Sort::Size => matched.sort_by_key(|entry| Reverse(entry.listed.bytes)),
        Sort::Age => matched.sort_by_key(|entry| Reverse(entry.notes.info.created_ms)),
        Sort::Name => matched.sort_by(|a, b| a.notes.manifest.name().cmp(b.notes.manifest.name())),
    }
    if what.reverse {
        matched.reverse();
    }
    let total = matched.len();
    matched.truncate(what.limit.unwrap_or(usize::MAX));
    if output.is_json() {
        let rows = matched.iter().map(|entry| {
            json!({
                "key": entry.listed.key.hex(),
                "name": entry.notes.manifest.name(),
                "bytes": entry.listed.bytes,
                "build_ns": entry.notes.info.build_ns,
                "created_ms": entry.notes.info.created_ms,
                "used_ms": to_millis(entry.listed.used),
                "parts": entry.notes.parts.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            })
        });
        output.value(&rows.collect::<Vec<_>>());
        return Ok(0);
    }
    let rows: Vec<_> = matched
        .iter()
        .map(|entry| {
            vec![
                entry.listed.key.short(),
                clean(entry.notes.manifest.name()),
                size(entry.listed.bytes),
                duration(entry.notes.info.build_ns),
                ago(from_millis(entry.notes.info.created_ms), now),
                ago(entry.listed.used, now),
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
