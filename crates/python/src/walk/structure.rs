//! What stands in for a name where there is none: the structure of functions, code and classes.
//!
//! Lenient mode only. Such a fingerprint is not durable: byte code belongs to one interpreter
//! version, and names that the code reads from its module are not followed.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use super::frame::Item;
use crate::failure::Walked;
use crate::interned::intern;
use keyprint_fingerprint::tag;

/// The parts of a code object that decide what it does; positions, file and line tables do not.
pub(crate) const CODE: &[&str] = &[
    "co_name",
    "co_code",
    "co_consts",
    "co_names",
    "co_varnames",
    "co_freevars",
    "co_cellvars",
    "co_argcount",
    "co_posonlyargcount",
    "co_kwonlyargcount",
    "co_flags",
    "co_exceptiontable",
];

/// The parts of a property.
pub(crate) const PROPERTY: &[&str] = &["fget", "fset", "fdel"];

/// The parts of a function.
pub(crate) const FUNCTION: &[&str] =
    &["module", "code", "defaults", "keyword defaults", "closure", "attributes"];

/// What something that goes by a name may be made of.
pub(crate) const NAMED: &[&str] = &["__wrapped__", "__bound__", "__constraints__"];

/// The parts of a class.
pub(crate) const TYPE: &[&str] = &["module", "name", "metaclass", "bases", "attributes"];

/// Attributes of a class that say nothing about it, or nothing stable.
const UNSTABLE: &[&str] = &[
    "__dict__",
    "__weakref__",
    "__doc__",
    "__module__",
    "__qualname__",
    "__firstlineno__",
    "__static_attributes__",
    "_abc_impl",
    "__abstractmethods__",
    "__slotnames__",
    "__signature__",
];

/// Attributes by name; a missing one is absent.
pub(crate) fn attributes<'py>(object: &Bound<'py, PyAny>, names: &[&str]) -> Walked<Vec<Item<'py>>> {
    names
        .iter()
        .map(|name| {
            Ok(object.getattr_opt(PyString::new(object.py(), name))?.map_or(Item::Absent, Item::Value))
        })
        .collect()
}

/// A function by what it does.
pub(crate) fn function<'py>(function: &Bound<'py, PyAny>) -> Walked<Vec<Item<'py>>> {
    let py = function.py();
    let get = |name: &Bound<'py, PyString>| function.getattr(name).map(Item::Value);
    let globals = function.getattr(intern!(py, "__globals__"))?;
    let module = globals.get_item(intern!(py, "__name__")).map_or(Item::Absent, Item::Value);
    let attributes = match super::reduce::optional(function, intern!(py, "__dict__"))? {
        Some(attributes) => Item::Value(attributes),
        None => Item::Absent,
    };
    Ok(vec![
        module,
        get(intern!(py, "__code__"))?,
        get(intern!(py, "__defaults__"))?,
        get(intern!(py, "__kwdefaults__"))?,
        get(intern!(py, "__closure__"))?,
        attributes,
    ])
}

/// The content of a closure cell.
pub(crate) fn cell<'py>(cell: &Bound<'py, PyAny>) -> Vec<Item<'py>> {
    // SAFETY: the caller checked that this is a cell; a null result without an error is an empty cell.
    let content = unsafe { Bound::from_owned_ptr_or_opt(cell.py(), ffi::PyCell_Get(cell.as_ptr())) };
    vec![content.map_or(Item::Absent, Item::Value)]
}

/// A class by what it is made of.
pub(crate) fn class<'py>(class: &Bound<'py, PyType>) -> Walked<Vec<Item<'py>>> {
    let py = class.py();
    let mut pairs = Vec::new();
    let namespace = class.getattr(intern!(py, "__dict__"))?;
    for pair in namespace.call_method0(intern!(py, "items"))?.try_iter()? {
        let (name, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = pair?.extract()?;
        let text: Option<String> = name.extract().ok();
        // What pydantic keeps under its own names holds addresses; the fields are annotations too.
        if text.as_deref().is_some_and(|text| UNSTABLE.contains(&text) || text.starts_with("__pydantic_")) {
            continue;
        }
        // Asking a class for annotations that it does not have leaves an empty dict in it.
        if text.as_deref() == Some("__annotations__") && !value.is_truthy()? {
            continue;
        }
        // SAFETY: these are static types; only the pointers are compared.
        let slot = value.get_type_ptr() == &raw mut ffi::PyMemberDescr_Type
            || value.get_type_ptr() == &raw mut ffi::PyGetSetDescr_Type;
        // A slot is its name; the descriptor behind it has nothing else to say.
        pairs.push((name.clone(), if slot { name } else { value }));
    }
    Ok(vec![
        super::reduce::optional(class, intern!(py, "__module__"))?.map_or(Item::Absent, Item::Value),
        Item::Value(class.name()?.into_any()),
        Item::Value(class.get_type().into_any()),
        Item::Value(class.getattr(intern!(py, "__bases__"))?),
        Item::Pairs { tag: tag::DICT, pairs, attributes: true },
    ])
}

/// The data that a namespace class which has no importable name carries itself.
pub(crate) fn namespace_class<'py>(
    class: &Bound<'py, PyType>,
) -> Walked<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    let py = class.py();
    let mut pairs = Vec::new();
    let namespace = class.getattr(intern!(py, "__dict__"))?;
    for pair in namespace.call_method0(intern!(py, "items"))?.try_iter()? {
        let (name, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = pair?.extract()?;
        let text: Option<String> = name.extract().ok();
        let dunder = text.is_none_or(|text| text.starts_with("__") && text.ends_with("__"));
        // Functions and descriptors are behaviour; a namespace is its data.
        let behaviour = value.get_type().hasattr(intern!(py, "__get__"))?;
        if !dunder && !behaviour {
            pairs.push((name, value));
        }
    }
    Ok(pairs)
}
