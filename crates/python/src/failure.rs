//! [`Failure`]: why a value has no fingerprint, on its way to a Python exception.

use keyprint_array::ElementError;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::hooks;

/// Why a walk stopped. One pointer wide: results that are hardly ever failures stay in registers.
pub(crate) struct Failure(Box<Cause>);

enum Cause {
    /// A Python exception; an ordinary one is wrapped with the path, others (`KeyboardInterrupt`,
    /// `SystemExit`) pass through.
    Raised(PyErr),
    /// Something about the value.
    Refused(Refusal),
}

/// What is wrong with a value. `code` is one of those listed in `keyprint/errors.py`.
struct Refusal {
    code: &'static str,
    message: String,
    hint: Option<String>,
    cause: Option<PyErr>,
}

pub(crate) type Walked<T> = Result<T, Failure>;

impl Failure {
    pub(crate) fn refuse(code: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Cause::Refused(Refusal { code, message: message.into(), hint: None, cause: None })))
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        if let Cause::Refused(refusal) = &mut *self.0 {
            refusal.hint = Some(hint.into());
        }
        self
    }

    /// Names an exception as the cause, unless it is one that must pass through.
    pub(crate) fn because(self, py: Python<'_>, error: PyErr) -> Self {
        match *self.0 {
            Cause::Refused(mut refusal) if error.is_instance_of::<PyException>(py) => {
                refusal.cause = Some(error);
                Self(Box::new(Cause::Refused(refusal)))
            }
            _ => error.into(),
        }
    }

    /// The exception for Python, with the path to the culprit inside the value.
    pub(crate) fn into_exception(self, py: Python<'_>, path: &str) -> PyErr {
        let refusal = match *self.0 {
            Cause::Raised(error) if !error.is_instance_of::<PyException>(py) => return error,
            Cause::Raised(error) => Refusal {
                code: "raised",
                message: format!("`{}` was raised while it was read", error.get_type(py)),
                hint: None,
                cause: Some(error),
            },
            Cause::Refused(refusal) => refusal,
        };
        exception(py, refusal, path).unwrap_or_else(|error| error)
    }
}

fn exception(py: Python<'_>, refusal: Refusal, path: &str) -> PyResult<PyErr> {
    let details = PyDict::new(py);
    details.set_item("code", refusal.code)?;
    details.set_item("message", refusal.message)?;
    details.set_item("path", path)?;
    details.set_item("hint", refusal.hint)?;
    let error = PyErr::from_value(hooks::MAKE_FINGERPRINT_ERROR.get(py)?.call((), Some(&details))?);
    error.set_cause(py, refusal.cause);
    Ok(error)
}

impl From<PyErr> for Failure {
    #[cold]
    fn from(error: PyErr) -> Self {
        Self(Box::new(Cause::Raised(error)))
    }
}

impl From<ElementError> for Failure {
    fn from(error: ElementError) -> Self {
        let failure = Self::refuse("array-format", error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
