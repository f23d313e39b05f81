//! The user's own secret: what tells exports that this user made from those of others.
//!
//! It lies outside of any store, in the user's configuration: stores are shared, copied and put into images, and who
//! can read the secret can make exports that are taken in unasked. One that others can read is none.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::config::absolute;
use crate::disk::{is_absent, unique};
use crate::env;
use crate::io::{Io, Stat};
use crate::trust::{self, TrustError};

/// The name of its file.
const FILE: &str = "seal.secret";

pub(crate) type Secret = [u8; 32];

/// Why there is no secret.
#[derive(Debug, Error)]
pub enum SecretError {
    /// There is no place for it.
    #[error(
        "there is no home directory to keep the secret in that seals exports\nhint: set `KEYPRINT_CONFIG_DIR`"
    )]
    NoDirectory,
    /// Others can read it, or it is no file of this user.
    #[error(
        "the secret that seals exports is not private: `{}` (mode {mode:04o}, user {owner})\n\
         hint: others may have read it; remove it, and a new one is made",
        path.display()
    )]
    NotPrivate {
        /// Where it is.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// Whom it belongs to.
        owner: u32,
    },
    /// Others can put another one in its place.
    #[error(transparent)]
    Directory(#[from] TrustError),
    /// It cannot be read or written.
    #[error("the secret that seals exports, `{}`", path.display())]
    Io {
        /// Where it is.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

/// The directory of what must stay private: `KEYPRINT_CONFIG_DIR`, or the platform's configuration directory.
#[must_use]
pub fn default_config_path() -> Option<PathBuf> {
    env::CONFIG_DIR
        .path()
        .or_else(|| env::platform_directory("XDG_CONFIG_HOME", ".config", "Library/Application Support"))
}

/// The user's secret, if there is one.
pub(crate) fn read(directory: Option<&Path>, io: &Io) -> Result<Option<Secret>, SecretError> {
    let directory = absolute(directory.ok_or(SecretError::NoDirectory)?);
    let path = directory.join(FILE);
    let failed = |cause| SecretError::Io { path: path.clone(), cause };
    let file = match io.open(&path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    trust::check(&directory, &[])?;
    let Stat { mode, owner, is_file, .. } = io.stat_file(&file, &path).map_err(failed)?;
    if !is_file || owner != trust::user() || mode & 0o077 != 0 {
        return Err(SecretError::NotPrivate { path, mode: mode & 0o7777, owner });
    }
    let bytes = io.read(&file, &path, 33).map_err(failed)?;
    bytes.try_into().map(Some).map_err(|_| failed(io::ErrorKind::InvalidData.into()))
}

/// The user's secret, made when it is first needed.
pub(crate) fn read_or_make(directory: Option<&Path>, io: &Io) -> Result<Secret, SecretError> {
    if let Some(secret) = read(directory, io)? {
        return Ok(secret);
    }
    let directory = absolute(directory.ok_or(SecretError::NoDirectory)?);
    let path = directory.join(FILE);
    make(&directory, &path, io).map_err(|cause| SecretError::Io { path, cause })?;
    // Whoever made one at the same time may have been first.
    read(Some(&directory), io)?.ok_or(SecretError::NoDirectory)
}

fn make(directory: &Path, path: &Path, io: &Io) -> io::Result<()> {
    let mut secret = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
    io.mkdir(directory)?;
    let staged = directory.join(format!("{FILE}-{}", unique()));
    let file = io.create(&staged)?;
    let linked = io.write(&file, &staged, &secret).and_then(|()| io.link(&staged, path));
    let _ = io.unlink(&staged);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_made_once_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let (path, io) = (directory.path().join("config"), Io::default());
        assert_eq!(read(Some(&path), &io).unwrap(), None);
        let secret = read_or_make(Some(&path), &io).unwrap();
        assert_eq!(read(Some(&path), &io).unwrap(), Some(secret));
        assert_eq!(read_or_make(Some(&path), &io).unwrap(), secret);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn one_that_others_can_read_or_replace_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let (path, io) = (directory.path().join("config"), Io::default());
        read_or_make(Some(&path), &io).unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        for bits in [0o640, 0o604, 0o620, 0o602] {
            mode(&path.join(FILE), bits);
            assert!(matches!(read(Some(&path), &io), Err(SecretError::NotPrivate { .. })), "{bits:o}");
        }
        mode(&path.join(FILE), 0o600);
        mode(&path, 0o777);
        assert!(matches!(read(Some(&path), &io), Err(SecretError::Directory(_))));
        mode(&path, 0o755);
        assert!(read(Some(&path), &io).unwrap().is_some());
        fs::write(path.join(FILE), "short").unwrap();
        assert!(matches!(read(Some(&path), &io), Err(SecretError::Io { .. })));
        assert!(matches!(read(None, &io), Err(SecretError::NoDirectory)));
    }
}
