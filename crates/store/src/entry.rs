//! [`Artifact`], what a build makes, and [`Entry`], what the store hands out.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use keyprint_key::{Key, Manifest, ManifestError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::container::{self, Damage, Head, Kind};

/// An artifact has no more parts than this.
pub const MOST_PARTS: usize = 65_536;

/// What a build makes: named parts, and notes for whoever will use them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Artifact {
    parts: Vec<(String, Bytes)>,
    metadata: Bytes,
}

/// Why a part cannot be added.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PartError {
    /// A name that cannot become a file, here or on another platform.
    #[error("`{name}` is no name for a part: {why}\nhint: use a relative path such as `lib/kernel.so`")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A second part of one name.
    #[error("an artifact has one part of each name, found a second `{0}`")]
    Duplicate(String),
    /// Too many.
    #[error("an artifact has at most {MOST_PARTS} parts")]
    TooMany,
}

impl Artifact {
    /// An artifact without parts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An artifact of one part, named `data`.
    #[must_use]
    pub fn single(bytes: impl Into<Bytes>) -> Self {
        Self { parts: vec![("data".to_owned(), bytes.into())], metadata: Bytes::new() }
    }

    /// Adds a part. Bytes that have an owner are not copied.
    ///
    /// # Errors
    ///
    /// If the name is taken or is not a plain relative path.
    pub fn add(&mut self, name: &str, bytes: impl Into<Bytes>) -> Result<(), PartError> {
        check_part_name(name)?;
        if self.parts.len() == MOST_PARTS {
            return Err(PartError::TooMany);
        }
        if self.parts.iter().any(|(known, _)| known == name) {
            return Err(PartError::Duplicate(name.to_owned()));
        }
        let within =
            |outer: &str, inner: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
        if self.parts.iter().any(|(known, _)| within(known, name) || within(name, known)) {
            return Err(PartError::Name {
                name: name.to_owned(),
                why: "another part would be a file and a directory",
            });
        }
        self.parts.push((name.to_owned(), bytes.into()));
        Ok(())
    }

    /// Sets the notes. They come back exactly so, empty ones too.
    #[must_use]
    pub fn with_metadata(mut self, metadata: impl Into<Bytes>) -> Self {
        self.metadata = metadata.into();
        self
    }
}

/// Whether a part of this name can become a file below a directory, on any platform.
pub(crate) fn check_part_name(name: &str) -> Result<(), PartError> {
    let refuse = |why| Err(PartError::Name { name: name.escape_debug().to_string(), why });
    if name.is_empty() || name.len() > 1024 {
        return refuse("it has 1 to 1024 bytes");
    }
    if name.chars().any(|c| c.is_control() || matches!(c, '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|')) {
        return refuse("it has a character that file names cannot have everywhere");
    }
    for component in name.split('/') {
        match component {
            "" => return refuse("it begins or ends with `/`, or has two in a row"),
            "." | ".." => return refuse("it leads out of its directory"),
            long if long.len() > 200 => return refuse("a component of it has more than 200 bytes"),
            _ => {}
        }
    }
    Ok(())
}

/// What the store notes about an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// When it was built, in milliseconds since 1970.
    pub created_ms: u64,
    /// How long the build took, in nanoseconds.
    pub build_ns: u64,
    /// Which program wrote it.
    pub writer: String,
}

impl Info {
    pub(crate) fn new(created: SystemTime, build: Duration) -> Self {
        Self {
            created_ms: millis(created),
            build_ns: u64::try_from(build.as_nanos()).unwrap_or(u64::MAX),
            writer: concat!("keyprint ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// Milliseconds since 1970; a clock before that counts as then.
pub(crate) fn millis(when: SystemTime) -> u64 {
    when.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Whether a name is one that Keyprint uses for what it keeps for itself: it begins with a dot, as hidden files do.
#[must_use]
pub fn is_internal(name: &str) -> bool {
    name.starts_with('.')
}

/// Where an entry came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Built by this process, just now or earlier.
    Built,
    /// Read from the local disk.
    Disk,
    /// Read from another tier.
    Tier,
}

/// A verified entry: manifest and artifact under a key. Shared behind an [`Arc`](std::sync::Arc).
///
/// Its bytes were read once; parts are views of them.
#[derive(Debug)]
pub struct Entry {
    key: Key,
    info: Info,
    manifest: Bytes,
    metadata: Bytes,
    parts: Vec<(String, Bytes)>,
    origin: Origin,
    /// When its use was last noted, in milliseconds since 1970.
    noted_ms: AtomicU64,
    /// Whether only this user (or root) could have written the file it was read from.
    pub(crate) private: bool,
}

impl Entry {
    pub(crate) fn built(manifest: &Manifest, artifact: Artifact, info: Info) -> Self {
        Self {
            key: manifest.key(),
            manifest: manifest.to_bytes().into(),
            metadata: artifact.metadata,
            parts: artifact.parts,
            noted_ms: AtomicU64::new(info.created_ms),
            info,
            origin: Origin::Built,
            private: true,
        }
    }

    /// Verifies a whole container, and that it is the one of `key`.
    pub(crate) fn from_container(
        key: &Key,
        container: impl Into<Bytes>,
        origin: Origin,
    ) -> Result<Self, Damage> {
        let container = container.into();
        let head = Head::read(&container, container.len() as u64)?;
        if head.key != *key {
            return Err(Damage::Moved(head.key));
        }
        head.check_all(&container)?;
        let slice = |range: &Range<u64>| container.slice(range.start as usize..range.end as usize);
        let info: Info = serde_json::from_slice(&slice(&head.only(Kind::Info).range))
            .map_err(|_| Damage::Table("the store's own notes are unreadable"))?;
        let parts = head.rows.iter().filter(|row| row.kind == Kind::Part);
        let parts = parts.map(|row| (row.name.clone(), slice(&row.range))).collect();
        Ok(Self {
            key: head.key,
            noted_ms: AtomicU64::new(info.created_ms),
            info,
            manifest: slice(&head.only(Kind::Manifest).range),
            metadata: slice(&head.only(Kind::Metadata).range),
            parts,
            origin,
            private: origin == Origin::Built,
        })
    }

    /// Head and table, and the contents that follow them.
    pub(crate) fn seal(&self) -> (Vec<u8>, Vec<&[u8]>) {
        let info = serde_json::to_vec(&self.info).expect("text and numbers can be written as JSON");
        let mut kept: Vec<(Kind, &str, &[u8])> =
            vec![(Kind::Manifest, "", &self.manifest), (Kind::Metadata, "", &self.metadata)];
        kept.extend(self.parts.iter().map(|(name, bytes)| (Kind::Part, &**name, &**bytes)));
        let mut sections: Vec<(Kind, &str, &[u8])> = vec![(Kind::Info, "", &info)];
        sections.extend_from_slice(&kept);
        let mut head = container::seal(&self.key, &sections);
        // The store's own notes are small and stand next to the head.
        head.extend_from_slice(&info);
        (head, kept.into_iter().map(|(_, _, content)| content).collect())
    }

    /// The whole container.
    #[must_use]
    pub fn to_container(&self) -> Vec<u8> {
        let (mut container, contents) = self.seal();
        for content in contents {
            container.extend_from_slice(content);
        }
        container
    }

    /// What it is stored under.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// What the store notes about it.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// What went into its key.
    ///
    /// # Errors
    ///
    /// If it was written by a version whose manifests this one cannot read.
    pub fn manifest(&self) -> Result<Manifest, ManifestError> {
        Manifest::from_bytes(&self.manifest)
    }

    /// What the builder noted.
    #[must_use]
    pub fn metadata(&self) -> &[u8] {
        &self.metadata
    }

    /// The names of the parts.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|(name, _)| &**name)
    }

    /// A part by name.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<&[u8]> {
        self.parts.iter().find(|(known, _)| known == name).map(|(_, bytes)| &**bytes)
    }

    /// A part by name, as bytes that outlive the entry; nothing is copied.
    #[must_use]
    pub fn shared_part(&self, name: &str) -> Option<Bytes> {
        self.parts.iter().find(|(known, _)| known == name).map(|(_, bytes)| bytes.clone())
    }

    /// What it is called; nothing, if its manifest cannot be read.
    #[must_use]
    pub fn name(&self) -> String {
        self.manifest().map_or_else(|_| String::new(), |manifest| manifest.name().to_owned())
    }

    /// Whether its use is to be noted again, `every` milliseconds after the last time.
    pub(crate) fn note_use(&self, now_ms: u64, every: u64) -> bool {
        let noted = self.noted_ms.load(Ordering::Relaxed);
        let is_due = now_ms.abs_diff(noted) >= every;
        if is_due {
            self.noted_ms.store(now_ms, Ordering::Relaxed);
        }
        is_due
    }

    /// All parts.
    pub fn parts(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.parts.iter().map(|(name, bytes)| (&**name, &**bytes))
    }

    /// Where it came from.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The bytes of all parts and notes together.
    #[must_use]
    pub fn len(&self) -> u64 {
        let parts: usize = self.parts.iter().map(|(name, bytes)| name.len() + bytes.len()).sum();
        (parts + self.manifest.len() + self.metadata.len()) as u64
    }

    /// Whether it has no parts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in
            ["", "/abs", "a/../b", "..", "a//b", "a/", "c:\\x", "nul\0", "a\nb", "x?", &"n".repeat(201)]
        {
            assert!(matches!(check_part_name(name), Err(PartError::Name { .. })), "{name:?}");
        }
        for name in ["data", "lib/kernel.so", "ünïcode", ".hidden", "a b"] {
            assert_eq!(check_part_name(name), Ok(()), "{name:?}");
        }
    }

    #[test]
    fn parts_have_one_name_each() {
        let mut artifact = Artifact::new();
        artifact.add("a", vec![1]).unwrap();
        assert_eq!(artifact.add("a", vec![2]), Err(PartError::Duplicate("a".into())));
        assert!(matches!(artifact.add("a/b", vec![2]), Err(PartError::Name { .. })));
        artifact.add("ab/c", Vec::new()).unwrap();
        assert!(matches!(artifact.add("ab", vec![2]), Err(PartError::Name { .. })));
    }
}
