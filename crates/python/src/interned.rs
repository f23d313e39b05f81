//! Names that are looked up often, made once.
//!
//! The macro of PyO3 lets go of the interpreter's lock for a moment when a name is made. A process that is forked just
//! then has a cell that some thread it does not have is about to fill, and waits for it for ever. Here nobody waits: two
//! threads may make the same name, and one of them is kept.

use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A name, once it is made.
pub(crate) struct Interned {
    text: &'static str,
    object: AtomicPtr<ffi::PyObject>,
}

impl Interned {
    pub(crate) const fn new(text: &'static str) -> Self {
        Self { text, object: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The name.
    #[inline]
    pub(crate) fn get<'py>(&'static self, py: Python<'py>) -> &'py Bound<'py, PyString> {
        if self.object.load(Ordering::Acquire).is_null() {
            self.make(py);
        }
        // SAFETY: it is set, to a reference of its own, and never changes again; a `Py` is that pointer.
        let name: &'py Py<PyString> = unsafe { &*self.object.as_ptr().cast::<Py<PyString>>().cast_const() };
        name.bind(py)
    }

    #[cold]
    fn make(&self, py: Python<'_>) {
        let name = PyString::intern(py, self.text).unbind().into_ptr();
        let null = std::ptr::null_mut();
        if self.object.compare_exchange(null, name, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: a reference of our own, which nobody has seen.
            unsafe { ffi::Py_DECREF(name) };
        }
    }
}

/// A name that is made once: `intern!(py, "shape")`.
macro_rules! intern {
    ($py:expr, $text:expr) => {{
        static NAME: $crate::interned::Interned = $crate::interned::Interned::new($text);
        NAME.get($py)
    }};
}

pub(crate) use intern;
