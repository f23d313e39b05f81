//! Names: whether something can be found again under its qualified name.

use keyprint_fingerprint::tag::Referent;
use pyo3::exceptions::PyException;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyString, PyType};

use super::plan::Class;
use crate::failure::{Failure, Walked};
use crate::interned::intern;

/// Whether `module.qualname` leads to this very object, through what the program has loaded.
pub(crate) fn resolves(object: &Bound<'_, PyAny>, module: &str, qualname: &str) -> Walked<bool> {
    let py = object.py();
    if module.is_empty() || qualname.is_empty() || qualname.contains('<') {
        return Ok(false);
    }
    // SAFETY: the interpreter's table of modules is alive while the interpreter is.
    let modules = unsafe { Bound::from_borrowed_ptr_or_err(py, ffi::PyImport_GetModuleDict())? };
    let Ok(loaded) = modules.get_item(module) else { return Ok(false) };
    let mut target = loaded;
    for part in qualname.split('.') {
        target = match target.getattr_opt(PyString::new(py, part)) {
            Ok(Some(next)) => next,
            Ok(None) => return Ok(false),
            // A module's own `__getattr__` may raise anything; an interrupt is not an answer.
            Err(error) if error.is_instance_of::<PyException>(py) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
    }
    // A class method is found bound to its class.
    Ok(target.is(object)
        || target.get_type_ptr() == &raw mut super::builtin::PyMethod_Type
            && target.getattr(intern!(py, "__func__"))?.is(object))
}

/// The qualified name of something that has one.
pub(crate) fn name_of(object: &Bound<'_, PyAny>) -> Walked<(String, String)> {
    let py = object.py();
    if let Ok(module) = object.cast::<PyModule>() {
        return Ok((module.name()?.to_string_lossy().into_owned(), String::new()));
    }
    let text = |name: &Bound<'_, PyString>| -> PyResult<Option<String>> {
        Ok(object.getattr_opt(name)?.and_then(|value| value.extract().ok()))
    };
    let module = text(intern!(py, "__module__"))?;
    let qualname = match text(intern!(py, "__qualname__"))? {
        Some(qualname) => Some(qualname),
        None => text(intern!(py, "__name__"))?,
    };
    Ok((module.unwrap_or_default(), qualname.unwrap_or_default()))
}

/// Whether a class can be found under its name, or belongs to the interpreter itself.
///
/// The interpreter's own types, such as that of bound methods, need not be reachable by the name
/// they go by; nothing can take their names from them either.
pub(crate) fn class_is_named(class: &Bound<'_, PyType>, name: &Class) -> Walked<bool> {
    // SAFETY: a live type.
    let flags = unsafe { ffi::PyType_GetFlags(class.as_type_ptr()) };
    if flags & ffi::Py_TPFLAGS_HEAPTYPE == 0 && name.module == "builtins" {
        return Ok(true);
    }
    resolves(class.as_any(), &name.module, &name.qualname)
}

/// Whether a module is the one that the program has loaded under its name.
pub(crate) fn is_loaded_module(module: &Bound<'_, PyAny>, name: &str) -> Walked<bool> {
    // SAFETY: as in `resolves`.
    let modules = unsafe { Bound::from_borrowed_ptr_or_err(module.py(), ffi::PyImport_GetModuleDict())? };
    Ok(modules.get_item(name).is_ok_and(|loaded| loaded.is(module)))
}

/// What to say about something whose name does not lead back to it.
pub(crate) fn not_importable(referent: Referent, module: &str, qualname: &str) -> Failure {
    let what = match referent {
        Referent::Class => "class",
        Referent::Function => "function",
        Referent::Module => "module",
        Referent::Object => "object",
    };
    let name = match (module.is_empty(), qualname.is_empty()) {
        (true, true) => "?".to_owned(),
        (true, false) => qualname.to_owned(),
        (false, true) => module.to_owned(),
        (false, false) => format!("{module}.{qualname}"),
    };
    let why = if qualname.contains("<lambda>") {
        "it is a lambda"
    } else if qualname.contains("<locals>") {
        "it is defined inside a function"
    } else {
        "that name does not lead to it: it was deleted, shadowed, or never there"
    };
    Failure::refuse("not-importable", format!("{what} `{name}` cannot be named across processes: {why}"))
        .hint(format!(
            "move the {what} to module level, give its owner a rule (`overrides=`, `__fingerprint__`), \
             or use mode=\"lenient\" where the result need not outlive this process"
        ))
}
