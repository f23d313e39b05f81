//! Names of the Python half, looked up once.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// A name of the Python half.
pub(crate) struct Imported {
    module: &'static str,
    name: &'static str,
    found: PyOnceLock<Py<PyAny>>,
}

impl Imported {
    pub(crate) const fn new(module: &'static str, name: &'static str) -> Self {
        Self { module, name, found: PyOnceLock::new() }
    }

    /// What the name stands for.
    ///
    /// The import runs outside of the cell: a process that is forked meanwhile would otherwise have a
    /// cell that some thread it does not have is about to fill, and wait for it for ever. The Python
    /// half keeps forks out of imports for the same reason.
    pub(crate) fn get<'py>(&'py self, py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
        if let Some(found) = self.found.get(py) {
            return Ok(found.bind(py));
        }
        let load = py.import("keyprint.lazy")?.getattr("load")?;
        let found = load.call1((self.module, self.name))?.unbind();
        // Whoever was first set the same.
        let _ = self.found.set(py, found);
        Ok(self.found.get(py).expect("just set").bind(py))
    }
}
