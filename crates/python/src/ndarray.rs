//! NumPy arrays, read where NumPy keeps what describes them.
//!
//! The head of the array struct is part of NumPy's binary interface, the same in 1.x and 2.x.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// The head of NumPy's `PyArrayObject`.
#[repr(C)]
pub(crate) struct ArrayHead {
    base: ffi::PyObject,
    pub(crate) data: *mut u8,
    pub(crate) ndim: i32,
    pub(crate) shape: *const isize,
    pub(crate) strides: *const isize,
    pub(crate) owner: *mut ffi::PyObject,
    pub(crate) dtype: *mut ffi::PyObject,
    pub(crate) flags: i32,
}

pub(crate) const C_CONTIGUOUS: i32 = 0x1;
pub(crate) const F_CONTIGUOUS: i32 = 0x2;
pub(crate) const ALIGNED: i32 = 0x100;
pub(crate) const WRITEABLE: i32 = 0x400;

/// `numpy.ndarray`, if the program has loaded NumPy.
pub(crate) fn ndarray_type(py: Python<'_>) -> Option<*mut ffi::PyTypeObject> {
    static FOUND: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if let Some(class) = FOUND.get(py) {
        return Some(class.bind(py).as_type_ptr());
    }
    let modules = py.import("sys").ok()?.getattr("modules").ok()?;
    let numpy = modules.get_item("numpy").ok()?;
    let class = numpy.getattr("ndarray").ok()?.cast_into::<PyType>().ok()?;
    // While NumPy is being imported the name may not be there yet; once it is, it stays.
    let _ = FOUND.set(py, class.unbind());
    FOUND.get(py).map(|class| class.bind(py).as_type_ptr())
}

/// The head of an array.
///
/// # Safety
///
/// `array` is an instance of `numpy.ndarray`, and no Python code runs while the head is used.
#[inline]
pub(crate) unsafe fn head<'a>(array: *mut ffi::PyObject) -> &'a ArrayHead {
    // SAFETY: as the caller promises.
    unsafe { &*array.cast::<ArrayHead>() }
}
