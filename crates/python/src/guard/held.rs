//! [`Held`]: an object that is recognised by its address.

use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

/// An object that is owned, or that a weak reference tells the end of.
pub(crate) enum Held {
    /// Owned: its address cannot be used again.
    Strong(Py<PyAny>),
    /// Known by its address for as long as the reference is alive.
    Weak { address: *mut ffi::PyObject, reference: Py<PyAny> },
}

// SAFETY: the address is only compared; everything else is as sendable as a reference to Python.
unsafe impl Send for Held {}
// SAFETY: as above.
unsafe impl Sync for Held {}

impl Held {
    /// Takes hold of an object: weakly if it can be referred to weakly.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> Self {
        // SAFETY: the type of a live object. Types that have a place for weak references allow them,
        // others answer with an error, which is not looked at.
        unsafe {
            if (*object.get_type_ptr()).tp_weaklistoffset == 0 && !has_managed_references(object) {
                return Self::strong(object);
            }
            let reference = ffi::PyWeakref_NewRef(object.as_ptr(), std::ptr::null_mut());
            match Bound::from_owned_ptr_or_err(object.py(), reference) {
                Ok(reference) => Self::Weak { address: object.as_ptr(), reference: reference.unbind() },
                Err(_) => Self::strong(object),
            }
        }
    }

    pub(crate) fn strong(object: &Bound<'_, PyAny>) -> Self {
        Self::Strong(object.clone().unbind())
    }

    /// Whether an object is the one that is held.
    #[inline]
    pub(crate) fn is(&self, object: *mut ffi::PyObject) -> bool {
        match self {
            Self::Strong(known) => known.as_ptr() == object,
            Self::Weak { address, reference } => *address == object && is_alive(reference),
        }
    }

    /// The object, unless it is gone; good until Python code runs.
    #[inline(always)]
    pub(crate) fn pointer(&self) -> Option<*mut ffi::PyObject> {
        match self {
            Self::Strong(known) => Some(known.as_ptr()),
            Self::Weak { address, reference } => is_alive(reference).then_some(*address),
        }
    }

    /// The object, unless it is gone.
    pub(crate) fn get<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match self {
            Self::Strong(known) => Some(known.bind(py).clone()),
            Self::Weak { address, reference } if is_alive(reference) => {
                // SAFETY: the reference is alive, so the object is.
                Some(unsafe { Bound::from_borrowed_ptr(py, *address) })
            }
            Self::Weak { .. } => None,
        }
    }

    /// The object that is owned: the one that is held, or the reference to it.
    pub(crate) fn owned(&self) -> *mut ffi::PyObject {
        match self {
            Self::Strong(object) | Self::Weak { reference: object, .. } => object.as_ptr(),
        }
    }

    /// Where the object is, or was.
    pub(super) fn address(&self) -> *mut ffi::PyObject {
        match self {
            Self::Strong(known) => known.as_ptr(),
            Self::Weak { address, .. } => *address,
        }
    }

    /// Where a reference keeps the object while that is alive, and the object; nothing if it is owned.
    pub(super) fn alive(&self) -> Option<(*const *mut ffi::PyObject, *mut ffi::PyObject)> {
        match self {
            Self::Strong(_) => None,
            Self::Weak { address, reference } => {
                let reference = reference.as_ptr().cast::<WeakReference>();
                // SAFETY: a weak reference, which is owned.
                Some((unsafe { &raw const (*reference).object }, *address))
            }
        }
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Strong(object) | Self::Weak { reference: object, .. } => visit.call(object),
        }
    }
}

/// The head of CPython's `PyWeakReference`, the same in 3.10 to 3.14.
#[repr(C)]
struct WeakReference {
    base: ffi::PyObject,
    /// `None` once the object is gone.
    object: *mut ffi::PyObject,
}

/// Whether what a weak reference refers to still exists.
#[inline(always)]
fn is_alive(reference: &Py<PyAny>) -> bool {
    // SAFETY: a weak reference, as `PyWeakref_NewRef` made it; the interpreter's lock is held.
    unsafe { (*reference.as_ptr().cast::<WeakReference>()).object != ffi::Py_None() }
}

/// Whether the interpreter itself keeps the weak references to an object.
fn has_managed_references(object: &Bound<'_, PyAny>) -> bool {
    // `Py_TPFLAGS_MANAGED_WEAKREF`, from 3.12 on.
    const MANAGED: std::ffi::c_ulong = 1 << 3;
    // SAFETY: the flags of a live type.
    cfg!(Py_3_12) && unsafe { ffi::PyType_GetFlags(object.get_type_ptr()) } & MANAGED != 0
}
