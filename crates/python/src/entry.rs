//! `keyprint.Entry`: what a store hands out.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use keyprint_store::{Entry, How, LoadError, Store};
use pyo3::exceptions::{PyKeyError, PyOSError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyMemoryView};

use crate::hooks;
use crate::store::store_error;

/// The part of an artifact that is nothing but bytes.
pub(crate) const DATA: &str = "data";

/// A manifest and an artifact, verified.
#[pyclass(frozen, name = "Entry", module = "keyprint")]
pub(crate) struct PyEntry {
    entry: Arc<Entry>,
    store: Arc<Store>,
    how: How,
    /// The parts as Python sees them, made when they are first asked for.
    parts: PyOnceLock<Py<PyDict>>,
}

impl PyEntry {
    pub(crate) fn new(entry: Arc<Entry>, store: Arc<Store>, how: How) -> Self {
        Self { entry, store, how, parts: PyOnceLock::new() }
    }

    fn no_such_part(&self, part: &str) -> PyErr {
        let names: Vec<String> = self.entry.names().map(|name| format!("`{name}`")).collect();
        PyKeyError::new_err(format!("there is no part `{part}`; the parts are {}", names.join(", ")))
    }

    fn dict<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyDict>> {
        if self.parts.get(py).is_none() {
            let parts = PyDict::new(py);
            for (name, bytes) in self.entry.parts() {
                parts.set_item(name, PyBytes::new(py, bytes))?;
            }
            let _ = self.parts.set(py, parts.unbind());
        }
        Ok(self.parts.get(py).expect("just set").bind(py))
    }
}

#[pymethods]
impl PyEntry {
    /// The bytes of an artifact that has no named parts.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.__getitem__(py, DATA)
    }

    /// The parts of the artifact, by name.
    #[getter]
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        // A copy: what others see of this entry stays as it is.
        self.dict(py)?.copy()
    }

    /// A part as a view of the memory that it was read into: nothing is copied.
    fn view<'py>(&self, py: Python<'py>, part: &str) -> PyResult<Bound<'py, PyMemoryView>> {
        let bytes = self.entry.shared_part(part).ok_or_else(|| self.no_such_part(part))?;
        PyMemoryView::from(Bound::new(py, PartView { bytes })?.as_any())
    }

    /// What the builder noted.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.entry.metadata().is_empty() {
            return Ok(py.None().into_bound(py));
        }
        if let Some(metadata) = crate::plain::read(py, self.entry.metadata())? {
            return Ok(metadata);
        }
        hooks::LOAD_PLAIN.get(py)?.call1((PyBytes::new(py, self.entry.metadata()),))
    }

    /// What it is stored under, as 64 hexadecimal digits.
    #[getter]
    fn key(&self) -> String {
        self.entry.key().hex()
    }

    /// What people know it as.
    #[getter]
    fn name(&self) -> String {
        self.entry.name()
    }

    /// What went into its key, as the store keeps it: JSON.
    fn manifest(&self) -> PyResult<String> {
        let manifest = self.entry.manifest().map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(String::from_utf8(manifest.to_bytes())?)
    }

    /// How it was got: `memory`, `disk`, `tier`, `waited` or `built`.
    #[getter]
    fn how(&self) -> &'static str {
        self.how.name()
    }

    /// How long the build took, in seconds.
    #[getter]
    fn build_seconds(&self) -> f64 {
        self.entry.info().build_ns as f64 / 1e9
    }

    /// A path under which a part can be loaded as native code, for as long as this process lives.
    ///
    /// As text: `pathlib` takes longer to load than an artifact.
    #[pyo3(signature = (part="data"))]
    fn load(&self, py: Python<'_>, part: &str) -> PyResult<OsString> {
        let loaded = py.detach(|| self.store.load(&self.entry, part));
        loaded.map(PathBuf::into_os_string).map_err(|error| load_error(py, error))
    }

    /// Writes the parts as files below a directory; returns their paths.
    fn materialise(&self, py: Python<'_>, directory: PathBuf) -> PyResult<Vec<PathBuf>> {
        let written = py.detach(|| self.store.materialise(&self.entry, &directory));
        written.map_err(|error| load_error(py, error))
    }

    /// Raises if somebody else could have written it.
    fn _check_trust(&self, py: Python<'_>) -> PyResult<()> {
        self.store.check_trust(&self.entry).map_err(|error| load_error(py, error))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, part: &str) -> PyResult<Bound<'py, PyAny>> {
        self.dict(py)?.get_item(part)?.ok_or_else(|| self.no_such_part(part))
    }

    fn __repr__(&self) -> String {
        format!("<Entry {} of {}: {}>", self.entry.key().short(), self.name(), self.how())
    }
}

/// The bytes of a part, for whoever views them.
#[pyclass(frozen, module = "keyprint._native")]
struct PartView {
    bytes: Bytes,
}

#[pymethods]
impl PartView {
    /// # Safety
    ///
    /// As CPython calls it: `view` is a buffer to be filled in.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: std::ffi::c_int,
    ) -> PyResult<()> {
        let bytes = &slf.get().bytes;
        let len = ffi::Py_ssize_t::try_from(bytes.len())?;
        // SAFETY: the object is kept by the buffer and keeps the bytes, which never change: it is read-only.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), bytes.as_ptr().cast_mut().cast(), len, 1, flags)
        };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

fn load_error(py: Python<'_>, error: LoadError) -> PyErr {
    match error {
        LoadError::Trust(_) | LoadError::Entry(_) => store_error(py, "untrusted", error.to_string()),
        LoadError::Part { .. } => store_error(py, "no-such-part", error.to_string()),
        LoadError::Name(_) => store_error(py, "part-name", error.to_string()),
        LoadError::Io(error) => error.into(),
    }
}
