//! [`Manifest`]: what went into a key, readable by people and by later versions.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::compare::Comparison;
use crate::component::Component;
use crate::key::Key;

/// The version of the manifest's own format.
const MANIFEST_VERSION: u32 = 1;

/// A manifest is no longer than this, in bytes of JSON.
const MOST_BYTES: usize = 16 << 20;

/// The components of one key. Written as JSON, so that it can be read without Keyprint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    manifest: u32,
    name: String,
    components: Vec<Component>,
}

/// Why bytes are not a manifest.
#[derive(Debug, Error)]
pub enum ManifestError {
    /// Of another version.
    #[error("a manifest of version {MANIFEST_VERSION} was expected, found version {0}")]
    Version(u32),
    /// Longer than any manifest.
    #[error("a manifest has at most {MOST_BYTES} bytes, found {0}")]
    Length(usize),
    /// Not the JSON of a manifest.
    #[error("not a manifest")]
    Json(#[from] serde_json::Error),
}

impl Manifest {
    pub(crate) fn new(name: String, components: Vec<Component>) -> Self {
        Self { manifest: MANIFEST_VERSION, name, components }
    }

    /// What people know it as: the name of a step or a kernel.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The components, in the order in which they were added.
    #[must_use]
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// The key, computed from the components.
    #[must_use]
    pub fn key(&self) -> Key {
        Key::root(self.components.iter().map(|component| (component.name(), component.digest())))
    }

    /// What changed from this manifest to another.
    #[must_use]
    pub fn compare(&self, later: &Self) -> Comparison {
        Comparison::between(self, later)
    }

    /// As JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("text and numbers can be written as JSON")
    }

    /// From JSON.
    ///
    /// # Errors
    ///
    /// If the bytes are not a manifest, or one of another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ManifestError> {
        #[derive(Deserialize)]
        struct Version {
            manifest: u32,
        }
        if bytes.len() > MOST_BYTES {
            return Err(ManifestError::Length(bytes.len()));
        }
        let version: Version = serde_json::from_slice(bytes)?;
        if version.manifest != MANIFEST_VERSION {
            return Err(ManifestError::Version(version.manifest));
        }
        Ok(serde_json::from_slice(bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyBuilder, Part, Tool};
    use keyprint_fingerprint::fingerprint;

    fn sample() -> Manifest {
        let mut key = KeyBuilder::new("lower", Tool::new("t", "1"), Some("salt"));
        let part = Part { path: ".x".into(), digest: fingerprint("1"), summary: "1".into() };
        key.add(Component::new("input", fingerprint("in")).summary("{…}").parts([part])).unwrap();
        key.add(Component::secret("env TOKEN", fingerprint("hunter2")).summary("hunter2")).unwrap();
        key.finish()
    }

    #[test]
    fn round_trips_and_binds_its_key() {
        let manifest = sample();
        let read = Manifest::from_bytes(&manifest.to_bytes()).unwrap();
        assert_eq!(read, manifest);
        assert_eq!(read.key(), manifest.key());
    }

    #[test]
    fn a_secret_leaves_its_digest_alone() {
        let text = String::from_utf8(sample().to_bytes()).unwrap();
        assert!(text.contains("env TOKEN") && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn is_bounded_whatever_the_values_are() {
        let mut key = KeyBuilder::new("n".repeat(10_000), Tool::keyprint(), None);
        let part = |i: usize| Part {
            path: "p".repeat(10_000),
            digest: fingerprint(&i),
            summary: "s".repeat(10_000),
        };
        key.add(
            Component::new("c", fingerprint("v")).summary("v".repeat(1 << 20)).parts((0..1000).map(part)),
        )
        .unwrap();
        assert!(key.finish().to_bytes().len() < 64 << 10);
    }

    #[test]
    fn bad_bytes_are_refused() {
        assert!(matches!(Manifest::from_bytes(b""), Err(ManifestError::Json(_))));
        assert!(matches!(Manifest::from_bytes(b"{\"manifest\":2}"), Err(ManifestError::Version(2))));
        assert!(matches!(Manifest::from_bytes(b"{\"manifest\":1}"), Err(ManifestError::Json(_))));
    }
}
