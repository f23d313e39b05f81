//! [`Element`]: what one element of an array is, and which of its bytes count.

use keyprint_fingerprint::Stream;
use keyprint_fingerprint::tag::{self, Referent};
use thiserror::Error;

/// Structured types nest no deeper than this.
pub const MOST_NESTING: usize = 32;

/// Parts of one element that are read apart.
const MOST_PIECES: usize = 1 << 16;

/// Why an array's elements cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ElementError {
    /// A structure of structures, too deep.
    #[error("the array's type is nested too deeply")]
    Nesting,
    /// An element with very many parts.
    #[error("the array's elements have too many parts")]
    Pieces,
    /// A kind of NumPy's that is not known.
    #[error("an array of kind `{0}` has no known elements")]
    Kind(char),
    /// A buffer whose format says too little, or of structures.
    #[error("a buffer of format `{0}` may hold padding or pointers")]
    Format(String),
    /// A type of DLPack's that is not known.
    #[error("a tensor of DLPack type ({code}, {bits}, {lanes}) has no known elements")]
    Dlpack {
        /// The kind.
        code: u8,
        /// The width.
        bits: u8,
        /// Numbers in an element.
        lanes: u16,
    },
}

impl ElementError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Kind(_) => Some("register a rule for its class, or convert it to a standard dtype"),
            Self::Format(_) => Some("convert it to a NumPy array, or register a rule for its class"),
            Self::Nesting | Self::Pieces | Self::Dlpack { .. } => None,
        }
    }
}

/// The type of an element: with its byte order and the places of fields, whatever padding holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Descriptor {
    /// A kind and a size, as NumPy writes them: `f8`, `i4`, `U3`, `M8[ns]`; `>i4` if the other byte order is
    /// stored than most machines have.
    Plain(String),
    /// A type that another package defined.
    Named {
        /// A kind and a size.
        code: String,
        /// The module of the class.
        module: String,
        /// Its name in there.
        qualname: String,
    },
    /// Name, type and offset of each field, and the size of the whole.
    Struct(Vec<(String, Descriptor, usize)>, usize),
    /// An array in each element.
    Sub(Box<Descriptor>, Vec<usize>),
}

impl Descriptor {
    /// Writes the type as one item.
    pub fn write(&self, stream: &mut Stream) {
        match self {
            Self::Plain(code) => stream.str(code),
            Self::Named { code, module, qualname } => {
                let mark = stream.open(tag::TUPLE, 2);
                stream.str(code);
                stream.reference(Referent::Class, module, qualname);
                stream.close(mark);
            }
            Self::Struct(fields, size) => {
                let mark = stream.open(tag::LIST, 1 + fields.len());
                stream.uint(*size as u64);
                for (name, descriptor, offset) in fields {
                    let field = stream.open(tag::TUPLE, 3);
                    stream.str(name);
                    descriptor.write(stream);
                    stream.uint(*offset as u64);
                    stream.close(field);
                }
                stream.close(mark);
            }
            Self::Sub(descriptor, shape) => {
                let mark = stream.open(tag::TUPLE, 1 + shape.len());
                descriptor.write(stream);
                for length in shape {
                    stream.uint(*length as u64);
                }
                stream.close(mark);
            }
        }
    }
}

/// Some bytes of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    offset: usize,
    /// Bytes that belong together.
    unit: usize,
    /// How far one unit is from the next.
    step: usize,
    count: usize,
    /// Whether each unit is stored in the other byte order.
    swap: bool,
}

impl Piece {
    /// Whether it is all of an element, without gaps.
    fn fills(&self, size: usize) -> bool {
        self.offset == 0 && self.step == self.unit && self.unit * self.count == size
    }
}

/// What one element of an array is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    descriptor: Descriptor,
    size: usize,
    pieces: Vec<Piece>,
}

impl Element {
    fn plain(code: String, size: usize, unit: usize, swap: bool) -> Self {
        let count = size.checked_div(unit).unwrap_or(0);
        let swap = swap && unit > 1;
        let pieces = vec![Piece { offset: 0, unit, step: unit, count, swap }];
        Self { descriptor: Descriptor::Plain(ordered(code, swap)), size, pieces }
    }

    /// A float wider than 64 bits: x86 pads its ten bytes with whatever was there.
    fn extended(kind: char, size: usize, parts: usize, swap: bool) -> Self {
        let step = size / parts;
        let unit = if cfg!(any(target_arch = "x86", target_arch = "x86_64")) { 10 } else { step };
        let offset = if swap { step - unit } else { 0 };
        let pieces = vec![Piece { offset, unit, step, count: parts, swap }];
        Self { descriptor: Descriptor::Plain(ordered(format!("{kind}{size}"), swap)), size, pieces }
    }

    /// The element that a plain type of NumPy's describes, by its kind, size and byte order; `unit` is the
    /// resolution of a time, such as `[ns]`. `None` if elements of this kind are Python objects.
    ///
    /// # Errors
    ///
    /// If the kind is not known.
    pub fn of_kind(kind: char, size: usize, order: char, unit: &str) -> Result<Option<Self>, ElementError> {
        let swap = order == if cfg!(target_endian = "little") { '>' } else { '<' }
            || cfg!(target_endian = "big") && order == '=';
        Ok(Some(match kind {
            'b' | 'i' | 'u' => Self::plain(format!("{kind}{size}"), size, size, swap),
            'f' if size > 8 => Self::extended(kind, size, 1, swap),
            'c' if size > 16 => Self::extended(kind, size, 2, swap),
            'f' => Self::plain(format!("f{size}"), size, size, swap),
            'c' => Self::plain(format!("c{size}"), size, size / 2, swap),
            'S' | 'V' => Self::plain(format!("{kind}{size}"), size, size, false),
            'U' => Self::plain(format!("U{}", size / 4), size, 4, swap),
            'M' | 'm' => Self::plain(format!("{kind}{size}{unit}"), size, 8, swap),
            'O' | 'T' => return Ok(None),
            _ => return Err(ElementError::Kind(kind)),
        }))
    }

    /// Says that a plain type is one that a package defined.
    #[must_use]
    pub fn named(mut self, module: &str, qualname: &str) -> Self {
        if let Descriptor::Plain(code) = self.descriptor {
            let (module, qualname) = (module.to_owned(), qualname.to_owned());
            self.descriptor = Descriptor::Named { code, module, qualname };
        }
        self
    }

    /// An array of elements in each element.
    ///
    /// # Errors
    ///
    /// If it has too many parts.
    pub fn sub(self, shape: Vec<usize>, size: usize) -> Result<Self, ElementError> {
        let count: usize = shape.iter().product();
        let pieces = match self.pieces.as_slice() {
            // Elements without gaps are one piece, however many there are.
            [piece] if piece.fills(self.size) => vec![Piece { count: piece.count * count, ..piece.clone() }],
            pieces if pieces.len().saturating_mul(count) > MOST_PIECES => return Err(ElementError::Pieces),
            _ => (0..count).flat_map(|at| self.pieces_at(at * self.size)).collect(),
        };
        Ok(Self { descriptor: Descriptor::Sub(Box::new(self.descriptor), shape), size, pieces })
    }

    /// A structure of fields with names and offsets. Padding between them does not count.
    #[must_use]
    pub fn structure(fields: Vec<(String, Self, usize)>, size: usize) -> Self {
        let mut pieces = Vec::new();
        let mut described = Vec::new();
        for (name, field, offset) in fields {
            pieces.extend(field.pieces_at(offset));
            described.push((name, field.descriptor, offset));
        }
        Self { descriptor: Descriptor::Struct(described, size), size, pieces }
    }

    /// The element that a buffer's format describes.
    ///
    /// # Errors
    ///
    /// If the format may hold padding or pointers.
    pub fn of_format(format: &str, size: usize) -> Result<Self, ElementError> {
        let (order, code) = match format.as_bytes() {
            [order @ (b'@' | b'=' | b'<' | b'>' | b'!'), code @ ..] => (*order, code),
            code => (b'@', code),
        };
        let big = matches!(order, b'>' | b'!');
        let little = order == b'<';
        let swap = if cfg!(target_endian = "little") { big } else { !little && size > 1 };
        let kind = match code {
            b"?" => 'b',
            b"b" | b"h" | b"i" | b"l" | b"q" | b"n" => 'i',
            b"B" | b"H" | b"I" | b"L" | b"Q" | b"N" => 'u',
            b"e" | b"f" | b"d" => 'f',
            b"Zf" | b"Zd" => return Ok(Self::plain(format!("c{size}"), size, size / 2, swap)),
            b"c" => return Ok(Self::plain("S1".to_owned(), size, size, false)),
            b"u" | b"w" => return Ok(Self::plain("U1".to_owned(), size, size, swap)),
            _ => return Err(ElementError::Format(format.to_owned())),
        };
        Ok(Self::plain(format!("{kind}{size}"), size, size, swap))
    }

    /// The element that a DLPack tensor describes.
    ///
    /// # Errors
    ///
    /// If the type is not known, or of less than a byte.
    pub fn of_dlpack(code: u8, bits: u8, lanes: u16) -> Result<Self, ElementError> {
        let size = usize::from(bits) / 8;
        let kind = match code {
            0 => "i",
            1 => "u",
            2 => "f",
            4 => "bf",
            5 => "c",
            6 => "b",
            // Floats of 8 bits, of many kinds, which only DLPack has names for.
            7..=17 if bits == 8 && lanes == 1 => {
                return Ok(Self::plain(format!("dlpack{code}_{bits}"), 1, 1, false));
            }
            _ => "",
        };
        if kind.is_empty() || lanes != 1 || !bits.is_multiple_of(8) {
            return Err(ElementError::Dlpack { code, bits, lanes });
        }
        let swap = cfg!(target_endian = "big");
        let unit = if kind == "c" { size / 2 } else { size };
        Ok(Self::plain(format!("{kind}{size}"), size, unit, swap))
    }

    fn pieces_at(&self, shift: usize) -> Vec<Piece> {
        self.pieces.iter().map(|piece| Piece { offset: piece.offset + shift, ..piece.clone() }).collect()
    }

    /// Its type.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Its size in memory.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether the bytes count as they are.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        matches!(self.pieces.as_slice(), [piece] if !piece.swap && piece.fills(self.size))
    }

    /// How many bytes an element contributes.
    #[must_use]
    pub fn packed_size(&self) -> usize {
        self.pieces.iter().map(|piece| piece.unit * piece.count).sum()
    }

    /// Appends the bytes that count, little-endian, of `count` elements that are `stride` bytes apart.
    ///
    /// # Safety
    ///
    /// Each of these places has an element: as many readable bytes as its size.
    pub(crate) unsafe fn pack_many(&self, place: *const u8, stride: isize, count: usize, out: &mut Vec<u8>) {
        // SAFETY: as the caller promises; a plain element of N bytes is read as that many.
        unsafe {
            if self.is_plain() {
                match self.size {
                    1 => return copy_many::<1>(place, stride, count, out),
                    2 => return copy_many::<2>(place, stride, count, out),
                    4 => return copy_many::<4>(place, stride, count, out),
                    8 => return copy_many::<8>(place, stride, count, out),
                    16 => return copy_many::<16>(place, stride, count, out),
                    _ => {}
                }
            }
            for at in 0..count {
                self.pack(place.offset(at as isize * stride), out);
            }
        }
    }

    /// Appends the bytes that count of one element.
    ///
    /// # Safety
    ///
    /// `place` points to an element: as many readable bytes as its size.
    unsafe fn pack(&self, place: *const u8, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            for at in 0..piece.count {
                // SAFETY: pieces lie within the element.
                let unit = unsafe {
                    std::slice::from_raw_parts(place.add(piece.offset + at * piece.step), piece.unit)
                };
                if piece.swap { out.extend(unit.iter().rev()) } else { out.extend_from_slice(unit) }
            }
        }
    }
}

/// Appends `count` elements of N bytes that are `stride` bytes apart.
///
/// # Safety
///
/// Each of these places has N readable bytes.
unsafe fn copy_many<const N: usize>(place: *const u8, stride: isize, count: usize, out: &mut Vec<u8>) {
    out.reserve(count * N);
    for at in 0..count {
        // SAFETY: as the caller promises; the type has no alignment.
        out.extend_from_slice(unsafe { &*place.offset(at as isize * stride).cast::<[u8; N]>() });
    }
}

/// The code of a type, marked if its elements are not stored as the canonical form has them.
fn ordered(code: String, swap: bool) -> String {
    if swap { format!(">{code}") } else { code }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(kind: char, size: usize, order: char) -> Element {
        Element::of_kind(kind, size, order, "").unwrap().unwrap()
    }

    fn packed(element: &Element, bytes: &[u8]) -> Vec<u8> {
        assert_eq!(bytes.len(), element.size());
        let mut out = Vec::new();
        // SAFETY: one element of that size.
        unsafe { element.pack_many(bytes.as_ptr(), 0, 1, &mut out) };
        assert_eq!(out.len(), element.packed_size());
        out
    }

    fn code(element: &Element) -> &str {
        match element.descriptor() {
            Descriptor::Plain(code) => code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_are_packed_little_endian() {
        let little = kind('i', 4, '<');
        assert_eq!((code(&little), packed(&little, &[1, 2, 3, 4])), ("i4", vec![1, 2, 3, 4]));
        let big = kind('i', 4, '>');
        assert_eq!((code(&big), packed(&big, &[1, 2, 3, 4])), (">i4", vec![4, 3, 2, 1]));
        assert!(!big.is_plain() && little.is_plain());
        // Both halves of a complex number and all characters of a text are turned on their own.
        assert_eq!(packed(&kind('c', 8, '>'), &[1, 2, 3, 4, 5, 6, 7, 8]), [4, 3, 2, 1, 8, 7, 6, 5]);
        assert_eq!(packed(&kind('U', 8, '>'), &[0, 0, 0, 65, 0, 0, 0, 66]), [65, 0, 0, 0, 66, 0, 0, 0]);
        // A byte has no order, and bytes are bytes.
        assert_eq!(code(&kind('u', 1, '>')), "u1");
        assert_eq!(packed(&kind('S', 3, '>'), b"abc"), b"abc");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn padding_of_extended_floats_does_not_count() {
        let long = kind('f', 16, '=');
        let mut bytes = [0u8; 16];
        bytes[..10].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        let before = packed(&long, &bytes);
        bytes[10..].fill(0xee);
        assert_eq!((packed(&long, &bytes), before.len()), (before, 10));
    }

    #[test]
    fn padding_of_structures_does_not_count() {
        let fields = || vec![("a".to_owned(), kind('u', 1, '|'), 0), ("b".to_owned(), kind('i', 4, '>'), 4)];
        let structure = Element::structure(fields(), 8);
        assert_eq!(packed(&structure, &[7, 9, 9, 9, 1, 2, 3, 4]), [7, 4, 3, 2, 1]);
        let pair = Element::structure(fields(), 8).sub(vec![2], 16).unwrap();
        assert_eq!(
            packed(&pair, &[7, 9, 9, 9, 1, 2, 3, 4, 8, 0, 0, 0, 5, 6, 7, 8]),
            [7, 4, 3, 2, 1, 8, 8, 7, 6, 5]
        );
        // Without gaps, many are as good as one.
        assert!(kind('f', 4, '=').sub(vec![1 << 20, 4], 4 << 22).unwrap().is_plain());
        let spread = Element::structure(fields(), 8).sub(vec![1 << 20], 8 << 20);
        assert_eq!(spread, Err(ElementError::Pieces));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert_eq!(Element::of_kind('O', 8, '|', ""), Ok(None));
        assert_eq!(Element::of_kind('Q', 8, '|', ""), Err(ElementError::Kind('Q')));
        for format in ["T{i:a:}", "P", "O", "", "3i", "&d"] {
            assert!(matches!(Element::of_format(format, 8), Err(ElementError::Format(_))), "{format}");
        }
        for (code, bits, lanes) in [(3, 64, 1), (0, 4, 1), (2, 32, 4), (10, 4, 2), (99, 8, 1)] {
            assert!(Element::of_dlpack(code, bits, lanes).is_err(), "{code} {bits} {lanes}");
        }
    }

    #[test]
    fn three_protocols_describe_one_type() {
        let numpy = kind('f', 8, '=');
        assert_eq!(Element::of_format("d", 8).unwrap(), numpy);
        assert_eq!(Element::of_dlpack(2, 64, 1).unwrap(), numpy);
        assert_eq!(Element::of_format(">h", 2).unwrap(), kind('i', 2, '>'));
        assert_eq!(code(&Element::of_dlpack(4, 16, 1).unwrap()), "bf2");
        assert_eq!(code(&Element::of_dlpack(10, 8, 1).unwrap()), "dlpack10_8");
        assert_eq!(code(&Element::of_kind('M', 8, '<', "[ns]").unwrap().unwrap()), "M8[ns]");
    }
}
