//! Arguments to parameters, as Python does.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// More parameters than this are bound on the heap.
pub(super) const INLINE: usize = 32;

/// What a kernel takes.
pub(super) struct Parameters {
    /// Interned names, keyword-only ones last.
    pub(super) names: Vec<Py<PyString>>,
    /// How many can only be given by position.
    pub(super) by_position: usize,
    /// How many can be given by position.
    pub(super) positional: usize,
}

/// Why arguments do not fit. Python's own words for it are made by Python.
pub(super) struct Mismatch;

impl Parameters {
    /// Fills `slots`, one for each parameter, with borrowed arguments, or `defaults`.
    ///
    /// # Safety
    ///
    /// `arguments` and `keywords` are those of a vectorcall, and `slots` are as many as parameters.
    pub(super) unsafe fn bind(
        &self,
        arguments: *const *mut ffi::PyObject,
        count: usize,
        keywords: *mut ffi::PyObject,
        defaults: &[Option<Py<PyAny>>],
        slots: &mut [*mut ffi::PyObject],
    ) -> Result<(), Mismatch> {
        if count > self.positional {
            return Err(Mismatch);
        }
        slots.fill(std::ptr::null_mut());
        // SAFETY: there are `count` arguments.
        unsafe { std::ptr::copy_nonoverlapping(arguments, slots.as_mut_ptr(), count) };
        if !keywords.is_null() {
            // SAFETY: a tuple of names; their values follow the arguments by position.
            unsafe {
                for at in 0..ffi::PyTuple_GET_SIZE(keywords) {
                    let name = ffi::PyTuple_GET_ITEM(keywords, at);
                    let place = self.find(name).ok_or(Mismatch)?;
                    if !slots[place].is_null() {
                        return Err(Mismatch);
                    }
                    slots[place] = *arguments.add(count + at as usize);
                }
            }
        }
        for (slot, default) in slots.iter_mut().zip(defaults) {
            if slot.is_null() {
                *slot = default.as_ref().ok_or(Mismatch)?.as_ptr();
            }
        }
        Ok(())
    }

    /// The place of a parameter that may be given by name.
    ///
    /// # Safety
    ///
    /// `name` is a live string.
    unsafe fn find(&self, name: *mut ffi::PyObject) -> Option<usize> {
        let named = || self.names.iter().enumerate().skip(self.by_position);
        let identical = named().find(|(_, known)| known.as_ptr() == name);
        // SAFETY: live strings; comparing them runs no Python code.
        let is_equal = |known: &Py<PyString>| unsafe { ffi::PyUnicode_Compare(known.as_ptr(), name) } == 0;
        identical.or_else(|| named().find(|(_, known)| is_equal(known))).map(|(at, _)| at)
    }
}
