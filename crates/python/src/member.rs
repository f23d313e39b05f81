//! [`Member`]: an attribute that is stored in an instance, read without running Python code.

use std::cell::Cell;
use std::ffi::c_void;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use crate::layout::{self, Attributes};
use crate::walk::builtin::{dict_get, dict_len};

/// Where instances of a class keep an attribute.
pub(crate) struct Member {
    pub(crate) name: Py<PyString>,
    /// The place of a slot.
    slot: Option<isize>,
    /// Where it was found among inline values, in which table of names.
    place: Cell<(*const c_void, usize)>,
}

// SAFETY: the pointer is only compared.
unsafe impl Send for Member {}

// SAFETY: the cell holds a hint and is only touched with the interpreter's lock held.
unsafe impl Sync for Member {}

/// Nobody knows where the attributes of an object are.
pub(crate) struct Unknown;

impl Member {
    /// A member of the instances of a class.
    pub(crate) fn new(class: &Bound<'_, PyType>, name: &Bound<'_, PyString>) -> Self {
        let py = class.py();
        let slot = class.getattr_opt(name).ok().flatten();
        let slot = slot.and_then(|descriptor| layout::slot_offset(&descriptor, class.as_type_ptr()));
        let mut pointer = name.clone().into_ptr();
        // SAFETY: the pointer is an owned exact string, and remains one.
        let name = unsafe {
            if ffi::PyUnicode_CheckExact(pointer) != 0 {
                ffi::PyUnicode_InternInPlace(&raw mut pointer);
            }
            Bound::from_owned_ptr(py, pointer).cast_into_unchecked::<PyString>()
        };
        Self { name: name.unbind(), slot, place: Cell::new((std::ptr::null(), 0)) }
    }

    /// Whether it is kept in a slot of its own, and not among the other attributes.
    #[inline(always)]
    pub(crate) fn is_slot(&self) -> bool {
        self.slot.is_some()
    }

    /// Its place among inline values, in which table of names; nothing if it was last found elsewhere.
    pub(crate) fn inline_place(&self) -> Option<(*const c_void, usize)> {
        let (table, place) = self.place.get();
        (!self.is_slot() && !table.is_null()).then_some((table, place))
    }

    /// Reads it from an instance of the class that the member was made for.
    #[inline]
    pub(crate) fn read<'a, 'py>(
        &self,
        object: &Bound<'py, PyAny>,
    ) -> Result<Option<Borrowed<'a, 'py, PyAny>>, Unknown> {
        if let Some(offset) = self.slot {
            return Ok(layout::slot(object, offset));
        }
        self.read_from(object, &layout::attributes(object))
    }

    /// The same, of an instance whose attributes were found already.
    #[inline(always)]
    pub(crate) fn read_from<'a, 'py>(
        &self,
        object: &Bound<'py, PyAny>,
        attributes: &Attributes<'_, '_>,
    ) -> Result<Option<Borrowed<'a, 'py, PyAny>>, Unknown> {
        if let Attributes::Inline(inline) = attributes
            && self.slot.is_none()
            && let (table, place) = self.place.get()
            && table == inline.table()
        {
            // Names keep their places in the table of a class.
            return Ok(inline.value(object.py(), place));
        }
        self.search(object, attributes)
    }

    #[inline(never)]
    fn search<'a, 'py>(
        &self,
        object: &Bound<'py, PyAny>,
        attributes: &Attributes<'_, '_>,
    ) -> Result<Option<Borrowed<'a, 'py, PyAny>>, Unknown> {
        if let Some(offset) = self.slot {
            return Ok(layout::slot(object, offset));
        }
        let py = object.py();
        match attributes {
            Attributes::Empty => Ok(None),
            Attributes::Inline(inline) => {
                for at in 0..inline.len() {
                    let Some(name) = inline.name(py, at) else { continue };
                    // SAFETY: key tables of instances hold strings only; comparing them runs no code.
                    let equal = name.is(&self.name)
                        || unsafe { ffi::PyUnicode_Compare(name.as_ptr(), self.name.as_ptr()) } == 0;
                    if equal {
                        self.place.set((inline.table(), at));
                        return Ok(inline.value(py, at));
                    }
                }
                Ok(None)
            }
            Attributes::Dict(dict) => {
                // SAFETY: a live dict of the same interpreter.
                let dict = unsafe { Borrowed::from_ptr(py, dict.as_ptr()) };
                dict_get(dict, self.name.bind(py)).map_err(|_| Unknown)
            }
            Attributes::Unknown => {
                // SAFETY: the generic getter takes any object and returns a new reference or an error;
                // the instance keeps the dict, and the dict what is in it.
                let dict = unsafe {
                    let dict = ffi::PyObject_GenericGetDict(object.as_ptr(), std::ptr::null_mut());
                    Bound::from_owned_ptr_or_err(py, dict).map_err(|_| Unknown)?
                };
                dict_get(dict.as_borrowed(), self.name.bind(py)).map_err(|_| Unknown)
            }
        }
    }
}

/// How many attributes an instance has, slots aside.
pub(crate) fn count(object: &Bound<'_, PyAny>) -> Option<usize> {
    match layout::attributes(object) {
        Attributes::Empty => Some(0),
        Attributes::Inline(inline) => {
            Some((0..inline.len()).filter(|at| inline.value(object.py(), *at).is_some()).count())
        }
        Attributes::Dict(dict) => Some(dict_len(&dict)),
        Attributes::Unknown => None,
    }
}
