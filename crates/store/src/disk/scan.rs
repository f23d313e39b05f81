//! Going through all entries.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use keyprint_key::{Key, Manifest};

use crate::container::{self, Damage, HEAD, Head, Kind};
use crate::disk::{Disk, SUFFIX, is_absent, usize_of};
use crate::entry::Info;

/// Most heads with their manifests are no longer than this.
const USUAL_HEAD: usize = 8 << 10;

/// An entry as a directory shows it.
#[derive(Clone, Debug)]
pub struct Listed {
    /// What it is stored under.
    pub key: Key,
    /// Its size on disk.
    pub bytes: u64,
    /// When it was last used, to about a minute.
    pub used: SystemTime,
}

/// Things that were passed over: how many, and the first of them with the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// How many.
    pub count: u64,
    /// The first ones.
    pub first: Vec<(PathBuf, String)>,
}

impl Skipped {
    /// So many are named.
    const MOST: usize = 20;

    pub(crate) fn add(&mut self, path: PathBuf, why: impl ToString) {
        self.count += 1;
        if self.first.len() < Self::MOST {
            self.first.push((path, why.to_string()));
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.count += other.count;
        let room = Self::MOST.saturating_sub(self.first.len());
        self.first.extend(other.first.into_iter().take(room));
    }
}

/// What going through a store found.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The entries, in no order.
    pub entries: Vec<Listed>,
    /// The bytes of all entries.
    pub bytes: u64,
    /// What lies beside entries and counts too: what is being written, what was put aside, copies for loading.
    pub other_bytes: u64,
    /// Files that are not ours, and directories that cannot be read.
    pub skipped: Skipped,
}

impl Scan {
    /// All bytes that count towards the limit.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.bytes + self.other_bytes
    }
}

/// The small sections of an entry, verified; the parts were not read.
#[derive(Clone, Debug)]
pub struct Notes {
    /// What the store notes.
    pub info: Info,
    /// What went into the key.
    pub manifest: Manifest,
    /// Names and sizes of the parts.
    pub parts: Vec<(String, u64)>,
    /// The size of the consumer's notes.
    pub metadata: u64,
}

impl Disk {
    /// All entries, without reading them. Files that come and go meanwhile may or may not be seen.
    pub(crate) fn scan(&self) -> Scan {
        let mut scan = Scan::default();
        let skipped = self.visit(&mut |listed| {
            scan.bytes += listed.bytes;
            scan.entries.push(listed);
        });
        scan.skipped = skipped;
        scan.other_bytes = ["staging", "quarantine", "loads"]
            .into_iter()
            .flat_map(|name| {
                let directory = self.bucket.join(name);
                let names = self.io.list(&directory).unwrap_or_default();
                names.into_iter().map(move |name| directory.join(name))
            })
            .filter_map(|path| self.io.stat(&path).ok())
            .map(|stat| stat.len)
            .sum();
        scan
    }

    /// Goes through all entries, one directory at a time. What cannot be looked at is passed over.
    pub(crate) fn visit(&self, each: &mut dyn FnMut(Listed)) -> Skipped {
        let mut skipped = Skipped::default();
        self.visit_shards(&mut skipped, "", &mut |key, path, skipped| match self.io.stat(&path) {
            Ok(stat) if stat.is_file => each(Listed { key, bytes: stat.len, used: stat.modified }),
            Ok(_) => skipped.add(path, "not a file"),
            Err(error) if is_absent(&error) => {}
            Err(error) => skipped.add(path, error),
        });
        skipped
    }

    /// What the directory shows of an entry.
    pub(crate) fn listed(&self, key: &Key) -> Option<Listed> {
        let stat = self.io.stat(&self.entry_path(key)).ok().filter(|stat| stat.is_file)?;
        Some(Listed { key: *key, bytes: stat.len, used: stat.modified })
    }

    /// How many entries there are, by their names alone.
    pub(crate) fn count(&self) -> u64 {
        let mut count = 0;
        self.visit_shards(&mut Skipped::default(), "", &mut |_, _, _| count += 1);
        count
    }

    /// The keys that begin with some digits, at most so many, by their names alone.
    pub(crate) fn keys_from(&self, prefix: &str, most: usize) -> Vec<Key> {
        let mut keys = Vec::new();
        self.visit_shards(&mut Skipped::default(), prefix, &mut |key, _, _| {
            if keys.len() < most && key.hex().starts_with(prefix) {
                keys.push(key);
            }
        });
        keys.sort_unstable();
        keys
    }

    /// Goes through the names of entries in those directories that keys of a prefix can be in.
    fn visit_shards(
        &self,
        skipped: &mut Skipped,
        prefix: &str,
        each: &mut dyn FnMut(Key, PathBuf, &mut Skipped),
    ) {
        let entries = self.bucket.join("entries");
        let list = |path: &Path, skipped: &mut Skipped| {
            self.io.list(path).unwrap_or_else(|error| {
                skipped.add(path.to_owned(), error);
                Vec::new()
            })
        };
        for shard in list(&entries, skipped) {
            let directory = entries.join(&shard);
            // A link to elsewhere is not ours, whatever it is called.
            let is_directory = self.io.stat(&directory).is_ok_and(|stat| stat.is_dir);
            if !is_directory || !is_shard(&shard) {
                skipped.add(directory, "not ours");
                continue;
            }
            let name = shard.to_str().unwrap_or_default();
            if !prefix.starts_with(name) && !name.starts_with(prefix) {
                continue;
            }
            for name in list(&directory, skipped) {
                let path = directory.join(&name);
                match key_of(&shard, &name) {
                    Some(key) => each(key, path, skipped),
                    None => skipped.add(path, "not ours"),
                }
            }
        }
    }

    /// What is noted about an entry; the parts are neither read nor verified.
    pub(crate) fn notes(&self, key: &Key) -> io::Result<Option<Result<Notes, Damage>>> {
        let path = self.entry_path(key);
        let file = match self.io.open(&path) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let stat = self.io.stat_file(&file, &path)?;
        if !stat.is_file {
            return Ok(Some(Err(Damage::Foreign)));
        }
        let mut bytes = self.io.read(&file, &path, USUAL_HEAD.min(usize_of(stat.len)?))?;
        let needed = match notes_end(&bytes, stat.len) {
            Ok(end) => end,
            Err(damage) => return Ok(Some(Err(damage))),
        };
        self.read_upto(&file, &path, &mut bytes, needed)?;
        let head = match Head::read(&bytes, stat.len) {
            Ok(head) => head,
            Err(damage) => return Ok(Some(Err(damage))),
        };
        let end = head.only(Kind::Info).range.end.max(head.only(Kind::Manifest).range.end);
        self.read_upto(&file, &path, &mut bytes, usize_of(end)?)?;
        Ok(Some(read_notes(key, &head, &bytes)))
    }

    fn read_upto(&self, file: &File, path: &Path, bytes: &mut Vec<u8>, end: usize) -> io::Result<()> {
        if end > bytes.len() {
            self.io.read_on(file, path, bytes, end - bytes.len())?;
        }
        Ok(())
    }
}

/// Where head and table end, as far as the first bytes tell.
fn notes_end(bytes: &[u8], len: u64) -> Result<usize, Damage> {
    let end = container::head_len(bytes)?;
    if end as u64 > len {
        Err(Damage::Length { expected: end as u64, found: len })
    } else {
        Ok(end.max(HEAD))
    }
}

fn read_notes(key: &Key, head: &Head, bytes: &[u8]) -> Result<Notes, Damage> {
    if head.key != *key {
        return Err(Damage::Moved(head.key));
    }
    let section = |kind: Kind| {
        let at = head.rows.iter().position(|row| row.kind == kind).expect("checked when the table was read");
        let range = &head.rows[at].range;
        let content = bytes
            .get(range.start as usize..range.end as usize)
            .ok_or(Damage::Length { expected: head.len, found: bytes.len() as u64 })?;
        head.check(at, content)?;
        Ok(content)
    };
    let info = serde_json::from_slice(section(Kind::Info)?)
        .map_err(|_| Damage::Table("the store's own notes are unreadable"))?;
    let manifest = Manifest::from_bytes(section(Kind::Manifest)?).map_err(|_| Damage::Manifest)?;
    if manifest.key() != *key {
        return Err(Damage::Manifest);
    }
    let size = |range: &std::ops::Range<u64>| range.end - range.start;
    let parts = head.rows.iter().filter(|row| row.kind == Kind::Part);
    let parts = parts.map(|row| (row.name.clone(), size(&row.range))).collect();
    Ok(Notes { info, manifest, parts, metadata: size(&head.only(Kind::Metadata).range) })
}

fn is_shard(name: &Path) -> bool {
    let name = name.as_os_str().as_bytes();
    name.len() == 2 && name.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The key that a file's place stands for.
fn key_of(shard: &Path, name: &Path) -> Option<Key> {
    let stem = name.to_str()?.strip_suffix(SUFFIX)?.strip_suffix('.')?;
    let hex = format!("{}{stem}", shard.to_str()?);
    // Keys are written in lower case; the same in upper case would be a second name.
    hex.parse().ok().filter(|_| !hex.bytes().any(|byte| byte.is_ascii_uppercase()))
}
