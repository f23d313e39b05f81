//! `keyprint verify`.

use std::io::Write;

use keyprint_store::Store;
use serde_json::json;

use crate::humanize::{entries, size};
use crate::output::{Look, Output};
use crate::{Done, Failure};

pub(crate) fn run(
    store: &Store,
    keep: bool,
    output: &mut Output<'_>,
    err: &mut dyn Write,
    err_is_terminal: bool,
) -> Done {
    let mut shown = false;
    let verified = store.verify(keep, |at, of| {
        if err_is_terminal && at % 64 == 0 && of > 64 {
            shown = true;
            let _ = write!(err, "\rverifying {at} of {of}\x1b[K");
        }
    });
    if shown {
        let _ = write!(err, "\r\x1b[K");
    }
    let verified = verified.map_err(Failure::io("cannot read the store"))?;
    let bad = verified.damaged.len() + verified.unreadable.len();
    if output.is_json() {
        let damaged =
            verified.damaged.iter().map(|(path, why)| json!({"path": path, "why": why.to_string()}));
        let unreadable =
            verified.unreadable.iter().map(|(path, why)| json!({"path": path, "why": why.to_string()}));
        output.value(&json!({
            "whole": verified.whole,
            "bytes": verified.bytes,
            "damaged": damaged.collect::<Vec<_>>(),
            "unreadable": unreadable.collect::<Vec<_>>(),
            "foreign": verified.foreign,
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
        output.line(format!("{what}: {} ({why})", path.display()));
    }
    if !verified.foreign.is_empty() {
        output.line(format!("{} files are not ours and were left alone", verified.foreign.len()));
    }
    Ok(i32::from(bad > 0))
}
