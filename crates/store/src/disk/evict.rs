//! Making room: the least recently used entries go first.

use std::cmp::Reverse;
use std::io;
use std::time::{Duration, SystemTime};

use keyprint_key::Key;

use crate::disk::{Attempt, Disk, Scan, is_absent};

/// After making room, the store is this full: so that the next entry does not make room again.
const LOW_WATER: (u64, u64) = (9, 10);

/// Clocks of hosts that share a directory differ by no more than this.
const SKEW: Duration = Duration::from_secs(60 * 60);

/// What making room came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// How many entries went.
    pub entries: u64,
    /// How many bytes they had.
    pub bytes: u64,
    /// How many abandoned files went.
    pub swept: u64,
    /// How many entries are left.
    pub left_entries: u64,
    /// How many bytes they have.
    pub left_bytes: u64,
}

impl Disk {
    /// Brings the store below a limit and sweeps; `None` if somebody else is at it.
    ///
    /// `keep` stays whatever its age. Readers that have an entry open keep reading it; one that was
    /// used since it was looked at stays.
    pub(crate) fn make_room(&self, limit: u64, keep: Option<&Key>) -> io::Result<Option<Freed>> {
        let Attempt::Held(lock) = self.try_lock_gc()? else { return Ok(None) };
        let swept = self.sweep()?;
        let Scan { mut entries, mut bytes, .. } = self.scan()?;
        let mut freed = Freed { swept, left_entries: entries.len() as u64, ..Freed::default() };
        if bytes > limit {
            let target = limit / LOW_WATER.1 * LOW_WATER.0;
            let soon = self.now() + SKEW;
            // What was used in the future was used under another clock, nobody knows when: it goes
            // first. If it is used again, its time is set right.
            let used = |used: SystemTime| if used > soon { SystemTime::UNIX_EPOCH } else { used };
            entries.sort_unstable_by_key(|entry| Reverse((used(entry.used), entry.key)));
            while bytes > target {
                let Some(oldest) = entries.pop() else { break };
                let path = self.entry_path(&oldest.key);
                let unused = self.io.stat(&path).is_ok_and(|stat| stat.modified == oldest.used);
                if Some(&oldest.key) == keep || !unused {
                    continue;
                }
                // One that cannot be removed must not keep the others from going.
                if self.io.unlink(&path).is_ok() {
                    bytes -= oldest.bytes;
                    freed.bytes += oldest.bytes;
                    freed.entries += 1;
                    freed.left_entries -= 1;
                }
            }
        }
        freed.left_bytes = bytes;
        // When it was done is noted on the lock itself.
        let _ = lock.touch(&self.io, &self.gc_path(), self.now());
        Ok(Some(freed))
    }

    /// Whether the directory was counted not long ago.
    pub(crate) fn counted_within(&self, age: Duration) -> bool {
        let counted = self.io.stat(&self.gc_path()).map(|stat| self.now().duration_since(stat.modified));
        counted.is_ok_and(|since| since.is_ok_and(|since| since < age))
    }

    /// Removes what was put aside and the record of misses.
    pub(crate) fn forget(&self) -> io::Result<()> {
        let aside = self.bucket.join("quarantine");
        let mut paths: Vec<_> = self.io.list(&aside)?.into_iter().map(|name| aside.join(name)).collect();
        paths.extend(["misses.jsonl", "misses.old.jsonl"].map(|name| self.bucket.join(name)));
        for path in paths {
            match self.io.remove_any(&path) {
                Err(error) if !is_absent(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}
