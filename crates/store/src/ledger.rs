//! [`Ledger`]: sizes and statistics of a store, across processes.
//!
//! A process counts in memory and now and then appends what it counted, as one small record, to a
//! file; the sum of all records is the state of the store. When there are many, whoever comes by
//! replaces them by their sum. A record that was torn is skipped. Nobody ever waits for the file:
//! who does not get it at once keeps counting and tries again later.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use crate::disk::unique;
use crate::io::{Io, Locked};

const MAGIC: [u8; 8] = *b"KPLEDGR1";
/// More records than this are replaced by their sum.
const MOST_RECORDS: usize = 512;
/// A ledger longer than this is not ours.
const MOST_BYTES: u64 = 16 << 20;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What is counted. Signed, because entries come and go.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct Counters { $($(#[$doc])* pub $name: i64,)* }

        impl Counters {
            const COUNT: usize = [$(stringify!($name)),*].len();

            fn values(&self) -> [i64; Self::COUNT] {
                [$(self.$name),*]
            }

            fn from_values(values: [i64; Self::COUNT]) -> Self {
                let [$($name),*] = values;
                Self { $($name),* }
            }

            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$name = self.$name.saturating_add(other.$name);)*
            }

            pub(crate) fn minus(&self, other: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(other.$name),)* }
            }
        }
    };
}

counters! {
    /// Lookups that memory answered.
    memory_hits,
    /// Lookups that the local disk answered.
    disk_hits,
    /// Lookups that another tier answered.
    tier_hits,
    /// Lookups that nobody could answer.
    misses,
    /// Builds that succeeded.
    builds,
    /// Builds that failed.
    failed_builds,
    /// Builds of what somebody else was building, after waiting in vain.
    private_builds,
    /// Lookups that were answered by waiting for somebody else's build.
    waits,
    /// Nanoseconds that builds took.
    build_ns,
    /// Nanoseconds that hits saved: what the build took less what loading took.
    saved_ns,
    /// Bytes read from the local disk.
    read_bytes,
    /// Bytes written to it.
    written_bytes,
    /// Entries that were found damaged.
    damaged,
    /// Entries that were removed to make room.
    evicted,
    /// The bytes they had.
    evicted_bytes,
    /// Entries on the local disk.
    entries,
    /// The bytes on the local disk: of entries, of what is being written and of what was put aside.
    bytes,
}

const RECORD: usize = 8 + 8 * Counters::COUNT + 8;

fn write_record(counters: &Counters) -> Vec<u8> {
    let mut record = MAGIC.to_vec();
    counters.values().iter().for_each(|value| record.extend_from_slice(&value.to_le_bytes()));
    let check = blake3::hash(&record);
    record.extend_from_slice(&check.as_bytes()[..8]);
    record
}

fn read_record(bytes: &[u8]) -> Option<Counters> {
    let record: &[u8; RECORD] = bytes.first_chunk()?;
    let (body, check) = record.split_at(RECORD - 8);
    if body[..8] != MAGIC || blake3::hash(body).as_bytes()[..8] != *check {
        return None;
    }
    let mut values = [0; Counters::COUNT];
    for (value, bytes) in values.iter_mut().zip(body[8..].chunks_exact(8)) {
        *value = i64::from_le_bytes(*bytes.first_chunk().expect("8 bytes"));
    }
    Some(Counters::from_values(values))
}

/// Records that were read.
#[derive(Clone, Copy, Default)]
struct Read {
    /// Their sum.
    total: Counters,
    /// How many there are.
    records: usize,
    /// Where the last whole one ends.
    end: usize,
}

/// Adds all whole records to those that were read before.
fn sum(bytes: &[u8], mut read: Read) -> Read {
    let start = read.end;
    let mut at = 0;
    while at < bytes.len() {
        match read_record(&bytes[at..]) {
            Some(record) => {
                read.total.add(&record);
                read.records += 1;
                at += RECORD;
                read.end = start + at;
            }
            // After a torn record, look for the next beginning of one.
            None => {
                at += 1;
                at = bytes[at..]
                    .windows(8)
                    .position(|window| window == MAGIC)
                    .map_or(bytes.len(), |next| at + next);
            }
        }
    }
    read
}

/// Counts for one process and shares with others.
pub(crate) struct Ledger {
    path: PathBuf,
    io: Io,
    pending: Mutex<Pending>,
    /// What was read, and of which file: the next time goes on from there.
    read: Mutex<(Option<Which>, Read)>,
}

/// Which file was read: numbers and even times of files are used again, so what it begins with counts too.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Which {
    identity: (u64, u64),
    created: Option<SystemTime>,
    first: [u8; RECORD],
}

#[derive(Default)]
struct Pending {
    counters: Counters,
    /// The process that counted: a forked child must not report what its parent counted.
    process: u32,
    events: u32,
}

impl Ledger {
    pub(crate) fn new(path: PathBuf, io: Io) -> Self {
        let pending = Pending { process: std::process::id(), ..Pending::default() };
        Self { path, io, pending: Mutex::new(pending), read: Mutex::default() }
    }

    /// What this process counted; nothing, if it was its parent that counted.
    fn own(&self) -> MutexGuard<'_, Pending> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.process != std::process::id() {
            *pending = Pending { process: std::process::id(), ..Pending::default() };
        }
        pending
    }

    /// Counts something; returns how many things were counted since the last flush.
    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) -> u32 {
        let mut pending = self.own();
        change(&mut pending.counters);
        pending.events += 1;
        pending.events
    }

    /// What was counted by this process and not yet written.
    pub(crate) fn pending(&self) -> Counters {
        self.own().counters
    }

    /// Writes down what was counted, if the file is to be had at once.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let mut pending = self.own();
        pending.events = 0;
        if pending.counters == Counters::default() {
            return Ok(());
        }
        let Some(file) = self.locked()? else { return Ok(()) };
        let written = self.append(&file, &mut pending.counters);
        // A child that was forked meanwhile has the file open too: closing it would not be enough.
        let _ = file.unlock();
        written
    }

    /// Writes down what was counted, trying for a while to get the file.
    pub(crate) fn flush_within(&self, time: Duration) -> io::Result<()> {
        let deadline = Instant::now() + time;
        loop {
            self.flush()?;
            if self.pending() == Counters::default() || Instant::now() >= deadline {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn append(&self, file: &File, counters: &mut Counters) -> io::Result<()> {
        self.io.write(file, &self.path, &write_record(counters))?;
        *counters = Counters::default();
        let len = self.io.stat_file(file, &self.path)?.len;
        if len > (MOST_RECORDS * RECORD) as u64 {
            self.compact()?;
        }
        Ok(())
    }

    /// Opens and locks the file, unless somebody else has it. It is the one that others see.
    fn locked(&self) -> io::Result<Option<File>> {
        for _ in 0..8 {
            let file = self.io.open_or_create(&self.path, true)?;
            if let Locked::Busy = self.io.try_lock(&file, &self.path)? {
                return Ok(None);
            }
            let ours = self.io.stat_file(&file, &self.path)?.identity;
            if self.io.stat(&self.path).is_ok_and(|seen| seen.identity == ours) {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// Replaces all records by their sum. The caller holds the lock.
    fn compact(&self) -> io::Result<()> {
        let total = self.read()?.total;
        let path = self.path.with_file_name(format!("ledger-{}", unique()));
        let file = self.io.create(&path)?;
        let written = self.io.write(&file, &path, &write_record(&total));
        written.and_then(|()| self.io.rename(&path, &self.path)).inspect_err(|_| {
            let _ = self.io.unlink(&path);
        })
    }

    /// Reads what was written since the last time.
    fn read(&self) -> io::Result<Read> {
        let file = self.io.open(&self.path)?;
        let stat = self.io.stat_file(&file, &self.path)?;
        let mut first = [0; RECORD];
        let _ = file.read_exact_at(&mut first, 0);
        let which = Which { identity: stat.identity, created: stat.created, first };
        // A forked child may have the lock of a thread that it does not have: then it reads everything.
        let mut known = self.read.try_lock().ok();
        let mut read = match known.as_deref() {
            Some((known, read)) if *known == Some(which) && read.end as u64 <= stat.len => *read,
            _ => Read::default(),
        };
        let len = stat.len.min(MOST_BYTES).saturating_sub(read.end as u64);
        (&file).seek(SeekFrom::Start(read.end as u64))?;
        let bytes = self.io.read(&file, &self.path, usize::try_from(len).unwrap_or(0))?;
        read = sum(&bytes, read);
        if let Some(known) = &mut known {
            **known = (Some(which), read);
        }
        Ok(read)
    }

    /// What all processes wrote down, and whether there was anything to read.
    pub(crate) fn written(&self) -> (Counters, bool) {
        let read = self.read().unwrap_or_default();
        (read.total, read.records > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Counters {
        Counters { builds: 1, bytes: -5, ..Counters::default() }
    }

    #[test]
    fn torn_records_are_skipped() {
        let record = write_record(&sample());
        for cut in 0..RECORD {
            let bytes = [&record[..], &record[..cut], &record[..]].concat();
            assert_eq!(sum(&bytes, Read::default()).total.builds, 2, "torn after {cut} bytes");
        }
        for at in 0..RECORD {
            let mut bytes = [&record[..], &record[..]].concat();
            bytes[at] ^= 1;
            assert_eq!(sum(&bytes, Read::default()).total.builds, 1, "byte {at} changed");
        }
    }

    #[test]
    fn many_records_become_one() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(directory.path().join("ledger"), Io::default());
        for _ in 0..2 * MOST_RECORDS {
            ledger.count(|counters| counters.add(&sample()));
            ledger.flush().unwrap();
        }
        let (total, _) = ledger.written();
        assert_eq!((total.builds, total.bytes), (2 * MOST_RECORDS as i64, -10 * MOST_RECORDS as i64));
        assert!(std::fs::metadata(&ledger.path).unwrap().len() <= ((MOST_RECORDS + 1) * RECORD) as u64);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn what_others_wrote_is_read_on_and_anew() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(directory.path().join("ledger"), Io::default());
        let append = |bytes: &[u8]| {
            use std::io::Write;
            let mut file = File::options().create(true).append(true).open(&ledger.path).unwrap();
            file.write_all(bytes).unwrap();
        };
        let record = write_record(&sample());
        append(&record);
        assert_eq!(ledger.written().0.builds, 1);
        // One that is being written is read when it is whole, one that was torn never is.
        append(&record[..20]);
        assert_eq!(ledger.written().0.builds, 1);
        append(&record[20..]);
        assert_eq!(ledger.written().0.builds, 2);
        append(&record[..30]);
        append(&record);
        assert_eq!((ledger.written().0.builds, ledger.written().0.builds), (3, 3));
        // Another file, and a shorter one.
        std::fs::remove_file(&ledger.path).unwrap();
        append(&[&record[..], &record, &record, &record, &record].concat());
        assert_eq!(ledger.written().0.builds, 5);
        std::fs::write(&ledger.path, &record).unwrap();
        assert_eq!(ledger.written().0.builds, 1);
    }

    #[test]
    fn who_does_not_get_the_file_keeps_counting() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(directory.path().join("ledger"), Io::default());
        let other = File::create(&ledger.path).unwrap();
        other.lock().unwrap();
        ledger.count(|counters| counters.builds += 1);
        ledger.flush().unwrap();
        assert_eq!((ledger.written().0.builds, ledger.pending().builds), (0, 1));
        drop(other);
        ledger.flush().unwrap();
        assert_eq!((ledger.written().0.builds, ledger.pending().builds), (1, 0));
    }
}
