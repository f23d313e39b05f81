//! Loading: verified bytes under a path that the dynamic loader takes.
//!
//! Verifying a file and then naming it to the loader is a race; so the verified bytes themselves are
//! handed over, in a sealed anonymous file that nobody can change any more, or, where there is none,
//! in a private file. Loaders remember objects by path: a path never stands for two artifacts in one
//! process, even if somebody closed our descriptors and a number came back. The same part of the same
//! entry has the same path again, so that loading it often costs no descriptors.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::disk::unique;
use crate::io::Io;

/// What was handed out.
#[derive(Default)]
struct HandedOut {
    /// The files; they stay open for good.
    files: Vec<File>,
    /// Numbers of descriptors that paths were made of.
    numbers: HashSet<RawFd>,
    /// Paths by what they stand for: entry, part and content.
    paths: HashMap<blake3::Hash, Loaded>,
}

/// A path and which file it led to.
#[derive(Clone)]
struct Loaded {
    path: PathBuf,
    identity: (u64, u64),
}

impl Loaded {
    fn new(path: PathBuf) -> io::Result<Self> {
        let found = std::fs::metadata(&path)?;
        Ok(Self { path, identity: (found.dev(), found.ino()) })
    }

    /// Whether the path still leads to the same file.
    fn holds(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
    }
}

static HANDED_OUT: LazyLock<Mutex<HandedOut>> = LazyLock::new(Mutex::default);

fn handed_out() -> MutexGuard<'static, HandedOut> {
    HANDED_OUT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A path that holds exactly these bytes, a part of an entry, for as long as this process lives.
pub(crate) fn path_of(
    entry: &[u8; 32],
    part: &str,
    bytes: &[u8],
    private: Option<&Path>,
    io: &Io,
) -> io::Result<PathBuf> {
    let name = blake3::Hasher::new()
        .update(entry)
        .update(blake3::hash(bytes).as_bytes())
        .update(part.as_bytes())
        .finalize();
    if let Some(loaded) = handed_out().paths.get(&name).filter(|loaded| loaded.holds()) {
        return Ok(loaded.path.clone());
    }
    let path = match sealed(bytes) {
        Ok(path) => path,
        Err(error) => match private {
            Some(directory) => private_file(bytes, directory, io)?,
            None => return Err(error),
        },
    };
    handed_out().paths.insert(name, Loaded::new(path.clone())?);
    Ok(path)
}

#[cfg(target_os = "linux")]
fn sealed(bytes: &[u8]) -> io::Result<PathBuf> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use rustix::io::fcntl_dupfd_cloexec;

    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("keyprint", flags)?);
    file.write_all(bytes)?;
    fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;

    let mut handed_out = handed_out();
    while !handed_out.numbers.insert(file.as_raw_fd()) {
        file = File::from(fcntl_dupfd_cloexec(&file, file.as_raw_fd() + 1)?);
    }
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    // Without `/proc` the path leads nowhere.
    if std::fs::metadata(&path)?.len() != bytes.len() as u64 {
        return Err(io::ErrorKind::NotFound.into());
    }
    handed_out.files.push(file);
    Ok(path)
}

#[cfg(not(target_os = "linux"))]
fn sealed(_bytes: &[u8]) -> io::Result<PathBuf> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A private file; it stays open and locked, so that nobody sweeps it away.
fn private_file(bytes: &[u8], directory: &Path, io: &Io) -> io::Result<PathBuf> {
    io.mkdir(directory)?;
    let path = directory.join(unique());
    let file = io.create(&path)?;
    io.try_lock(&file, &path)?;
    io.write(&file, &path, bytes)?;
    handed_out().files.push(file);
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(entry: u8, part: &str, bytes: &[u8]) -> PathBuf {
        path_of(&[entry; 32], part, bytes, None, &Io::default()).unwrap()
    }

    #[test]
    fn two_artifacts_never_share_a_path() {
        let first = load(1, "a", b"first");
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
        let first = load(9, "a", b"first");
        // As a program that closes all descriptors would.
        handed_out().files.retain(|file| !first.ends_with(file.as_raw_fd().to_string()));
        let again = load(9, "a", b"first");
        assert!(again != first && std::fs::read(again).unwrap() == b"first");
        for at in 0..64 {
            assert_ne!(load(at, "next", b"next"), first);
        }
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
