//! Reading builtin Python values without running Python code.
//!
//! Everything here borrows: a pointer that comes out of a container is used before anything else
//! can run, or turned into an owned reference.

use keyprint_fingerprint::Stream;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::failure::Walked;

unsafe extern "C" {
    /// The type of bound methods.
    pub(crate) static mut PyMethod_Type: ffi::PyTypeObject;
}

/// The builtin types that are read natively, as themselves or as the base of a subclass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    Str,
    Int,
    Float,
    Complex,
    Bytes,
    ByteArray,
    List,
    Tuple,
    Dict,
    Set,
    FrozenSet,
}

impl Builtin {
    /// Every kind, the one that must be asked first coming first.
    pub(crate) const ALL: [Self; 11] = [
        Self::Str,
        Self::Int,
        Self::Float,
        Self::Complex,
        Self::Bytes,
        Self::ByteArray,
        Self::List,
        Self::Tuple,
        Self::Dict,
        Self::Set,
        Self::FrozenSet,
    ];

    /// The Python type.
    pub(crate) fn type_object(self) -> *mut ffi::PyTypeObject {
        match self {
            Self::Str => &raw mut ffi::PyUnicode_Type,
            Self::Int => &raw mut ffi::PyLong_Type,
            Self::Float => &raw mut ffi::PyFloat_Type,
            Self::Complex => &raw mut ffi::PyComplex_Type,
            Self::Bytes => &raw mut ffi::PyBytes_Type,
            Self::ByteArray => &raw mut ffi::PyByteArray_Type,
            Self::List => &raw mut ffi::PyList_Type,
            Self::Tuple => &raw mut ffi::PyTuple_Type,
            Self::Dict => &raw mut ffi::PyDict_Type,
            Self::Set => &raw mut ffi::PySet_Type,
            Self::FrozenSet => &raw mut ffi::PyFrozenSet_Type,
        }
    }

    /// Whether a value of this kind has no children.
    pub(crate) fn is_leaf(self) -> bool {
        !matches!(self, Self::List | Self::Tuple | Self::Dict | Self::Set | Self::FrozenSet)
    }
}

/// Writes a `str` (or subclass) as text, lone surrogates included.
#[inline]
pub(crate) fn write_str(stream: &mut Stream, scratch: &mut Vec<u8>, text: Borrowed<'_, '_, PyAny>) {
    let object = text.as_ptr();
    // SAFETY: the caller checked that this is a `str`; the interpreter lock is held, the object is
    // alive, and `str` is immutable. `PyUnicode_READY` makes the compact form on interpreters that
    // still have another one.
    unsafe {
        ffi::PyUnicode_READY(object);
        let length = ffi::PyUnicode_GET_LENGTH(object) as usize;
        let data = ffi::PyUnicode_DATA(object);
        if ffi::PyUnicode_IS_COMPACT_ASCII(object) != 0 {
            stream.wide_str(std::slice::from_raw_parts(data.cast::<u8>(), length));
            return;
        }
        scratch.clear();
        match ffi::PyUnicode_KIND(object) {
            ffi::PyUnicode_1BYTE_KIND => {
                transcode(scratch, std::slice::from_raw_parts(data.cast::<u8>(), length));
            }
            ffi::PyUnicode_2BYTE_KIND => {
                transcode(scratch, std::slice::from_raw_parts(data.cast::<u16>(), length));
            }
            _ => transcode(scratch, std::slice::from_raw_parts(data.cast::<u32>(), length)),
        }
    }
    stream.wide_str(scratch);
}

/// Code points to UTF-8, a surrogate like any other code point of its size.
fn transcode<C: Copy + Into<u32>>(out: &mut Vec<u8>, points: &[C]) {
    out.reserve(points.len() * 3);
    for &point in points {
        let point: u32 = point.into();
        match point {
            0..0x80 => out.push(point as u8),
            0x80..0x800 => out.extend_from_slice(&[0xc0 | (point >> 6) as u8, tail(point)]),
            0x800..0x1_0000 => {
                out.extend_from_slice(&[0xe0 | (point >> 12) as u8, tail(point >> 6), tail(point)]);
            }
            _ => out.extend_from_slice(&[
                0xf0 | (point >> 18) as u8,
                tail(point >> 12),
                tail(point >> 6),
                tail(point),
            ]),
        }
    }
}

fn tail(bits: u32) -> u8 {
    0x80 | (bits & 0x3f) as u8
}

/// Writes an `int` (or subclass) of up to 64 bits; otherwise tells its sign.
#[inline]
pub(crate) fn write_small_int(stream: &mut Stream, int: Borrowed<'_, '_, PyAny>) -> Result<(), Sign> {
    let mut overflow = 0;
    // SAFETY: the caller checked that this is an `int`; `overflow` outlives the call. On an `int`
    // the call runs no Python code.
    let value = unsafe { ffi::PyLong_AsLongLongAndOverflow(int.as_ptr(), &mut overflow) };
    match overflow {
        0 => {
            stream.int(value);
            Ok(())
        }
        1.. => Err(Sign::Positive),
        _ => Err(Sign::Negative),
    }
}

/// The sign of an integer that does not fit into 64 bits.
pub(crate) enum Sign {
    Positive,
    Negative,
}

/// Writes an `int` that does not fit into 64 bits. The calls may start a garbage collection, and so
/// any Python code: the caller owns the `int`, and holds nothing that is only borrowed.
#[cold]
fn write_big_int(stream: &mut Stream, int: Borrowed<'_, '_, PyAny>, sign: &Sign) -> PyResult<()> {
    let py = int.py();
    let negative = matches!(sign, Sign::Negative);
    // SAFETY: the static type object of `int` lives for good.
    let class = unsafe { Bound::from_borrowed_ptr(py, (&raw mut ffi::PyLong_Type).cast()) };
    // The methods of `int` itself: a subclass may have overridden them.
    let magnitude = if negative { class.call_method1("__invert__", (int,))? } else { int.to_owned() };
    let bits: usize = class.call_method1("bit_length", (&magnitude,))?.extract()?;
    let bytes = class.call_method1("to_bytes", (&magnitude, bits.div_ceil(8), "little"))?;
    let bytes = bytes.cast::<PyBytes>().map_err(|_| PyTypeError::new_err("int.to_bytes gave no bytes"))?;
    stream.big_int(negative, bytes.as_bytes());
    Ok(())
}

/// Writes a `float` (or subclass).
#[inline]
pub(crate) fn write_float(stream: &mut Stream, float: Borrowed<'_, '_, PyAny>) {
    // SAFETY: the caller checked that this is a `float`.
    stream.float(unsafe { ffi::PyFloat_AS_DOUBLE(float.as_ptr()) });
}

/// Writes the content of a builtin leaf or of a subclass of one. The caller owns it.
pub(crate) fn write_leaf(
    stream: &mut Stream,
    scratch: &mut Vec<u8>,
    kind: Builtin,
    leaf: Borrowed<'_, '_, PyAny>,
) -> Walked<()> {
    let object = leaf.as_ptr();
    match kind {
        Builtin::Str => write_str(stream, scratch, leaf),
        Builtin::Int => {
            if let Err(sign) = write_small_int(stream, leaf) {
                write_big_int(stream, leaf, &sign)?;
            }
        }
        Builtin::Float => write_float(stream, leaf),
        Builtin::Complex => {
            // SAFETY: the caller checked that this is a `complex`; the struct is read, not the
            // overridable attributes.
            let value = unsafe { (*object.cast::<ffi::PyComplexObject>()).cval };
            stream.complex(value.real, value.imag);
        }
        Builtin::Bytes => {
            // SAFETY: the caller checked that this is a `bytes`, which is immutable.
            let bytes = unsafe {
                let length = ffi::PyBytes_Size(object) as usize;
                std::slice::from_raw_parts(ffi::PyBytes_AsString(object).cast::<u8>(), length)
            };
            stream.blob_bytes(bytes);
        }
        Builtin::ByteArray => {
            // SAFETY: the caller checked that this is a `bytearray`; with the interpreter lock
            // held and no Python code run in between, it does not change while it is read.
            let bytes = unsafe {
                let length = ffi::PyByteArray_Size(object) as usize;
                std::slice::from_raw_parts(ffi::PyByteArray_AsString(object).cast::<u8>(), length)
            };
            stream.blob_bytes(bytes);
        }
        _ => unreachable!("containers are not leaves"),
    }
    Ok(())
}

/// The length of a list (or subclass), now.
#[inline]
pub(crate) fn list_len(list: &Bound<'_, PyAny>) -> usize {
    // SAFETY: the caller checked that this is a `list`.
    unsafe { ffi::PyList_GET_SIZE(list.as_ptr()) as usize }
}

/// An item of a list (or subclass); `at` must be less than its length now.
#[inline]
pub(crate) fn list_item<'a, 'py>(list: &Bound<'py, PyAny>, at: usize) -> Borrowed<'a, 'py, PyAny> {
    debug_assert!(at < list_len(list));
    // SAFETY: the index is in range, so the slot holds a live object; the caller uses it before the list can change.
    unsafe { Borrowed::from_ptr(list.py(), ffi::PyList_GET_ITEM(list.as_ptr(), at as ffi::Py_ssize_t)) }
}

/// The length of a tuple (or subclass).
#[inline]
pub(crate) fn tuple_len(tuple: &Bound<'_, PyAny>) -> usize {
    // SAFETY: the caller checked that this is a `tuple`.
    unsafe { ffi::PyTuple_GET_SIZE(tuple.as_ptr()) as usize }
}

/// An item of a tuple (or subclass); `at` must be less than its length.
#[inline]
pub(crate) fn tuple_item<'a, 'py>(tuple: &Bound<'py, PyAny>, at: usize) -> Borrowed<'a, 'py, PyAny> {
    debug_assert!(at < tuple_len(tuple));
    // SAFETY: the index is in range, a tuple does not change, and the caller keeps it alive while it uses the item.
    unsafe { Borrowed::from_ptr(tuple.py(), ffi::PyTuple_GET_ITEM(tuple.as_ptr(), at as ffi::Py_ssize_t)) }
}

/// The number of pairs in a dict (or subclass), now.
#[inline]
pub(crate) fn dict_len(dict: &Bound<'_, PyAny>) -> usize {
    // SAFETY: the caller checked that this is a `dict`.
    unsafe { ffi::PyDict_Size(dict.as_ptr()) as usize }
}

/// The pair of a dict (or subclass) at or after an opaque position, which it moves on.
#[inline]
pub(crate) fn dict_next<'a, 'py>(
    dict: &Bound<'py, PyAny>,
    position: &mut ffi::Py_ssize_t,
) -> Option<(Borrowed<'a, 'py, PyAny>, Borrowed<'a, 'py, PyAny>)> {
    let (mut key, mut value) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the caller checked that this is a `dict`. The position is checked by the callee
    // against the dict as it is now; the caller uses the pair before the dict can change.
    unsafe {
        if ffi::PyDict_Next(dict.as_ptr(), position, &mut key, &mut value) == 0 {
            return None;
        }
        Some((Borrowed::from_ptr(dict.py(), key), Borrowed::from_ptr(dict.py(), value)))
    }
}

/// The value of a key in an exact dict.
#[inline]
pub(crate) fn dict_get<'a, 'py>(
    dict: Borrowed<'_, 'py, PyAny>,
    key: &Bound<'py, PyAny>,
) -> PyResult<Option<Borrowed<'a, 'py, PyAny>>> {
    // SAFETY: the caller checked that this is a `dict`; the borrowed result is used before it can change.
    unsafe {
        let value = ffi::PyDict_GetItemWithError(dict.as_ptr(), key.as_ptr());
        if !value.is_null() {
            return Ok(Some(Borrowed::from_ptr(dict.py(), value)));
        }
    }
    match PyErr::take(dict.py()) {
        Some(error) => Err(error),
        None => Ok(None),
    }
}

/// The elements of a set or frozenset (or subclass), by the builtin's own iteration.
pub(crate) fn set_elements<'py>(kind: Builtin, set: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = set.py();
    // SAFETY: the type objects of `set` and `frozenset` have `tp_iter`, which takes any instance
    // of them, subclasses included, and returns a new reference or null with an error set.
    let iterator = unsafe {
        let iterate = (*kind.type_object()).tp_iter.expect("sets can be iterated");
        Bound::from_owned_ptr_or_err(py, iterate(set.as_ptr()))?
    };
    iterator.try_iter()?.collect()
}

/// How many references to an object there are.
#[inline]
pub(crate) fn references(object: Borrowed<'_, '_, PyAny>) -> isize {
    // SAFETY: a live object has a reference count.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) }
}
