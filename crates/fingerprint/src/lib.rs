//! Structural fingerprints: the identity of a value as a 256-bit digest of its canonical encoding.
//!
//! Derive [`Encode`] with `#[derive(Fingerprint)]` and call [`fingerprint`]:
//!
//! ```
//! use std::collections::HashMap;
//! use keyprint_fingerprint::{Fingerprint, fingerprint};
//!
//! #[derive(Fingerprint)]
//! struct Stencil {
//!     name: String,
//!     tiles: HashMap<String, u32>,
//!     #[fingerprint(skip)]
//!     last_run_ms: f64,
//! }
//!
//! let stencil = |ms| Stencil {
//!     name: "lap".into(),
//!     tiles: [("x".into(), 64), ("y".into(), 8)].into(),
//!     last_run_ms: ms,
//! };
//! assert_eq!(fingerprint(&stencil(1.0)), fingerprint(&stencil(2.0)));
//! ```
//!
//! # Map
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`tag`] | the alphabet of the encoding and its version |
//! | [`stream`] | the encoding itself: leaves, composites, the inline rule |
//! | [`encode`] | [`Encode`], the trait, and its implementations for the standard types |
//! | [`memo`] | results of shared and cyclic values: what may be reused where |
//! | [`trace`] | a value as a labelled tree, to show it and to find where two part |
//! | [`mod@fold`] | a bottom-up fold over any tree-like input, without recursion |
//!
//! # Invariants
//!
//! - A fingerprint depends on value only: no address, hash seed, insertion order of maps, clock or path.
//! - The encoding is injective up to collisions of BLAKE3: framed, typed, versioned. `docs/encoding.md`
//!   describes it, `tests/vectors` pins it.
//! - The native stack is bounded whatever the depth of a value.
//! - No I/O, no unsafe code, nothing about Python.

#![forbid(unsafe_code)]

// The derive macro writes `::keyprint_fingerprint::…`, also inside this crate's own tests.
extern crate self as keyprint_fingerprint;

mod digest;
pub mod encode;
pub mod fold;
pub mod memo;
mod sort;
pub mod stream;
pub mod tag;
pub mod trace;

pub use digest::{Fingerprint, ParseFingerprintError};
pub use encode::{Bytes, Children, Encode, Entries, Shape, Slot, Written, fingerprint};
pub use fold::{Folder, fold};
/// Derives [`Encode`] for structs and enums.
///
/// A struct becomes a record of its fields under its module path and name, an enum variant a record
/// of the variant's fields.
///
/// | attribute | where | effect |
/// | --- | --- | --- |
/// | `#[fingerprint(skip)]` | field | the field does not count |
/// | `#[fingerprint(rename = "name")]` | field, variant | counts under another name |
/// | `#[fingerprint(rename = "package.module:Class")]` | type | counts as that class, so that it equals a Python dataclass of that name |
/// | `#[fingerprint(with = path)]` | field | encoded by `fn(&T, Slot<'_, '_>) -> Written` instead of by [`Encode`] |
pub use keyprint_fingerprint_derive::Fingerprint;
pub use stream::{ItemHasher, Mark, Stream, digest, shape};
pub use tag::ENCODING_VERSION;
