//! Keys: everything an artifact depends on, as one digest over named components.
//!
//! A [`KeyBuilder`] takes components, each a name and the fingerprint of a value, and yields a
//! [`Key`]. The [`Manifest`] says what went in: it is stored with the artifact, and comparing two of
//! them ([`Manifest::compare`]) tells in words why one key is not the other.
//!
//! ```
//! use keyprint_fingerprint::fingerprint;
//! use keyprint_key::{Component, KeyBuilder, Tool};
//!
//! let key = |tile: u32| {
//!     let mut key = KeyBuilder::new("lower", Tool::new("mylang", "1.2"), None);
//!     key.add(Component::new("source", fingerprint("def f(): ...")).summary("def f(): ..."))?;
//!     key.add(Component::new("tile", fingerprint(&tile)).summary(tile.to_string()))?;
//!     Ok::<_, keyprint_key::KeyError>(key.finish())
//! };
//! let (small, large) = (key(64).unwrap(), key(128).unwrap());
//! assert_ne!(small.key(), large.key());
//! assert_eq!(small.compare(&large).to_string(), "`tile`: 64 -> 128\n");
//! ```
//!
//! # Map
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`Key`] | the root, and the rule that makes it |
//! | [`Component`] | a name, a digest, and what a person may see of the value |
//! | [`Manifest`] | the components of one key, readable and bounded |
//! | [`Comparison`] | what changed between two manifests |
//! | [`summary`] | how values are shortened for people |
//!
//! # Invariants
//!
//! - A key depends on names and digests only: never on summaries, and never on the order of
//!   components.
//! - Every key holds the format of keys, the tool that asks, the salt and a name.
//! - A manifest is bounded, whatever the values are; a secret leaves nothing but its digest in it.

#![forbid(unsafe_code)]

mod builder;
mod compare;
mod component;
mod key;
mod manifest;
pub mod summary;

pub use builder::{KeyBuilder, KeyError, Tool};
pub use compare::{Change, Comparison};
pub use component::{Component, MOST_PARTS, Part};
pub use key::{KEY_FORMAT_VERSION, Key};
pub use manifest::{Manifest, ManifestError};
