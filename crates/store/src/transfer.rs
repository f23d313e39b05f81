//! A store as one file: for CI images, and for carrying a warm cache to another machine.
//!
//! ```text
//! magic: 89 4b 50 58 0d 0a 1a 0a, version (4), zero (4)
//! for each entry: length (8), container
//! zero (8), number of entries (8), seal (32)
//! ```
//!
//! The seal is a BLAKE3 hash of everything before it under the user's own secret: it tells an export
//! that this user made from somebody else's, whose native code must not be loaded unasked.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use keyprint_key::Key;
use thiserror::Error;

use crate::container::{Damage, Head};
use crate::disk::{Disk, Skipped};
use crate::entry::{Entry, Origin, check_part_name};
use crate::io::Stat;
use crate::secret::{self, Secret, SecretError};
use crate::store::Store;
use crate::trust;

const MAGIC: [u8; 8] = *b"\x89KPX\r\n\x1a\n";
const VERSION: u32 = 1;
/// An entry longer than this is not ours.
const MOST_BYTES: u64 = 1 << 40;

/// Why a file cannot be imported, or a store not exported.
#[derive(Debug, Error)]
pub enum TransferError {
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Not an export.
    #[error("not an export of a store")]
    Foreign,
    /// A version that this program does not read.
    #[error("an export of version {VERSION} was expected, found version {0}")]
    Version(u32),
    /// It ends too early, or too late.
    #[error("the export is cut short or has something appended")]
    Length,
    /// An entry in it is damaged.
    #[error("entry {0} of the export is damaged")]
    Damaged(u64, #[source] Damage),
    /// It was not made by this user, here.
    #[error(
        "the export was not made by this user on this machine, and whoever made it could run code here through it\n\
         hint: pass --trust if you trust whoever made it"
    )]
    Untrusted,
    /// The store keeps nothing on disk.
    #[error("the store has no directory")]
    NoDirectory,
    /// The store is not to be written.
    #[error("the store `{}` is read-only", .0.display())]
    ReadOnly(PathBuf),
    /// The secret that seals exports cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
}

/// What a transfer came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Entries that were written.
    pub entries: u64,
    /// The bytes they have.
    pub bytes: u64,
    /// Entries that were left out: damaged, or already there.
    pub left_out: u64,
    /// What could not be read.
    pub skipped: Skipped,
}

/// Writes and hashes at once.
struct Sealing<W> {
    to: W,
    hasher: blake3::Hasher,
}

impl<W: Write> Sealing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.to.write_all(bytes)
    }
}

impl Store {
    /// Writes all entries for which `which` says so. Damaged ones are left out, and so is what cannot be read.
    ///
    /// # Errors
    ///
    /// If the export cannot be written.
    pub fn export(
        &self,
        to: impl Write,
        which: &dyn Fn(&Key) -> bool,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Transferred, TransferError> {
        let disk = self.disk().ok_or(TransferError::NoDirectory)?;
        let mut done = Transferred::default();
        let mut keys = Vec::new();
        done.skipped = disk.visit(&mut |listed| {
            if which(&listed.key) {
                keys.push(listed.key);
            }
        });
        keys.sort_unstable();
        // The seal says that nobody else had a hand in it: what others can write is sealed with something else.
        let is_own = self.check_directory().is_ok();
        let secret = if is_own { self.sealing_secret()? } else { random_secret()? };
        let mut shards: HashMap<PathBuf, bool> = HashMap::new();
        let mut out = Sealing { to, hasher: blake3::Hasher::new_keyed(&secret) };
        out.write(&MAGIC)?;
        out.write(&VERSION.to_le_bytes())?;
        out.write(&[0; 4])?;
        for (at, key) in keys.iter().enumerate() {
            progress(at, keys.len());
            let shard = disk.entry_path(key).parent().expect("an entry lies in a directory").to_owned();
            let mut is_trusted = |stat: &Stat| {
                let check = |shard: &Path| trust::check(disk.root(), &[shard.to_owned()]).is_ok();
                !is_own
                    || trust::is_private(stat)
                        && *shards.entry(shard.clone()).or_insert_with_key(|shard| check(shard))
            };
            let container = match disk.read_container(key) {
                Ok(Some((container, stat))) if is_trusted(&stat) => Bytes::from(container),
                Ok(Some(_)) => {
                    done.skipped.add(disk.entry_path(key), "others can write it");
                    continue;
                }
                Ok(None) => continue,
                Err(error) => {
                    done.skipped.add(disk.entry_path(key), error);
                    continue;
                }
            };
            if let Err(_damage) = check(&container, Some(key)) {
                done.left_out += 1;
                continue;
            }
            out.write(&(container.len() as u64).to_le_bytes())?;
            out.write(&container)?;
            done.entries += 1;
            done.bytes += container.len() as u64;
        }
        out.write(&0u64.to_le_bytes())?;
        out.write(&done.entries.to_le_bytes())?;
        let seal = out.hasher.finalize();
        out.to.write_all(seal.as_bytes())?;
        out.to.flush()?;
        Ok(done)
    }

    /// Takes in all entries of an export: every one verified, none of them unless all of it is whole.
    /// One that was not made by this user is refused unless `trust`.
    ///
    /// # Errors
    ///
    /// If the export is damaged or not trusted, or cannot be read.
    pub fn import(
        &self,
        path: &Path,
        trust: bool,
        progress: impl FnMut(u64),
    ) -> Result<Transferred, TransferError> {
        let kind = std::fs::metadata(path)?.file_type();
        if kind.is_fifo() {
            return self.import_from(std::fs::File::open(path)?, trust, progress);
        }
        // Whatever else it is, opening it must not keep us waiting.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(TransferError::Foreign);
        }
        self.import_file(&file, trust, progress)
    }

    /// As [`import`](Self::import), from a pipe: it is kept aside until all of it is known to be whole.
    ///
    /// # Errors
    ///
    /// As for [`import`](Self::import).
    pub fn import_from(
        &self,
        mut from: impl Read,
        trust: bool,
        progress: impl FnMut(u64),
    ) -> Result<Transferred, TransferError> {
        let disk = self.import_to()?;
        let (path, mut aside) = disk.stage()?;
        // Nobody else needs its name, and it is gone with this process.
        disk.io().unlink(&path)?;
        io::copy(&mut from, &mut aside)?;
        self.import_file(&aside, trust, progress)
    }

    fn import_file(
        &self,
        file: &std::fs::File,
        trust: bool,
        mut progress: impl FnMut(u64),
    ) -> Result<Transferred, TransferError> {
        let disk = self.import_to()?;
        let secret = match secret::read(self.private(), disk.io()) {
            Ok(secret) => secret,
            Err(SecretError::NoDirectory) => None,
            Err(_) if trust => None,
            Err(error) => return Err(error.into()),
        };
        // The first pass takes nothing in, and remembers what it saw.
        let mut seen = HashSet::new();
        let sealed = read_export(file, &secret.unwrap_or_default(), |_, container| {
            progress(seen.len() as u64);
            seen.insert(blake3::hash(&container));
            Ok(())
        })?;
        if !(trust || sealed && secret.is_some()) {
            return Err(TransferError::Untrusted);
        }
        let mut done = Transferred::default();
        let mut failed = None;
        read_export(file, &[0; 32], |key, container| {
            if !seen.contains(&blake3::hash(&container)) {
                return Err(Damage::Foreign);
            }
            progress(done.entries);
            if disk.contains(&key) {
                done.left_out += 1;
                return Ok(());
            }
            let bytes = container.len() as u64;
            let entry = Entry::from_container(&key, container, Origin::Tier)?;
            match self.publish_on(disk, &entry) {
                Ok(true) => {
                    done.entries += 1;
                    done.bytes += bytes;
                }
                Ok(false) => done.skipped.add(disk.entry_path(&key), "larger than the store may be"),
                Err(error) => failed = Some(error),
            }
            Ok(())
        })?;
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(done),
        }
    }

    /// The user's secret. Where there is no place for one, one for this once: nobody will recognise the export.
    fn sealing_secret(&self) -> Result<Secret, TransferError> {
        let disk = self.disk().ok_or(TransferError::NoDirectory)?;
        match secret::read_or_make(self.private(), disk.io()) {
            Ok(secret) => Ok(secret),
            Err(error @ (SecretError::NotPrivate { .. } | SecretError::Directory(_))) => Err(error.into()),
            Err(SecretError::NoDirectory | SecretError::Io { .. }) => Ok(random_secret()?),
        }
    }

    /// Where entries are taken in.
    fn import_to(&self) -> Result<&Disk, TransferError> {
        let disk = self.disk().ok_or(TransferError::NoDirectory)?;
        match self.writable() {
            Some(disk) => Ok(disk),
            None => Err(TransferError::ReadOnly(disk.root().to_owned())),
        }
    }
}

/// A secret for this once: nobody will recognise what it seals.
fn random_secret() -> io::Result<Secret> {
    let mut secret = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
    Ok(secret)
}

/// Whether a container is whole, its manifest is that of its key, and its parts can be files.
fn check(container: &Bytes, key: Option<&Key>) -> Result<Key, Damage> {
    let head = Head::read(container, container.len() as u64)?;
    let key = *key.unwrap_or(&head.key);
    let entry = Entry::from_container(&key, container.clone(), Origin::Tier)?;
    match entry.manifest() {
        Ok(manifest) if manifest.key() == key => {}
        _ => return Err(Damage::Manifest),
    }
    if entry.names().any(|name| check_part_name(name).is_err()) {
        return Err(Damage::Table("a part whose name cannot be a file"));
    }
    Ok(key)
}

/// Goes through an export, verifying everything. Says whether it was sealed with a secret.
fn read_export(
    mut file: &std::fs::File,
    secret: &[u8; 32],
    mut each: impl FnMut(Key, Bytes) -> Result<(), Damage>,
) -> Result<bool, TransferError> {
    file.seek(io::SeekFrom::Start(0))?;
    let mut from = io::BufReader::with_capacity(1 << 20, file);
    let mut hasher = blake3::Hasher::new_keyed(secret);
    let mut take = |len: u64| -> Result<Vec<u8>, TransferError> {
        let mut bytes = Vec::new();
        (&mut from).take(len).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == len { Ok(bytes) } else { Err(TransferError::Length) }
    };
    let head = take(16).map_err(|_| TransferError::Foreign)?;
    if head[..8] != MAGIC {
        return Err(TransferError::Foreign);
    }
    let version = u32::from_le_bytes(*head[8..12].first_chunk().expect("4 bytes"));
    if version != VERSION {
        return Err(TransferError::Version(version));
    }
    hasher.update(&head);
    let mut count = 0;
    loop {
        let bytes = take(8)?;
        hasher.update(&bytes);
        let len = u64::from_le_bytes(*bytes.first_chunk().expect("8 bytes"));
        if len == 0 {
            break;
        }
        if len > MOST_BYTES {
            return Err(TransferError::Length);
        }
        let container = Bytes::from(take(len)?);
        hasher.update(&container);
        let damaged = |damage| TransferError::Damaged(count, damage);
        let key = check(&container, None).map_err(damaged)?;
        each(key, container).map_err(damaged)?;
        count += 1;
    }
    let bytes = take(8)?;
    hasher.update(&bytes);
    if u64::from_le_bytes(*bytes.first_chunk().expect("8 bytes")) != count {
        return Err(TransferError::Length);
    }
    let seal = take(32)?;
    match take(1) {
        Err(TransferError::Length) => {}
        Err(error) => return Err(error),
        Ok(_) => return Err(TransferError::Length),
    }
    let sealed = blake3::Hash::from_bytes(*seal.first_chunk().expect("32 bytes"));
    // Comparing hashes takes the same time wherever they differ.
    Ok(hasher.finalize() == sealed)
}
