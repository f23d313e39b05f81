//! Loading: verified bytes under a path that the dynamic loader takes.
//!
//! Verifying a file and then naming it to the loader is a race; so the verified bytes themselves are
//! handed over, in a sealed anonymous file that nobody can change any more, or, where there is none,
//! in a private file. Loaders remember objects by path: a path is never used twice in a process, even
//! if somebody closed our descriptors and its number came back.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::disk::unique;
use crate::io::Io;

/// Files that were handed out; they stay open for good. With the descriptors' numbers, for telling
/// whether one was used before.
static HANDED_OUT: Mutex<(Vec<File>, Option<HashSet<RawFd>>)> = Mutex::new((Vec::new(), None));

/// A path that holds exactly these bytes, for as long as this process lives.
pub(crate) fn path_of(bytes: &[u8], private: Option<&Path>, io: &Io) -> io::Result<PathBuf> {
    match sealed(bytes) {
        Ok(path) => Ok(path),
        Err(error) => match private {
            Some(directory) => private_file(bytes, directory, io),
            None => Err(error),
        },
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

    let mut handed_out = HANDED_OUT.lock().unwrap_or_else(PoisonError::into_inner);
    let numbers = handed_out.1.get_or_insert_default();
    while !numbers.insert(file.as_raw_fd()) {
        file = File::from(fcntl_dupfd_cloexec(&file, file.as_raw_fd() + 1)?);
    }
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    // Without `/proc` the path leads nowhere.
    if std::fs::metadata(&path)?.len() != bytes.len() as u64 {
        return Err(io::ErrorKind::NotFound.into());
    }
    handed_out.0.push(file);
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
    HANDED_OUT.lock().unwrap_or_else(PoisonError::into_inner).0.push(file);
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_loads_never_share_a_path() {
        let first = path_of(b"first", None, &Io::default()).unwrap();
        let second = path_of(b"second", None, &Io::default()).unwrap();
        assert_ne!(first, second);
        assert_eq!(
            (std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap()),
            (b"first".into(), b"second".into())
        );
        assert!(std::fs::write(&first, b"other").is_err(), "sealed");
    }

    #[test]
    fn a_number_that_came_back_is_not_used_again() {
        let first = path_of(b"first", None, &Io::default()).unwrap();
        // As a program that closes all descriptors would.
        HANDED_OUT.lock().unwrap().0.retain(|file| !first.ends_with(file.as_raw_fd().to_string()));
        for _ in 0..64 {
            assert_ne!(path_of(b"next", None, &Io::default()).unwrap(), first);
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
