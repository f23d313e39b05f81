//! Taking note of values: what would have to change for a fingerprint to change.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};
use rustc_hash::FxHashSet;

use super::version::dict_version;
use super::{ArrayState, Check, Guards, Held};
use crate::interned::intern;
use crate::layout::{self, Attributes};
use crate::member::{self, Member};
use crate::ndarray::{WRITEABLE, head, ndarray_type};
use crate::walk::builtin::{Builtin, dict_next, list_item, list_len, set_elements, tuple_item, tuple_len};

/// Methods that say what an instance consists of, so that its attributes alone do not.
const SPEAKS_FOR_ITSELF: &[&str] = &[
    "__fingerprint__",
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__getnewargs__",
    "__getnewargs_ex__",
    "__getattribute__",
    "__getattr__",
];

/// Members with what they hold; nothing if that cannot be told.
fn read(object: &Bound<'_, PyAny>, names: &[Bound<'_, PyString>]) -> Option<Vec<(Member, Option<Held>)>> {
    let class = object.get_type();
    let mut members = Vec::with_capacity(names.len());
    for name in names {
        let member = Member::new(&class, name);
        let value = member.read(object).ok()?.map(|value| Held::of(&value));
        members.push((member, value));
    }
    Some(members)
}

/// Watches a value and everything in it.
pub(super) fn value(guards: &Guards, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    let mut pending = vec![value.clone()];
    let mut seen = FxHashSet::default();
    while let Some(value) = pending.pop() {
        if is_leaf(&value) || !seen.insert(value.as_ptr() as usize) {
            continue;
        }
        let class = value.get_type_ptr();
        let is = |kind: Builtin| class == kind.type_object();
        if class == &raw mut ffi::PyCFunction_Type {
            // SAFETY: a builtin function; what it is bound to is null or a live object.
            let owner =
                unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyCFunction_GetSelf(value.as_ptr())) };
            pending.extend(owner);
        } else if is(Builtin::Tuple) {
            pending.extend((0..tuple_len(&value)).map(|at| tuple_item(&value, at).to_owned()));
        } else if is(Builtin::List) {
            let items: Vec<_> = (0..list_len(&value)).map(|at| list_item(&value, at).to_owned()).collect();
            let held = items.iter().map(Held::of).collect();
            pending.extend(items);
            guards.add(py, Check::List { list: value.unbind(), items: held });
        } else if is(Builtin::FrozenSet) {
            pending.extend(set_elements(Builtin::FrozenSet, &value)?);
        } else if is(Builtin::Set) {
            let items = set_elements(Builtin::Set, &value)?;
            let held = items.iter().map(Held::of).collect();
            pending.extend(items);
            guards.add(py, Check::Set { set: value.unbind(), items: held });
        } else if is(Builtin::Dict) {
            let version = dict_version(value.cast::<PyDict>()?).unwrap_or(0);
            let mut items = Vec::new();
            let mut position = 0;
            while let Some((key, item)) = dict_next(&value, &mut position) {
                items.push((Held::of(&key), Held::of(&item)));
                pending.push(key.to_owned());
                pending.push(item.to_owned());
            }
            guards.add(py, Check::Dict { dict: value.unbind(), version, items });
        } else if ndarray_type(py) == Some(class) {
            // SAFETY: the type was just checked.
            if unsafe { head(value.as_ptr()) }.flags & WRITEABLE != 0 {
                // Its elements may change at any time.
                return Ok(false);
            }
            // SAFETY: the type was just checked; what owns the memory is null or a live object.
            let owner = unsafe { Bound::from_borrowed_ptr_or_opt(py, head(value.as_ptr()).owner) };
            // Whoever owns the memory may write to it.
            pending.extend(owner.filter(|owner| owner.get_type_ptr() == class));
            guards.add(py, Check::Array(ArrayState::new(&value)));
        } else if is_plain_instance(&value)? {
            let Some(names) = attribute_names(&value)? else { return Ok(false) };
            let Some(members) = read(&value, &names) else { return Ok(false) };
            for (member, _) in &members {
                if let Ok(Some(attribute)) = member.read(&value) {
                    pending.push(attribute.to_owned());
                }
            }
            let Some(count) = member::count(&value) else { return Ok(false) };
            let _ = guards.class(&value.get_type());
            let (object, count) = (Held::of(&value), Some(count));
            guards.add(py, Check::Members { object, class, members, count });
        } else {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether nothing inside a value can change, or what can is watched by whoever follows functions.
fn is_leaf(value: &Bound<'_, PyAny>) -> bool {
    let class = value.get_type_ptr();
    let plain = [Builtin::Str, Builtin::Int, Builtin::Float, Builtin::Complex, Builtin::Bytes]
        .map(Builtin::type_object);
    // SAFETY: addresses of static types and objects are compared.
    let is_constant = unsafe {
        plain.contains(&class)
            || class == &raw mut ffi::PyBool_Type
            || value.is_none()
            || value.as_ptr() == ffi::Py_Ellipsis()
            || class == &raw mut ffi::PyFunction_Type
            || class == &raw mut ffi::PyModule_Type
            || class == &raw mut ffi::PyCode_Type
            || ffi::PyType_Check(value.as_ptr()) != 0
    };
    is_constant || is_numpy_constant(value).unwrap_or(false) || is_declared_constant(value)
}

/// Whether the class of something promises that its instances never change: types of the kernel language.
fn is_declared_constant(value: &Bound<'_, PyAny>) -> bool {
    value.get_type().hasattr(intern!(value.py(), "__keyprint_constant__")).unwrap_or(false)
}

/// Data types and scalars of NumPy; those of structured types can be written to.
fn is_numpy_constant(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    if ndarray_type(py).is_none() {
        return Ok(false);
    }
    let numpy = py.import(intern!(py, "numpy"))?;
    if value.is_instance(&numpy.getattr(intern!(py, "dtype"))?)? {
        // The names of fields can be changed in place.
        return Ok(value.getattr(intern!(py, "names"))?.is_none());
    }
    Ok(value.is_instance(&numpy.getattr(intern!(py, "generic"))?)?
        && !value.is_instance(&numpy.getattr(intern!(py, "void"))?)?)
}

/// Whether an instance is what its attributes are: made by classes written in Python, none of which
/// says otherwise.
fn is_plain_instance(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    let class = value.get_type();
    // SAFETY: a live type.
    let generic = unsafe {
        (*class.as_type_ptr()).tp_getattro.is_some_and(|getter| {
            std::ptr::fn_addr_eq(getter, ffi::PyObject_GenericGetAttr as ffi::getattrofunc)
        })
    };
    if !generic {
        return Ok(false);
    }
    let is_enum = {
        let meta = class.get_type();
        meta.name().is_ok_and(|name| name == "EnumMeta" || name == "EnumType")
            && meta.getattr(intern!(py, "__module__")).is_ok_and(|module| module.eq("enum").unwrap_or(false))
    };
    for base in class.mro().iter() {
        let base = base.cast_into::<PyType>()?;
        // SAFETY: addresses of types are compared, and the flags of a live one are read.
        unsafe {
            if base.as_type_ptr() == &raw mut ffi::PyBaseObject_Type {
                continue;
            }
            if ffi::PyType_GetFlags(base.as_type_ptr()) & ffi::Py_TPFLAGS_HEAPTYPE == 0 {
                return Ok(false);
            }
        }
        let own = base.getattr(intern!(py, "__dict__"))?;
        for name in SPEAKS_FOR_ITSELF {
            if is_enum || !own.contains(*name)? {
                continue;
            }
            // What `dataclasses` writes for frozen classes with slots hands out the fields.
            let module = own.get_item(*name)?.getattr_opt(intern!(py, "__module__"))?;
            if !module.is_some_and(|module| module.eq("dataclasses").unwrap_or(false)) {
                return Ok(false);
            }
        }
    }
    let reducers = py.import(intern!(py, "copyreg"))?.getattr(intern!(py, "dispatch_table"))?;
    Ok(!reducers.contains(&class)?)
}

/// The names of everything that is stored in an instance.
fn attribute_names<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyString>>>> {
    let py = value.py();
    let mut names: Vec<Bound<'py, PyString>> = Vec::new();
    match layout::attributes(value) {
        Attributes::Empty => {}
        Attributes::Inline(inline) => {
            for at in 0..inline.len() {
                if let (Some(name), Some(_)) = (inline.name(py, at), inline.value(py, at)) {
                    names.push(name.to_owned().cast_into()?);
                }
            }
        }
        Attributes::Dict(dict) => {
            let mut position = 0;
            while let Some((name, _)) = dict_next(&dict, &mut position) {
                let Ok(name) = name.to_owned().cast_into::<PyString>() else { return Ok(None) };
                names.push(name);
            }
        }
        Attributes::Unknown => return Ok(None),
    }
    let class = value.get_type();
    for base in class.mro().iter() {
        let own = base.getattr(intern!(py, "__dict__"))?;
        for pair in own.call_method0(intern!(py, "items"))?.try_iter()? {
            let pair = pair?.cast_into::<PyTuple>()?;
            let (name, descriptor) = (pair.get_item(0)?, pair.get_item(1)?);
            if layout::slot_offset(&descriptor, class.as_type_ptr()).is_some() {
                names.push(name.cast_into()?);
            }
        }
    }
    Ok(Some(names))
}
