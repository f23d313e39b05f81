//! `keyprint verify`.

use keyprint_store::Store;
use serde_json::json;

use crate::Done;
use crate::humanize::{entries, shown, size};
use crate::output::{Look, Output};
use crate::progress::Progress;

pub(crate) fn run(store: &Store, keep: bool, output: &mut Output<'_>, progress: &mut Progress<'_>) -> Done {
    let verified = store.verify(keep, progress.showing("verifying"));
    let bad = verified.damaged.len() + verified.unreadable.len();
    if output.is_json() {
        let damaged =
            verified.damaged.iter().map(|(path, why)| json!({"path": path, "why": why.to_string()}));
        let unreadable =
            verified.unreadable.iter().map(|(path, why)| json!({"path": path, "why": why.to_string()}));
        let skipped = verified.skipped.first.iter().map(|(path, why)| json!({"path": path, "why": why}));
        output.value(&json!({
            "whole": verified.whole,
            "bytes": verified.bytes,
            "damaged": damaged.collect::<Vec<_>>(),
            "unreadable": unreadable.collect::<Vec<_>>(),
            "skipped": skipped.collect::<Vec<_>>(),
        }));
        return Ok(i32::from(bad > 0));
    }
    let whole = format!("{} whole ({})", entries(verified.whole), size(verified.bytes));
    let whole = output.look(Look::Good, &whole);
    output.line(whole);
    let aside = if keep { "damaged" } else { "damaged, put aside" };
    let damaged = verified.damaged.iter().map(|(path, why)| (aside, path, why.to_string()));
    let unreadable = verified.unreadable.iter().map(|(path, why)| ("unreadable", path, why.to_string()));
    for (what, path, why) in damaged.chain(unreadable) {
        let what = output.look(Look::Bad, what);
        output.line(format!("{what}: {} ({why})", shown(path)));
    }
    output.skipped(&verified.skipped);
    Ok(i32::from(bad > 0))
}
