//! Keeping a store in order: its size, its statistics, its integrity.

use std::io;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Duration;

use keyprint_key::Key;
use serde::Serialize;

use crate::container::Damage;
use crate::disk::{Disk, Found, Freed, Notes, Published, Scan};
use crate::history::Miss;
use crate::ledger::Counters;
use crate::notice::Notice;
use crate::store::{Store, signed};

/// The directory is counted anew after this long, in case the ledger lost something.
const COUNT_ANEW: Duration = Duration::from_secs(24 * 60 * 60);

/// What this process knows about how full the store is.
#[derive(Default)]
pub(super) struct Room {
    /// The bytes on disk when the ledger was last read.
    known: Option<u64>,
    /// What this process published since.
    since: u64,
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
    /// Files that are not ours.
    pub foreign: Vec<PathBuf>,
}

impl Store {
    /// Takes note of a new entry, and makes room if there is too much by now.
    pub(crate) fn settle(&self, disk: &Disk, key: &Key, published: Published) {
        let Published { bytes, replaced } = published;
        self.count(|counters| counters.written_bytes += signed(bytes));
        self.count_size(i64::from(replaced.is_none()), signed(bytes) - signed(replaced.unwrap_or(0)));
        // At once: a process may end without a word, and others must know how full the store is.
        self.flush();
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        room.since += bytes;
        let first = room.known.is_none();
        let anew = first && !disk.counted_within(COUNT_ANEW);
        if !anew && (first || room.since > self.limit / 64) {
            let counters = self.counters();
            *room = Room { known: Some(u64::try_from(counters.bytes).unwrap_or(0)), since: 0 };
        }
        let estimate = room.known.unwrap_or(0).saturating_add(room.since);
        if anew || estimate > self.limit {
            match self.make_room(disk, self.limit, Some(key)) {
                Ok(Some(freed)) => *room = Room { known: Some(freed.left_bytes), since: 0 },
                // Somebody else is at it: ask again after the next entry.
                Ok(None) => *room = Room::default(),
                Err(error) => {
                    *room = Room { known: Some(0), since: 0 };
                    self.notices.say(&Notice::Write(disk.bucket().to_owned(), error));
                }
            }
        }
    }

    fn make_room(&self, disk: &Disk, limit: u64, keep: Option<&Key>) -> io::Result<Option<Freed>> {
        let Some(freed) = disk.make_room(limit, keep)? else { return Ok(None) };
        self.count(|counters| {
            counters.evicted += signed(freed.entries);
            counters.evicted_bytes += signed(freed.bytes);
        });
        self.reconcile(freed.left_entries, freed.left_bytes);
        Ok(Some(freed))
    }

    /// Sets the ledger right after the directory was counted.
    fn reconcile(&self, entries: u64, bytes: u64) {
        let counters = self.counters();
        self.count_size(signed(entries) - counters.entries, signed(bytes) - counters.bytes);
        self.flush();
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
        if let (Some(ledger), Some(disk)) = (&self.ledger, &self.disk)
            && !disk.readonly()
        {
            // Statistics are worth no warning.
            let _ = ledger.flush();
        }
    }

    /// How full the store is, and what it did.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage { limit: self.limit, counters: self.counters() }
    }

    /// Sweeps, and removes the least recently used entries until at most `limit` bytes are left.
    /// `None` if somebody else is at it.
    ///
    /// # Errors
    ///
    /// If the directory cannot be read or written.
    pub fn gc(&self, limit: Option<u64>) -> io::Result<Option<Freed>> {
        match &self.disk {
            Some(disk) if disk.readonly() => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
            Some(disk) => self.make_room(disk, limit.unwrap_or(self.limit), None),
            None => Ok(Some(Freed::default())),
        }
    }

    /// All entries on the local disk, in no order.
    ///
    /// # Errors
    ///
    /// If the directory cannot be read.
    pub fn scan(&self) -> io::Result<Scan> {
        self.disk.as_ref().map_or_else(|| Ok(Scan::default()), Disk::scan)
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
    ///
    /// # Errors
    ///
    /// If the directory cannot be read.
    pub fn verify(&self, keep: bool, mut progress: impl FnMut(usize, usize)) -> io::Result<Verified> {
        let Some(disk) = &self.disk else { return Ok(Verified::default()) };
        let Scan { entries, foreign, .. } = disk.scan()?;
        let mut verified = Verified { foreign, ..Verified::default() };
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
        Ok(verified)
    }

    /// Removes entries for which `which` says so; all, and everything put aside, without it.
    /// Returns how many, and their bytes.
    ///
    /// # Errors
    ///
    /// If the directory cannot be read or an entry cannot be removed.
    pub fn clear(&self, which: Option<&dyn Fn(&Key) -> bool>) -> io::Result<(u64, u64)> {
        self.memory.clear();
        let Some(disk) = &self.disk else { return Ok((0, 0)) };
        if disk.readonly() {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let mut removed = (0, 0);
        for listed in disk.scan()?.entries {
            if which.is_none_or(|which| which(&listed.key))
                && let Some(bytes) = disk.remove(&listed.key)?
            {
                removed = (removed.0 + 1, removed.1 + bytes);
            }
        }
        if which.is_none() {
            disk.forget()?;
        }
        self.count_size(-signed(removed.0), -signed(removed.1));
        self.flush();
        Ok(removed)
    }
}
