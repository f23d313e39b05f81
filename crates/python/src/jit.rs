//! `Jit`: the executables of a kernel. The Python half supplies the compiler and the loader.

use std::sync::Arc;

use keyprint_jit::{Jit, Origin, Place, Work};
use keyprint_store::{Artifact, Entry, How, Request, Store, TerminalProgress, Waiting};
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;

use crate::entry::PyEntry;
use crate::key::PyKey;
use crate::store::{PyStore, artifact_of, check_durable};

/// What a loader made. Clones are shared, because nothing can be cloned without the interpreter's lock.
type Executable = Arc<Py<PyAny>>;

/// The executables of a kernel: loaded, stored, or to be compiled, once however many ask.
#[pyclass(frozen, name = "Jit", module = "keyprint._native")]
pub(crate) struct PyJit {
    jit: Jit<Executable>,
}

/// The compiler and the loader, as Python functions.
struct Calls<'a> {
    compile: &'a Py<PyAny>,
    load: &'a Py<PyAny>,
    store: Option<&'a Arc<Store>>,
    progress: TerminalProgress,
}

impl Work for Calls<'_> {
    type Executable = Executable;
    type Error = PyErr;

    fn compile(&mut self) -> PyResult<Artifact> {
        Python::attach(|py| artifact_of(&self.compile.bind(py).call0()?))
    }

    fn load(&mut self, entry: Arc<Entry>, how: How) -> PyResult<Executable> {
        let store = Arc::clone(self.store.expect("an entry comes from a store"));
        Python::attach(|py| Ok(Arc::new(self.load.call1(py, (PyEntry::new(entry, store, how),))?)))
    }

    fn make(&mut self) -> PyResult<Executable> {
        Python::attach(|py| {
            let compiled = self.compile.call0(py)?;
            Ok(Arc::new(self.load.call1(py, (compiled,))?))
        })
    }

    fn wait(&mut self, waiting: &Waiting<'_>) -> PyResult<()> {
        self.progress.show(waiting);
        Python::attach(|py| py.check_signals())
    }
}

#[pymethods]
impl PyJit {
    /// Keeps up to so many executables loaded.
    #[new]
    #[pyo3(signature = (most, /))]
    fn new(most: usize) -> Self {
        Self { jit: Jit::new(most) }
    }

    /// The executable of a key on a device, and whether it was loaded already.
    ///
    /// With a store, `compile()` returns an artifact and `load(entry)` makes it executable; without one,
    /// `load` is given what `compile` returned.
    #[pyo3(signature = (key, device, store, compile, load, /))]
    fn get(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyKey>,
        device: u64,
        store: Option<&Bound<'_, PyStore>>,
        compile: Py<PyAny>,
        load: Py<PyAny>,
    ) -> PyResult<(Py<PyAny>, bool)> {
        let key = key.get();
        let place = Place { key: key.key, device };
        if let Some(executable) = self.jit.loaded(&place) {
            return Ok((executable.clone_ref(py), true));
        }
        let opened = match store {
            None => None,
            Some(store) => {
                check_durable(py, key)?;
                Some(Arc::clone(store.get().store()))
            }
        };
        let outcome = py.detach(|| {
            let manifest = || Python::attach(|py| key.to_manifest(py));
            let request = Request::lazy(key.key, &key.name, &manifest);
            let progress = TerminalProgress::default();
            let mut calls = Calls { compile: &compile, load: &load, store: opened.as_ref(), progress };
            let asked = opened.as_deref().map(|store| (store, &request));
            self.jit.get(place, &key.name, asked, &mut calls)
        });
        let said = store.map_or(Ok(()), |store| store.get().say(py));
        let outcome = outcome?;
        said?;
        Ok((outcome.executable.clone_ref(py), outcome.origin == Origin::Loaded))
    }

    /// Forgets what is loaded.
    fn clear(&self) {
        self.jit.clear();
    }

    fn __len__(&self) -> usize {
        self.jit.len()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let mut result = Ok(());
        // What cannot be looked at right now, or is in use, counts as alive.
        self.jit.try_for_each(|executable| {
            if result.is_ok() && Arc::strong_count(executable) == 1 {
                result = visit.call(&**executable);
            }
        });
        result
    }

    fn __clear__(&self) {
        self.jit.clear();
    }
}
