//! [`Config`]: what a fingerprinter was told.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

use crate::describe::Description;
use crate::walk::short_repr;

/// What to do with things that have no importable name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Refuse them.
    Strict,
    /// Describe them by structure; the result is not durable.
    Lenient,
}

/// How arrays count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrays {
    Content,
    Spec,
    Identity,
}

/// A class and what to do with its instances.
pub(crate) struct Override {
    pub(crate) class: Py<PyType>,
    /// A [`Description`], or a callable that makes one.
    pub(crate) rule: Py<PyAny>,
}

pub(crate) struct Config {
    pub(crate) mode: Mode,
    pub(crate) arrays: Arrays,
    pub(crate) cycles: bool,
    pub(crate) skip_fields: Vec<String>,
    pub(crate) overrides: Vec<Override>,
    /// Keys of field metadata under which `{"fingerprint": False}` opts a field out.
    pub(crate) namespaces: Vec<String>,
    /// Whether everything counts that a program can observe: the order of dicts and attributes, and
    /// attributes beyond declared fields.
    pub(crate) observable: bool,
    /// Whether an override applies to a type that is otherwise handled without a plan.
    pub(crate) overrides_builtins: bool,
}

impl Config {
    pub(crate) fn parse(
        mode: &str,
        overrides: Option<&Bound<'_, PyAny>>,
        skip_fields: Vec<String>,
        arrays: &str,
        cycles: bool,
        namespaces: Vec<String>,
        observable: bool,
    ) -> PyResult<Self> {
        let mode = match mode {
            "strict" => Mode::Strict,
            "lenient" => Mode::Lenient,
            _ => return Err(choice("mode", "`strict` or `lenient`", mode)),
        };
        let arrays = match arrays {
            "content" => Arrays::Content,
            "spec" => Arrays::Spec,
            "identity" => Arrays::Identity,
            _ => return Err(choice("arrays", "`content`, `spec` or `identity`", arrays)),
        };
        let mut parsed = Vec::new();
        let mut overrides_builtins = false;
        if let Some(overrides) = overrides {
            let copy = PyDict::new(overrides.py());
            copy.update(overrides.cast().map_err(|_| {
                PyTypeError::new_err(format!(
                    "`overrides` is a mapping from classes to rules, found `{}`",
                    overrides.get_type()
                ))
            })?)?;
            for (class, rule) in copy {
                let Ok(class) = class.cast_into::<PyType>() else {
                    return Err(PyTypeError::new_err("the keys of `overrides` are classes"));
                };
                if !rule.is_callable() && rule.cast::<Description>().is_err() {
                    return Err(PyTypeError::new_err(format!(
                        "the rule for `{}` is neither a callable nor a description made by `keyprint.rule`",
                        class.name()?
                    )));
                }
                overrides_builtins |= reaches_builtin(&class)?;
                parsed.push(Override { class: class.unbind(), rule: rule.unbind() });
            }
        }
        Ok(Self {
            mode,
            arrays,
            cycles,
            skip_fields,
            overrides: parsed,
            namespaces,
            observable,
            overrides_builtins,
        })
    }
}

/// Whether instances of a builtin type that has a fast path are instances of this class.
fn reaches_builtin(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let builtins = class.py().import("builtins")?;
    for name in ["str", "int", "float", "bool", "list", "tuple", "dict", "bytes", "set", "frozenset"] {
        if builtins.getattr(name)?.cast::<PyType>()?.is_subclass(class)? {
            return Ok(true);
        }
    }
    let none = class.py().None().bind(class.py()).get_type();
    none.is_subclass(class)
}

/// An argument that lists names. A lone string would be taken apart into letters, so it is refused.
pub(crate) fn names(argument: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<String>>> {
    let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(None) };
    let wrong = || {
        let hint = if value.is_instance_of::<PyString>() { "\nhint: write it as (\"name\",)" } else { "" };
        let repr = short_repr(value);
        PyTypeError::new_err(format!("`{argument}` is a sequence of names, found {repr}{hint}"))
    };
    if value.is_instance_of::<PyString>() {
        return Err(wrong());
    }
    let names =
        value.try_iter().map_err(|_| wrong())?.map(|name| name?.extract::<String>().map_err(|_| wrong()));
    names.collect::<PyResult<Vec<_>>>().map(Some)
}

fn choice(name: &str, expected: &str, found: &str) -> PyErr {
    PyValueError::new_err(format!("`{name}` is {expected}, found `{found}`"))
}
