//! [`Component`]: one named thing that a key depends on.

use keyprint_fingerprint::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::summary;

/// At most this many parts of a component are kept.
pub const MOST_PARTS: usize = 64;

/// A name, the fingerprint of a value, and what people may see of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component {
    pub(crate) name: String,
    #[serde(with = "hex")]
    pub(crate) digest: Fingerprint,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) secret: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cut: bool,
}

/// Something inside a component's value: it does not count itself, and serves to say what changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Where it is: `.tiles['x']`.
    pub path: String,
    /// Its fingerprint.
    #[serde(with = "hex")]
    pub digest: Fingerprint,
    /// A short text for it.
    pub summary: String,
}

impl Component {
    /// A component whose value is not shown.
    #[must_use]
    pub fn new(name: impl Into<String>, digest: Fingerprint) -> Self {
        Self { name: name.into(), digest, summary: None, secret: false, parts: Vec::new(), cut: false }
    }

    /// A component of which nothing but the digest is ever kept.
    ///
    /// Whoever reads the manifest can still guess a value and compare digests: a password of four
    /// digits does not stay secret that way.
    #[must_use]
    pub fn secret(name: impl Into<String>, digest: Fingerprint) -> Self {
        Self { secret: true, ..Self::new(name, digest) }
    }

    /// Adds a text for people, shortened to [`summary::MOST_CHARACTERS`].
    #[must_use]
    pub fn summary(mut self, text: impl AsRef<str>) -> Self {
        if !self.secret {
            self.summary = Some(summary::shorten(text.as_ref(), summary::MOST_CHARACTERS));
        }
        self
    }

    /// Adds parts of the value, the first [`MOST_PARTS`] of them.
    #[must_use]
    pub fn parts(mut self, parts: impl IntoIterator<Item = Part>) -> Self {
        if !self.secret {
            let shorten = |part: Part| Part {
                path: summary::shorten(&part.path, summary::MOST_CHARACTERS),
                summary: summary::shorten(&part.summary, summary::MOST_IN_PART),
                ..part
            };
            let mut parts = parts.into_iter().map(shorten);
            self.parts.extend(parts.by_ref().take(MOST_PARTS));
            self.cut |= parts.next().is_some();
        }
        self
    }

    /// Says that not all parts are known: one that is missing need not be gone.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.cut = true;
        self
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fingerprint of its value.
    #[must_use]
    pub fn digest(&self) -> &Fingerprint {
        &self.digest
    }

    /// The text for people, if there is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.summary.as_deref()
    }

    /// Whether nothing but the digest may be shown.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.secret
    }

    /// What is known of the inside of its value.
    #[must_use]
    pub fn known_parts(&self) -> &[Part] {
        &self.parts
    }

    /// What stands for the value where it is shown.
    #[must_use]
    pub fn shown(&self) -> String {
        match &self.summary {
            Some(summary) => summary.clone(),
            None if self.secret => "(not shown)".to_owned(),
            None => self.digest.short(),
        }
    }
}

/// Fingerprints as hexadecimal text.
pub(crate) mod hex {
    use keyprint_fingerprint::Fingerprint;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(digest: &Fingerprint, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(digest)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Fingerprint, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}
