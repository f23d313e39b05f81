//! [`Description`]: what a rule says about an object.
//!
//! A rule is a description that holds for every instance of a class, or a callable that makes one
//! for an instance. Constant descriptions never run Python code during a walk.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::config::names;

/// How an object enters a fingerprint. Made by the functions of `keyprint.rule`.
#[pyclass(frozen, module = "keyprint._native")]
pub(crate) struct Description {
    pub(crate) form: Form,
    /// Stands for the class where given, so that the description alone decides.
    pub(crate) tag: Option<Py<PyBytes>>,
}

/// The forms of a [`Description`].
pub(crate) enum Form {
    /// A scalar or bytes.
    Leaf(Py<PyAny>),
    /// Values whose order counts.
    Ordered(Py<PyTuple>),
    /// Values whose order does not count.
    Unordered(Py<PyTuple>),
    /// The pairs of `obj.items()`, in that order.
    OrderedItems,
    /// The qualified name, verified.
    Reference,
    /// The declared fields, or the attributes, except some.
    Fields { skip: Vec<String> },
    /// The attributes, whatever the class is.
    Namespace,
    /// The very object, in this process.
    Identity,
}

fn tag_bytes(tag: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Py<PyBytes>>> {
    let Some(tag) = tag else { return Ok(None) };
    if let Ok(bytes) = tag.cast::<PyBytes>() {
        return Ok(Some(bytes.clone().unbind()));
    }
    let Ok(text) = tag.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!("a tag is a str or bytes, found `{}`", tag.get_type())));
    };
    Ok(Some(PyBytes::new(tag.py(), text.to_str()?.as_bytes()).unbind()))
}

#[pymethods]
impl Description {
    /// A scalar or bytes.
    #[staticmethod]
    #[pyo3(signature = (value, /, *, tag=None))]
    fn leaf(value: &Bound<'_, PyAny>, tag: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Ok(Self { form: Form::Leaf(value.clone().unbind()), tag: tag_bytes(tag)? })
    }

    #[staticmethod]
    #[pyo3(signature = (*parts, tag=None))]
    fn ordered(parts: Bound<'_, PyTuple>, tag: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Ok(Self { form: Form::Ordered(parts.unbind()), tag: tag_bytes(tag)? })
    }

    #[staticmethod]
    #[pyo3(signature = (*parts, tag=None))]
    fn unordered(parts: Bound<'_, PyTuple>, tag: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Ok(Self { form: Form::Unordered(parts.unbind()), tag: tag_bytes(tag)? })
    }

    #[staticmethod]
    fn ordered_items() -> Self {
        Self { form: Form::OrderedItems, tag: None }
    }

    #[staticmethod]
    fn by_reference() -> Self {
        Self { form: Form::Reference, tag: None }
    }

    #[staticmethod]
    #[pyo3(signature = (*, skip=None))]
    fn by_fields(skip: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Ok(Self { form: Form::Fields { skip: names("skip", skip)?.unwrap_or_default() }, tag: None })
    }

    #[staticmethod]
    fn as_namespace() -> Self {
        Self { form: Form::Namespace, tag: None }
    }

    #[staticmethod]
    fn by_identity() -> Self {
        Self { form: Form::Identity, tag: None }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(match &self.form {
            Form::Leaf(value) => format!("rule.leaf({})", value.bind(py).repr()?),
            Form::Ordered(parts) => format!("rule.ordered{}", parts.bind(py).repr()?),
            Form::Unordered(parts) => format!("rule.unordered{}", parts.bind(py).repr()?),
            Form::OrderedItems => "rule.ordered_items()".to_owned(),
            Form::Reference => "rule.by_reference()".to_owned(),
            Form::Fields { skip } => format!("rule.by_fields(skip={skip:?})"),
            Form::Namespace => "rule.as_namespace()".to_owned(),
            Form::Identity => "rule.by_identity()".to_owned(),
        })
    }
}
