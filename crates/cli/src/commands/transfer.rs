//! `keyprint export` and `keyprint import`.

use std::collections::HashSet;
use std::fs;
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use keyprint_key::Key;
use keyprint_store::Store;
use keyprint_store::transfer::Transferred;
use serde_json::json;

use crate::find;
use crate::humanize::{entries, size};
use crate::output::Output;
use crate::{Done, Failure};

pub(crate) fn export(store: &Store, file: &Path, pattern: Option<&str>, output: &mut Output<'_>) -> Done {
    let keys: Option<HashSet<Key>> = match pattern {
        None => None,
        Some(_) => Some(find::entries(store, pattern)?.0.iter().map(|entry| entry.listed.key).collect()),
    };
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
        .map_err(Failure::io(format!("cannot write `{}`", file.display())))?;
    let which = |key: &Key| keys.as_ref().is_none_or(|keys| keys.contains(key));
    let done = store.export(BufWriter::new(to), &which).inspect_err(|_| {
        let _ = fs::remove_file(aside);
    })?;
    fs::rename(aside, file).map_err(Failure::io(format!("cannot write `{}`", file.display())))?;
    report("exported", "damaged, left out", &done, output);
    Ok(0)
}

pub(crate) fn import(store: &Store, file: &Path, trust: bool, output: &mut Output<'_>) -> Done {
    fs::metadata(file).map_err(Failure::io(format!("cannot read `{}`", file.display())))?;
    let done = store.import(file, trust)?;
    report("imported", "already there", &done, output);
    Ok(0)
}

fn report(verb: &str, others: &str, done: &Transferred, output: &mut Output<'_>) {
    if output.is_json() {
        output.value(&json!({"entries": done.entries, "bytes": done.bytes, "left_out": done.left_out}));
        return;
    }
    output.line(format!("{verb} {} ({})", entries(done.entries), size(done.bytes)));
    if done.left_out > 0 {
        output.line(format!("{} {others}", entries(done.left_out)));
    }
}
