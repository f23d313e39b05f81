//! `keyprint.Key`: named components under one root, and the manifest that is made of them when needed.

use std::sync::{Mutex, PoisonError};

use keyprint_fingerprint::Fingerprint;
use keyprint_key::{Component, Key, KeyBuilder, Manifest, Part, Tool};
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

use crate::fingerprint::PyFingerprint;
use crate::fingerprinter::fingerprint;
use crate::hooks;
use crate::walk::short_repr;

/// What an artifact depends on, by name.
#[pyclass(frozen, name = "Key", module = "keyprint._native", subclass)]
pub(crate) struct PyKey {
    pub(crate) key: Key,
    pub(crate) name: String,
    pub(crate) durable: bool,
    tool: Tool,
    salt: String,
    components: Vec<Named>,
    /// What is shown for the components, in their order.
    shown: Mutex<Shown>,
}

/// What people see of components.
enum Shown {
    /// The values themselves, to be described when a manifest is made; none after garbage collection.
    Values(Vec<Py<PyAny>>),
    /// What they were when the key was settled.
    Described(Vec<Described>),
}

/// A component. Its value is only looked at again when a manifest is made.
#[derive(Clone)]
struct Named {
    name: String,
    digest: Fingerprint,
    secret: bool,
}

#[pymethods]
impl PyKey {
    /// `salt` is what `KEYPRINT_CACHE_VERSION` says; the Python half reads it.
    #[new]
    #[pyo3(signature = (name, components, /, *, secrets, shown, tool, salt))]
    fn new(
        name: String,
        components: &Bound<'_, PyDict>,
        secrets: &Bound<'_, PyDict>,
        shown: &Bound<'_, PyDict>,
        tool: (String, String),
        salt: String,
    ) -> PyResult<Self> {
        let tool = Tool::new(tool.0, tool.1);
        let mut builder = KeyBuilder::new(&name, tool.clone(), Some(&salt));
        let mut named = Vec::new();
        let mut texts = Vec::new();
        let mut durable = true;
        for (secret, values) in [(false, components), (true, secrets)] {
            for (component, value) in values.iter() {
                let component: String = component
                    .extract()
                    .map_err(|_| PyTypeError::new_err("the names of components are strings"))?;
                let (digest, lasting) = digest_of(&value)?;
                durable &= lasting;
                builder
                    .add(Component::new(&*component, digest))
                    .map_err(|error| PyValueError::new_err(error.to_string()))?;
                texts.push(shown.get_item(&component)?.unwrap_or(value).unbind());
                named.push(Named { name: component, digest, secret });
            }
        }
        let shown = Mutex::new(Shown::Values(texts));
        Ok(Self { key: builder.key(), name, durable, tool, salt, components: named, shown })
    }

    /// Describes the values now, and lets go of them: they may change.
    fn _settle(&self, py: Python<'_>) {
        let described = self.described(py);
        let before = {
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *shown, Shown::Described(described))
        };
        drop(before);
    }

    /// All 64 hexadecimal digits.
    fn hex(&self) -> String {
        self.key.hex()
    }

    /// The first 12 hexadecimal digits: for people.
    #[getter]
    fn short(&self) -> String {
        self.key.short()
    }

    /// What people know it as; it does not count.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Whether another process would find the same.
    #[getter]
    fn durable(&self) -> bool {
        self.durable
    }

    /// The fingerprints of the components, by name, without those that every key has.
    #[getter]
    fn components<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let components = PyDict::new(py);
        for Named { name, digest, .. } in &self.components {
            components.set_item(name, PyFingerprint::new(*digest, self.durable))?;
        }
        Ok(components)
    }

    /// Everything that went in, as the store keeps it: JSON.
    fn manifest(&self, py: Python<'_>) -> PyResult<String> {
        Ok(String::from_utf8(self.to_manifest(py).to_bytes())?)
    }

    /// What changed from this key to another, a line for each.
    #[pyo3(signature = (other, /))]
    fn compare(&self, py: Python<'_>, other: &Self) -> Vec<String> {
        let comparison = self.to_manifest(py).compare(&other.to_manifest(py));
        comparison.to_string().lines().map(str::to_owned).collect()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Whoever has the lock is about to use the values: they are alive then.
        let Ok(shown) = self.shown.try_lock() else { return Ok(()) };
        match &*shown {
            Shown::Values(values) => values.iter().try_for_each(|value| visit.call(value)),
            Shown::Described(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        let dropped = self.shown.try_lock().ok().map(|mut shown| match &mut *shown {
            Shown::Values(values) => std::mem::take(values),
            Shown::Described(_) => Vec::new(),
        });
        drop(dropped);
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.key.as_bytes())
    }

    fn __str__(&self) -> String {
        self.key.hex()
    }

    fn __repr__(&self) -> String {
        format!("<Key {} of {}>", self.key.short(), self.name)
    }

    fn __hash__(&self) -> u64 {
        u64::from_le_bytes(*self.key.as_bytes().first_chunk().expect("32 bytes are more than 8"))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().key == self.key)
    }
}

impl PyKey {
    /// The manifest, with texts for people. What cannot be described is left undescribed.
    pub(crate) fn to_manifest(&self, py: Python<'_>) -> Manifest {
        let mut builder = KeyBuilder::new(&self.name, self.tool.clone(), Some(&self.salt));
        let mut shown = self.described(py).into_iter();
        for Named { name, digest, secret } in &self.components {
            let component = match shown.next() {
                _ if *secret => Component::secret(&**name, *digest),
                None => Component::new(&**name, *digest),
                Some(Described { text, parts, cut }) => {
                    let component = Component::new(&**name, *digest).summary(text).parts(parts);
                    if cut { component.cut() } else { component }
                }
            };
            builder.add(component).expect("checked when the key was made");
        }
        builder.finish()
    }

    /// The key that a lone fingerprint stands for: one component, asked for by Keyprint itself.
    pub(crate) fn of_fingerprint(py: Python<'_>, value: Bound<'_, PyFingerprint>) -> PyResult<Self> {
        Ok(hooks::KEY_OF_FINGERPRINT.get(py)?.call1((value,))?.cast_into::<Self>()?.get().clone_ref(py))
    }

    /// What is shown for the components; none of it is if it is not to be had any more.
    fn described(&self, py: Python<'_>) -> Vec<Described> {
        let values: Vec<Py<PyAny>> = {
            let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            match &*shown {
                Shown::Values(values) => values.iter().map(|value| value.clone_ref(py)).collect(),
                Shown::Described(known) => return known.clone(),
            }
        };
        // Not under the lock: describing runs Python code. Secrets are not looked at.
        let describe_component = |(named, value): (&Named, Py<PyAny>)| match named.secret {
            true => Described { text: String::new(), parts: Vec::new(), cut: true },
            false => describe(value.bind(py)),
        };
        self.components.iter().zip(values).map(describe_component).collect()
    }

    fn clone_ref(&self, py: Python<'_>) -> Self {
        Self {
            components: self.components.clone(),
            shown: Mutex::new(Shown::Described(self.described(py))),
            name: self.name.clone(),
            tool: self.tool.clone(),
            salt: self.salt.clone(),
            ..*self
        }
    }
}

/// A fingerprint counts as it is; anything else by its fingerprint.
fn digest_of(value: &Bound<'_, PyAny>) -> PyResult<(Fingerprint, bool)> {
    let py_fingerprint = match value.cast::<PyFingerprint>() {
        Ok(py_fingerprint) => py_fingerprint.get(),
        Err(_) => &fingerprint(value, "strict")?,
    };
    Ok((py_fingerprint.digest, py_fingerprint.durable))
}

/// What people see of a value.
#[derive(Clone)]
struct Described {
    text: String,
    parts: Vec<Part>,
    /// Whether some parts are left out.
    cut: bool,
}

/// A text for a value, and texts for what is in it, from the Python half.
fn describe(value: &Bound<'_, PyAny>) -> Described {
    let describe = || -> PyResult<Described> {
        let described = hooks::DESCRIBE.get(value.py())?.call1((value,))?;
        let (text, parts, cut): (Bound<'_, PyString>, Vec<Bound<'_, PyTuple>>, bool) = described.extract()?;
        let part = |part: Bound<'_, PyTuple>| -> PyResult<Part> {
            let (path, digest, text): (Bound<'_, PyString>, Bound<'_, PyFingerprint>, Bound<'_, PyString>) =
                part.extract()?;
            // Lone surrogates have no place in JSON.
            Ok(Part {
                path: path.to_string_lossy().into_owned(),
                digest: digest.get().digest,
                summary: text.to_string_lossy().into_owned(),
            })
        };
        let parts = parts.into_iter().map(part).collect::<PyResult<_>>()?;
        Ok(Described { text: text.to_string_lossy().into_owned(), parts, cut })
    };
    describe().unwrap_or_else(|error| {
        if error.is_instance_of::<PyKeyboardInterrupt>(value.py()) {
            // The caller gets it at the next look at signals; texts are not what it was meant for.
            // SAFETY: the interpreter's lock is held.
            unsafe { pyo3::ffi::PyErr_SetInterrupt() };
        }
        Described { text: short_repr(value), parts: Vec::new(), cut: true }
    })
}
