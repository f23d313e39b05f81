//! A read-only, pre-warmed directory of another store as a tier.

use std::sync::OnceLock;

use keyprint_key::Key;

use crate::config::{SharedDir, absolute};
use crate::disk::{Clock, Disk};
use crate::io::Io;
use crate::tier::{Tier, TierError};
use crate::trust::{self, TrustError};

/// A directory that is read and never written.
pub(crate) struct SharedTier {
    name: String,
    disk: Disk,
    trusted: bool,
    /// Whether it may be used, looked at once.
    usable: OnceLock<Result<(), String>>,
}

impl SharedTier {
    pub(crate) fn new(shared: &SharedDir, io: Io, clock: Clock) -> Self {
        let path = absolute(&shared.path);
        let name = format!("`{}`", path.display());
        Self {
            name,
            disk: Disk::new(path, io, clock, true, false),
            trusted: shared.trusted,
            usable: OnceLock::new(),
        }
    }

    fn usable(&self) -> Result<(), TierError> {
        let look = || match self.check() {
            Ok(()) => Ok(()),
            Err(error) => {
                Err(format!("{error}\nhint: name it as trusted if you trust everybody who can write it"))
            }
        };
        if self.trusted { Ok(()) } else { self.usable.get_or_init(look).clone().map_err(TierError::Unusable) }
    }

    fn check(&self) -> Result<(), TrustError> {
        trust::check(self.disk.root(), &[self.disk.bucket().to_owned(), self.disk.bucket().join("entries")])
    }
}

impl Tier for SharedTier {
    fn name(&self) -> &str {
        &self.name
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, TierError> {
        self.usable()?;
        let odd =
            |why: String| Err(TierError::Entry(format!("{}: {why}", self.disk.entry_path(key).display())));
        match self.disk.read_container(key) {
            Ok(None) => Ok(None),
            Ok(Some((container, stat))) if self.trusted || trust::is_private(&stat) => Ok(Some(container)),
            Ok(Some((_, stat))) => {
                odd(format!("it can be written by others (mode {:04o})", stat.mode & 0o7777))
            }
            Err(error) => odd(error.to_string()),
        }
    }

    fn contains(&self, key: &Key) -> Result<bool, TierError> {
        self.usable()?;
        Ok(self.disk.contains(key))
    }
}
