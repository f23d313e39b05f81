//! Making room: the least recently used entries go first.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use keyprint_key::Key;

use crate::disk::scan::Skipped;
use crate::disk::{Disk, Scan, is_absent};

/// After making room, the store is this full: so that the next entry does not make room again.
const LOW_WATER: (u64, u64) = (9, 10);

/// Clocks of hosts that share a directory differ by no more than this.
const SKEW: Duration = Duration::from_secs(60 * 60);

/// So many entries without a record in the index are read on the way.
const MOST_READ: usize = 1000;

/// What is to be removed.
pub struct Eviction<'a> {
    /// At most so many bytes stay.
    pub limit: u64,
    /// Whether more goes than has to, so that the next entry does not make room again.
    pub ahead: bool,
    /// What has not been used for this long goes whatever the limit.
    pub unused_for: Option<Duration>,
    /// This one stays whatever its age.
    pub keep: Option<&'a Key>,
    /// Only say what would go.
    pub dry_run: bool,
    /// Called now and then, with how far it is and how far it goes.
    pub progress: &'a mut dyn FnMut(usize, usize),
}

/// What making room came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// How many entries went.
    pub entries: u64,
    /// How many bytes they had.
    pub bytes: u64,
    /// How many abandoned files went.
    pub swept: u64,
    /// How many entries are left.
    pub left_entries: u64,
    /// How many bytes are left, with those of files that are being written or were put aside.
    pub left_bytes: u64,
    /// What could not be looked at, or not be removed.
    pub skipped: Skipped,
}

impl Disk {
    /// Brings the store below a limit and sweeps; `None` if somebody else is at it.
    ///
    /// Readers that have an entry open keep reading it; one that was used since it was looked at stays.
    pub(crate) fn make_room(&self, what: &mut Eviction<'_>) -> io::Result<Option<Freed>> {
        // Who only looks needs no lock, and makes no file.
        let lock = if what.dry_run { None } else { self.try_lock_gc()? };
        if lock.is_none() && !what.dry_run {
            return Ok(None);
        }
        let mut swept = if what.dry_run { 0 } else { self.sweep(false) };
        let mut scan = self.scan();
        if scan.total_bytes() > what.limit && scan.other_bytes > 0 && !what.dry_run {
            let more = self.sweep(true);
            swept += more;
            // What is being written stays, and is mostly all there is.
            if more > 0 {
                scan = self.scan();
            }
        }
        let mut bytes = scan.total_bytes();
        let Scan { mut entries, skipped, .. } = scan;
        let mut freed = Freed { swept, skipped, left_entries: entries.len() as u64, ..Freed::default() };
        let is_over = bytes > what.limit;
        let target = match what.limit {
            limit if is_over && what.ahead => limit / LOW_WATER.1 * LOW_WATER.0,
            limit if is_over => limit,
            _ => u64::MAX,
        };
        let soon = self.now() + SKEW;
        // What was used in the future was used under another clock, nobody knows when: it goes
        // first. If it is used again, its time is set right.
        let used = |used: SystemTime| if used > soon { SystemTime::UNIX_EPOCH } else { used };
        let long_ago = what.unused_for.and_then(|age| self.now().checked_sub(age));
        let mut emptied = HashSet::new();
        let mut there: HashSet<Key> = entries.iter().map(|entry| entry.key).collect();
        if is_over || long_ago.is_some() {
            entries.sort_unstable_by_key(|entry| Reverse((used(entry.used), entry.key)));
        }
        while let Some(oldest) = entries.pop() {
            if bytes <= target && long_ago.is_none_or(|then| used(oldest.used) >= then) {
                break;
            }
            let path = self.entry_path(&oldest.key);
            let unused = self.io.stat(&path).is_ok_and(|stat| stat.modified == oldest.used);
            if Some(&oldest.key) == what.keep || !unused {
                continue;
            }
            // One that cannot be removed must not keep the others from going.
            match if what.dry_run { Ok(()) } else { self.io.unlink(&path) } {
                Ok(()) => {
                    bytes -= oldest.bytes;
                    freed.bytes += oldest.bytes;
                    freed.entries += 1;
                    freed.left_entries -= 1;
                    there.remove(&oldest.key);
                    emptied.extend(path.parent().map(ToOwned::to_owned));
                }
                Err(error) if is_absent(&error) => {}
                Err(error) => freed.skipped.add(path, error),
            }
        }
        freed.left_bytes = bytes;
        if !what.dry_run {
            // Directories take room too; one that is not empty stays.
            emptied.iter().for_each(|shard| drop(self.io.rmdir(shard)));
            // The index is for people: that it cannot be written is no reason to stop.
            let _ = self.index_reconcile(&there, MOST_READ, what.progress);
            let _ = self.note_count();
        }
        Ok(Some(freed))
    }

    /// Makes a record for every entry that has none. Says whether it could: somebody else may be at it.
    pub(crate) fn index_anew(&self, progress: &mut dyn FnMut(usize, usize)) -> io::Result<bool> {
        let Some(_lock) = self.try_lock_gc()? else { return Ok(false) };
        let there = self.scan().entries.iter().map(|entry| entry.key).collect();
        self.index_reconcile(&there, usize::MAX, progress)?;
        Ok(true)
    }

    fn counted_path(&self) -> PathBuf {
        self.bucket.join("counted")
    }

    /// Notes when the directory was counted.
    fn note_count(&self) -> io::Result<()> {
        let path = self.counted_path();
        let file = self.io.open_or_create(&path, false)?;
        self.io.touch(&file, &path, self.now())
    }

    /// Whether the directory was counted not long ago.
    pub(crate) fn counted_within(&self, age: Duration) -> bool {
        let counted = self.io.stat(&self.counted_path()).map(|stat| self.now().duration_since(stat.modified));
        counted.is_ok_and(|since| since.is_ok_and(|since| since < age))
    }

    /// Removes what was put aside, the record of misses, locks that nobody holds, and the index of what is gone.
    pub(crate) fn forget(&self, skipped: &mut Skipped) {
        let aside = self.bucket.join("quarantine");
        let mut paths: Vec<_> =
            self.io.list(&aside).unwrap_or_default().into_iter().map(|name| aside.join(name)).collect();
        paths.extend(["misses.jsonl", "misses.old.jsonl"].map(|name| self.bucket.join(name)));
        for path in paths {
            match self.io.remove_any(&path) {
                Err(error) if !is_absent(&error) => skipped.add(path, error),
                _ => {}
            }
        }
        self.sweep(true);
    }
}
