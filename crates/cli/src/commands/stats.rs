//! `keyprint stats`.

use keyprint_store::Store;
use serde_json::json;

use crate::Done;
use crate::humanize::{duration, shown, size};
use crate::output::{Look, Output};

pub(crate) fn run(store: &Store, zero: bool, output: &mut Output<'_>) -> Done {
    if zero {
        store.zero();
    }
    // What is there is counted; only what happened is taken from the ledger.
    let scan = store.scan();
    let usage = store.usage_of(&scan);
    let counters = usage.counters;
    if output.is_json() {
        output.value(&json!({
            "path": store.path(),
            "limit": usage.limit,
            "entries": scan.entries.len(),
            "bytes": scan.bytes,
            "other_bytes": scan.other_bytes,
            "skipped": scan.skipped.count,
            "counters": counters,
        }));
        return Ok(0);
    }
    let hits = counters.memory_hits + counters.disk_hits + counters.tier_hits + counters.waits;
    let asked = hits + counters.misses;
    let rate =
        if asked > 0 { format!("{:.1} %", 100.0 * hits as f64 / asked as f64) } else { "-".to_owned() };
    let nanos = |nanos: i64| duration(u64::try_from(nanos).unwrap_or(0));
    let bytes = |bytes: i64| size(u64::try_from(bytes).unwrap_or(0));
    let full = if usage.limit > 0 { 100.0 * scan.total_bytes() as f64 / usage.limit as f64 } else { 100.0 };
    let path = store.path().map_or_else(|| "none".to_owned(), shown);
    let rows = [
        ("Store", path),
        ("Entries", scan.entries.len().to_string()),
        ("Size", format!("{} of {} ({full:.1} %)", size(scan.total_bytes()), size(usage.limit))),
        ("", String::new()),
        ("Hits", format!("{hits} ({rate} of {asked} lookups)")),
        ("  in memory", counters.memory_hits.to_string()),
        ("  on disk", format!("{} ({} read)", counters.disk_hits, bytes(counters.read_bytes))),
        ("  in other tiers", counters.tier_hits.to_string()),
        ("  after waiting", counters.waits.to_string()),
        ("Misses", counters.misses.to_string()),
        ("Builds", format!("{} ({})", counters.builds, nanos(counters.build_ns))),
        ("  failed", counters.failed_builds.to_string()),
        ("  waited in vain", counters.private_builds.to_string()),
        ("Time saved", nanos(counters.saved_ns)),
        ("Evicted", format!("{} ({})", counters.evicted, bytes(counters.evicted_bytes))),
        ("Damaged", counters.damaged.to_string()),
    ];
    for (label, value) in rows {
        let label = output.look(Look::Heading, &format!("{label:<18}"));
        output.line(format!("{label}{value}"));
    }
    output.skipped(&scan.skipped);
    Ok(0)
}
