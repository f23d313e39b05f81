//! `keyprint export` and `keyprint import`.

use std::collections::HashSet;
use std::fs;
use std::io::{BufWriter, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use keyprint_key::Key;
use keyprint_store::Store;
use keyprint_store::transfer::Transferred;
use serde_json::json;

use crate::find::{self, Wanted};
use crate::humanize::{entries, shown, size};
use crate::output::Output;
use crate::progress::Progress;
use crate::{Done, Failure};

/// The name that stands for the standard streams.
const PIPE: &str = "-";

pub(crate) fn export(
    store: &Store,
    file: &Path,
    pattern: Option<&str>,
    output: &mut Output<'_>,
    progress: &mut Progress<'_>,
) -> Done {
    let wanted = Wanted { pattern, internal: false };
    let keys: Option<HashSet<Key>> = pattern.map(|_| find::keys(store, wanted, progress));
    let which = |key: &Key| keys.as_ref().is_none_or(|keys| keys.contains(key));
    if file == Path::new(PIPE) {
        // Results go to the same place: there are none but the export.
        store.export(output, &which, progress.showing("exporting"))?;
        return Ok(0);
    }
    // Written aside, so that a failure leaves an earlier export as it was; for nobody else to read,
    // as the entries are.
    let mut aside = file.as_os_str().to_owned();
    aside.push(format!(".{}.part", std::process::id()));
    let aside = Path::new(&aside);
    let to = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(aside)
        .map_err(Failure::io(format!("cannot write `{}`", shown(file))))?;
    let done = store.export(BufWriter::new(to), &which, progress.showing("exporting")).inspect_err(|_| {
        let _ = fs::remove_file(aside);
    })?;
    fs::rename(aside, file).map_err(Failure::io(format!("cannot write `{}`", shown(file))))?;
    report("exported", "damaged, left out", &done, output);
    Ok(0)
}

pub(crate) fn import(
    store: &Store,
    file: &Path,
    trust: bool,
    input: &mut dyn Read,
    output: &mut Output<'_>,
    progress: &mut Progress<'_>,
) -> Done {
    let mut show = |count| progress.show("importing", count, None);
    let done = if file == Path::new(PIPE) {
        store.import_from(input, trust, &mut show)?
    } else {
        fs::metadata(file).map_err(Failure::io(format!("cannot read `{}`", shown(file))))?;
        store.import(file, trust, &mut show)?
    };
    report("imported", "already there", &done, output);
    Ok(0)
}

fn report(verb: &str, others: &str, done: &Transferred, output: &mut Output<'_>) {
    if output.is_json() {
        output.value(&json!({
            "entries": done.entries,
            "bytes": done.bytes,
            "left_out": done.left_out,
            "skipped": done.skipped.count,
        }));
        return;
    }
    output.line(format!("{verb} {} ({})", entries(done.entries), size(done.bytes)));
    if done.left_out > 0 {
        output.line(format!("{} {others}", entries(done.left_out)));
    }
    output.skipped(&done.skipped);
}
