//! [`Stream`]: the canonical encoding, byte by byte.
//!
//! A stream is a flat buffer of *items*. Leaves are appended whole; a composite is opened, its
//! children are appended, and closing it applies the inline rule: an item of more than
//! [`INLINE_LIMIT`](crate::tag::INLINE_LIMIT) bytes is replaced by its digest. The rule looks at
//! the value only, so whether a sub-value was shared never shows, and the buffer never holds more
//! than a small window of a large value.
//!
//! Most code wants [`Encode`](crate::Encode) instead; this is for walkers over foreign values.
//!
//! ```
//! use keyprint_fingerprint::{Stream, fingerprint, tag};
//!
//! let plain = vec![Some(7), None];
//!
//! let mut stream = Stream::new();
//! let list = stream.open(tag::LIST, 2);
//! stream.int(7);
//! stream.none();
//! stream.close(list);
//! assert_eq!(stream.finish(), fingerprint(&plain));
//! ```
//!
//! Invariants: every item is self-delimiting, so a concatenation of items can be split in one way
//! only; no item begins like another kind's.

use crate::digest::Fingerprint;
use crate::sort::Sorter;
use crate::tag::{self, Referent};

/// BLAKE3 of [`tag::DOMAIN`]; a test recomputes it.
pub(crate) const KEY: [u8; 32] = [
    0x33, 0x12, 0x94, 0xb7, 0xd8, 0xcf, 0xee, 0x72, 0x0a, 0xb1, 0xac, 0xbe, 0xa3, 0xec, 0x40, 0x01, 0x97,
    0x75, 0x29, 0x66, 0x6c, 0x31, 0x19, 0x4e, 0xe4, 0x4a, 0x55, 0xf5, 0x89, 0x41, 0xfc, 0xfb,
];

/// Digests the bytes of one whole item, given in pieces.
///
/// For items too large to copy: arrays, long byte strings.
pub struct ItemHasher(blake3::Hasher);

impl ItemHasher {
    /// Starts an item.
    #[must_use]
    pub fn new() -> Self {
        Self(blake3::Hasher::new_keyed(&KEY))
    }

    /// Appends bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of the item.
    #[must_use]
    pub fn finish(&self) -> Fingerprint {
        Fingerprint::from_bytes(*self.0.finalize().as_bytes())
    }
}

impl Default for ItemHasher {
    fn default() -> Self {
        Self::new()
    }
}

/// Digests one whole item.
#[must_use]
pub fn digest(item: &[u8]) -> Fingerprint {
    Fingerprint::from_bytes(*blake3::keyed_hash(&KEY, item).as_bytes())
}

/// A position in a [`Stream`]: where an open composite began.
pub type Mark = usize;

/// A writer of canonical items. See the [module documentation](self).
#[derive(Default)]
pub struct Stream {
    bytes: Vec<u8>,
    sorter: Sorter,
}

impl Stream {
    /// An empty stream.
    #[must_use]
    pub fn new() -> Self {
        Self { bytes: Vec::with_capacity(tag::INLINE_LIMIT), sorter: Sorter::default() }
    }

    /// Forgets everything written and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The items written so far, large ones as digests.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the next item will begin.
    #[must_use]
    #[inline]
    pub fn mark(&self) -> Mark {
        self.bytes.len()
    }

    /// The fingerprint of the one item in this stream.
    #[must_use]
    pub fn finish(&self) -> Fingerprint {
        self.digest_from(0)
    }

    /// The digest of the one item that begins at `mark`.
    #[must_use]
    pub fn digest_from(&self, mark: Mark) -> Fingerprint {
        match &self.bytes[mark..] {
            // A digest in place of a long item is that item's digest already.
            [tag::DIGEST, rest @ ..] => {
                Fingerprint::from_bytes(rest.try_into().expect("a digest item is 33 bytes long"))
            }
            item => digest(item),
        }
    }

    /// Appends an item in the form in which [`bytes`](Self::bytes) showed it before.
    #[inline]
    pub fn replay(&mut self, item: &[u8]) {
        self.bytes.extend_from_slice(item);
    }

    /// `None`.
    #[inline]
    pub fn none(&mut self) {
        self.bytes.push(tag::NONE);
    }

    /// A field, slot or cell that holds nothing.
    #[inline]
    pub fn absent(&mut self) {
        self.bytes.push(tag::ABSENT);
    }

    /// A truth value.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.bytes.push(if value { tag::TRUE } else { tag::FALSE });
    }

    /// An integer.
    #[inline]
    pub fn int(&mut self, value: i64) {
        let negative = value < 0;
        self.small_int(negative, (if negative { !value } else { value }) as u64);
    }

    /// An integer that is zero or more.
    #[inline]
    pub fn uint(&mut self, value: u64) {
        self.small_int(false, value);
    }

    #[inline]
    fn small_int(&mut self, negative: bool, magnitude: u64) {
        let length = (71 - magnitude.leading_zeros() as usize) / 8;
        let mut item = [0u8; 10];
        item[0] = if negative { tag::NEGATIVE } else { tag::NATURAL };
        item[1] = length as u8;
        item[2..].copy_from_slice(&magnitude.to_le_bytes());
        self.bytes.extend_from_slice(&item);
        self.bytes.truncate(self.bytes.len() - (8 - length));
    }

    /// An integer of any size: for `v >= 0` the little-endian bytes of `v`, for `v < 0` those of `-1 - v`.
    /// Zeros at the high end are dropped.
    pub fn big_int(&mut self, negative: bool, magnitude: &[u8]) {
        let length = magnitude.len() - magnitude.iter().rev().take_while(|byte| **byte == 0).count();
        self.blob(if negative { tag::NEGATIVE } else { tag::NATURAL }, &magnitude[..length]);
    }

    /// A float; every NaN is one value.
    #[inline]
    pub fn float(&mut self, value: f64) {
        let mut item = [tag::FLOAT; 9];
        item[1..].copy_from_slice(&canonical_bits(value).to_le_bytes());
        self.bytes.extend_from_slice(&item);
    }

    /// A complex number; every NaN part is one value.
    pub fn complex(&mut self, real: f64, imaginary: f64) {
        self.bytes.push(tag::COMPLEX);
        self.bytes.extend_from_slice(&canonical_bits(real).to_le_bytes());
        self.bytes.extend_from_slice(&canonical_bits(imaginary).to_le_bytes());
    }

    /// Text.
    #[inline]
    pub fn str(&mut self, text: &str) {
        self.blob(tag::STR, text.as_bytes());
    }

    /// Text that may hold lone surrogates, each as its three-byte generalised UTF-8 form.
    #[inline]
    pub fn wide_str(&mut self, utf8: &[u8]) {
        self.blob(tag::STR, utf8);
    }

    /// Bytes.
    #[inline]
    pub fn blob_bytes(&mut self, bytes: &[u8]) {
        self.blob(tag::BYTES, bytes);
    }

    #[inline]
    fn blob(&mut self, tag: u8, body: &[u8]) {
        if body.len() < 128 {
            self.bytes.reserve(body.len() + 2);
            self.bytes.extend_from_slice(&[tag, body.len() as u8]);
            self.bytes.extend_from_slice(body);
        } else {
            self.long_blob(tag, body);
        }
    }

    #[cold]
    fn long_blob(&mut self, tag: u8, body: &[u8]) {
        let mark = self.mark();
        self.bytes.push(tag);
        self.length(body.len());
        if self.mark() - mark + body.len() <= tag::INLINE_LIMIT {
            self.bytes.extend_from_slice(body);
            return;
        }
        let mut hasher = ItemHasher::new();
        hasher.update(&self.bytes[mark..]);
        hasher.update(body);
        self.replace(mark, hasher.finish());
    }

    /// A fingerprint as a value.
    pub fn fingerprint(&mut self, value: &Fingerprint) {
        self.bytes.push(tag::FINGERPRINT);
        self.bytes.extend_from_slice(value.as_bytes());
    }

    /// A reference to the open item `distance` levels up; 1 is the item that directly encloses this one.
    pub fn back(&mut self, distance: usize) {
        self.bytes.push(tag::BACK);
        self.length(distance);
    }

    /// Something known by its qualified name.
    pub fn reference(&mut self, referent: Referent, module: &str, qualname: &str) {
        let mark = self.mark();
        self.bytes.extend_from_slice(&[tag::REFERENCE, referent as u8]);
        self.name(module);
        self.name(qualname);
        self.close(mark);
    }

    /// A number of a fixed-width element type, little-endian.
    pub fn scalar(&mut self, element: &str, bytes: &[u8]) {
        let mark = self.mark();
        self.bytes.push(tag::SCALAR);
        self.name(element);
        self.length(bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.close(mark);
    }

    /// A token that means something in this process only.
    pub fn identity(&mut self, token: &[u8; 16]) {
        self.bytes.push(tag::IDENTITY);
        self.bytes.extend_from_slice(token);
    }

    /// Opens an item whose header the caller writes.
    pub fn begin(&mut self, tag: u8) -> Mark {
        let mark = self.mark();
        self.bytes.push(tag);
        mark
    }

    /// Opens a composite of `count` children (pairs, for a mapping).
    #[inline]
    pub fn open(&mut self, tag: u8, count: usize) -> Mark {
        let mark = self.mark();
        if count < 128 {
            self.bytes.extend_from_slice(&[tag, count as u8]);
        } else {
            self.bytes.push(tag);
            self.length(count);
        }
        mark
    }

    /// Opens a record whose values follow in the order of the shape's names.
    #[inline]
    pub fn open_record(&mut self, shape: &Fingerprint) -> Mark {
        let mark = self.mark();
        let mut header = [tag::RECORD; 33];
        header[1..].copy_from_slice(shape.as_bytes());
        self.bytes.extend_from_slice(&header);
        mark
    }

    /// Appends a length or count to the header of an open item.
    #[inline]
    pub fn length(&mut self, mut value: usize) {
        while value >= 128 {
            self.bytes.push(value as u8 | 128);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Appends a name to the header of an open item.
    pub fn name(&mut self, name: &str) {
        self.length(name.len());
        self.bytes.extend_from_slice(name.as_bytes());
    }

    /// Closes a composite whose children stand in order.
    #[inline]
    pub fn close(&mut self, mark: Mark) {
        if self.mark() - mark > tag::INLINE_LIMIT {
            let item = digest(&self.bytes[mark..]);
            self.replace(mark, item);
        }
    }

    /// Closes a composite whose children do not count in order: sorts them first.
    /// `children` are the positions where each child (or pair) begins.
    pub fn close_unordered(&mut self, mark: Mark, children: &[Mark]) {
        if let [first, _, ..] = *children {
            self.sorter.sort(&mut self.bytes, first, children);
        }
        self.close(mark);
    }

    /// Moves what was written since `mark` into a hasher, for an item that will be digested anyway.
    pub fn spill(&mut self, mark: Mark, hasher: &mut ItemHasher) {
        hasher.update(&self.bytes[mark..]);
        self.bytes.truncate(mark);
    }

    /// Puts the digest of an item in the place of what was written since `mark`.
    pub fn replace(&mut self, mark: Mark, item: Fingerprint) {
        self.bytes.truncate(mark);
        self.bytes.push(tag::DIGEST);
        self.bytes.extend_from_slice(item.as_bytes());
    }
}

/// Kind, class and names of a record: what its values mean.
///
/// A shape is the same for every value of a class, so it is digested once and enters each record
/// as 32 bytes.
#[must_use]
pub fn shape(kind: &str, module: &str, qualname: &str, names: &[&str]) -> Fingerprint {
    let mut stream = Stream::new();
    stream.bytes.push(tag::SHAPE);
    stream.name(kind);
    stream.name(module);
    stream.name(qualname);
    stream.length(names.len());
    for name in names {
        stream.name(name);
    }
    digest(&stream.bytes)
}

fn canonical_bits(value: f64) -> u64 {
    if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Stream)) -> Vec<u8> {
        let mut stream = Stream::new();
        write(&mut stream);
        stream.bytes().to_vec()
    }

    #[test]
    fn the_key_names_domain_and_version() {
        assert_eq!(KEY, *blake3::hash(tag::DOMAIN.as_bytes()).as_bytes());
        assert!(tag::DOMAIN.ends_with(&format!(" {}", tag::ENCODING_VERSION)));
    }

    #[test]
    fn integers_are_minimal() {
        assert_eq!(written(|s| s.int(0)), [tag::NATURAL, 0]);
        assert_eq!(written(|s| s.int(-1)), [tag::NEGATIVE, 0]);
        assert_eq!(written(|s| s.int(255)), [tag::NATURAL, 1, 255]);
        assert_eq!(written(|s| s.int(-256)), [tag::NEGATIVE, 1, 255]);
        assert_eq!(written(|s| s.int(256)), [tag::NATURAL, 2, 0, 1]);
        for value in [i64::MIN, -257, -1, 0, 1, 65_535, i64::MAX] {
            let magnitude = if value < 0 { !value } else { value } as u64;
            assert_eq!(
                written(|s| s.int(value)),
                written(|s| s.big_int(value < 0, &u128::from(magnitude).to_le_bytes())),
            );
        }
    }

    #[test]
    fn nans_are_one_and_zeros_are_two() {
        assert_eq!(written(|s| s.float(f64::NAN)), written(|s| s.float(-f64::NAN)));
        assert_ne!(written(|s| s.float(0.0)), written(|s| s.float(-0.0)));
    }

    #[test]
    fn the_inline_edge_is_sharp() {
        // Tag and two length bytes leave 4,093 for the text.
        assert_eq!(written(|s| s.str(&"x".repeat(4093))).len(), 4096);
        assert_eq!(written(|s| s.str(&"x".repeat(4094))).len(), 33);
    }

    #[test]
    fn a_streamed_leaf_is_digested_like_a_copied_one() {
        let text = "y".repeat(5000);
        let mut whole = vec![tag::STR, 0x88, 0x27];
        whole.extend_from_slice(text.as_bytes());
        let mut stream = Stream::new();
        stream.str(&text);
        assert_eq!(stream.finish(), digest(&whole));
    }

    #[test]
    fn order_is_dropped_only_where_told() {
        let list = |flip: bool, ordered: bool| {
            written(|s| {
                let mark = s.open(tag::SET, 2);
                let mut children = vec![s.mark()];
                s.int(if flip { 2 } else { 1 });
                children.push(s.mark());
                s.int(if flip { 1 } else { 2 });
                if ordered { s.close(mark) } else { s.close_unordered(mark, &children) }
            })
        };
        assert_eq!(list(false, false), list(true, false));
        assert_ne!(list(false, true), list(true, true));
    }
}
