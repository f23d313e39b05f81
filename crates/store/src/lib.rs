//! A store for compiled artifacts: crash-safe, verified, bounded, one build however many ask.
//!
//! ```
//! use keyprint_fingerprint::fingerprint;
//! use keyprint_key::{Component, KeyBuilder, Tool};
//! use keyprint_store::{Artifact, Config, Request, Store};
//!
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path();
//! let store = Store::open(Config::at(path));
//! let mut key = KeyBuilder::new("lower", Tool::new("mylang", "1.2"), None);
//! key.add(Component::new("source", fingerprint("def f(): ..."))).unwrap();
//! let manifest = key.finish();
//!
//! let compile = || Ok::<_, std::io::Error>(Artifact::single(b"object code".to_vec()));
//! let built = store.get_or_build(&Request::new(&manifest), compile)?;
//!
//! // A hit is proved by a build that cannot succeed.
//! let hit = store.get_or_build(&Request::new(&manifest), || Err(std::io::Error::other("never called")))?;
//! assert_eq!(hit.entry.part("data"), Some(&b"object code"[..]));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Map
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`Store`] | the way in: lookups through the tiers, builds under single flight, upkeep |
//! | [`Config`], [`mod@env`] | what a store is told, by its caller and by the environment |
//! | [`Entry`], [`Artifact`] | what comes out, and what goes in |
//! | `container` | an entry as bytes |
//! | `disk` | the local directory: publishing, reading, locks, eviction |
//! | `memory`, [`Tier`], `shared` | the other tiers |
//! | [`Flights`], [`PerProcess`] | single flight among threads, and what a forked child gets anew |
//! | `ledger`, `history` | statistics and the last misses, across processes |
//! | [`TrustError`], `load` | whether and how native code may be loaded |
//! | [`why`] | what changed since the nearest earlier entry |
//! | [`transfer`], [`SecretError`] | a store as one file, and the secret that seals it |
//! | [`io`] | every system call, for tests to fail |
//!
//! # Invariants
//!
//! - Nothing is handed out whose every byte was not verified against the key that was asked for.
//! - A reader sees a whole entry or none. A writer that dies at any point leaves every other entry as
//!   it was.
//! - No trouble with the store fails a build: it is said once, and the build goes on without.
//! - Nobody waits without a bound, and no lock outlives its holder.
//! - Keys are opaque here.

#![forbid(unsafe_code)]

mod config;
mod container;
mod disk;
mod entry;
pub mod env;
mod flight;
mod history;
pub mod io;
mod ledger;
mod load;
mod memory;
mod notice;
mod process;
mod progress;
mod secret;
mod shared;
mod store;
mod tier;
pub mod transfer;
mod trust;
pub mod why;

pub use config::{
    Config, ConfigError, DEFAULT_MEMORY, DEFAULT_SIZE, DEFAULT_WAIT, SharedDir, default_path, parse_seconds,
    parse_size,
};
pub use container::{CONTAINER_VERSION, Damage};
pub use disk::{Freed, Indexed, Listed, Notes, Scan, Skipped};
pub use entry::{Artifact, Entry, Info, Origin, PartError, is_internal};
pub use flight::{Flights, Leading, Role};
pub use history::Miss;
pub use ledger::Counters;
pub use notice::Notice;
pub use process::PerProcess;
pub use progress::{TerminalProgress, Waiting};
pub use secret::{SecretError, default_config_path};
pub use store::{Cleared, How, LoadError, Outcome, Request, Store, Usage, Verified};
pub use tier::{Lease, Leased, Tier, TierError};
pub use trust::TrustError;

/// The Rust code of the guide is run with the examples of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/store.md")]
struct Guide;
