//! Keeping a store in order: its size, its statistics, its integrity.

use std::io;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use keyprint_key::Key;
use serde::Serialize;

use crate::container::Damage;
use crate::disk::{Disk, Eviction, Found, Freed, Indexed, Listed, Notes, Scan, Skipped};
use crate::history::Miss;
use crate::ledger::Counters;
use crate::notice::Notice;
use crate::store::{Store, signed};

/// The directory is counted anew after this long, in case the ledger lost something.
const COUNT_ANEW: Duration = Duration::from_secs(24 * 60 * 60);

/// Somebody else who makes room is waited for this long.
const WAIT_FOR_ROOM: Duration = Duration::from_secs(5);

/// Who waited for somebody else in vain does not wait again for this long.
const WAIT_AGAIN: Duration = Duration::from_secs(60);

/// What this process knows about the directory.
#[derive(Default)]
pub(super) struct Room {
    /// When it was last counted, by this process or by another one.
    counted: Option<Instant>,
    /// When somebody else who makes room was last waited for in vain.
    waited: Option<Instant>,
}

/// How full a store is, and what it did.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Usage {
    /// The most bytes it may hold.
    pub limit: u64,
    /// What was counted, by all processes.
    pub counters: Counters,
}

/// What verifying came to.
#[derive(Debug, Default)]
pub struct Verified {
    /// Entries that are whole.
    pub whole: u64,
    /// The bytes they have.
    pub bytes: u64,
    /// Entries that are not, and why.
    pub damaged: Vec<(PathBuf, Damage)>,
    /// Entries that could not be read.
    pub unreadable: Vec<(PathBuf, io::Error)>,
    /// Files that are not ours, and directories that cannot be read.
    pub skipped: Skipped,
}

/// What clearing came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    /// How many entries went.
    pub entries: u64,
    /// How many bytes they had.
    pub bytes: u64,
    /// What could not be looked at, or not be removed.
    pub skipped: Skipped,
}

impl Store {
    /// Announces an entry that is about to be written, and makes room if there is too much with it. It counts at
    /// once, so that several who write at the same time know of each other; and its file is there already.
    pub(super) fn announce(&self, disk: &Disk, key: &Key, bytes: u64) {
        let (is_counted, may_wait) = {
            let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
            let lately = |when: Option<Instant>, age| when.is_some_and(|when| when.elapsed() < age);
            if !lately(room.counted, COUNT_ANEW) && disk.counted_within(COUNT_ANEW) && self.has_ledger() {
                room.counted = Some(Instant::now());
            }
            (lately(room.counted, COUNT_ANEW), !lately(room.waited, WAIT_AGAIN))
        };
        self.count_size(0, signed(bytes));
        self.flush_soon();
        if is_counted && !self.is_over(self.limit) {
            return;
        }
        let deadline = Instant::now() + if may_wait { WAIT_FOR_ROOM } else { Duration::ZERO };
        loop {
            let mut progress = |_, _| ();
            let what = Eviction {
                limit: self.limit,
                ahead: true,
                unused_for: None,
                keep: Some(key),
                dry_run: false,
                progress: &mut progress,
            };
            let outcome = self.evict(disk, what);
            let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok(Some(_)) => return room.counted = Some(Instant::now()),
                // Somebody else is at it.
                Ok(None) if Instant::now() < deadline && self.is_over(self.limit) => {
                    drop(room);
                    std::thread::sleep(Duration::from_millis(10));
                }
                Ok(None) => {
                    if self.is_over(self.limit) {
                        room.waited = Some(Instant::now());
                    }
                    return;
                }
                Err(error) => {
                    drop(room);
                    return self.cannot_write(disk, Notice::Write(disk.bucket().to_owned(), error));
                }
            }
        }
    }

    fn has_ledger(&self) -> bool {
        self.ledger.as_ref().is_some_and(|ledger| ledger.written().1)
    }

    fn is_over(&self, limit: u64) -> bool {
        u64::try_from(self.counters().bytes).unwrap_or(0) > limit
    }

    /// Removes what was used least until an entry fits on a device that is full; a few, if it is about a name only.
    pub(super) fn free_device(&self, disk: &Disk, key: &Key, bytes: u64) {
        let there = disk.scan().total_bytes();
        let mut progress = |_, _| ();
        let what = Eviction {
            limit: there.saturating_sub(bytes.saturating_mul(2).max(there / 64)),
            ahead: false,
            unused_for: None,
            keep: Some(key),
            dry_run: false,
            progress: &mut progress,
        };
        let _ = self.evict(disk, what);
    }

    fn evict(&self, disk: &Disk, mut what: Eviction<'_>) -> io::Result<Option<Freed>> {
        // What others announce from now on may be counted twice, until the next time; never not at all: their files are
        // there before they announce them.
        let before = self.counters();
        let Some(freed) = disk.make_room(&mut what)? else { return Ok(None) };
        if !what.dry_run {
            self.count(|counters| {
                counters.evicted += signed(freed.entries);
                counters.evicted_bytes += signed(freed.bytes);
            });
            self.count_size(
                signed(freed.left_entries) - before.entries,
                signed(freed.left_bytes) - before.bytes,
            );
            self.flush();
        }
        Ok(Some(freed))
    }

    pub(super) fn count_size(&self, entries: i64, bytes: i64) {
        self.count(|counters| {
            counters.entries += entries;
            counters.bytes += bytes;
        });
    }

    /// What all processes counted, this one up to now.
    fn counters(&self) -> Counters {
        let Some(ledger) = &self.ledger else { return Counters::default() };
        let (mut total, _) = ledger.written();
        total.add(&ledger.pending());
        total
    }

    /// Writes down what this process counted.
    pub fn flush(&self) {
        if let (Some(ledger), Some(_)) = (&self.ledger, self.writable()) {
            // Statistics are worth no warning.
            let _ = ledger.flush();
        }
    }

    /// How full the store is, and what it did.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage { limit: self.limit, counters: self.counters() }
    }

    /// The same, with entries and bytes as a scan counted them.
    #[must_use]
    pub fn usage_of(&self, scan: &Scan) -> Usage {
        let mut usage = self.usage();
        usage.counters.entries = signed(scan.entries.len() as u64);
        usage.counters.bytes = signed(scan.total_bytes());
        usage
    }

    /// Writes down what this process counted, and waits a little for others who do.
    fn flush_soon(&self) {
        if let (Some(ledger), Some(_)) = (&self.ledger, self.writable()) {
            let _ = ledger.flush_within(Duration::from_millis(20));
        }
    }

    /// Sets what was counted to nothing, but for how full the store is.
    pub fn zero(&self) {
        let counters = self.counters();
        self.count(|pending| {
            let entries = pending.entries;
            let bytes = pending.bytes;
            *pending = pending.minus(&counters);
            (pending.entries, pending.bytes) = (entries, bytes);
        });
        self.flush();
    }

    /// Sweeps, and removes the least recently used entries until at most `limit` bytes are left, and those that were
    /// not used for a time. `None` if somebody else is at it.
    ///
    /// # Errors
    ///
    /// If the directory cannot be written.
    pub fn gc(
        &self,
        limit: Option<u64>,
        unused_for: Option<Duration>,
        dry_run: bool,
        progress: &mut dyn FnMut(usize, usize),
    ) -> io::Result<Option<Freed>> {
        let limit = limit.unwrap_or(self.limit);
        match &self.disk {
            Some(disk) if disk.readonly() && !dry_run => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
            Some(disk) => {
                self.evict(disk, Eviction { limit, ahead: true, unused_for, keep: None, dry_run, progress })
            }
            None => Ok(Some(Freed::default())),
        }
    }

    /// All entries on the local disk, in no order. What cannot be looked at is passed over.
    #[must_use]
    pub fn scan(&self) -> Scan {
        self.disk.as_ref().map(Disk::scan).unwrap_or_default()
    }

    /// Goes through all entries on the local disk, in no order, without keeping them in memory.
    pub fn visit(&self, mut each: impl FnMut(Listed)) -> Skipped {
        self.disk.as_ref().map(|disk| disk.visit(&mut each)).unwrap_or_default()
    }

    /// How many entries the local disk has.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.disk.as_ref().map_or(0, Disk::count)
    }

    /// Whether the local disk has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys on the local disk that begin with some hexadecimal digits, at most so many.
    #[must_use]
    pub fn keys_from(&self, prefix: &str, most: usize) -> Vec<Key> {
        self.disk.as_ref().map(|disk| disk.keys_from(prefix, most)).unwrap_or_default()
    }

    /// What a directory shows of an entry on the local disk, if there is one.
    #[must_use]
    pub fn listed(&self, key: &Key) -> Option<Listed> {
        self.disk.as_ref()?.listed(key)
    }

    /// The entries that the index knows, the latest first; some may be gone by now. `None` if the index does not
    /// know all of them and could not be made to.
    #[must_use]
    pub fn indexed(&self, progress: &mut dyn FnMut(usize, usize)) -> Option<Vec<Indexed>> {
        let disk = self.disk.as_ref()?;
        let is_known =
            disk.is_indexed() || self.writable().is_some() && disk.index_anew(progress).unwrap_or(false);
        is_known.then(|| disk.index_all())
    }

    /// The entries of a name that the index knows, the latest first, at most so many.
    #[must_use]
    pub fn indexed_as(&self, name: &str, most: usize) -> Vec<Indexed> {
        self.disk.as_ref().map(|disk| disk.index_of(name, most)).unwrap_or_default()
    }

    /// What is noted about an entry on the local disk, without reading its parts.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn notes(&self, key: &Key) -> io::Result<Option<Result<Notes, Damage>>> {
        self.disk.as_ref().map_or(Ok(None), |disk| disk.notes(key))
    }

    /// The last misses that are still known, the latest last.
    #[must_use]
    pub fn misses(&self) -> Vec<Miss> {
        self.history.as_ref().map(|history| history.read()).unwrap_or_default()
    }

    /// Reads every entry on the local disk and puts aside those that are damaged, unless `keep`.
    pub fn verify(&self, keep: bool, mut progress: impl FnMut(usize, usize)) -> Verified {
        let Some(disk) = &self.disk else { return Verified::default() };
        let Scan { entries, skipped, .. } = disk.scan();
        let mut verified = Verified { skipped, ..Verified::default() };
        for (at, listed) in entries.iter().enumerate() {
            progress(at, entries.len());
            let path = disk.entry_path(&listed.key);
            match disk.read_quietly(&listed.key) {
                Ok(Found::Entry(entry)) => match entry.manifest() {
                    Ok(manifest) if manifest.key() == listed.key => {
                        verified.whole += 1;
                        verified.bytes += listed.bytes;
                    }
                    _ => {
                        verified.damaged.push((path, Damage::Manifest));
                        if !keep {
                            let _ = self.remove(&listed.key);
                        }
                    }
                },
                Ok(Found::Nothing) => {}
                Ok(Found::Damaged(damage, identity)) => {
                    verified.damaged.push((path, damage));
                    if !keep {
                        self.count(|counters| counters.damaged += 1);
                        self.put_aside(disk, &listed.key, identity);
                    }
                }
                Err(error) => verified.unreadable.push((path, error)),
            }
        }
        verified
    }

    /// Removes entries for which `which` says so; all, and everything put aside, without it. What cannot be removed
    /// stays, and is named.
    ///
    /// # Errors
    ///
    /// If nothing may be written.
    pub fn clear(
        &self,
        which: Option<&dyn Fn(&Key) -> bool>,
        mut progress: impl FnMut(u64),
    ) -> io::Result<Cleared> {
        self.memory.clear();
        let mut cleared = Cleared::default();
        let Some(disk) = &self.disk else { return Ok(cleared) };
        if disk.readonly() {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let mut failed = Skipped::default();
        cleared.skipped = disk.visit(&mut |listed| {
            if which.is_none_or(|which| which(&listed.key)) {
                match disk.remove(&listed.key) {
                    Ok(Some(bytes)) => {
                        cleared.entries += 1;
                        cleared.bytes += bytes;
                        progress(cleared.entries);
                    }
                    Ok(None) => {}
                    Err(error) => failed.add(disk.entry_path(&listed.key), error),
                }
            }
        });
        if which.is_none() {
            disk.forget(&mut failed);
        }
        self.count_size(-signed(cleared.entries), -signed(cleared.bytes));
        self.flush();
        if which.is_none() {
            // Everything is counted again, and the index is empty.
            let _ = self.gc(None, None, false, &mut |_, _| ());
        }
        cleared.skipped.merge(failed);
        Ok(cleared)
    }
}
