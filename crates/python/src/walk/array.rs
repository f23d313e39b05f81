//! Arrays: where the elements of a Python object are.
//!
//! [`Elements`] is a view of somebody's memory: NumPy through the array interface, anything with a
//! buffer, other libraries through DLPack.

use std::ffi::{CStr, c_char, c_int, c_void};

use keyprint_array::dlpack::DlTensor;
use keyprint_array::{Descriptor, Element, Strided};
use keyprint_fingerprint::Stream;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::failure::{Failure, Walked};
use crate::interned::intern;

/// A view of an array's memory.
pub(crate) struct Elements<'py> {
    view: Strided,
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
            if interface.two != 2 || interface.itemsize as usize != element.size() {
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
            let strides = entries(interface.strides, dims).map(<[_]>::to_vec);
            Ok(Self {
                view: Strided::new(interface.data.cast(), shape, strides, element),
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
            let strides = entries(view.strides, view.ndim as usize).map(<[_]>::to_vec);
            let format =
                if view.format.is_null() { "B" } else { CStr::from_ptr(view.format).to_str().unwrap_or("") };
            (view.buf.cast::<u8>().cast_const(), shape, strides, format.to_owned(), size)
        };
        let view = Strided::new(data, shape, strides, Element::of_format(&format, size)?);
        Ok(Self { view, format, _keep: Keep::Buffer { _buffer: buffer }, py })
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
            let shape: Vec<usize> = tensor.sizes().iter().map(|length| *length as usize).collect();
            let size = element.size() as isize;
            let strides =
                (0..shape.len()).filter_map(|at| tensor.stride(at)).map(|stride| stride as isize * size);
            let view = Strided::new(tensor.first(), shape, Some(strides.collect()), element);
            let keep = Keep::Object { _capsule: capsule, _owner: object.clone() };
            Ok(Ok(Self { view, format: String::new(), _keep: keep, py }))
        }
    }

    /// How a buffer describes its elements.
    pub(crate) fn format(&self) -> &str {
        &self.format
    }

    /// Writes the array by content.
    pub(crate) fn write(&self, stream: &mut Stream) -> Walked<()> {
        // SAFETY: whoever described the memory keeps it, and is kept.
        unsafe { self.view.write(stream, || self.py.check_signals()) }?;
        Ok(())
    }

    /// Writes the array by specification.
    pub(crate) fn write_spec(&self, stream: &mut Stream) {
        self.view.write_spec(stream);
    }

    /// All bytes that count, in the canonical form.
    pub(crate) fn packed(&self) -> Vec<u8> {
        // SAFETY: as above.
        unsafe { self.view.packed() }
    }

    pub(crate) fn descriptor(&self) -> &Descriptor {
        self.view.element().descriptor()
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

fn on_device(object: &Bound<'_, PyAny>) -> Walked<Failure> {
    let class = object.get_type();
    let name = class.fully_qualified_name()?;
    Ok(Failure::refuse("device-array", format!("a `{name}` lives on a device; its content is not copied to the host unasked"))
        .hint("copy it yourself, or use arrays=\"spec\" (dtype, rank, layout) or arrays=\"identity\" (this very array, in this process)"))
}
