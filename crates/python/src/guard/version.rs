//! Versions of dicts, where CPython keeps them.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The version of a dict: every change to it makes another one, unique in the process. Nothing where
/// the interpreter has none.
///
/// On 3.13 attributes that an instance stores inline go past the version of its dict; modules, and
/// dicts that are no instance's, do not.
#[cfg(not(any(Py_3_14, Py_GIL_DISABLED)))]
#[inline]
pub(crate) fn dict_version(dict: &Bound<'_, PyDict>) -> Option<u64> {
    /// The head of CPython's `PyDictObject`, 3.10 to 3.13.
    #[repr(C)]
    struct Head {
        base: pyo3::ffi::PyObject,
        used: isize,
        version: u64,
    }
    // SAFETY: a dict, or an instance of a subclass, begins like this. The low bits that 3.12 and
    // later use for other things only make versions differ that need not.
    Some(unsafe { (*dict.as_ptr().cast::<Head>()).version })
}

/// The version of a dict, which this interpreter does not keep.
#[cfg(any(Py_3_14, Py_GIL_DISABLED))]
#[inline]
pub(crate) fn dict_version(_: &Bound<'_, PyDict>) -> Option<u64> {
    None
}
