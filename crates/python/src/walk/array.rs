//! Arrays: elements in logical order, whatever their layout in memory.
//!
//! [`Elements`] is a view of somebody's memory: NumPy through the array interface, anything with a
//! buffer, other libraries through DLPack. Contiguous native elements are hashed where they are;
//! others are gathered through a small buffer.

use std::ffi::{CStr, c_char, c_int, c_void};

use keyprint_fingerprint::{ItemHasher, Stream, tag};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::element::{Descriptor, Element};
use crate::dlpack::DlTensor;
use crate::failure::{Failure, Walked};
use crate::interned::intern;

/// Bytes hashed between two looks at pending signals.
const CHUNK: usize = 16 << 20;

/// Bytes gathered before they are hashed.
const GATHER: usize = 64 << 10;

/// A view of an array's memory.
pub(crate) struct Elements<'py> {
    data: *const u8,
    shape: Vec<usize>,
    strides: Vec<isize>,
    element: Element,
    /// How the buffer itself describes its elements; empty for what is no buffer.
    format: String,
    /// What keeps the memory alive and in place.
    _keep: Keep<'py>,
    py: Python<'py>,
}

enum Keep<'py> {
    Object { _capsule: Bound<'py, PyAny>, _owner: Bound<'py, PyAny> },
    Buffer { _buffer: Box<HeldBuffer> },
}

struct HeldBuffer(ffi::Py_buffer);

impl Drop for HeldBuffer {
    fn drop(&mut self) {
        // SAFETY: the buffer was acquired by `PyObject_GetBuffer`, and the interpreter lock is held
        // wherever `Elements` lives.
        unsafe { ffi::PyBuffer_Release(&mut self.0) };
    }
}

/// The C struct behind `__array_struct__`, as NumPy documents it.
#[repr(C)]
struct ArrayInterface {
    two: c_int,
    nd: c_int,
    typekind: c_char,
    itemsize: c_int,
    flags: c_int,
    shape: *const ffi::Py_intptr_t,
    strides: *const ffi::Py_intptr_t,
    data: *const c_void,
}

impl<'py> Elements<'py> {
    /// The elements of a NumPy array whose elements are plain data.
    pub(crate) fn of_numpy(array: &Bound<'py, PyAny>, element: Element) -> Walked<Self> {
        let py = array.py();
        let capsule = array.getattr(intern!(py, "__array_struct__"))?;
        // SAFETY: NumPy documents the capsule as nameless and as pointing to this struct, whose
        // first member is 2; shape and strides have `nd` entries. The capsule and the array are kept.
        unsafe {
            let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), std::ptr::null());
            let Some(interface) = pointer.cast::<ArrayInterface>().as_ref() else {
                return Err(PyErr::fetch(py).into());
            };
            if interface.two != 2 || interface.itemsize as usize != element.size {
                return Err(Failure::refuse(
                    "array-format",
                    "the array does not follow NumPy's array interface",
                ));
            }
            let dims = interface.nd as usize;
            let shape: Vec<usize> = entries(interface.shape, dims)
                .unwrap_or_default()
                .iter()
                .map(|length| *length as usize)
                .collect();
            let strides = match entries(interface.strides, dims) {
                Some(strides) => strides.to_vec(),
                None => row_major(&shape, element.size),
            };
            Ok(Self {
                data: interface.data.cast(),
                shape,
                strides,
                element,
                format: String::new(),
                _keep: Keep::Object { _capsule: capsule, _owner: array.clone() },
                py,
            })
        }
    }

    /// The elements of anything with a buffer.
    pub(crate) fn of_buffer(object: &Bound<'py, PyAny>) -> Walked<Self> {
        let py = object.py();
        let mut buffer = Box::new(HeldBuffer(ffi::Py_buffer::new()));
        // SAFETY: the buffer is released when `HeldBuffer` is dropped, and only if it was acquired:
        // on failure its owner is null and releasing does nothing. Shape and strides have `ndim`
        // entries or are null, whatever was asked for.
        let (data, shape, strides, format, size) = unsafe {
            if ffi::PyObject_GetBuffer(object.as_ptr(), &mut buffer.0, ffi::PyBUF_FULL_RO) != 0 {
                return Err(Failure::refuse("array-format", "the object does not give a view of its memory")
                    .because(py, PyErr::fetch(py)));
            }
            let view = &buffer.0;
            if !view.suboffsets.is_null() {
                return Err(Failure::refuse(
                    "array-format",
                    "the object's memory is scattered behind pointers",
                ));
            }
            let size = view.itemsize as usize;
            let shape: Vec<usize> = match entries(view.shape, view.ndim as usize) {
                Some(shape) => shape.iter().map(|length| *length as usize).collect(),
                None => vec![(view.len as usize).checked_div(size).unwrap_or(0)],
            };
            let strides = match entries(view.strides, view.ndim as usize) {
                Some(strides) if strides.len() == shape.len() => strides.to_vec(),
                _ => row_major(&shape, size),
            };
            let format =
                if view.format.is_null() { "B" } else { CStr::from_ptr(view.format).to_str().unwrap_or("") };
            (view.buf.cast::<u8>().cast_const(), shape, strides, format.to_owned(), size)
        };
        let element = Element::of_format(&format, size)?;
        Ok(Self { data, shape, strides, element, format, _keep: Keep::Buffer { _buffer: buffer }, py })
    }

    /// The elements of an array of another library, if they are in this machine's own memory; what it
    /// raised if it does not hand them out.
    pub(crate) fn of_foreign(object: &Bound<'py, PyAny>) -> Walked<Result<Self, PyErr>> {
        let py = object.py();
        if let Some(refusal) = without_elements(object, true)? {
            return Err(refusal);
        }
        let device = match object.getattr_opt(intern!(py, "__dlpack_device__"))? {
            Some(device) => {
                let (kind, _): (Bound<'py, PyAny>, Bound<'py, PyAny>) = device.call0()?.extract()?;
                // Some libraries give an enum.
                kind.call_method0(intern!(py, "__int__"))?.extract::<i64>()?
            }
            None => i64::MAX,
        };
        if device != 1 {
            return Err(on_device(object)?);
        }
        let capsule = match resolved(object)?.call_method0(intern!(py, "__dlpack__")) {
            Ok(capsule) => capsule,
            Err(error) => return Ok(Err(error)),
        };
        // SAFETY: a capsule of this name points to a `DLManagedTensor`, which begins with the
        // tensor and stays valid while the capsule, which we do not consume, is alive.
        unsafe {
            let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), c"dltensor".as_ptr());
            let Some(tensor) = pointer.cast::<DlTensor>().as_ref() else {
                return Err(PyErr::fetch(py).into());
            };
            if tensor.device_type != 1 {
                return Err(on_device(object)?);
            }
            let element = Element::of_dlpack(tensor.code, tensor.bits, tensor.lanes)?;
            let dims = tensor.ndim as usize;
            let shape: Vec<usize> = entries(tensor.shape, dims)
                .unwrap_or_default()
                .iter()
                .map(|length| *length as usize)
                .collect();
            let strides = match entries(tensor.strides, dims) {
                Some(strides) => {
                    strides.iter().map(|stride| *stride as isize * element.size as isize).collect()
                }
                None => row_major(&shape, element.size),
            };
            let data = tensor.data.add(tensor.byte_offset as usize);
            let keep = Keep::Object { _capsule: capsule, _owner: object.clone() };
            Ok(Ok(Self { data, shape, strides, element, format: String::new(), _keep: keep, py }))
        }
    }

    /// How a buffer describes its elements.
    pub(crate) fn format(&self) -> &str {
        &self.format
    }

    fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the elements lie one after the other, in logical order.
    fn is_contiguous(&self) -> bool {
        let dense = row_major(&self.shape, self.element.size);
        self.count() == 0
            || self
                .shape
                .iter()
                .zip(&self.strides)
                .zip(dense)
                .all(|((length, stride), dense)| *length == 1 || *stride == dense)
    }

    /// `C`, `F` or `strided`.
    fn order(&self) -> &'static str {
        if self.is_contiguous() {
            return "C";
        }
        let reversed: Vec<usize> = self.shape.iter().rev().copied().collect();
        let dense = row_major(&reversed, self.element.size).into_iter().rev();
        let fortran = self
            .shape
            .iter()
            .zip(&self.strides)
            .zip(dense)
            .all(|((length, stride), dense)| *length == 1 || *stride == dense);
        if fortran { "F" } else { "strided" }
    }

    /// Writes the array by content.
    pub(crate) fn write(&self, stream: &mut Stream) -> Walked<()> {
        let mark = stream.begin(tag::ARRAY);
        self.element.descriptor.write(stream);
        stream.length(self.shape.len());
        for length in &self.shape {
            stream.length(*length);
        }
        let bytes = self.count() * self.element.packed_size();
        stream.length(bytes);
        if stream.mark() - mark + bytes <= tag::INLINE_LIMIT {
            return self.each_run(&mut |run| {
                stream.replay(run);
                Ok(())
            });
        }
        let mut hasher = ItemHasher::new();
        hasher.update(&stream.bytes()[mark..]);
        self.each_run(&mut |run| {
            for chunk in run.chunks(CHUNK) {
                hasher.update(chunk);
                if run.len() > CHUNK {
                    self.py.check_signals()?;
                }
            }
            Ok(())
        })?;
        stream.replace(mark, hasher.finish());
        Ok(())
    }

    /// Writes the array by specification.
    pub(crate) fn write_spec(&self, stream: &mut Stream) {
        write_spec(stream, &self.element.descriptor, self.shape.len(), self.order(), &[], None);
    }

    /// All bytes of a single element, in the canonical form.
    pub(crate) fn packed(&self) -> Walked<Vec<u8>> {
        let mut packed = Vec::new();
        self.each_run(&mut |run| {
            packed.extend_from_slice(run);
            Ok(())
        })?;
        Ok(packed)
    }

    pub(crate) fn descriptor(&self) -> &Descriptor {
        &self.element.descriptor
    }

    /// Hands out the elements' bytes in logical order, in runs.
    fn each_run(&self, take: &mut dyn FnMut(&[u8]) -> Walked<()>) -> Walked<()> {
        let count = self.count();
        if count == 0 || self.element.packed_size() == 0 {
            return Ok(());
        }
        if self.element.is_plain() && self.is_contiguous() {
            // SAFETY: the array has `count` elements, one after the other, from `data` on.
            return take(unsafe { std::slice::from_raw_parts(self.data, count * self.element.size) });
        }
        // Rows of the last axis are gathered element by element; the other axes are counted through.
        let (row, stride) = match (self.shape.last(), self.strides.last()) {
            (Some(row), Some(stride)) => (*row, *stride),
            _ => (1, 0),
        };
        let outer = self.shape.len().saturating_sub(1);
        let batch = (GATHER / self.element.packed_size().max(1)).max(1);
        let mut gathered = Vec::with_capacity(GATHER + self.element.packed_size());
        let mut index = vec![0usize; outer];
        let mut start = self.data;
        for _ in 0..count / row {
            let mut at = 0;
            while at < row {
                let many = batch.min(row - at);
                // SAFETY: the elements `at..at + many` of the row at `index`, which is in range.
                unsafe {
                    self.element.pack_many(start.offset(at as isize * stride), stride, many, &mut gathered)
                };
                at += many;
                if gathered.len() >= GATHER {
                    take(&gathered)?;
                    gathered.clear();
                    self.py.check_signals()?;
                }
            }
            for axis in (0..outer).rev() {
                index[axis] += 1;
                // The pointer may pass the end for a moment; it is only followed when in range.
                start = start.wrapping_offset(self.strides[axis]);
                if index[axis] < self.shape[axis] {
                    break;
                }
                start = start.wrapping_offset(-self.strides[axis] * self.shape[axis] as isize);
                index[axis] = 0;
            }
        }
        take(&gathered)
    }
}

/// The array whose memory holds the elements as they are: torch keeps signs and conjugates to be taken
/// beside the memory, and hands out nothing that takes part in differentiation.
fn resolved<'py>(object: &Bound<'py, PyAny>) -> Walked<Bound<'py, PyAny>> {
    let py = object.py();
    let mut array = object.clone();
    if array.getattr_opt(intern!(py, "resolve_neg"))?.is_none() {
        return Ok(array);
    }
    for step in ["detach", "resolve_conj", "resolve_neg"] {
        array = array.call_method0(step)?;
    }
    Ok(array)
}

/// Why an array of torch has no elements to be read, or no specification if they are not, if it has none.
pub(crate) fn without_elements(object: &Bound<'_, PyAny>, is_read: bool) -> Walked<Option<Failure>> {
    let py = object.py();
    let holds = |name: &str| -> PyResult<bool> {
        object.getattr_opt(name)?.map_or(Ok(false), |answer| Ok(answer.extract::<bool>().unwrap_or(false)))
    };
    let what = if is_read && holds("is_meta")? {
        "is on the device `meta`, where arrays have no elements".to_owned()
    } else if holds("is_quantized")? {
        "is quantised: its elements mean something only with its scales".to_owned()
    } else if let Some(layout) = object.getattr_opt(intern!(py, "layout"))? {
        let layout = layout.str()?.to_string_lossy().into_owned();
        if !layout.starts_with("torch.") || layout == "torch.strided" {
            return Ok(None);
        }
        format!("has the layout `{layout}`: its elements are not all there")
    } else {
        return Ok(None);
    };
    let name = object.get_type().fully_qualified_name()?;
    Ok(Some(
        Failure::refuse("array-format", format!("a `{name}` {what}"))
            .hint("fingerprint what it consists of (`values()`, `indices()`, scales), or give a rule for it"),
    ))
}

/// What a program can observe of an array beside its elements: whether gradients are recorded, and whether
/// its type gives way in promotion.
pub(crate) fn marks<'py>(object: &Bound<'py, PyAny>) -> Walked<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    let py = object.py();
    let mut marks = Vec::new();
    for name in ["requires_grad", "weak_type"] {
        if let Some(mark) = object.getattr_opt(name)?
            && mark.extract::<bool>().unwrap_or(false)
        {
            marks.push((PyString::intern(py, name).into_any(), mark));
        }
    }
    Ok(marks)
}

/// Writes an array by specification.
pub(crate) fn write_spec(
    stream: &mut Stream,
    descriptor: &Descriptor,
    dims: usize,
    order: &str,
    element_shape: &[usize],
    needs_grad: Option<bool>,
) {
    let mark = stream.begin(tag::ARRAY_SPEC);
    descriptor.write(stream);
    stream.length(dims);
    stream.name(order);
    stream.length(element_shape.len());
    for length in element_shape {
        stream.length(*length);
    }
    match needs_grad {
        None => stream.none(),
        Some(answer) => stream.bool(answer),
    }
    stream.close(mark);
}

/// The entries of a table that may not be there.
///
/// # Safety
///
/// `table` is null or points to `count` values that live as long as the result is used.
unsafe fn entries<'a, T>(table: *const T, count: usize) -> Option<&'a [T]> {
    if count == 0 {
        return Some(&[]);
    }
    // SAFETY: as the caller promises.
    (!table.is_null()).then(|| unsafe { std::slice::from_raw_parts(table, count) })
}

fn row_major(shape: &[usize], size: usize) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut step = size as isize;
    for (stride, length) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step = step.wrapping_mul(*length as isize);
    }
    strides
}

fn on_device(object: &Bound<'_, PyAny>) -> Walked<Failure> {
    let class = object.get_type();
    let name = class.fully_qualified_name()?;
    Ok(Failure::refuse("device-array", format!("a `{name}` lives on a device; its content is not copied to the host unasked"))
        .hint("copy it yourself, or use arrays=\"spec\" (dtype, rank, layout) or arrays=\"identity\" (this very array, in this process)"))
}
