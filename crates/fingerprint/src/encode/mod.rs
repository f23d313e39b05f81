//! [`Encode`]: what a Rust value contributes to a fingerprint.
//!
//! A value writes exactly one item into the [`Slot`] it is handed; the type system sees to it,
//! because only writing yields the [`Written`] that `encode` must return. Composites hand slots to
//! their children.
//!
//! ```
//! use keyprint_fingerprint::{Encode, Slot, Written, fingerprint};
//!
//! struct Celsius(f64);
//!
//! impl Encode for Celsius {
//!     const LEAF: bool = true;
//!     fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
//!         slot.float(self.0 + 273.15)
//!     }
//! }
//!
//! assert_eq!(fingerprint(&Celsius(0.0)), fingerprint(&273.15));
//! ```
//!
//! Values nested more than a fixed number of levels deep are encoded from a work list instead of by
//! recursion, so the native stack stays bounded.

mod standard;

use std::sync::OnceLock;

use crate::digest::Fingerprint;
use crate::stream::{self, Mark, Stream};
use crate::tag::{self, Referent};

/// Levels that are encoded by plain recursion, which is faster, before the work list takes over.
const RECURSION_LIMIT: usize = 96;

/// A value with a canonical encoding. Derive it with `#[derive(Fingerprint)]`.
pub trait Encode {
    /// Whether `encode` writes a single leaf, never a composite. It only saves time to say so.
    const LEAF: bool = false;

    /// Writes this value as one item.
    fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written;
}

/// The fingerprint of a value.
#[must_use]
pub fn fingerprint<T: Encode + ?Sized>(value: &T) -> Fingerprint {
    let mut engine = Engine::default();
    let _ = value.encode(Slot { engine: &mut engine });
    engine.stream.finish()
}

/// Proof that one item was written; only the methods of [`Slot`] make it.
#[must_use]
pub struct Written(());

/// The place of one item.
pub struct Slot<'e, 'a> {
    engine: &'e mut Engine<'a>,
}

/// The places of the children of an ordered composite.
pub struct Children<'e, 'a> {
    engine: &'e mut Engine<'a>,
    left: usize,
}

/// The places of the children of an unordered composite.
pub struct Entries<'e, 'a> {
    engine: &'e mut Engine<'a>,
    left: usize,
}

/// Kind, class and names of a record, digested once.
pub struct Shape {
    kind: &'static str,
    module: &'static str,
    qualname: &'static str,
    names: &'static [&'static str],
    digest: OnceLock<Fingerprint>,
}

impl Shape {
    /// A record of declared fields, such as a Python dataclass.
    #[must_use]
    pub const fn fields(
        module: &'static str,
        qualname: &'static str,
        names: &'static [&'static str],
    ) -> Self {
        Self::of_kind("fields", module, qualname, names)
    }

    /// A record of another kind.
    #[must_use]
    pub const fn of_kind(
        kind: &'static str,
        module: &'static str,
        qualname: &'static str,
        names: &'static [&'static str],
    ) -> Self {
        Self { kind, module, qualname, names, digest: OnceLock::new() }
    }

    fn digest(&self) -> &Fingerprint {
        self.digest.get_or_init(|| stream::shape(self.kind, self.module, self.qualname, self.names))
    }
}

impl<'e, 'a> Slot<'e, 'a> {
    fn leaf(self, write: impl FnOnce(&mut Stream)) -> Written {
        write(&mut self.engine.stream);
        Written(())
    }

    /// Nothing.
    pub fn none(self) -> Written {
        self.leaf(Stream::none)
    }

    /// A truth value.
    pub fn bool(self, value: bool) -> Written {
        self.leaf(|stream| stream.bool(value))
    }

    /// An integer.
    pub fn int(self, value: i64) -> Written {
        self.leaf(|stream| stream.int(value))
    }

    /// An integer of up to 128 bits.
    pub fn wide_int(self, value: i128) -> Written {
        let magnitude = if value < 0 { !value } else { value };
        self.leaf(|stream| stream.big_int(value < 0, &magnitude.to_le_bytes()))
    }

    /// An integer of up to 128 bits that is zero or more.
    pub fn wide_uint(self, value: u128) -> Written {
        self.leaf(|stream| stream.big_int(false, &value.to_le_bytes()))
    }

    /// A 64-bit float.
    pub fn float(self, value: f64) -> Written {
        self.leaf(|stream| stream.float(value))
    }

    /// Text.
    pub fn str(self, text: &str) -> Written {
        self.leaf(|stream| stream.str(text))
    }

    /// Bytes.
    pub fn bytes(self, bytes: &[u8]) -> Written {
        self.leaf(|stream| stream.blob_bytes(bytes))
    }

    /// A fingerprint as a value.
    pub fn fingerprint(self, value: &Fingerprint) -> Written {
        self.leaf(|stream| stream.fingerprint(value))
    }

    /// Something known by its qualified name.
    pub fn reference(self, referent: Referent, module: &str, qualname: &str) -> Written {
        self.leaf(|stream| stream.reference(referent, module, qualname))
    }

    /// A number of a fixed-width element type, little-endian.
    pub fn scalar(self, element: &str, bytes: &[u8]) -> Written {
        self.leaf(|stream| stream.scalar(element, bytes))
    }

    /// A list of `count` children.
    ///
    /// # Panics
    ///
    /// Here and below: when `fill` does not write exactly `count` children.
    pub fn list(self, count: usize, fill: impl FnOnce(&mut Children<'_, 'a>)) -> Written {
        self.ordered(tag::LIST, count, fill)
    }

    /// A tuple of `count` children.
    pub fn tuple(self, count: usize, fill: impl FnOnce(&mut Children<'_, 'a>)) -> Written {
        self.ordered(tag::TUPLE, count, fill)
    }

    /// A set of `count` children.
    pub fn set(self, count: usize, fill: impl FnOnce(&mut Entries<'_, 'a>)) -> Written {
        self.unordered(tag::SET, count, fill)
    }

    /// A mapping of `count` pairs whose order does not count.
    pub fn dict(self, count: usize, fill: impl FnOnce(&mut Entries<'_, 'a>)) -> Written {
        self.unordered(tag::DICT, count, fill)
    }

    /// The values of a shape, in the order of its names.
    pub fn record(self, shape: &Shape, fill: impl FnOnce(&mut Children<'_, 'a>)) -> Written {
        let mark = self.engine.stream.open_record(shape.digest());
        self.fill(mark, shape.names.len(), fill)
    }

    fn ordered(self, tag: u8, count: usize, fill: impl FnOnce(&mut Children<'_, 'a>)) -> Written {
        let mark = self.engine.stream.open(tag, count);
        self.fill(mark, count, fill)
    }

    fn fill(self, mark: Mark, count: usize, fill: impl FnOnce(&mut Children<'_, 'a>)) -> Written {
        let pending = self.engine.steps.len();
        let mut children = Children { engine: self.engine, left: count };
        fill(&mut children);
        assert_eq!(children.left, 0, "a composite wrote fewer children than it announced");
        self.engine.close(pending, Close { mark, entries: None });
        Written(())
    }

    fn unordered(self, tag: u8, count: usize, fill: impl FnOnce(&mut Entries<'_, 'a>)) -> Written {
        let mark = self.engine.stream.open(tag, count);
        let pending = self.engine.steps.len();
        let first = self.engine.entries.len();
        if self.engine.deferring {
            self.engine.steps.push(Step::Begin);
        }
        let mut entries = Entries { engine: self.engine, left: count };
        fill(&mut entries);
        assert_eq!(entries.left, 0, "a composite wrote fewer children than it announced");
        self.engine.close(pending, Close { mark, entries: Some(first) });
        Written(())
    }
}

impl<'a> Children<'_, 'a> {
    /// Writes the next child.
    pub fn child<T: Encode>(&mut self, value: &'a T) {
        self.left = self.left.checked_sub(1).expect("a composite wrote more children than it announced");
        self.engine.child(value);
    }

    /// Writes the next child by a function instead of by its own [`Encode`].
    pub fn child_with<T>(&mut self, value: &'a T, encode: fn(&'a T, Slot<'_, 'a>) -> Written) {
        self.left = self.left.checked_sub(1).expect("a composite wrote more children than it announced");
        self.engine.visit(With { value, encode });
    }
}

impl<'a> Entries<'_, 'a> {
    /// Writes an element of a set.
    pub fn element<T: Encode>(&mut self, value: &'a T) {
        self.begin();
        self.engine.child(value);
    }

    /// Writes a pair of a mapping.
    pub fn pair<K: Encode, V: Encode>(&mut self, key: &'a K, value: &'a V) {
        self.begin();
        self.engine.child(key);
        self.engine.child(value);
    }

    fn begin(&mut self) {
        self.left = self.left.checked_sub(1).expect("a composite wrote more children than it announced");
        if self.engine.deferring {
            self.engine.steps.push(Step::Entry);
        } else {
            self.engine.entries.push(self.engine.stream.mark());
        }
    }
}

/// The object-safe half of [`Encode`], for the work list.
trait Visit<'a> {
    fn visit(&self, slot: Slot<'_, 'a>);
}

impl<'a, T: Encode> Visit<'a> for &'a T {
    fn visit(&self, slot: Slot<'_, 'a>) {
        let _ = (*self).encode(slot);
    }
}

struct With<'a, T> {
    value: &'a T,
    encode: fn(&'a T, Slot<'_, 'a>) -> Written,
}

impl<'a, T> Visit<'a> for With<'a, T> {
    fn visit(&self, slot: Slot<'_, 'a>) {
        let _ = (self.encode)(self.value, slot);
    }
}

struct Close {
    mark: Mark,
    /// Where the composite's entries begin among all entries, if it is unordered.
    entries: Option<usize>,
}

enum Step<'a> {
    Visit(Box<dyn Visit<'a> + 'a>),
    /// The entries of an unordered composite begin.
    Begin,
    /// One entry begins.
    Entry,
    Close(Close),
}

/// One encoding in progress: a stream, and a work list for what is too deep to recurse into.
#[derive(Default)]
struct Engine<'a> {
    stream: Stream,
    entries: Vec<Mark>,
    begins: Vec<usize>,
    depth: usize,
    /// Whether children are put on the work list instead of being encoded at once.
    deferring: bool,
    steps: Vec<Step<'a>>,
}

impl<'a> Engine<'a> {
    fn child<T: Encode>(&mut self, value: &'a T) {
        if T::LEAF && !self.deferring {
            let _ = value.encode(Slot { engine: self });
        } else {
            self.visit(value);
        }
    }

    fn visit(&mut self, value: impl Visit<'a> + 'a) {
        if self.deferring {
            self.steps.push(Step::Visit(Box::new(value)));
        } else if self.depth < RECURSION_LIMIT {
            self.depth += 1;
            value.visit(Slot { engine: self });
            self.depth -= 1;
        } else {
            self.run(Box::new(value));
        }
    }

    fn run(&mut self, root: Box<dyn Visit<'a> + 'a>) {
        self.deferring = true;
        self.steps.push(Step::Visit(root));
        while let Some(step) = self.steps.pop() {
            match step {
                Step::Visit(value) => value.visit(Slot { engine: self }),
                Step::Begin => self.begins.push(self.entries.len()),
                Step::Entry => self.entries.push(self.stream.mark()),
                Step::Close(Close { mark, entries }) => {
                    let first = entries.map(|_| self.begins.pop().expect("begun before closed"));
                    self.close_now(Close { mark, entries: first });
                }
            }
        }
        self.deferring = false;
    }

    /// Closes a composite, now or after its children, which stand on the work list from `pending` on.
    fn close(&mut self, pending: usize, close: Close) {
        if self.deferring {
            self.steps.push(Step::Close(close));
            self.steps[pending..].reverse();
        } else {
            self.close_now(close);
        }
    }

    fn close_now(&mut self, Close { mark, entries }: Close) {
        match entries {
            None => self.stream.close(mark),
            Some(first) => {
                self.stream.close_unordered(mark, &self.entries[first..]);
                self.entries.truncate(first);
            }
        }
    }
}

/// Bytes: what Python calls `bytes`. A plain `Vec<u8>` is a list of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes<T>(pub T);

impl<T: AsRef<[u8]>> Encode for Bytes<T> {
    const LEAF: bool = true;
    fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
        slot.bytes(self.0.as_ref())
    }
}

impl Encode for Fingerprint {
    const LEAF: bool = true;
    fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
        slot.fingerprint(self)
    }
}
