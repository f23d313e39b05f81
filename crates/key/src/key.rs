//! [`Key`]: the root over named components.

use std::fmt;
use std::str::FromStr;

use keyprint_fingerprint::{Fingerprint, ParseFingerprintError, Stream, tag};

/// The version of the rule that makes keys. It is a component of every key.
pub const KEY_FORMAT_VERSION: u32 = 1;

/// Keeps keys apart from fingerprints: no value has a key as its fingerprint.
const DOMAIN: &str = "keyprint key format 1";

/// What an artifact is stored under. Opaque: the components are in its [`Manifest`](crate::Manifest).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Fingerprint);

impl Key {
    /// Wraps the bytes of a key made earlier.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Fingerprint::LEN]) -> Self {
        Self(Fingerprint::from_bytes(bytes))
    }

    /// The key's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Fingerprint::LEN] {
        self.0.as_bytes()
    }

    /// All 64 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.hex()
    }

    /// The first 12 hexadecimal digits: for people.
    #[must_use]
    pub fn short(&self) -> String {
        self.0.short()
    }

    /// The root over components: the fingerprint of the mapping from names to digests, in the domain of keys.
    pub(crate) fn root<'a>(components: impl ExactSizeIterator<Item = (&'a str, &'a Fingerprint)>) -> Self {
        let mut components: Vec<_> = components.collect();
        components.sort_unstable();
        let mut stream = Stream::new();
        let list = stream.open(tag::LIST, 2 * components.len());
        for (name, digest) in components {
            stream.str(name);
            stream.fingerprint(digest);
        }
        stream.close(list);
        Self::from_bytes(blake3::derive_key(DOMAIN, stream.finish().as_bytes()))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

impl FromStr for Key {
    type Err = ParseFingerprintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}
