//! What this half calls in the Python half, which hands it over when it is imported.
//!
//! Nothing here knows where it lives there, so that folders of the Python half can change without this one, and
//! the dependencies point one way. What is rarely needed comes as a function that loads it when it is called.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// Something that the Python half hands over.
pub(crate) struct Hook {
    name: &'static str,
    given: PyOnceLock<Py<PyAny>>,
}

impl Hook {
    const fn new(name: &'static str) -> Self {
        Self { name, given: PyOnceLock::new() }
    }

    /// What was handed over.
    pub(crate) fn get<'py>(&'py self, py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
        self.given.get(py).map(|given| given.bind(py)).ok_or_else(|| {
            PyTypeError::new_err(format!("`{}` was not handed over: import `keyprint`", self.name))
        })
    }
}

macro_rules! hooks {
    ($($(#[$doc:meta])* $hook:ident = $name:literal;)*) => {
        $($(#[$doc])* pub(crate) static $hook: Hook = Hook::new($name);)*

        static ALL: &[&Hook] = &[$(&$hook),*];
    };
}

hooks! {
    /// The exception for a value that has no fingerprint.
    MAKE_FINGERPRINT_ERROR = "make_fingerprint_error";
    /// The exception for trouble with a store.
    MAKE_STORE_ERROR = "make_store_error";
    /// The exception for an error of the kernel language.
    MAKE_KERNEL_ERROR = "make_kernel_error";
    /// The exception for trouble with a device.
    MAKE_DEVICE_ERROR = "make_device_error";
    /// The class of what a store warns of.
    STORE_WARNING = "store_warning";
    /// The key that a lone fingerprint stands for.
    KEY_OF_FINGERPRINT = "key_of_fingerprint";
    /// The rule for instances of a class of another library.
    RULE_FOR_LIBRARY = "rule_for_library";
    /// A text for a value, and texts for what is in it.
    DESCRIBE = "describe";
    /// Plain data to bytes.
    DUMP_PLAIN = "dump_plain";
    /// Bytes to plain data.
    LOAD_PLAIN = "load_plain";
    /// An element of an array that is a vector or matrix.
    MAKE_ELEMENT = "make_element";
    /// Copies elements into an array.
    COPY_ELEMENTS = "copy_elements";
}

/// Hands over everything that this half calls in the other.
#[pyfunction]
#[pyo3(signature = (**hooks))]
pub(crate) fn _fill_hooks(py: Python<'_>, hooks: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    let given = hooks.cloned().unwrap_or_else(|| PyDict::new(py));
    for hook in ALL {
        let Some(value) = given.get_item(hook.name)? else {
            return Err(PyTypeError::new_err(format!("`{}` is missing", hook.name)));
        };
        given.del_item(hook.name)?;
        // A module that is imported again hands over the same.
        let _ = hook.given.set(py, value.unbind());
    }
    if given.is_empty() {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!("nothing here is called {}", given.keys())))
}
