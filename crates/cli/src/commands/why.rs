//! `keyprint why`.

use std::time::SystemTime;

use keyprint_key::Comparison;
use keyprint_store::Store;
use keyprint_store::why::Why as Told;
use serde_json::json;

use crate::args::Why;
use crate::find;
use crate::humanize::{ago, clean, from_millis};
use crate::output::{Look, Output};
use crate::{Done, Failure};

pub(crate) fn run(store: &Store, what: &Why, output: &mut Output<'_>, now: SystemTime) -> Done {
    let told = match (&what.key, &what.with) {
        (Some(before), Some(after)) => return between(store, before, after, output),
        (Some(key), None) => {
            let entry = find::entry(store, key)?;
            vec![store.why(&entry.notes.manifest, entry.notes.info.created_ms)]
        }
        _ => store.why_last(what.last.unwrap_or(5)),
    };
    if output.is_json() {
        output.value(&told.iter().map(as_json).collect::<Vec<_>>());
        return Ok(0);
    }
    if told.is_empty() {
        output.line("nothing was built lately: no miss is on record");
    }
    for (at, why) in told.iter().enumerate() {
        if at > 0 {
            output.line("");
        }
        let key = output.look(Look::Key, &why.key.short());
        let name = output.look(Look::Heading, &clean(why.manifest.name()));
        output.line(format!("{name}  {key}  {}", ago(from_millis(why.at_ms), now)));
        match &why.nearest {
            None => output.line("  the first of its name"),
            Some((earlier, comparison)) => {
                let since = ago(from_millis(earlier.at_ms), now);
                output.line(format!("  since {} ({since}):", earlier.key.short()));
                changes(comparison, output);
            }
        }
    }
    Ok(0)
}

fn between(store: &Store, before: &str, after: &str, output: &mut Output<'_>) -> Done {
    let (before, after) = (find::entry(store, before)?, find::entry(store, after)?);
    let comparison = before.notes.manifest.compare(&after.notes.manifest);
    if output.is_json() {
        output.value(&json!({
            "before": before.listed.key.hex(),
            "after": after.listed.key.hex(),
            "changes": comparison.changes,
        }));
    } else if before.listed.key == after.listed.key {
        return Err(Failure::Said("both are the same key: nothing changed".to_owned()));
    } else {
        let names = (clean(before.notes.manifest.name()), clean(after.notes.manifest.name()));
        output.line(format!(
            "from {} {} to {} {}:",
            names.0,
            before.listed.key.short(),
            names.1,
            after.listed.key.short()
        ));
        changes(&comparison, output);
    }
    Ok(0)
}

fn changes(comparison: &Comparison, output: &mut Output<'_>) {
    for line in comparison.to_string().lines() {
        output.line(format!("  {}", clean(line)));
    }
}

fn as_json(why: &Told) -> serde_json::Value {
    json!({
        "key": why.key.hex(),
        "name": why.manifest.name(),
        "at_ms": why.at_ms,
        "nearest": why.nearest.as_ref().map(|(earlier, comparison)| json!({
            "key": earlier.key.hex(),
            "at_ms": earlier.at_ms,
            "changes": comparison.changes,
        })),
    })
}
