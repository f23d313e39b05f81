//! Loading: verified bytes under a path that the dynamic loader takes.
//!
//! Verifying a file and then naming it to the loader is a race; so the verified bytes themselves are
//! handed over, in a sealed anonymous file that nobody can change any more, or, where there is none,
//! in a private file. Loaders remember objects by path: a path never stands for two artifacts in one
//! process, even if somebody closed our descriptors and a number came back. The same part of the same
//! entry has the same path again, so that loading it often costs no descriptors.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::disk::owned_name;
use crate::io::Io;

/// Numbers of descriptors that paths were made of, a bit for each. Without a lock: a process that is
/// forked while another thread loads something would have it locked for ever.
static HANDED_OUT: [AtomicU64; MOST_NUMBERS / 64] = [const { AtomicU64::new(0) }; MOST_NUMBERS / 64];

/// Higher numbers cannot be remembered, so they are not used.
const MOST_NUMBERS: usize = 1 << 16;

/// Takes a number; false if it was taken before.
fn take_number(number: RawFd) -> io::Result<bool> {
    let at = usize::try_from(number).ok().filter(|at| *at < MOST_NUMBERS);
    let at = at.ok_or_else(|| io::Error::other("too many open files to load another"))?;
    let bit = 1 << (at % 64);
    Ok(HANDED_OUT[at / 64].fetch_or(bit, Ordering::Relaxed) & bit == 0)
}

/// What a store loaded: paths by what they stand for, which is entry, part and content.
#[derive(Default)]
pub(crate) struct Loads {
    paths: Mutex<HashMap<blake3::Hash, Loaded>>,
}

/// A path and which file it led to.
#[derive(Clone)]
struct Loaded {
    path: PathBuf,
    identity: (u64, u64),
}

impl Loaded {
    fn new(path: PathBuf) -> io::Result<Self> {
        let metadata = std::fs::metadata(&path)?;
        Ok(Self { path, identity: (metadata.dev(), metadata.ino()) })
    }

    /// Whether the path still leads to the same file.
    fn holds(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == self.identity)
    }
}

impl Loads {
    /// A path that holds exactly these bytes, a part of an entry, for as long as this process lives.
    pub(crate) fn path_of(
        &self,
        entry: &[u8; 32],
        part: &str,
        bytes: &[u8],
        private: Option<&Path>,
        io: &Io,
    ) -> io::Result<PathBuf> {
        let mut name = blake3::Hasher::new();
        name.update(entry).update(blake3::hash(bytes).as_bytes()).update(part.as_bytes());
        let name = name.finalize();
        if let Some(loaded) = self.paths().and_then(|paths| paths.get(&name).cloned())
            && loaded.holds()
        {
            return Ok(loaded.path);
        }
        let path = match sealed(bytes) {
            Ok(path) => path,
            Err(error) => match private {
                Some(directory) => private_file(bytes, directory, io)?,
                None => return Err(error),
            },
        };
        if let Some(mut paths) = self.paths() {
            paths.insert(name, Loaded::new(path.clone())?);
        }
        Ok(path)
    }

    /// What was loaded, unless another thread has it: one that a forked child does not have would have
    /// it for ever. Doing without costs a descriptor.
    fn paths(&self) -> Option<MutexGuard<'_, HashMap<blake3::Hash, Loaded>>> {
        match self.paths.try_lock() {
            Ok(paths) => Some(paths),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(target_os = "linux")]
fn sealed(bytes: &[u8]) -> io::Result<PathBuf> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use rustix::io::fcntl_dupfd_cloexec;

    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("keyprint", flags)?);
    file.write_all(bytes)?;
    fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;

    while !take_number(file.as_raw_fd())? {
        file = File::from(fcntl_dupfd_cloexec(&file, file.as_raw_fd() + 1)?);
    }
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    // Without `/proc` the path leads nowhere.
    if std::fs::metadata(&path)?.len() != bytes.len() as u64 {
        return Err(io::ErrorKind::NotFound.into());
    }
    // Open for good.
    std::mem::forget(file);
    Ok(path)
}

#[cfg(not(target_os = "linux"))]
fn sealed(_bytes: &[u8]) -> io::Result<PathBuf> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A private file; it stays open and locked, so that nobody sweeps it away.
fn private_file(bytes: &[u8], directory: &Path, io: &Io) -> io::Result<PathBuf> {
    io.mkdir(directory)?;
    let path = directory.join(owned_name());
    let file = io.create(&path)?;
    io.try_lock(&file, &path)?;
    io.write(&file, &path, bytes)?;
    std::mem::forget(file);
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(loads: &Loads, entry: u8, part: &str, bytes: &[u8]) -> PathBuf {
        loads.path_of(&[entry; 32], part, bytes, None, &Io::default()).unwrap()
    }

    #[test]
    fn two_artifacts_never_share_a_path() {
        let loads = Loads::default();
        let load = |entry, part, bytes| load(&loads, entry, part, bytes);
        let first = load(1, "a", &b"first"[..]);
        let second = load(2, "a", b"second");
        assert_ne!(first, second);
        let others = [load(3, "a", b"first"), load(1, "b", b"first"), load(1, "a", b"other")];
        assert!(!others.contains(&first));
        assert_eq!(load(1, "a", b"first"), first, "the same part again");
        assert_eq!(
            (std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap()),
            (b"first".into(), b"second".into())
        );
        assert!(std::fs::write(&first, b"other").is_err(), "sealed");
    }

    #[test]
    fn a_number_that_came_back_is_not_used_again() {
        let loads = Loads::default();
        let first = load(&loads, 9, "a", b"first");
        let number: RawFd = first.file_name().unwrap().to_str().unwrap().parse().unwrap();
        assert!(!take_number(number).unwrap());
        assert!(take_number(MOST_NUMBERS as RawFd).is_err());
        // Another store of the same process knows nothing of the first one's paths, but of its numbers.
        assert_ne!(load(&Loads::default(), 9, "a", b"first"), first);
    }

    #[test]
    fn a_lock_that_nobody_will_release_is_not_waited_for() {
        let loads = Loads::default();
        let first = load(&loads, 1, "a", b"first");
        let _held = loads.paths.lock().unwrap();
        let again = load(&loads, 1, "a", b"first");
        assert!(again != first && std::fs::read(again).unwrap() == b"first");
    }

    #[test]
    fn private_files_are_private_and_stay() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = private_file(b"bytes", &directory.path().join("loads"), &Io::default()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"bytes");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(File::open(&path).unwrap().try_lock().is_err());
    }
}
