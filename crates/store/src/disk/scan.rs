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

/// What going through a store found.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The entries, in no order.
    pub entries: Vec<Listed>,
    /// Files that are not ours.
    pub foreign: Vec<PathBuf>,
    /// The bytes of all entries.
    pub bytes: u64,
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
    pub(crate) fn scan(&self) -> io::Result<Scan> {
        let mut scan = Scan::default();
        let entries = self.bucket.join("entries");
        for shard in self.io.list(&entries)? {
            let directory = entries.join(&shard);
            // A link to elsewhere is not ours, whatever it is called.
            let is_ours = self.io.stat(&directory).is_ok_and(|stat| stat.is_dir);
            if !is_ours || !is_shard(&shard) {
                scan.foreign.push(directory);
                continue;
            }
            for name in self.io.list(&directory)? {
                let path = directory.join(&name);
                let Some(key) = key_of(&shard, &name) else {
                    scan.foreign.push(path);
                    continue;
                };
                match self.io.stat(&path) {
                    Ok(stat) if stat.is_file => {
                        scan.bytes += stat.len;
                        scan.entries.push(Listed { key, bytes: stat.len, used: stat.modified });
                    }
                    Ok(_) => scan.foreign.push(path),
                    Err(error) if is_absent(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(scan)
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
