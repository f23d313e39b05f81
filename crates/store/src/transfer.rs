//! A store as one file: for CI images, and for carrying a warm cache to another machine.
//!
//! ```text
//! magic: 89 4b 50 58 0d 0a 1a 0a, version (4), zero (4)
//! for each entry: length (8), container
//! zero (8), number of entries (8), seal (32)
//! ```
//!
//! The seal is a BLAKE3 hash of everything before it under the store's own secret: it tells an export
//! of this store from somebody else's, whose native code must not be loaded unasked.

use std::collections::HashSet;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use keyprint_key::Key;
use thiserror::Error;

use crate::container::{Damage, Head};
use crate::entry::{Entry, Origin, check_part_name};
use crate::store::Store;

const MAGIC: [u8; 8] = *b"\x89KPX\r\n\x1a\n";
const VERSION: u32 = 1;
const SECRET: &str = "secret";
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
    /// It was not made by this store.
    #[error(
        "the export was not made by this store, and whoever made it could run code here through it\n\
         hint: pass --trust if you trust whoever made it"
    )]
    Untrusted,
    /// The store keeps nothing on disk.
    #[error("the store has no directory")]
    NoDirectory,
}

/// What a transfer came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Entries that were written.
    pub entries: u64,
    /// The bytes they have.
    pub bytes: u64,
    /// Entries that were left out: damaged, or already there.
    pub left_out: u64,
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
    /// Writes all entries for which `which` says so. Damaged ones are left out.
    ///
    /// # Errors
    ///
    /// If the store cannot be read or the export not be written.
    pub fn export(&self, to: impl Write, which: &dyn Fn(&Key) -> bool) -> Result<Transferred, TransferError> {
        let disk = self.disk().ok_or(TransferError::NoDirectory)?;
        let mut entries = self.scan()?.entries;
        entries.sort_unstable_by_key(|listed| listed.key);
        let mut out = Sealing { to, hasher: blake3::Hasher::new_keyed(&self.secret()?) };
        out.write(&MAGIC)?;
        out.write(&VERSION.to_le_bytes())?;
        out.write(&[0; 4])?;
        let mut done = Transferred::default();
        for listed in entries.iter().filter(|listed| which(&listed.key)) {
            let Some((container, _)) = disk.read_container(&listed.key)? else { continue };
            if let Err(_damage) = check(&container, Some(&listed.key)) {
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
    /// One that was not made by this store is refused unless `trust`.
    ///
    /// # Errors
    ///
    /// If the export is damaged or not trusted, or cannot be read.
    pub fn import(&self, path: &Path, trust: bool) -> Result<Transferred, TransferError> {
        let disk = self.disk().ok_or(TransferError::NoDirectory)?;
        // A pipe could say something else each time, and would keep us waiting here.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(TransferError::Foreign);
        }
        // The first pass takes nothing in, and remembers what it saw.
        let mut seen = HashSet::new();
        let own = read_export(&file, &self.secret()?, |_, container| {
            seen.insert(blake3::hash(&container));
            Ok(())
        })?;
        if !own && !trust {
            return Err(TransferError::Untrusted);
        }
        let mut done = Transferred::default();
        let mut failed = None;
        read_export(&file, &[0; 32], |key, container| {
            if !seen.contains(&blake3::hash(&container)) {
                return Err(Damage::Foreign);
            }
            if disk.contains(&key) {
                done.left_out += 1;
                return Ok(());
            }
            let bytes = container.len() as u64;
            let entry = Entry::from_container(&key, container, Origin::Tier)?;
            match disk.publish(&entry) {
                Ok(published) => {
                    self.settle(disk, &key, published);
                    done.entries += 1;
                    done.bytes += bytes;
                }
                Err(error) => failed = Some(error),
            }
            Ok(())
        })?;
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(done),
        }
    }

    /// The store's own secret, made when it is first needed.
    fn secret(&self) -> Result<[u8; 32], TransferError> {
        let disk = self.disk().ok_or(TransferError::NoDirectory)?;
        let path: PathBuf = disk.bucket().join(SECRET);
        let io = disk.io();
        let read = || -> io::Result<[u8; 32]> {
            let file = io.open(&path)?;
            let bytes = io.read(&file, &path, 32)?;
            bytes.try_into().map_err(|_| io::ErrorKind::InvalidData.into())
        };
        if let Ok(secret) = read() {
            return Ok(secret);
        }
        let mut secret = [0; 32];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
        if disk.readonly() {
            // Good for this once; nobody will recognise the export as the store's own.
            return Ok(secret);
        }
        io.mkdir(disk.bucket())?;
        let staged = disk.bucket().join(format!("{SECRET}-{}", crate::disk::unique()));
        let file = io.create(&staged)?;
        io.write(&file, &staged, &secret)?;
        // Two that make one at once: the first to give it its name wins.
        let linked = io.link(&staged, &path);
        let _ = io.unlink(&staged);
        match linked {
            Ok(()) => Ok(secret),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(read()?),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether a container is whole, its manifest is that of its key, and its parts can be files.
fn check(container: &[u8], key: Option<&Key>) -> Result<Key, Damage> {
    let head = Head::read(container, container.len() as u64)?;
    let key = *key.unwrap_or(&head.key);
    let entry = Entry::from_container(&key, container.to_vec(), Origin::Tier)?;
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
    mut each: impl FnMut(Key, Vec<u8>) -> Result<(), Damage>,
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
        let container = take(len)?;
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
