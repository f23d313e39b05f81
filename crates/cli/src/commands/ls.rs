//! `keyprint ls`.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::SystemTime;

use keyprint_key::Key;
use keyprint_store::{Indexed, Listed, Store};
use serde_json::json;

use crate::Done;
use crate::args::{Ls, Sort};
use crate::find::{self, Wanted};
use crate::humanize::{ago, clean, duration, entries, from_millis, size, to_millis};
use crate::output::{Look, Output, Table};
use crate::progress::Progress;

/// So many rows are read and aligned at a time.
const ROWS: usize = 1000;

pub(crate) fn run(
    store: &Store,
    what: &Ls,
    output: &mut Output<'_>,
    progress: &mut Progress<'_>,
    now: SystemTime,
) -> Done {
    let wanted = Wanted { pattern: what.pattern.as_deref(), internal: what.all };
    let mut records = find::entries(store, wanted, progress);
    sort(store, what, &mut records);
    let limit = what.limit.unwrap_or(usize::MAX);
    let (mut count, mut passed, mut damaged) = (0, 0, 0);
    let mut table = Table::new(&["KEY", "NAME", "SIZE", "BUILD", "BUILT", "USED"], &[2, 3]);
    let mut rows = Vec::new();
    for record in &records {
        if count == limit || output.is_broken() {
            break;
        }
        passed += 1;
        let Some(listed) = store.listed(&record.key) else { continue };
        let notes = match store.notes(&record.key) {
            Ok(Some(Ok(notes))) => notes,
            Ok(None) => continue,
            Ok(Some(Err(_))) | Err(_) => {
                damaged += 1;
                continue;
            }
        };
        if output.is_json() {
            let row = json!({
                "key": listed.key.hex(),
                "name": notes.manifest.name(),
                "bytes": listed.bytes,
                "build_ns": notes.info.build_ns,
                "created_ms": notes.info.created_ms,
                "used_ms": to_millis(listed.used),
                "parts": notes.parts.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            });
            output.item(count, &row);
        } else {
            rows.push(vec![
                listed.key.short(),
                clean(notes.manifest.name()),
                size(listed.bytes),
                duration(notes.info.build_ns),
                ago(from_millis(notes.info.created_ms), now),
                ago(listed.used, now),
            ]);
            if rows.len() == ROWS {
                table.rows(&std::mem::take(&mut rows), output);
            }
        }
        count += 1;
    }
    if output.is_json() {
        output.end_items(count);
        return Ok(0);
    }
    if count == 0 {
        output.line(match &what.pattern {
            Some(pattern) => format!("no entry has a name like `{pattern}`"),
            None => "the store is empty".to_owned(),
        });
    } else {
        table.rows(&rows, output);
    }
    let (more, about) = remaining(store, &records[passed..]);
    if more > 0 {
        let more = output.look(Look::Faint, &format!("… and {about}{more} more"));
        output.line(more);
    }
    if damaged > 0 {
        let text = format!("{} could not be read: `keyprint verify` says why", entries(damaged));
        let text = output.look(Look::Bad, &text);
        output.line(text);
    }
    Ok(0)
}

/// How many entries there are that are not shown; the index may know some that are gone, and to look at very many takes
/// too long.
fn remaining(store: &Store, records: &[Indexed]) -> (usize, &'static str) {
    if records.len() > ROWS {
        return (records.len(), "about ");
    }
    (records.iter().filter(|record| store.listed(&record.key).is_some()).count(), "")
}

/// Sorts entries that come the latest first. Ties stay in that order, and by key, so that the same store is always
/// listed the same way.
fn sort(store: &Store, what: &Ls, records: &mut [Indexed]) {
    let mut files: HashMap<Key, Listed> = HashMap::new();
    if matches!(what.sort, Sort::Used | Sort::Size) {
        store.visit(|listed| {
            files.insert(listed.key, listed);
        });
    }
    match what.sort {
        Sort::Age => {}
        Sort::Used => records.sort_by_key(|record| Reverse(files.get(&record.key).map(|listed| listed.used))),
        Sort::Size => {
            records.sort_by_key(|record| Reverse(files.get(&record.key).map(|listed| listed.bytes)))
        }
        Sort::Name => records.sort_by(|a, b| a.name.cmp(&b.name)),
    }
    if what.reverse {
        records.reverse();
    }
}
