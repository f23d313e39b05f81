//! Where instances keep their attributes: slots, dictionaries, and inline values.
//!
//! `getattr` costs some 25 ns a field, and `__dict__` makes an instance slower for its owner from
//! then on. CPython 3.11-3.13 keep the attributes of ordinary instances in an array beside the
//! object, in the order of a key table shared by the class; reading that array costs 2 ns and
//! changes nothing. The layout is private, so it is used only on the versions it is known for, and
//! only after a probe at start-up has read a few instances both ways and found the same.

// CPython 3.10 keeps attributes in dictionaries only.
#![cfg_attr(not(Py_3_11), allow(dead_code, unused_imports))]

use std::ffi::c_void;
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::walk::builtin::dict_get;

/// The attributes of an instance that are not in slots.
pub(crate) enum Attributes<'a, 'py> {
    /// There are none.
    Empty,
    /// In an ordinary dictionary.
    Dict(Borrowed<'a, 'py, PyAny>),
    /// In an array, by the class's key table.
    Inline(InlineValues),
    /// Somewhere that only Python code knows.
    Unknown,
}

/// The inline values of one instance. Valid until any Python code runs.
#[derive(Clone, Copy)]
pub(crate) struct InlineValues {
    keys: *const SharedKeys,
    values: *const *mut ffi::PyObject,
}

/// The head of CPython's `PyDictKeysObject`, 3.11 to 3.13.
#[repr(C)]
struct SharedKeys {
    refcnt: isize,
    log2_size: u8,
    log2_index_bytes: u8,
    kind: u8,
    version: u32,
    usable: isize,
    entries: isize,
}

/// Keys of a table whose entries are a string and a value.
const KIND_GENERAL: u8 = 0;

impl InlineValues {
    /// How many names the class's table has.
    #[inline]
    pub(crate) fn len(self) -> usize {
        // SAFETY: `keys` came from the live class of a live instance.
        unsafe { (*self.keys).entries as usize }
    }

    /// The table itself, to recognise it again. Names keep their places in it.
    #[inline]
    pub(crate) fn table(self) -> *const c_void {
        self.keys.cast()
    }

    /// Where the values are, in the places of their names: null, or a live object.
    #[inline]
    pub(crate) fn first(self) -> *const *mut ffi::PyObject {
        self.values
    }

    /// The value in a place, if it is set.
    #[inline]
    pub(crate) fn value<'a, 'py>(self, py: Python<'py>, at: usize) -> Option<Borrowed<'a, 'py, PyAny>> {
        debug_assert!(at < self.len());
        // SAFETY: the array has a place for every name of the table; a place is null or a live object.
        unsafe {
            let value = *self.values.add(at);
            if value.is_null() { None } else { Some(Borrowed::from_ptr(py, value)) }
        }
    }

    /// The name of a place.
    pub(crate) fn name<'a, 'py>(self, py: Python<'py>, at: usize) -> Option<Borrowed<'a, 'py, PyAny>> {
        debug_assert!(at < self.len());
        // SAFETY: the entries, pairs of pointers, follow the index, whose size the head gives.
        unsafe {
            let index = self.keys.add(1).cast::<u8>();
            let entries = index.add(1 << (*self.keys).log2_index_bytes).cast::<[*mut ffi::PyObject; 2]>();
            let name = (*entries.add(at))[0];
            if name.is_null() { None } else { Some(Borrowed::from_ptr(py, name)) }
        }
    }
}

/// Finds the attributes of an instance.
#[inline]
pub(crate) fn attributes<'a, 'py>(object: &Bound<'py, PyAny>) -> Attributes<'a, 'py> {
    let py = object.py();
    let class = object.get_type_ptr();
    // SAFETY: the type of a live object is alive.
    let (flags, offset) = unsafe { (flags(class), (*class).tp_dictoffset) };
    #[cfg(Py_3_11)]
    if flags & ffi::Py_TPFLAGS_MANAGED_DICT != 0 {
        if !probed(py) {
            return Attributes::Unknown;
        }
        // SAFETY: the probe has shown that this interpreter has the layout.
        return unsafe { managed(py, object.as_ptr(), class) };
    }
    let _ = flags;
    if offset == 0 {
        return Attributes::Empty;
    }
    // SAFETY: a type with a dict offset and no managed dict has a pointer to its dict there.
    unsafe {
        let place = if offset > 0 {
            object.as_ptr().byte_offset(offset).cast::<*mut ffi::PyObject>()
        } else {
            _PyObject_GetDictPtr(object.as_ptr())
        };
        match place.as_ref() {
            Some(dict) if !dict.is_null() => Attributes::Dict(Borrowed::from_ptr(py, *dict)),
            _ => Attributes::Empty,
        }
    }
}

/// The flags of a type, without a call.
///
/// # Safety
///
/// `class` is a live type.
#[inline]
unsafe fn flags(class: *mut ffi::PyTypeObject) -> std::ffi::c_ulong {
    // SAFETY: as the caller promises.
    unsafe { (*class).tp_flags }
}

unsafe extern "C" {
    fn _PyObject_GetDictPtr(object: *mut ffi::PyObject) -> *mut *mut ffi::PyObject;
}

/// # Safety
///
/// `object` is alive, an instance of `class`, which has a managed dict; [`probed`] is true.
#[cfg(Py_3_11)]
#[inline]
unsafe fn managed<'a, 'py>(
    py: Python<'py>,
    object: *mut ffi::PyObject,
    class: *mut ffi::PyTypeObject,
) -> Attributes<'a, 'py> {
    // SAFETY: the layouts of 3.11, 3.12 and 3.13 in turn, as the caller promises; the class has a
    // managed dict, so it is a heap type.
    unsafe {
        let keys = (*class.cast::<ffi::PyHeapTypeObject>()).ht_cached_keys.cast::<SharedKeys>();
        let words = object.cast::<*mut c_void>();
        #[cfg(not(Py_3_12))]
        let (values, dict) = (*words.sub(4), (*words.sub(3)).cast::<ffi::PyObject>());
        #[cfg(all(Py_3_12, not(Py_3_13)))]
        let (values, dict) = {
            let either = *words.sub(3);
            if either as usize & 1 == 1 {
                (either.byte_add(1), std::ptr::null_mut())
            } else {
                (std::ptr::null_mut(), either.cast::<ffi::PyObject>())
            }
        };
        #[cfg(Py_3_13)]
        let (values, dict) = {
            const INLINE_VALUES: std::ffi::c_ulong = 1 << 2;
            let dict = (*words.sub(3)).cast::<ffi::PyObject>();
            let head = object.byte_offset((*class).tp_basicsize).cast::<[u8; 4]>();
            // capacity, size, embedded, valid
            if flags(class) & INLINE_VALUES != 0 && (*head)[3] != 0 {
                (head.byte_add(8).cast::<c_void>(), dict)
            } else {
                (std::ptr::null_mut(), dict)
            }
        };
        if !values.is_null() && !keys.is_null() && (*keys).kind != KIND_GENERAL {
            return Attributes::Inline(InlineValues { keys, values: values.cast() });
        }
        if !values.is_null() {
            return Attributes::Unknown;
        }
        let Some(table) = dict.cast::<SplitDict>().as_ref() else { return Attributes::Empty };
        // A dict that somebody asked the instance for goes on sharing the class's key table.
        if !table.values.is_null() && table.keys == keys && (*keys).kind != KIND_GENERAL {
            let head = if cfg!(Py_3_13) { 8 } else { 0 };
            return Attributes::Inline(InlineValues { keys, values: table.values.byte_add(head).cast() });
        }
        Attributes::Dict(Borrowed::from_ptr(py, dict))
    }
}

/// CPython's `PyDictObject`, 3.11 to 3.13.
#[cfg(Py_3_11)]
#[repr(C)]
struct SplitDict {
    base: ffi::PyObject,
    used: isize,
    version: u64,
    keys: *const SharedKeys,
    /// Null unless the keys are shared.
    values: *const c_void,
}

/// Whether this interpreter keeps attributes the way this module reads them.
#[cfg(Py_3_11)]
#[inline]
fn probed(py: Python<'_>) -> bool {
    static PROBED: OnceLock<bool> = OnceLock::new();
    match PROBED.get() {
        Some(answer) => *answer,
        // Two threads may probe at once; both find the same. Not inside of the cell: probing runs Python code, and whoever
        // waits for the cell meanwhile, here or in a forked child, would wait for ever.
        None => {
            let answer = cfg!(not(any(Py_3_14, Py_GIL_DISABLED))) && probe(py).unwrap_or(false);
            let _ = PROBED.set(answer);
            answer
        }
    }
}

#[cfg(Py_3_11)]
fn probe(py: Python<'_>) -> PyResult<bool> {
    use pyo3::types::PyDict;

    let scope = PyDict::new(py);
    py.run(
        cr"
class C:
    pass
def make(**attributes):
    instance = C()
    for name in attributes:
        setattr(instance, name, attributes[name])
    return instance
first, partial, touched = make(x=[1], y=[2], z=[3]), make(x=[4], z=[5]), make(x=[6], y=[7], z=[8])
touched.__dict__
del partial.x
samples = [(first, 'x', first.x), (first, 'y', first.y), (first, 'z', first.z),
           (partial, 'x', None), (partial, 'y', None), (partial, 'z', partial.z),
           (touched, 'x', touched.x), (touched, 'z', touched.z)]
",
        Some(&scope),
        None,
    )?;
    let samples = scope.get_item("samples")?.expect("assigned above");
    for sample in samples.try_iter()? {
        let (instance, name, expected): (Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>) =
            sample?.extract()?;
        // SAFETY: the class was just made by Python code and has a managed dict on these versions.
        let value = match unsafe { managed(py, instance.as_ptr(), instance.get_type_ptr()) } {
            Attributes::Inline(inline) => (0..inline.len())
                .find(|at| inline.name(py, *at).is_some_and(|key| key.eq(&name).unwrap_or(false)))
                .and_then(|at| inline.value(py, at)),
            Attributes::Dict(dict) => dict_get(dict, &name)?,
            Attributes::Empty | Attributes::Unknown => return Ok(false),
        };
        let agrees = match value {
            Some(value) => value.is(&expected),
            None => expected.is_none(),
        };
        if !agrees {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The value of a slot, by the offset that its member descriptor gives.
#[inline]
pub(crate) fn slot<'a, 'py>(object: &Bound<'py, PyAny>, offset: isize) -> Option<Borrowed<'a, 'py, PyAny>> {
    // SAFETY: the offset was read from a member descriptor of this object's very type, which says
    // that an object pointer, or null, is there.
    unsafe {
        let value = *object.as_ptr().byte_offset(offset).cast::<*mut ffi::PyObject>();
        if value.is_null() { None } else { Some(Borrowed::from_ptr(object.py(), value)) }
    }
}

/// The offset of the slot that a class attribute describes, if it is one made by `__slots__`.
pub(crate) fn slot_offset(descriptor: &Bound<'_, PyAny>, class: *mut ffi::PyTypeObject) -> Option<isize> {
    /// The head of CPython's `PyMemberDescrObject`, the same in 3.10 to 3.14.
    #[repr(C)]
    struct MemberDescriptor {
        base: ffi::PyObject,
        class: *mut ffi::PyTypeObject,
        name: *mut ffi::PyObject,
        qualname: *mut ffi::PyObject,
        member: *mut ffi::PyMemberDef,
    }
    /// `Py_T_OBJECT_EX`: a pointer that may be null.
    const OBJECT_EX: i32 = 16;

    // SAFETY: the exact type of member descriptors has this layout; the static member table that it
    // points to lives as long as its class, which is `class` or a base of it.
    unsafe {
        if descriptor.get_type_ptr() != &raw mut ffi::PyMemberDescr_Type {
            return None;
        }
        let descriptor = &*descriptor.as_ptr().cast::<MemberDescriptor>();
        if ffi::PyType_IsSubtype(class, descriptor.class) == 0 {
            return None;
        }
        let member = &*descriptor.member;
        (member.type_code == OBJECT_EX).then_some(member.offset)
    }
}
