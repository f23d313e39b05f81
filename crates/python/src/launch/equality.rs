//! Equality of values that counts for a launch: exact, and without Python code.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// Whether two objects are equal values of one builtin type that cannot change, or short tuples of such.
/// Anything else may have changed, even if it is the same object.
pub(super) fn equal(known: *mut ffi::PyObject, value: *mut ffi::PyObject) -> bool {
    equal_within(known, value, 4)
}

fn equal_within(known: *mut ffi::PyObject, value: *mut ffi::PyObject, levels: u32) -> bool {
    // SAFETY: live objects. Comparing exact builtins runs no Python code.
    unsafe {
        let class = ffi::Py_TYPE(known);
        if class != ffi::Py_TYPE(value) {
            return false;
        }
        if class == &raw mut ffi::PyFloat_Type {
            // Zeros of both signs and all NaNs are told apart by their bits.
            return ffi::PyFloat_AS_DOUBLE(known).to_bits() == ffi::PyFloat_AS_DOUBLE(value).to_bits();
        }
        if class == &raw mut ffi::PyBool_Type || known == ffi::Py_None() || known == ffi::Py_Ellipsis() {
            return known == value;
        }
        if class == &raw mut ffi::PyComplex_Type {
            let bits = |number| {
                (ffi::PyComplex_RealAsDouble(number).to_bits(), ffi::PyComplex_ImagAsDouble(number).to_bits())
            };
            return bits(known) == bits(value);
        }
        // A tuple by another name is one as well, if it has nothing else.
        let is_tuple = class == &raw mut ffi::PyTuple_Type
            || ffi::PyTuple_Check(known) != 0 && (*class).tp_dictoffset == 0 && is_target(class);
        if is_tuple {
            let length = ffi::PyTuple_GET_SIZE(known);
            let item = |at| (ffi::PyTuple_GET_ITEM(known, at), ffi::PyTuple_GET_ITEM(value, at));
            return levels > 0
                && length == ffi::PyTuple_GET_SIZE(value)
                && length <= 16
                && (0..length).all(|at| equal_within(item(at).0, item(at).1, levels - 1));
        }
        let plain = class == &raw mut ffi::PyLong_Type
            || class == &raw mut ffi::PyUnicode_Type
            || class == &raw mut ffi::PyBytes_Type;
        plain && (known == value || ffi::PyObject_RichCompareBool(known, value, ffi::Py_EQ) == 1)
    }
}

/// Whether a class is `keyprint.Target`.
fn is_target(class: *mut ffi::PyTypeObject) -> bool {
    // SAFETY: called with the lock held, on a live type.
    unsafe {
        let py = Python::assume_attached();
        TARGET.get(py).is_some_and(|known| known.as_ptr() == class.cast())
    }
}

static TARGET: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Tells the dispatcher which class targets are of.
#[pyfunction]
#[pyo3(signature = (class, /))]
pub(crate) fn _set_target_type(class: Bound<'_, PyType>) {
    let _ = TARGET.set(class.py(), class.clone().unbind());
}
