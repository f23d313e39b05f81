//! The index: which entries there are of a name, without opening them.
//!
//! A small record for each entry, in one of 16 files by the name's hash, is appended just before the entry is
//! published: a record without an entry is skipped, an entry without a record does not come about unless its record
//! was lost. Nothing that must be right depends on it: it answers `why` and `ls`. Whoever goes through all entries
//! to make room sets it right, from the entries themselves, and drops the records of those that are gone.
//!
//! ```text
//! magic: 4b 50 49 31, length of name (2), created (8), key (32), name, BLAKE3 of all that (8)
//! ```

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use keyprint_key::Key;

use crate::disk::{Disk, is_absent};
use crate::entry::millis;

const MAGIC: [u8; 4] = *b"KPI1";
/// What a record has beside its name.
const FIXED: usize = 4 + 2 + 8 + 32 + 8;
/// Names are cut to this.
const MOST_IN_NAME: usize = 1024;
/// A longer file is not ours.
const MOST_BYTES: u64 = 256 << 20;
/// A file of fewer bytes is not worth looking for records of what is gone.
const COMPACT_FROM: u64 = 1 << 20;
/// What was built within so many milliseconds may not be published yet.
const LATELY: u64 = 600_000;
/// Says that every entry has a record.
const COMPLETE: &str = "complete";

/// An entry as the index knows it. It may be gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// What it is stored under.
    pub key: Key,
    /// What it is called; the beginning, if that is long.
    pub name: String,
    /// When it was built, in milliseconds since 1970.
    pub created_ms: u64,
}

impl Indexed {
    pub(crate) fn new(key: &Key, name: &str, created_ms: u64) -> Self {
        Self { key: *key, name: name[..name.floor_char_boundary(MOST_IN_NAME)].to_owned(), created_ms }
    }

    fn len(&self) -> u64 {
        (FIXED + self.name.len()) as u64
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&u16::try_from(self.name.len()).expect("names are cut").to_le_bytes());
        bytes.extend_from_slice(&self.created_ms.to_le_bytes());
        bytes.extend_from_slice(self.key.as_bytes());
        bytes.extend_from_slice(self.name.as_bytes());
        let check = blake3::hash(&bytes);
        bytes.extend_from_slice(&check.as_bytes()[..8]);
        bytes
    }

    /// The record that bytes begin with, and how long it is.
    fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        if bytes.get(..4)? != MAGIC {
            return None;
        }
        let name_len = usize::from(u16::from_le_bytes(*bytes.get(4..)?.first_chunk()?));
        let len = FIXED + name_len;
        let (body, check) = bytes.get(..len)?.split_at(len - 8);
        if blake3::hash(body).as_bytes()[..8] != *check {
            return None;
        }
        let created_ms = u64::from_le_bytes(*body[6..].first_chunk()?);
        let key = Key::from_bytes(*body[14..].first_chunk()?);
        let name = std::str::from_utf8(&body[46..]).ok()?.to_owned();
        Some((Self { key, name, created_ms }, len))
    }
}

/// All whole records; those that were torn are skipped. Says whether there were any of those.
fn read_all(bytes: &[u8], mut each: impl FnMut(Indexed)) -> bool {
    let mut at = 0;
    let mut torn = false;
    while at < bytes.len() {
        match Indexed::read(&bytes[at..]) {
            Some((record, len)) => {
                each(record);
                at += len;
            }
            None => {
                torn = true;
                at += 1;
                at = bytes[at..]
                    .windows(4)
                    .position(|window| window == MAGIC)
                    .map_or(bytes.len(), |next| at + next);
            }
        }
    }
    torn
}

impl Disk {
    fn index_path(&self, name: &str) -> PathBuf {
        let name = &name[..name.floor_char_boundary(MOST_IN_NAME)];
        self.bucket.join("index").join(format!("{:x}", blake3::hash(name.as_bytes()).as_bytes()[0] & 15))
    }

    /// Adds the record of an entry that is about to be published. Not being found by its name is no reason not to
    /// store it: then the index is known not to be complete.
    ///
    /// Says whether the file has grown to twice of what it was some time ago: then it is worth looking for records of
    /// what is gone, once the entry is published.
    pub(crate) fn index_add(&self, record: &Indexed) -> bool {
        match self.index_append(record) {
            Ok(len) => len >= COMPACT_FROM && (len - record.len()).leading_zeros() != len.leading_zeros(),
            Err(_) => {
                let _ = self.io.unlink(&self.bucket.join("index").join(COMPLETE));
                false
            }
        }
    }

    /// Drops records of what is gone from the file of a name, unless somebody makes room: then they go with that.
    pub(crate) fn index_trim(&self, name: &str) -> io::Result<()> {
        let Some(_lock) = self.try_lock_gc()? else { return Ok(()) };
        let path = self.index_path(name);
        // What was just built may not be published yet.
        let lately = millis(self.now()).saturating_sub(LATELY);
        let mut records = HashMap::new();
        read_all(&self.index_bytes(&path)?, |record| {
            records.insert(record.key, record.created_ms);
        });
        let mut there: HashSet<Key> = HashSet::new();
        for (key, created_ms) in records {
            if created_ms > lately || self.contains(&key) {
                there.insert(key);
            }
        }
        self.index_compact(&path, &there, &mut HashSet::new())
    }

    fn index_append(&self, record: &Indexed) -> io::Result<u64> {
        let path = self.index_path(&record.name);
        let file = match self.io.open_or_create(&path, true) {
            Err(error) if is_absent(&error) => {
                // A store that has no entries yet has an index that knows them all.
                let is_new = !self.io.stat(&self.bucket.join("entries")).is_ok_and(|stat| stat.is_dir);
                self.io.mkdir(&self.bucket.join("index"))?;
                if is_new {
                    self.index_is_complete()?;
                }
                self.io.open_or_create(&path, true)?
            }
            other => other?,
        };
        // One write to a file that is open for appending: records of several processes do not mix.
        self.io.write(&file, &path, &record.to_bytes())?;
        Ok(self.io.stat_file(&file, &path)?.len)
    }

    fn index_is_complete(&self) -> io::Result<()> {
        self.io.open_or_create(&self.bucket.join("index").join(COMPLETE), false).map(drop)
    }

    /// Whether every entry has a record, as far as anybody knows.
    pub(crate) fn is_indexed(&self) -> bool {
        let path = self.bucket.join("index").join(COMPLETE);
        self.io.stat(&path).is_ok_and(|stat| stat.is_file)
            || !self.io.stat(&self.bucket.join("entries")).is_ok_and(|stat| stat.is_dir)
    }

    fn index_bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = match self.io.open(path) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let len = self.io.stat_file(&file, path)?.len.min(MOST_BYTES);
        self.io.read(&file, path, usize::try_from(len).unwrap_or(0))
    }

    /// The two generations of a file: while one is replaced, whoever has it open still appends to it.
    fn index_generations(path: &Path) -> [PathBuf; 2] {
        [path.with_extension("old"), path.to_owned()]
    }

    /// The files that there are, without their older generations.
    fn index_shards(&self) -> Vec<PathBuf> {
        let directory = self.bucket.join("index");
        let names = self.io.list(&directory).unwrap_or_default();
        let mut stems: Vec<_> =
            names.iter().filter_map(|name| Some(directory.join(name.file_stem()?))).collect();
        stems.retain(|path| path.file_name().is_some_and(|name| name.len() == 1));
        stems.sort_unstable();
        stems.dedup();
        stems
    }

    /// The entries of a name, the latest first, at most so many. Some may be gone.
    pub(crate) fn index_of(&self, name: &str, most: usize) -> Vec<Indexed> {
        let wanted = Indexed::new(&Key::from_bytes([0; 32]), name, 0).name;
        let mut records = HashMap::new();
        for path in Self::index_generations(&self.index_path(name)) {
            read_all(&self.index_bytes(&path).unwrap_or_default(), |record| {
                if record.name == wanted {
                    records.insert(record.key, record);
                }
            });
        }
        latest_first(records.into_values().collect(), most)
    }

    /// All entries that are known, the latest first. Some may be gone.
    pub(crate) fn index_all(&self) -> Vec<Indexed> {
        let mut records = HashMap::new();
        for path in self.index_shards().iter().flat_map(|path| Self::index_generations(path)) {
            read_all(&self.index_bytes(&path).unwrap_or_default(), |record| {
                records.insert(record.key, record);
            });
        }
        latest_first(records.into_values().collect(), usize::MAX)
    }

    /// Sets the index right: `there` are all entries. At most `most` of those that have no record are read to make
    /// one. The caller holds the lock of whoever makes room.
    pub(crate) fn index_reconcile(
        &self,
        there: &HashSet<Key>,
        most: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> io::Result<()> {
        let mut known = HashSet::new();
        for path in self.index_shards() {
            self.index_compact(&path, there, &mut known)?;
        }
        let unknown: Vec<&Key> = there.iter().filter(|key| !known.contains(*key)).collect();
        for (at, key) in unknown.iter().take(most).enumerate() {
            progress(at, unknown.len());
            // One that is damaged or cannot be read has no name to be found by.
            if let Ok(Some(Ok(notes))) = self.notes(key) {
                self.index_append(&Indexed::new(key, notes.manifest.name(), notes.info.created_ms))?;
            }
        }
        if unknown.len() <= most && self.io.stat(&self.bucket.join("index")).is_ok() {
            self.index_is_complete()?;
        }
        Ok(())
    }

    /// Drops records of entries that are gone from one file, and collects the keys of the others.
    fn index_compact(&self, path: &Path, there: &HashSet<Key>, known: &mut HashSet<Key>) -> io::Result<()> {
        let [old, now] = Self::index_generations(path);
        let is_there = |record: &Indexed| there.contains(&record.key);
        let mut current = HashSet::new();
        let (mut kept, mut dropped) = (Vec::new(), 0usize);
        let torn = read_all(&self.index_bytes(&now)?, |record| {
            if is_there(&record) && current.insert(record.key) { kept.push(record) } else { dropped += 1 }
        });
        // What somebody appended to the file that was replaced last time.
        let mut late = Vec::new();
        if self.io.stat(&old).is_ok() {
            read_all(&self.index_bytes(&old)?, |record| {
                if is_there(&record) && current.insert(record.key) {
                    late.push(record);
                }
            });
            if !late.is_empty() {
                let file = self.io.open_or_create(&now, true)?;
                self.io.write(&file, &now, &late.iter().flat_map(Indexed::to_bytes).collect::<Vec<u8>>())?;
            }
            let _ = self.io.unlink(&old);
        }
        known.extend(current);
        if dropped > 16.max(kept.len() / 4) || torn {
            self.io.rename(&now, &old)?;
            let file = self.io.open_or_create(&now, true)?;
            let records: Vec<u8> = kept.iter().chain(&late).flat_map(Indexed::to_bytes).collect();
            self.io.write(&file, &now, &records)?;
        }
        Ok(())
    }
}

fn latest_first(mut records: Vec<Indexed>, most: usize) -> Vec<Indexed> {
    records.sort_unstable_by_key(|record| (std::cmp::Reverse(record.created_ms), record.key));
    records.truncate(most);
    records
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Io;
    use std::sync::Arc;
    use std::time::SystemTime;

    fn key(number: u8) -> Key {
        Key::from_bytes([number; 32])
    }

    fn disk(path: &std::path::Path) -> Disk {
        Disk::new(path.to_owned(), Io::default(), Arc::new(SystemTime::now), false, false)
    }

    #[test]
    fn torn_records_are_skipped() {
        let [first, second] = [1, 2].map(|number| Indexed::new(&key(number), "näme", u64::from(number)));
        let record = first.to_bytes();
        for cut in 0..record.len() {
            let bytes = [&record[..cut], &second.to_bytes()[..]].concat();
            let mut seen = Vec::new();
            assert_eq!(read_all(&bytes, |record| seen.push(record)), cut > 0);
            assert_eq!(seen, std::slice::from_ref(&second), "cut after {cut}");
        }
        for at in 0..record.len() {
            let mut bytes = [&record[..], &second.to_bytes()[..]].concat();
            bytes[at] ^= 1;
            let mut seen = Vec::new();
            assert!(read_all(&bytes, |record| seen.push(record)));
            assert_eq!(seen.last(), Some(&second), "byte {at} changed");
            assert!(!seen.contains(&first));
        }
    }

    #[test]
    fn records_are_found_by_name_the_latest_first() {
        let directory = tempfile::tempdir().unwrap();
        let disk = disk(directory.path());
        let long = "x".repeat(3 * MOST_IN_NAME);
        for (number, name) in [(1, "a"), (2, "b"), (3, "a"), (4, &*long)] {
            disk.index_add(&Indexed::new(&key(number), name, u64::from(number)));
        }
        let keys =
            |name: &str, most| disk.index_of(name, most).iter().map(|record| record.key).collect::<Vec<_>>();
        assert_eq!(keys("a", 9), [key(3), key(1)]);
        assert_eq!(keys("a", 1), [key(3)]);
        assert_eq!(keys(&long, 9), [key(4)]);
        assert_eq!(keys("c", 9), []);
        assert_eq!(disk.index_all().len(), 4);
        assert!(disk.is_indexed());
    }

    #[test]
    fn records_of_entries_that_are_gone_go_and_late_ones_stay() {
        let directory = tempfile::tempdir().unwrap();
        let disk = disk(directory.path());
        for number in 0..100 {
            disk.index_add(&Indexed::new(&key(number), "a", 0));
        }
        let there: HashSet<Key> = (0..10).map(key).collect();
        let reconcile = || disk.index_reconcile(&there, usize::MAX, &mut |_, _| ()).unwrap();
        reconcile();
        assert_eq!(
            disk.index_of("a", 1000).iter().map(|record| record.key).collect::<HashSet<_>>().len(),
            100
        );
        // Whoever had the file open when it was replaced appended to the old one.
        let old = disk.index_path("a").with_extension("old");
        let file = disk.io.open_or_create(&old, true).unwrap();
        disk.io.write(&file, &old, &Indexed::new(&key(9), "a", 7).to_bytes()).unwrap();
        reconcile();
        let keys: HashSet<Key> = disk.index_of("a", 1000).iter().map(|record| record.key).collect();
        assert_eq!(keys, there);
        assert!(!old.exists());
    }
}
