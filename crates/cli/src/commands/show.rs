//! `keyprint show`.

use std::time::SystemTime;

use keyprint_cuda::cubin::{self, TaskUse};
use keyprint_key::Key;
use keyprint_store::{Notes, Store};
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use crate::Done;
use crate::find;
use crate::humanize::{ago, clean, duration, from_millis, size, to_millis};
use crate::output::{Look, Output, padding};

/// The part of a kernel for a device.
const CUBIN: &str = "kernel.cubin";

/// What the tasks of a kernel for a device take of it.
fn tasks(store: &Store, key: &Key, notes: &Notes) -> Vec<TaskUse> {
    if !notes.parts.iter().any(|(name, _)| name == CUBIN) {
        return Vec::new();
    }
    let entry = store.get(key);
    entry.and_then(|entry| cubin::uses(entry.part(CUBIN)?)).unwrap_or_default()
}

pub(crate) fn run(store: &Store, key: &str, output: &mut Output<'_>, now: SystemTime) -> Done {
    let find::Found { listed, notes } = find::entry(store, key)?;
    if output.is_json() {
        output.value(&json!({
            "key": listed.key.hex(),
            "name": notes.manifest.name(),
            "bytes": listed.bytes,
            "info": notes.info,
            "used_ms": to_millis(listed.used),
            "parts": notes.parts.iter().map(|(name, bytes)| json!({"name": name, "bytes": bytes})).collect::<Vec<_>>(),
            "metadata_bytes": notes.metadata,
            "tasks": tasks(store, &listed.key, &notes).iter().map(|task| json!({
                "name": task.name, "registers": task.registers, "spilled": task.spilled, "shared": task.shared,
            })).collect::<Vec<_>>(),
            "components": notes.manifest.components(),
        }));
        return Ok(0);
    }
    let facts = [
        ("Key", listed.key.hex()),
        ("Name", clean(notes.manifest.name())),
        ("Size", size(listed.bytes)),
        (
            "Built",
            format!("{}, in {}", ago(from_millis(notes.info.created_ms), now), duration(notes.info.build_ns)),
        ),
        ("Used", ago(listed.used, now)),
        ("By", clean(&notes.info.writer)),
    ];
    for (label, value) in facts {
        let label = output.look(Look::Heading, &format!("{label:<8}"));
        output.line(format!("{label}{value}"));
    }
    output.line("");
    let heading = output.look(Look::Heading, "Components of the key");
    output.line(heading);
    let components = notes.manifest.components();
    let width = components.iter().map(|component| clean(component.name()).width()).max().unwrap_or(0);
    for component in components {
        let digest = output.look(Look::Key, &component.digest().short());
        let shown = component.text().unwrap_or(if component.is_secret() { "(not shown)" } else { "" });
        let name = clean(component.name());
        output.line(format!("  {name}{}  {digest}  {}", padding(&name, width), clean(shown)));
        for part in component.known_parts() {
            let (path, summary) = (clean(&part.path), clean(&part.summary));
            let text = format!("  {:<width$}  {}  {path}: {summary}", "", part.digest.short());
            let text = output.look(Look::Faint, &text);
            output.line(text);
        }
    }
    output.line("");
    let heading = output.look(Look::Heading, "Parts of the artifact");
    output.line(heading);
    let width = notes.parts.iter().map(|(name, _)| clean(name).width()).max().unwrap_or(0);
    for (name, bytes) in &notes.parts {
        let name = clean(name);
        output.line(format!("  {name}{}  {}", padding(&name, width), size(*bytes)));
    }
    for task in tasks(store, &listed.key, &notes) {
        output.line(format!(
            "  {}: {} registers, {} spilled, {} shared",
            clean(&task.name),
            task.registers,
            size(task.spilled.into()),
            size(task.shared.into())
        ));
    }
    if notes.metadata > 0 {
        output.line(format!("  and {} of notes", size(notes.metadata)));
    }
    Ok(0)
}
