//! The bytes that open every item of the canonical encoding.
//!
//! `docs/encoding.md` describes each; the golden vectors pin them. A change here is a change of
//! the encoding and needs a new [`ENCODING_VERSION`].

/// The version of the canonical encoding. It enters every digest through the hash key.
pub const ENCODING_VERSION: u32 = 2;

/// The text whose BLAKE3 hash is the key of every digest: domain and version in one.
pub const DOMAIN: &str = "keyprint fingerprint encoding 2";

/// An item of at most this many bytes stands in its parent's stream; a longer one is replaced by its digest.
pub const INLINE_LIMIT: usize = 4096;

/// Stands for an item longer than [`INLINE_LIMIT`]: its 32-byte digest follows.
pub const DIGEST: u8 = 0x00;
/// Nothing: `None`, `()` is a tuple.
pub const NONE: u8 = 0x01;
/// `False`.
pub const FALSE: u8 = 0x02;
/// `True`.
pub const TRUE: u8 = 0x03;
/// An integer that is zero or more: its magnitude.
pub const NATURAL: u8 = 0x04;
/// A negative integer `v`: the magnitude of `-1 - v`.
pub const NEGATIVE: u8 = 0x05;
/// A 64-bit float.
pub const FLOAT: u8 = 0x06;
/// Two 64-bit floats.
pub const COMPLEX: u8 = 0x07;
/// Text.
pub const STR: u8 = 0x08;
/// Bytes.
pub const BYTES: u8 = 0x09;
/// A declared field, slot or closure cell that holds nothing.
pub const ABSENT: u8 = 0x0a;
/// A fingerprint as a value.
pub const FINGERPRINT: u8 = 0x0b;
/// A reference to an enclosing item, counted in items.
pub const BACK: u8 = 0x0c;
/// A named thing: class, function, module or object.
pub const REFERENCE: u8 = 0x0d;
/// A fixed-width number of a named element type.
pub const SCALAR: u8 = 0x0e;
/// A process-unique token: not durable.
pub const IDENTITY: u8 = 0x0f;
/// An ordered, growable sequence.
pub const LIST: u8 = 0x10;
/// An ordered, fixed sequence.
pub const TUPLE: u8 = 0x11;
/// A set.
pub const SET: u8 = 0x12;
/// An immutable set.
pub const FROZENSET: u8 = 0x13;
/// A mapping whose order does not count.
pub const DICT: u8 = 0x14;
/// A mapping whose order counts.
pub const ITEMS: u8 = 0x15;
/// Parts whose order does not count but whose number does.
pub const MULTISET: u8 = 0x16;
/// Values under a shape that is given by digest.
pub const RECORD: u8 = 0x20;
/// Values of a class that has no importable name: the class itself is the first item.
pub const LOCAL_RECORD: u8 = 0x21;
/// An array by content.
pub const ARRAY: u8 = 0x22;
/// An array of arbitrary values.
pub const OBJECT_ARRAY: u8 = 0x23;
/// An array by specification.
pub const ARRAY_SPEC: u8 = 0x24;
/// What [`RECORD`] refers to: kind, class and names. Never an item itself.
pub const SHAPE: u8 = 0x30;

/// What a [`REFERENCE`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Referent {
    /// A type.
    Class = 1,
    /// A function, Python or native.
    Function = 2,
    /// A module.
    Module = 3,
    /// Any other module attribute.
    Object = 4,
}
