//! The container: one entry as one file. `docs/container.md` specifies it, golden files pin it.
//!
//! ```text
//!   0   8  magic: 89 4b 50 45 0d 0a 1a 0a
//!   8   4  format version, 1
//!  12   4  number of sections
//!  16  32  key
//!  48   8  length of the whole container
//!  56   8  length of the table
//!  64  32  digest over bytes 0..64 and the table, in the domain of containers
//!  96      table: kind (1), zero (1), length of name (2), length of content (8), BLAKE3 of content (32), name
//!          contents, back to back, in the order of the table
//! ```
//!
//! Numbers are little-endian. The digest covers the key and, through the table, every byte that
//! follows: no byte can change, and no container can be moved to another key, unnoticed.

use std::collections::HashSet;
use std::ops::Range;

use keyprint_key::Key;
use thiserror::Error;

/// The version of the container's format; the directory of entries is named after it.
pub const CONTAINER_VERSION: u32 = 1;

pub(crate) const MAGIC: [u8; 8] = *b"\x89KPE\r\n\x1a\n";
const DOMAIN: &str = "keyprint container format 1";
/// The length of the fixed part.
pub(crate) const HEAD: usize = 96;
const SIGNED: usize = 64;
const ROW: usize = 44;
/// A longer table is not ours.
const MOST_IN_TABLE: u64 = 64 << 20;

/// What a section is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// What the store itself notes, as JSON.
    Info = 1,
    /// The manifest of the key.
    Manifest = 2,
    /// What the consumer notes.
    Metadata = 3,
    /// A part of the artifact.
    Part = 4,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Info, Self::Manifest, Self::Metadata, Self::Part].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Why bytes are not the container that was asked for.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Damage {
    /// It does not begin like a container.
    #[error("not a container")]
    Foreign,
    /// A version that this program does not read.
    #[error("a container of version {CONTAINER_VERSION} was expected, found version {0}")]
    Version(u32),
    /// Shorter or longer than it says.
    #[error("{expected} bytes were expected, found {found}")]
    Length {
        /// What the container says.
        expected: u64,
        /// What is there.
        found: u64,
    },
    /// Head or table changed.
    #[error("head or table do not match their digest")]
    Head,
    /// A section changed.
    #[error("section {0} does not match its digest")]
    Section(usize),
    /// It belongs to another key.
    #[error("it belongs to the key {}", .0.short())]
    Moved(Key),
    /// The table says things that no writer of ours says.
    #[error("a table that no writer makes: {0}")]
    Table(&'static str),
    /// The manifest is not that of the key.
    #[error("the manifest does not belong to the key")]
    Manifest,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) range: Range<u64>,
    digest: [u8; 32],
}

/// Head and table, verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) key: Key,
    pub(crate) len: u64,
    pub(crate) rows: Vec<Row>,
}

/// Writes head and table for sections given as kind, name and content.
pub(crate) fn seal(key: &Key, sections: &[(Kind, &str, &[u8])]) -> Vec<u8> {
    let mut table = Vec::new();
    for (kind, name, content) in sections {
        table.push(*kind as u8);
        table.push(0);
        let name_len = u16::try_from(name.len()).expect("names of parts are checked to be short");
        table.extend_from_slice(&name_len.to_le_bytes());
        table.extend_from_slice(&(content.len() as u64).to_le_bytes());
        table.extend_from_slice(blake3::hash(content).as_bytes());
        table.extend_from_slice(name.as_bytes());
    }
    let contents: u64 = sections.iter().map(|(_, _, content)| content.len() as u64).sum();
    let mut head = Vec::with_capacity(HEAD + table.len());
    head.extend_from_slice(&MAGIC);
    head.extend_from_slice(&CONTAINER_VERSION.to_le_bytes());
    head.extend_from_slice(&u32::try_from(sections.len()).expect("parts are counted").to_le_bytes());
    head.extend_from_slice(key.as_bytes());
    head.extend_from_slice(&(HEAD as u64 + table.len() as u64 + contents).to_le_bytes());
    head.extend_from_slice(&(table.len() as u64).to_le_bytes());
    let digest = head_digest(&head, &table);
    head.extend_from_slice(&digest);
    head.extend_from_slice(&table);
    head
}

fn head_digest(signed: &[u8], table: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new_derive_key(DOMAIN).update(signed).update(table).finalize().as_bytes()
}

fn number(bytes: &[u8]) -> u64 {
    let mut value = [0; 8];
    value[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(value)
}

/// How long head and table are together, from the first [`HEAD`] bytes, and whether it is a container at all.
pub(crate) fn head_len(fixed: &[u8]) -> Result<usize, Damage> {
    if fixed.len() < HEAD {
        return match fixed.get(..8) {
            Some(magic) if magic == MAGIC => {
                Err(Damage::Length { expected: HEAD as u64, found: fixed.len() as u64 })
            }
            _ => Err(Damage::Foreign),
        };
    }
    if fixed[..8] != MAGIC {
        return Err(Damage::Foreign);
    }
    let version = number(&fixed[8..12]) as u32;
    if version != CONTAINER_VERSION {
        return Err(Damage::Version(version));
    }
    match number(&fixed[56..64]) {
        table if table <= MOST_IN_TABLE => Ok(HEAD + table as usize),
        _ => Err(Damage::Table("longer than any")),
    }
}

impl Head {
    /// Reads head and table; `bytes` may be longer, and `len` is the length of the whole.
    pub(crate) fn read(bytes: &[u8], len: u64) -> Result<Self, Damage> {
        let end = head_len(bytes)?;
        let expected = number(&bytes[48..56]);
        let Some(table) = bytes.get(HEAD..end) else {
            return Err(Damage::Length { expected: expected.max(end as u64), found: len });
        };
        if head_digest(&bytes[..SIGNED], table) != bytes[SIGNED..HEAD] {
            return Err(Damage::Head);
        }
        if expected != len {
            return Err(Damage::Length { expected, found: len });
        }
        let rows = read_table(table, number(&bytes[12..16]), end as u64, len)?;
        let key = Key::from_bytes(*bytes[16..48].first_chunk().expect("32 bytes"));
        Ok(Self { key, len, rows })
    }

    /// Whether a section is what the table says.
    pub(crate) fn check(&self, at: usize, content: &[u8]) -> Result<(), Damage> {
        if *blake3::hash(content).as_bytes() == self.rows[at].digest {
            Ok(())
        } else {
            Err(Damage::Section(at))
        }
    }

    /// Verifies every section of a whole container.
    pub(crate) fn check_all(&self, container: &[u8]) -> Result<(), Damage> {
        for (at, row) in self.rows.iter().enumerate() {
            self.check(at, &container[row.range.start as usize..row.range.end as usize])?;
        }
        Ok(())
    }

    /// Where the only section of a kind is.
    pub(crate) fn only(&self, kind: Kind) -> &Row {
        self.rows.iter().find(|row| row.kind == kind).expect("checked when the table was read")
    }
}

fn read_table(table: &[u8], count: u64, start: u64, len: u64) -> Result<Vec<Row>, Damage> {
    let mut rows: Vec<Row> = Vec::new();
    let mut rest = table;
    let mut at = start;
    for _ in 0..count {
        if rest.len() < ROW {
            return Err(Damage::Table("too few rows"));
        }
        let kind = Kind::from_byte(rest[0]).ok_or(Damage::Table("an unknown kind of section"))?;
        let name_len = number(&rest[2..4]) as usize;
        let content = number(&rest[4..12]);
        let digest = *rest[12..ROW].first_chunk().expect("32 bytes");
        let name = rest.get(ROW..ROW + name_len).ok_or(Damage::Table("a name that ends outside"))?;
        let name = std::str::from_utf8(name).map_err(|_| Damage::Table("a name that is not text"))?;
        let end =
            at.checked_add(content).filter(|end| *end <= len).ok_or(Damage::Table("too long a section"))?;
        rows.push(Row { kind, name: name.to_owned(), range: at..end, digest });
        at = end;
        rest = &rest[ROW + name_len..];
    }
    if !rest.is_empty() || at != len {
        return Err(Damage::Table("something is left over"));
    }
    for kind in [Kind::Info, Kind::Manifest, Kind::Metadata] {
        if rows.iter().filter(|row| row.kind == kind).count() != 1 {
            return Err(Damage::Table("not exactly one of each note"));
        }
    }
    let mut names = HashSet::new();
    if rows.iter().any(|row| row.kind == Kind::Part && !names.insert(&row.name)) {
        return Err(Damage::Table("two parts of one name"));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> (Key, Vec<u8>) {
        let key = Key::from_bytes([7; 32]);
        let sections: [(Kind, &str, &[u8]); 5] = [
            (Kind::Info, "", b"{}"),
            (Kind::Manifest, "", b"{\"manifest\":1}"),
            (Kind::Metadata, "", b""),
            (Kind::Part, "kernel.so", b"\x7fELF and so on"),
            (Kind::Part, "empty", b""),
        ];
        let mut bytes = seal(&key, &sections);
        for (_, _, content) in sections {
            bytes.extend_from_slice(content);
        }
        (key, bytes)
    }

    fn read(bytes: &[u8]) -> Result<Head, Damage> {
        let head = Head::read(bytes, bytes.len() as u64)?;
        head.check_all(bytes)?;
        Ok(head)
    }

    #[test]
    fn round_trips() {
        let (key, bytes) = sample();
        let head = read(&bytes).unwrap();
        assert_eq!(head.key, key);
        let parts: Vec<_> =
            head.rows.iter().filter(|row| row.kind == Kind::Part).map(|row| &*row.name).collect();
        assert_eq!(parts, ["kernel.so", "empty"]);
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let (_, bytes) = sample();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(read(&flipped).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn every_other_length_is_seen() {
        let (_, bytes) = sample();
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len]).is_err(), "{len}");
        }
        assert!(read(&[&bytes[..], b"x"].concat()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0usize..200) {
            let (_, good) = sample();
            prop_assert!(read(&bytes).is_err());
            // A good beginning with nonsense after it, under a digest that fits.
            bytes.splice(0..0, good[..at.min(good.len())].iter().copied());
            prop_assert!(bytes == good || read(&bytes).is_err());
        }

        #[test]
        fn tables_that_lie_are_refused(table in proptest::collection::vec(any::<u8>(), 0..200), count in 0u64..6) {
            let _ = read_table(&table, count, 96, 1000);
        }
    }
}
