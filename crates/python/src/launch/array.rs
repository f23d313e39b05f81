//! What counts of an array: the type of its elements, how many dimensions it has, how it is laid out.

use std::cell::Cell;
use std::ffi::{c_char, c_void};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use super::torch_layout::TorchLayout;
use crate::interned::intern;
use crate::ndarray::{self, ALIGNED, ArrayHead, C_CONTIGUOUS, F_CONTIGUOUS, WRITEABLE};
use keyprint_array::Alignment;
use keyprint_array::dlpack::{DlTensor, TensorSpec, Versioned};

/// The flags of a NumPy array that count.
const COUNTED: i32 = C_CONTIGUOUS | F_CONTIGUOUS | ALIGNED | WRITEABLE;

/// What counts of a NumPy array, in words that are cheap to compare.
pub(super) struct NumpySpec {
    /// `numpy.ndarray`, which is never unloaded.
    class: *mut ffi::PyTypeObject,
    /// The very data type. All arrays of a native type share it; others are looked at by the dispatcher.
    dtype: Py<PyAny>,
    ndim: i32,
    /// Which flags count, and what they are.
    mask: i32,
    flags: i32,
    alignment: Alignment,
}

/// Which flags count beside others: an array that is contiguous both ways counts as laid out the usual way.
fn mask(flags: i32) -> i32 {
    if flags & C_CONTIGUOUS != 0 { COUNTED & !F_CONTIGUOUS } else { COUNTED }
}

impl NumpySpec {
    /// # Safety
    ///
    /// `array` is an instance of `numpy.ndarray`.
    pub(super) unsafe fn of(py: Python<'_>, array: *mut ffi::PyObject, multiple: u32) -> Self {
        // SAFETY: as the caller promises; an array has a data type.
        unsafe {
            let head: &ArrayHead = ndarray::head(array);
            Self {
                class: ffi::Py_TYPE(array),
                dtype: Bound::from_borrowed_ptr(py, head.dtype).unbind(),
                ndim: head.ndim,
                mask: mask(head.flags),
                flags: head.flags & mask(head.flags),
                alignment: Alignment::of(head.data, multiple),
            }
        }
    }

    /// Whether an object is an array that is described by this.
    ///
    /// # Safety
    ///
    /// `array` is a live instance of `class`.
    #[inline(always)]
    pub(super) unsafe fn fits(&self, class: *mut ffi::PyTypeObject, array: *mut ffi::PyObject) -> bool {
        if class != self.class {
            return false;
        }
        // SAFETY: as the caller promises, and it is an array.
        unsafe {
            let head = ndarray::head(array);
            head.flags & self.mask == self.flags
                && head.ndim == self.ndim
                && head.dtype == self.dtype.as_ptr()
                && self.alignment.holds(head.data)
        }
    }

    pub(super) fn held(&self) -> &Py<PyAny> {
        &self.dtype
    }
}

/// DLPack's table of functions that a type offers, as far as it is used.
#[repr(C)]
struct ExchangeTable {
    major: u32,
    minor: u32,
    previous: *const ExchangeTable,
    allocate: *const c_void,
    managed_from: *const c_void,
    to_object: *const c_void,
    tensor_from: Option<TensorFrom>,
    current_stream: Option<CurrentStream>,
}

/// Returns the stream of a device that the library would put work on.
pub(super) type CurrentStream = unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> i32;

type TensorFrom = unsafe extern "C" fn(*mut ffi::PyObject, *mut DlTensor) -> i32;

/// An array whose type describes its instances through a table of C functions: torch tensors.
pub(super) struct ExchangeSpec {
    tensor_from: TensorFrom,
    spec: TensorSpec,
    /// Which device of its kind.
    pub(super) device_id: i32,
    current_stream: Option<CurrentStream>,
    needs_grad: Option<bool>,
    /// Whether instances may be meant with another sign, or conjugated: what is in memory is not what they are.
    has_marks: bool,
    /// Where instances keep that, if it is known.
    layout: Option<TorchLayout>,
    alignment: Alignment,
    /// The tensor that was looked at last; the object is only compared.
    last: Cell<(*mut ffi::PyObject, DlTensor)>,
}

impl ExchangeSpec {
    /// Nothing if the type offers no such table.
    pub(super) fn of(array: &Bound<'_, PyAny>, multiple: u32) -> PyResult<Option<Self>> {
        let py = array.py();
        let Some(capsule) = array.get_type().getattr_opt(intern!(py, "__dlpack_c_exchange_api__"))? else {
            return Ok(None);
        };
        // SAFETY: a capsule of this name holds such a table, which lives as long as the type.
        let table = unsafe {
            ffi::PyCapsule_GetPointer(capsule.as_ptr(), c"dlpack_exchange_api".as_ptr())
                .cast::<ExchangeTable>()
        };
        if table.is_null() {
            let _ = PyErr::take(py);
            return Ok(None);
        }
        // SAFETY: as above; the major version says that the fields are these.
        let (tensor_from, current_stream) = unsafe {
            if (*table).major != 1 {
                return Ok(None);
            }
            ((*table).tensor_from, (*table).current_stream)
        };
        let Some(tensor_from) = tensor_from else { return Ok(None) };
        let has_marks = array.get_type().hasattr(intern!(py, "is_neg"))?;
        if has_marks {
            check_marks(array, true)?;
        }
        let tensor = read(py, tensor_from, array.as_ptr())?;
        Ok(Some(Self {
            tensor_from,
            has_marks,
            layout: if has_marks { TorchLayout::of(&array.get_type()) } else { None },
            spec: tensor.spec(),
            device_id: tensor.device_id,
            current_stream,
            needs_grad: needs_grad(array)?,
            alignment: Alignment::of(tensor.first(), multiple),
            last: Cell::new((std::ptr::null_mut(), DlTensor::EMPTY)),
        }))
    }

    /// A tensor that fitted when it was last looked at, which no Python code has changed since.
    #[inline]
    pub(super) fn tensor(&self, array: *mut ffi::PyObject) -> Option<DlTensor> {
        let (object, tensor) = self.last.get();
        (object == array).then_some(tensor)
    }

    /// Whether a tensor is described by this.
    pub(super) fn fits(&self, array: &Bound<'_, PyAny>) -> PyResult<bool> {
        let tensor = read(array.py(), self.tensor_from, array.as_ptr())?;
        let fits = tensor.spec() == self.spec
            && tensor.device_id == self.device_id
            && self.alignment.holds(tensor.first());
        // SAFETY: the guard has compared the class with that of the tensor that the layout was found for.
        let is_plain = self.layout.is_some_and(|layout| unsafe { layout.is_plain(array.as_ptr()) })
            && tensor.code != COMPLEX;
        let fits = fits && self.has_same_marks(array, &tensor, is_plain)?;
        self.last.set((if fits { array.as_ptr() } else { std::ptr::null_mut() }, tensor));
        Ok(fits)
    }

    /// Whether what a tensor says of itself besides is what it was; raises if its memory does not hold what it shows.
    #[inline]
    fn has_same_marks(&self, array: &Bound<'_, PyAny>, tensor: &DlTensor, is_plain: bool) -> PyResult<bool> {
        if is_plain {
            return Ok(self.needs_grad != Some(true));
        }
        // Whole numbers are never meant with another sign.
        if self.has_marks && matches!(tensor.code, 2 | 4 | 5) {
            check_marks(array, tensor.code == COMPLEX)?;
        }
        Ok(self.needs_grad.is_none() || needs_grad(array)? == self.needs_grad)
    }

    /// Whether it is on a CUDA device.
    pub(super) fn is_on_cuda(&self) -> bool {
        self.spec.device_type == CUDA
    }

    /// What tells libraries apart: the function that says what a tensor is.
    pub(super) fn table(&self) -> usize {
        self.tensor_from as usize
    }

    /// The stream that the library would put work on now.
    pub(super) fn stream(&self, py: Python<'_>) -> PyResult<u64> {
        let Some(current_stream) = self.current_stream else { return Ok(0) };
        let mut stream = std::ptr::null_mut();
        // SAFETY: the function is the one that the type of the tensor offers.
        if unsafe { current_stream(CUDA, self.device_id, &raw mut stream) } != 0 {
            return Err(PyErr::take(py)
                .unwrap_or_else(|| PyTypeError::new_err("a library does not say which stream it uses")));
        }
        Ok(stream as u64)
    }
}

/// DLPack's number of complex numbers.
const COMPLEX: u8 = 5;

/// DLPack's number of CUDA devices.
pub(super) const CUDA: i32 = 2;

fn read(py: Python<'_>, tensor_from: TensorFrom, array: *mut ffi::PyObject) -> PyResult<DlTensor> {
    let mut tensor = DlTensor::EMPTY;
    // SAFETY: the function is the one that the type of this object offers for its instances.
    if unsafe { tensor_from(array, &raw mut tensor) } != 0 {
        return Err(
            PyErr::take(py).unwrap_or_else(|| PyTypeError::new_err("a tensor does not describe itself"))
        );
    }
    if tensor.first().is_null() && !tensor.sizes().contains(&0) {
        return Err(PyTypeError::new_err(
            "a tensor that has elements and no memory: it stands for another one",
        ));
    }
    Ok(tensor)
}

/// Refuses a tensor whose elements are not meant as they are in memory.
fn check_marks(array: &Bound<'_, PyAny>, is_complex: bool) -> PyResult<()> {
    let py = array.py();
    for (question, answer, what) in [
        (intern!(py, "is_neg"), "resolve_neg", "negative"),
        (intern!(py, "is_conj"), "resolve_conj", "conjugate"),
    ]
    .into_iter()
    .take(if is_complex { 2 } else { 1 })
    {
        if array.call_method0(question)?.is_truthy()? {
            return Err(PyTypeError::new_err(format!(
                "a tensor with the {what} bit: its memory holds other elements than it shows\n\
                 hint: pass `tensor.{answer}()`"
            )));
        }
    }
    Ok(())
}

fn needs_grad(array: &Bound<'_, PyAny>) -> PyResult<Option<bool>> {
    match array.getattr_opt(intern!(array.py(), "requires_grad"))? {
        Some(answer) => Ok(Some(answer.is_truthy()?)),
        None => Ok(None),
    }
}

/// Data type, dimensions, layout, kind of device, which one, whether gradients are needed, whether it is aligned.
type TensorText = (String, i32, char, i32, i32, Option<bool>, bool);

/// Returns what is known of a tensor whose type offers a table of functions, and whether its first element
/// lies at a multiple; nothing if the type does not.
#[pyfunction]
#[pyo3(signature = (array, multiple, /))]
pub(crate) fn _array_spec(array: &Bound<'_, PyAny>, multiple: u32) -> PyResult<Option<TensorText>> {
    Ok(ExchangeSpec::of(array, multiple)?.map(|exchange| {
        let TensorSpec { ndim, layout, device_type, .. } = exchange.spec;
        let aligned = exchange.alignment.is_aligned();
        (exchange.spec.dtype(), ndim, layout, device_type, exchange.device_id, exchange.needs_grad, aligned)
    }))
}

/// Data type, dimensions, layout, device, address of the first element, whether it may be written.
type CapsuleText = (String, i32, char, i32, usize, bool);

/// Returns what anything with `__dlpack__` says of itself. Nothing is copied.
#[pyfunction]
#[pyo3(signature = (array, /))]
pub(crate) fn _dlpack_spec(array: &Bound<'_, PyAny>) -> PyResult<CapsuleText> {
    let py = array.py();
    let name = intern!(py, "__dlpack__");
    let versions = PyDict::new(py);
    versions.set_item(intern!(py, "max_version"), (1, 0))?;
    let capsule = match array.call_method(name, (), Some(&versions)) {
        // Older than versions of DLPack.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => array.call_method0(name)?,
        capsule => capsule?,
    };
    let capsule = capsule.cast_into::<PyCapsule>()?;
    // SAFETY: the capsule is alive; its name is a C string or null, and says which struct it points to.
    let (tensor, writable) = unsafe {
        let name: *const c_char = ffi::PyCapsule_GetName(capsule.as_ptr());
        let known = (!name.is_null()).then(|| std::ffi::CStr::from_ptr(name));
        let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), name);
        if known == Some(c"dltensor") {
            (*pointer.cast::<DlTensor>(), true)
        } else if known == Some(c"dltensor_versioned") {
            let managed = &*pointer.cast::<Versioned>();
            (managed.tensor, managed.flags & Versioned::READ_ONLY == 0)
        } else {
            return Err(PyValueError::new_err("`__dlpack__` returned something that is not a tensor"));
        }
    };
    // The shape belongs to the capsule, which is alive until here.
    let spec = tensor.spec();
    drop(capsule);
    Ok((spec.dtype(), spec.ndim, spec.layout, spec.device_type, tensor.first() as usize, writable))
}
