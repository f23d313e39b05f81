//! [`Element`]: what one element of an array is, and which of its bytes count.

use keyprint_fingerprint::Stream;
use keyprint_fingerprint::tag::{self, Referent};
use pyo3::prelude::*;

use super::plan::Class;
use crate::failure::{Failure, Walked};
use crate::interned::intern;

/// Structured types nest no deeper than this.
const MOST_NESTING: usize = 32;

/// Parts of one element that are read apart.
const MOST_PIECES: usize = 1 << 16;

/// The type of an element: with its byte order and the places of fields, whatever padding holds.
pub(crate) enum Descriptor {
    /// A kind and a size, as NumPy writes them: `f8`, `i4`, `U3`, `M8[ns]`; `>i4` if the other byte order is
    /// stored than most machines have.
    Plain(String),
    /// A type that another package defined.
    Named(String, Class),
    /// Name, type and offset of each field, and the size of the whole.
    Struct(Vec<(String, Descriptor, usize)>, usize),
    Sub(Box<Descriptor>, Vec<usize>),
}

impl Descriptor {
    /// Writes the type as one item.
    pub(crate) fn write(&self, stream: &mut Stream) {
        match self {
            Self::Plain(code) => stream.str(code),
            Self::Named(code, class) => {
                let mark = stream.open(tag::TUPLE, 2);
                stream.str(code);
                stream.reference(Referent::Class, &class.module, &class.qualname);
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

pub(crate) struct Element {
    pub(crate) descriptor: Descriptor,
    pub(crate) size: usize,
    pieces: Vec<Piece>,
}

impl Element {
    fn plain(code: String, size: usize, unit: usize, swap: bool) -> Self {
        let count = size.checked_div(unit).unwrap_or(0);
        let swap = swap && unit > 1;
        let pieces = vec![Piece { offset: 0, unit, step: unit, count, swap }];
        Self { descriptor: Descriptor::Plain(ordered(code, swap)), size, pieces }
    }

    /// The element that a NumPy dtype describes; `None` if its elements are Python objects.
    pub(crate) fn of_dtype(dtype: &Bound<'_, PyAny>, depth: usize) -> Walked<Option<Self>> {
        let py = dtype.py();
        if depth > MOST_NESTING {
            return Err(Failure::refuse("array-format", "the array's type is nested too deeply"));
        }
        let size: usize = dtype.getattr(intern!(py, "itemsize"))?.extract()?;
        let sub = dtype.getattr(intern!(py, "subdtype"))?;
        if !sub.is_none() {
            let (base, shape): (Bound<'_, PyAny>, Vec<usize>) = sub.extract()?;
            let Some(base) = Self::of_dtype(&base, depth + 1)? else { return Err(mixed_objects()) };
            let count: usize = shape.iter().product();
            let pieces = match base.pieces.as_slice() {
                // Elements without gaps are one piece, however many there are.
                [piece]
                    if piece.offset == 0
                        && piece.step == piece.unit
                        && piece.unit * piece.count == base.size =>
                {
                    vec![Piece { count: piece.count * count, ..*piece }]
                }
                pieces if pieces.len().saturating_mul(count) > MOST_PIECES => {
                    return Err(Failure::refuse("array-format", "the array's elements have too many parts"));
                }
                _ => (0..count).flat_map(|at| base.pieces_at(at * base.size)).collect(),
            };
            let descriptor = Descriptor::Sub(Box::new(base.descriptor), shape);
            return Ok(Some(Self { descriptor, size, pieces }));
        }
        let names = dtype.getattr(intern!(py, "names"))?;
        if !names.is_none() {
            let table = dtype.getattr(intern!(py, "fields"))?;
            let (mut fields, mut pieces) = (Vec::new(), Vec::new());
            for name in names.extract::<Vec<String>>()? {
                let entry = table.get_item(&name)?;
                let offset: usize = entry.get_item(1)?.extract()?;
                let Some(field) = Self::of_dtype(&entry.get_item(0)?, depth + 1)? else {
                    return Err(mixed_objects());
                };
                pieces.extend(field.pieces_at(offset));
                fields.push((name, field.descriptor, offset));
            }
            return Ok(Some(Self { descriptor: Descriptor::Struct(fields, size), size, pieces }));
        }
        let kind: char = dtype.getattr(intern!(py, "kind"))?.extract()?;
        let order: char = dtype.getattr(intern!(py, "byteorder"))?.extract()?;
        let swap = order == if cfg!(target_endian = "little") { '>' } else { '<' }
            || cfg!(target_endian = "big") && order == '=';
        let mut element = match kind {
            'b' | 'i' | 'u' => Self::plain(format!("{kind}{size}"), size, size, swap),
            'f' if size > 8 => Self::extended("f", size, 1, swap),
            'c' if size > 16 => Self::extended("c", size, 2, swap),
            'f' => Self::plain(format!("f{size}"), size, size, swap),
            'c' => Self::plain(format!("c{size}"), size, size / 2, swap),
            'S' | 'V' => Self::plain(format!("{kind}{size}"), size, size, false),
            'U' => Self::plain(format!("U{}", size / 4), size, 4, swap),
            'M' | 'm' => {
                let code: String = dtype.getattr(intern!(py, "str"))?.extract()?;
                Self::plain(code[1..].to_owned(), size, 8, swap)
            }
            'O' | 'T' => return Ok(None),
            _ => {
                return Err(Failure::refuse(
                    "array-format",
                    format!("an array of kind `{kind}` has no known elements"),
                )
                .hint("register a rule for its class, or convert it to a standard dtype"));
            }
        };
        let class = dtype.getattr(intern!(py, "type"))?;
        let class = Class::of(class.cast().map_err(PyErr::from)?)?;
        if class.module != "numpy"
            && let Descriptor::Plain(code) = element.descriptor
        {
            element.descriptor = Descriptor::Named(code, class);
        }
        Ok(Some(element))
    }

    /// A float wider than 64 bits: x86 pads its ten bytes with whatever was there.
    fn extended(kind: &str, size: usize, parts: usize, swap: bool) -> Self {
        let step = size / parts;
        let unit = if cfg!(any(target_arch = "x86", target_arch = "x86_64")) { 10 } else { step };
        let offset = if swap { step - unit } else { 0 };
        let pieces = vec![Piece { offset, unit, step, count: parts, swap }];
        Self { descriptor: Descriptor::Plain(ordered(format!("{kind}{size}"), swap)), size, pieces }
    }

    /// The element that a buffer's format describes.
    pub(crate) fn of_format(format: &str, size: usize) -> Walked<Self> {
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
            _ => {
                return Err(Failure::refuse(
                    "array-format",
                    format!("a buffer of format `{format}` may hold padding or pointers"),
                )
                .hint("convert it to a NumPy array, or register a rule for its class"));
            }
        };
        Ok(Self::plain(format!("{kind}{size}"), size, size, swap))
    }

    /// The element that a DLPack tensor describes.
    pub(crate) fn of_dlpack(code: u8, bits: u8, lanes: u16) -> Walked<Self> {
        let size = usize::from(bits) / 8;
        let kind = match code {
            0 => "i",
            1 => "u",
            2 => "f",
            4 => "bf",
            5 => "c",
            6 => "b",
            // Floats of 8 bits, of many kinds.
            7..=17 => return Self::of_code(code, bits, lanes),
            _ => "",
        };
        if kind.is_empty() || lanes != 1 || !bits.is_multiple_of(8) {
            return Err(Failure::refuse(
                "array-format",
                format!("a tensor of DLPack type ({code}, {bits}, {lanes}) has no known elements"),
            ));
        }
        let swap = cfg!(target_endian = "big");
        let unit = if kind == "c" { size / 2 } else { size };
        Ok(Self::plain(format!("{kind}{size}"), size, unit, swap))
    }

    /// An element that only DLPack has a name for.
    fn of_code(code: u8, bits: u8, lanes: u16) -> Walked<Self> {
        if bits != 8 || lanes != 1 {
            return Err(Failure::refuse(
                "array-format",
                format!("a tensor of DLPack type ({code}, {bits}, {lanes}) has no known elements"),
            ));
        }
        Ok(Self::plain(format!("dlpack{code}_{bits}"), 1, 1, false))
    }

    fn pieces_at(&self, shift: usize) -> Vec<Piece> {
        self.pieces.iter().map(|piece| Piece { offset: piece.offset + shift, ..*piece }).collect()
    }

    /// Whether the bytes count as they are.
    pub(crate) fn is_plain(&self) -> bool {
        match self.pieces.as_slice() {
            [piece] => {
                !piece.swap
                    && piece.offset == 0
                    && piece.step == piece.unit
                    && piece.unit * piece.count == self.size
            }
            _ => false,
        }
    }

    /// How many bytes an element contributes.
    pub(crate) fn packed_size(&self) -> usize {
        self.pieces.iter().map(|piece| piece.unit * piece.count).sum()
    }

    /// Appends the bytes that count, little-endian, of `count` elements that are `stride` bytes apart.
    ///
    /// # Safety
    ///
    /// Each of these places has an element: `self.size` readable bytes.
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
    /// `place` points to an element: `self.size` readable bytes.
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

fn mixed_objects() -> Failure {
    Failure::refuse("array-format", "a structured array with Python objects in it is not read")
        .hint("split it into plain arrays and a list of objects, or register a rule for its class")
}
