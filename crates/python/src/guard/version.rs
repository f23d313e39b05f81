//! Versions of dicts, where CPython keeps them.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The version of a dict: every change to it makes another one, unique in the process. Nothing where
/// the interpreter has none.
///
/// On 3.13 attributes that an instance stores inline go past the version of its dict; modules, and
/// dicts that are no instance's, do not.
#[inline]
pub(crate) fn dict_version(dict: &Bound<'_, PyDict>) -> Option<u64> {
    // SAFETY: a dict that is alive has it.
    version_word(dict.as_ptr()).map(|at| unsafe { at.read() })
}

/// Where a dict has its version; nothing where the interpreter has none.
#[inline]
pub(super) fn version_word(dict: *mut ffi::PyObject) -> Option<*const u64> {
    /// The head of CPython's `PyDictObject`, 3.10 to 3.13.
    #[repr(C)]
    struct Head {
        base: ffi::PyObject,
        used: isize,
        version: u64,
    }
    // SAFETY: a dict, or an instance of a subclass, begins like this. The low bits that 3.12 and
    // later use for other things only make versions differ that need not.
    let at = unsafe { &raw const (*dict.cast::<Head>()).version };
    cfg!(not(any(Py_3_14, Py_GIL_DISABLED))).then_some(at)
}
