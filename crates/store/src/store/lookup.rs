//! Looking a key up through the tiers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use keyprint_key::Key;

use crate::disk::{Disk, Found};
use crate::entry::{Entry, Origin, millis};
use crate::ledger::Counters;
use crate::notice::Notice;
use crate::store::{How, Outcome, Outer, Store, signed};
use crate::tier::{Tier, TierError};

/// The use of what memory answers is noted on the disk to about this precision, in milliseconds.
const NOTE_EVERY: u64 = 60_000;

/// What was counted is written down after so many lookups; builds are written down at once.
const FLUSH_EVERY: u32 = 256;

impl Store {
    /// Asks the tiers in turn. What an outer one has is kept by the inner ones.
    pub(super) fn lookup(&self, key: &Key) -> Option<Outcome> {
        let start = Instant::now();
        let outcome = self.lookup_memory(key, start).or_else(|| self.lookup_disk(key, start));
        outcome.or_else(|| self.lookup_tiers(key, start))
    }

    /// Asks memory.
    pub(super) fn lookup_memory(&self, key: &Key, start: Instant) -> Option<Outcome> {
        let entry = self.memory.get(key)?;
        // What is used all the time must not be the first to go from the disk because memory answers.
        if entry.note_use(millis((self.clock)()), NOTE_EVERY)
            && let Some(disk) = self.writable()
        {
            disk.note_use_of(key);
        }
        self.count_hit(&entry, start, |counters| counters.memory_hits += 1);
        Some(Outcome { entry, how: How::Memory })
    }

    /// Asks the local disk.
    pub(super) fn lookup_disk(&self, key: &Key, start: Instant) -> Option<Outcome> {
        let disk = self.disk.as_ref()?;
        match disk.read(key) {
            Ok(Found::Entry(entry)) if !self.is_stale(&entry) => {
                let entry = Arc::new(*entry);
                entry.note_use(millis((self.clock)()), 0);
                let bytes = signed(entry.len());
                self.count_hit(&entry, start, |counters| {
                    counters.disk_hits += 1;
                    counters.read_bytes += bytes;
                });
                self.memory.put(&entry);
                Some(Outcome { entry, how: How::Disk })
            }
            Ok(Found::Entry(_) | Found::Nothing) => None,
            Ok(Found::Damaged(damage, identity)) => {
                self.notices.say(&Notice::Damaged(disk.entry_path(key), damage));
                self.count(|counters| counters.damaged += 1);
                self.put_aside(disk, key, identity);
                None
            }
            Err(error) => {
                self.notices.say(&Notice::Read(disk.entry_path(key), error));
                None
            }
        }
    }

    /// Whether an entry is to be built once more: it was built before this store was opened.
    fn is_stale(&self, entry: &Entry) -> bool {
        self.built_since.is_some_and(|opened| entry.info().created_ms < opened)
    }

    pub(super) fn put_aside(&self, disk: &Disk, key: &Key, identity: (u64, u64)) {
        if self.writable().is_none() {
            return;
        }
        match disk.put_aside(key, identity) {
            // Its bytes are still there, aside.
            Ok(Some(_)) => self.count_size(-1, 0),
            Ok(None) => {}
            Err(error) => self.cannot_write(disk, Notice::Write(disk.entry_path(key), error)),
        }
    }

    /// Asks the tiers beyond the local disk.
    pub(super) fn lookup_tiers(&self, key: &Key, start: Instant) -> Option<Outcome> {
        for outer in &self.tiers {
            let Some(container) = self.ask(outer, |tier| tier.get(key)).flatten() else { continue };
            match Entry::from_container(key, container, Origin::Tier) {
                Ok(entry) if self.is_stale(&entry) => {}
                Ok(entry) => {
                    let entry = Arc::new(entry);
                    self.count_hit(&entry, start, |counters| counters.tier_hits += 1);
                    self.publish_local(&entry);
                    return Some(Outcome { entry, how: How::Tier });
                }
                Err(damage) => {
                    self.count(|counters| counters.damaged += 1);
                    outer.tier.reject(key);
                    let what = format!("the entry {} in {}", key.short(), outer.tier.name());
                    self.notices.say(&Notice::Damaged(what.into(), damage));
                }
            }
        }
        None
    }

    /// Asks one tier something; one that fails is left out from then on.
    pub(super) fn ask<T>(
        &self,
        outer: &Outer,
        question: impl FnOnce(&dyn Tier) -> Result<T, TierError>,
    ) -> Option<T> {
        if outer.left_out.load(Ordering::Relaxed) {
            return None;
        }
        match question(&*outer.tier) {
            Ok(answer) => Some(answer),
            Err(TierError::Entry(why)) => {
                self.notices.say(&Notice::TierEntry(outer.tier.name().to_owned(), why));
                None
            }
            Err(error) => {
                outer.left_out.store(true, Ordering::Relaxed);
                self.notices.say(&Notice::Tier(outer.tier.name().to_owned(), error.to_string()));
                None
            }
        }
    }

    fn count_hit(&self, entry: &Entry, start: Instant, count: impl FnOnce(&mut Counters)) {
        let load = i64::try_from(start.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let saved = signed(entry.info().build_ns).saturating_sub(load).max(0);
        self.count(|counters| {
            counters.saved_ns = counters.saved_ns.saturating_add(saved);
            count(counters);
        });
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Counters)) {
        if let Some(ledger) = &self.ledger
            && ledger.count(change) >= FLUSH_EVERY
        {
            self.flush();
        }
    }
}
