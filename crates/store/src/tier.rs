//! [`Tier`]: a place beyond the local disk that entries can come from and go to.

use std::time::Duration;

use keyprint_key::Key;
use thiserror::Error;

/// Why a tier could not answer.
#[derive(Debug, Error)]
pub enum TierError {
    /// It cannot be used at all, now or later: it is left out from then on.
    #[error("{0}")]
    Unusable(String),
    /// One entry cannot be used; there is nothing wrong with the others.
    #[error("{0}")]
    Entry(String),
    /// It failed this time.
    #[error(transparent)]
    Failed(#[from] Box<dyn std::error::Error + Send + Sync>),
}

/// The right to build a key, as far as other hosts that use the same tier know. Given back when dropped.
pub trait Lease: Send {}

/// What asking for a lease came to.
pub enum Leased {
    /// This process may build.
    Yes(Box<dyn Lease>),
    /// Somebody else is building.
    Busy,
    /// The tier has no leases.
    Unsupported,
}

/// A place beyond the local disk: a shared directory, a service.
///
/// A tier moves whole containers and is not trusted with anything: the store verifies every byte that
/// comes out of one, and that it belongs to the key. A tier that fails is left out, with one notice;
/// it never fails a build. Calls may come from several threads, and are waited for: a tier that talks
/// to the outside bounds its own time, and fails when that is over.
pub trait Tier: Send + Sync {
    /// What people know it as.
    fn name(&self) -> &str;

    /// The container of a key; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If the tier cannot tell.
    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, TierError>;

    /// Whether there is a container of a key.
    ///
    /// # Errors
    ///
    /// If the tier cannot tell.
    fn contains(&self, key: &Key) -> Result<bool, TierError>;

    /// Offers a container that was just built. A tier that is read-only declines by doing nothing.
    ///
    /// # Errors
    ///
    /// If it should have been kept and was not.
    fn put(&self, key: &Key, container: &[u8]) -> Result<(), TierError> {
        let _ = (key, container);
        Ok(())
    }

    /// Asks for the right to build a key, so that other hosts wait. Advisory: publishing is correct without.
    ///
    /// # Errors
    ///
    /// If the tier cannot tell.
    fn lease(&self, key: &Key, for_at_most: Duration) -> Result<Leased, TierError> {
        let _ = (key, for_at_most);
        Ok(Leased::Unsupported)
    }

    /// Told that what it handed out under a key was damaged.
    fn reject(&self, key: &Key) {
        let _ = key;
    }
}
