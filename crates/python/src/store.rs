//! `keyprint.Store`: the store as Python sees it. All work is done without the interpreter's lock.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use keyprint_key::{Key, Manifest};
use keyprint_store::{
    Artifact, Config, How, Outcome, PerProcess, Request, SharedDir, Store, TerminalProgress,
};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyTuple, PyType};

use crate::entry::{DATA, PyEntry};
use crate::fingerprint::PyFingerprint;
use crate::hooks;
use crate::key::PyKey;

/// Artifacts under keys: in memory, on disk, and in shared directories.
#[pyclass(frozen, name = "Store", module = "keyprint._native", subclass)]
pub(crate) struct PyStore {
    config: Config,
    /// A forked child opens its own: locks may have been held by threads that it does not have.
    open: PerProcess<Arc<Store>>,
    /// What the store has to say; said when Python's lock is held again.
    notices: Arc<Mutex<Vec<String>>>,
}

/// A size, in bytes or in words.
fn size_of(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(bytes) = value.extract::<u64>() {
        return Ok(bytes);
    }
    let text: String = value.extract().map_err(|_| {
        PyTypeError::new_err(format!("`{argument}` is a number of bytes or a text such as `2 GiB`"))
    })?;
    keyprint_store::parse_size(&text).ok_or_else(|| {
        PyValueError::new_err(format!(
            "`{argument}` is `{text}`, which is not a size\nhint: write `10 GiB`, `500 MB` or a number of bytes"
        ))
    })
}

/// An exception of the store, by code.
pub(crate) fn store_error(py: Python<'_>, code: &'static str, message: String) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let (message, hint) = match message.split_once("\nhint: ") {
            Some((message, hint)) => (message.to_owned(), Some(hint.to_owned())),
            None => (message.clone(), None),
        };
        Ok(PyErr::from_value(hooks::MAKE_STORE_ERROR.get(py)?.call1((code, message, hint))?))
    };
    make().unwrap_or_else(|error| error)
}

#[pymethods]
impl PyStore {
    #[new]
    #[pyo3(signature = (
        path=None,
        *,
        size=None,
        memory=None,
        readonly=false,
        sync=true,
        wait=None,
        shared=Vec::new(),
        trusted=Vec::new(),
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        path: Option<PathBuf>,
        size: Option<&Bound<'_, PyAny>>,
        memory: Option<&Bound<'_, PyAny>>,
        readonly: bool,
        sync: bool,
        wait: Option<f64>,
        shared: Vec<PathBuf>,
        trusted: Vec<PathBuf>,
    ) -> PyResult<Self> {
        let mut config = Config::from_env().map_err(|error| PyValueError::new_err(error.to_string()))?;
        if let Some(path) = path {
            if path.as_os_str().is_empty() {
                return Err(PyValueError::new_err(
                    "`path` is the directory of the store, found an empty text",
                ));
            }
            config.path = Some(path);
        }
        if let Some(size) = size {
            config.size = size_of("size", size)?;
        }
        if let Some(memory) = memory {
            config.memory = size_of("memory", memory)?;
        }
        if let Some(seconds) = wait {
            config.wait = Duration::try_from_secs_f64(seconds).map_err(|_| {
                PyValueError::new_err(format!("`wait` is a number of seconds, found {seconds}"))
            })?;
        }
        let dirs =
            |paths: Vec<PathBuf>, trusted| paths.into_iter().map(move |path| SharedDir { path, trusted });
        config.shared = dirs(shared, false).chain(dirs(trusted, true)).collect();
        let notices = Arc::new(Mutex::new(Vec::new()));
        let said = Arc::clone(&notices);
        config.notify = Arc::new(move |notice| {
            said.lock().unwrap_or_else(PoisonError::into_inner).push(notice.to_string());
        });
        config.readonly |= readonly;
        config.sync = sync;
        // Where it is must not depend on where the program goes.
        config.path = config.path.map(|path| {
            let path = keyprint_store::env::expand_home(&path);
            std::path::absolute(&path).unwrap_or(path)
        });
        let store = Arc::new(Store::open(config.clone()));
        Ok(Self { config, open: PerProcess::new(store), notices })
    }

    /// The directory of the store.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.config.path.clone()
    }

    /// The most bytes it may hold on disk.
    #[getter]
    fn size(&self) -> u64 {
        self.config.size
    }

    /// The entry of a key, or `None`.
    #[pyo3(signature = (key, /))]
    fn get(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<PyEntry>> {
        let key = stored_key(key)?;
        let store = self.store();
        let outcome = py.detach(|| store.find(&key));
        self.say(py)?;
        Ok(outcome.map(|Outcome { entry, how }| PyEntry::new(entry, Arc::clone(store), how)))
    }

    /// The entry of a key; if there is none, `build()` makes it: once, however many ask.
    #[pyo3(signature = (key, build, /))]
    fn get_or_build<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        build: &Bound<'py, PyAny>,
    ) -> PyResult<PyEntry> {
        let key = &*made_key(key)?;
        let store = self.store();
        // Memory answers at once: not worth giving up the lock for.
        if let Some(Outcome { entry, how }) = store.find_in_memory(&key.key) {
            return Ok(PyEntry::new(entry, Arc::clone(store), how));
        }
        let build = build.clone().unbind();
        let mut progress = TerminalProgress::default();
        let outcome = py.detach(|| {
            let manifest = || Python::attach(|py| key.to_manifest(py));
            store.get_or_build_watched(
                &Request::lazy(key.key, &key.name, &manifest),
                || Python::attach(|py| artifact_of(&build.bind(py).call0()?)),
                &mut |waiting| {
                    progress.show(waiting);
                    Python::attach(|py| py.check_signals())
                },
            )
        });
        drop(progress);
        let said = self.say(py);
        let Outcome { entry, how } = outcome?;
        said?;
        Ok(PyEntry::new(entry, Arc::clone(store), how))
    }

    /// Stores an artifact that was built elsewhere, in place of what was there.
    #[pyo3(signature = (key, artifact, metadata=None, /))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        artifact: &Bound<'_, PyAny>,
        metadata: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyEntry> {
        let key = made_key(key)?;
        let artifact = parts_of(artifact)?.with_metadata(metadata_of(py, metadata)?);
        let manifest: Manifest = key.to_manifest(py);
        let store = self.store();
        let entry = py.detach(|| store.put(&manifest, artifact, Duration::ZERO));
        self.say(py)?;
        Ok(PyEntry::new(entry, Arc::clone(store), How::Built))
    }

    /// Removes the entry of a key; says whether there was one.
    #[pyo3(signature = (key, /))]
    fn remove(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = stored_key(key)?;
        let store = self.store();
        Ok(py.detach(|| store.remove(&key))?)
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = stored_key(key)?;
        let store = self.store();
        Ok(py.detach(|| store.contains(&key)))
    }

    /// The entries on disk, the latest first, at most `limit`: key, name, size, when built and last used (seconds
    /// since 1970).
    #[pyo3(signature = (limit=None))]
    fn entries<'py>(&self, py: Python<'py>, limit: Option<usize>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let store = self.store();
        let mut entries = Vec::new();
        for key in self.latest(py) {
            if limit.is_some_and(|limit| entries.len() >= limit) {
                break;
            }
            let Some(listed) = store.listed(&key) else { continue };
            let Ok(Some(Ok(notes))) = py.detach(|| store.notes(&key)) else { continue };
            let entry = PyDict::new(py);
            entry.set_item("key", key.hex())?;
            entry.set_item("name", notes.manifest.name())?;
            entry.set_item("bytes", listed.bytes)?;
            entry.set_item("built", notes.info.created_ms as f64 / 1e3)?;
            let used = listed.used.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            entry.set_item("used", used.as_secs_f64())?;
            entries.push(entry);
        }
        Ok(entries)
    }

    /// How many entries there are on disk.
    fn _count(&self, py: Python<'_>) -> u64 {
        let store = self.store();
        py.detach(|| store.len())
    }

    /// What the store did, summed over all processes, and how full it is.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let store = self.store();
        let usage = py.detach(|| store.usage_of(&store.scan()));
        let text = serde_json::to_string(&usage).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let stats = py.import("json")?.call_method1("loads", (text,))?;
        let counters = stats.get_item("counters")?;
        counters.set_item("limit", usage.limit)?;
        Ok(counters)
    }

    /// Why a key is not there, in comparison with the nearest entry of the same name from before a time (seconds
    /// since 1970).
    #[pyo3(signature = (key, /, before=None))]
    fn why(&self, py: Python<'_>, key: &Bound<'_, PyAny>, before: Option<f64>) -> PyResult<Vec<String>> {
        let manifest = made_key(key)?.to_manifest(py);
        let store = self.store();
        let before = before.map_or(u64::MAX, |seconds| (seconds * 1e3) as u64);
        let why = py.detach(|| store.why(&manifest, before));
        Ok(why
            .nearest
            .map_or_else(Vec::new, |(_, compared)| compared.to_string().lines().map(str::to_owned).collect()))
    }

    /// The last misses, the latest first: name, key, and what changed (`None` for the first of a name).
    #[pyo3(signature = (limit=5))]
    fn why_last(&self, py: Python<'_>, limit: usize) -> Vec<(String, String, Option<Vec<String>>)> {
        let store = self.store();
        let told = py.detach(|| store.why_last(limit)).into_iter().map(|why| {
            let changes = why
                .nearest
                .map(|(_, compared)| compared.to_string().lines().map(str::to_owned).collect::<Vec<_>>());
            (why.manifest.name().to_owned(), why.key.hex(), changes)
        });
        told.collect()
    }

    /// Reads every entry and puts damaged ones aside; returns their paths.
    fn verify(&self, py: Python<'_>) -> Vec<PathBuf> {
        let store = self.store();
        let verified = py.detach(|| store.verify(false, |_, _| ()));
        verified.damaged.into_iter().map(|(path, _)| path).collect()
    }

    /// Removes leftovers and the least recently used entries above a size; returns how many entries went.
    #[pyo3(signature = (size=None))]
    fn gc(&self, py: Python<'_>, size: Option<&Bound<'_, PyAny>>) -> PyResult<u64> {
        let limit = size.map(|size| size_of("size", size)).transpose()?;
        let store = self.store();
        let freed = py.detach(|| store.gc(limit, None, false, &mut |_, _| ()))?;
        Ok(freed.map_or(0, |freed| freed.entries))
    }

    /// Removes all entries; returns how many.
    fn clear(&self, py: Python<'_>) -> PyResult<u64> {
        let store = self.store();
        Ok(py.detach(|| store.clear(None, |_| ()))?.entries)
    }

    /// Writes down what was counted.
    fn flush(&self, py: Python<'_>) {
        let store = self.store();
        py.detach(|| store.flush());
    }

    fn __repr__(&self) -> String {
        match &self.config.path {
            Some(path) => format!("<Store in {}>", path.display()),
            None => "<Store in memory>".to_owned(),
        }
    }

    /// What a store unpickles through: its settings.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyTuple>)> {
        Err(PyTypeError::new_err(format!(
            "a `{}` cannot be pickled: open it in each process",
            slf.get_type().name()?
        )))
    }
}

impl PyStore {
    /// The keys of all entries, the latest first; in no order if that is not known.
    fn latest(&self, py: Python<'_>) -> Vec<Key> {
        let store = self.store();
        py.detach(|| match store.indexed(&mut |_, _| ()) {
            Some(records) => records.into_iter().map(|record| record.key).collect(),
            None => {
                let mut keys = Vec::new();
                store.visit(|listed| keys.push(listed.key));
                keys
            }
        })
    }

    /// The store of this process.
    pub(crate) fn store(&self) -> &Arc<Store> {
        self.open.get(|| Arc::new(Store::open(self.config.clone())))
    }

    /// Says what the store had to say, as warnings.
    pub(crate) fn say(&self, py: Python<'_>) -> PyResult<()> {
        let said = std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner));
        for notice in said {
            let category = hooks::STORE_WARNING.get(py)?;
            let text = std::ffi::CString::new(notice.replace('\0', "\\0")).expect("no zero byte is left");
            PyErr::warn(py, category, &text, 1)?;
        }
        Ok(())
    }
}

/// A key that was made here, from components or from a fingerprint.
fn made_key<'py>(key: &Bound<'py, PyAny>) -> PyResult<PyRefKey<'py>> {
    let ref_key = if let Ok(given) = key.cast::<PyKey>() {
        PyRefKey::Given(given.clone())
    } else if let Ok(fingerprint) = key.cast::<PyFingerprint>() {
        PyRefKey::Made(Box::new(PyKey::of_fingerprint(key.py(), fingerprint.clone())?))
    } else {
        return Err(PyTypeError::new_err(format!(
            "a key is a `keyprint.Key` or a `keyprint.Fingerprint`, found `{}`\n\
             hint: keyprint.Key(\"name\", {{\"input\": value}})",
            key.get_type().name()?
        )));
    };
    check_durable(key.py(), &ref_key)?;
    Ok(ref_key)
}

/// Refuses a key that means nothing to other processes.
pub(crate) fn check_durable(py: Python<'_>, key: &PyKey) -> PyResult<()> {
    if key.durable {
        return Ok(());
    }
    Err(store_error(
        py,
        "not-durable",
        "the key holds a fingerprint that only means something in its own process, so nothing can be stored \
         under it\nhint: make the fingerprint in strict mode"
            .to_owned(),
    ))
}

enum PyRefKey<'py> {
    Given(Bound<'py, PyKey>),
    Made(Box<PyKey>),
}

impl std::ops::Deref for PyRefKey<'_> {
    type Target = PyKey;

    fn deref(&self) -> &PyKey {
        match self {
            Self::Given(key) => key.get(),
            Self::Made(key) => key,
        }
    }
}

/// A key to look up: one that was made here, or its 64 digits.
fn stored_key(key: &Bound<'_, PyAny>) -> PyResult<Key> {
    match key.extract::<String>() {
        Ok(text) => text
            .parse()
            .map_err(|_| PyValueError::new_err(format!("a key has 64 hexadecimal digits, found `{text}`"))),
        Err(_) => Ok(made_key(key)?.key),
    }
}

/// What a build returned: an artifact, or an artifact and notes.
pub(crate) fn artifact_of(built: &Bound<'_, PyAny>) -> PyResult<Artifact> {
    let Ok(pair) = built.cast::<PyTuple>() else { return parts_of(built) };
    if pair.len() != 2 {
        return Err(PyTypeError::new_err(format!(
            "`build` returned a tuple of {}, expected (artifact, metadata)",
            pair.len()
        )));
    }
    let metadata = metadata_of(built.py(), Some(&pair.get_item(1)?))?;
    Ok(parts_of(&pair.get_item(0)?)?.with_metadata(metadata))
}

/// Bytes, or a mapping from names to bytes.
fn parts_of(value: &Bound<'_, PyAny>) -> PyResult<Artifact> {
    let mut artifact = Artifact::new();
    let mut add = |name: &str, value: &Bound<'_, PyAny>| {
        let bytes = bytes_of(value)?;
        artifact.add(name, bytes).map_err(|error| store_error(value.py(), "part-name", error.to_string()))
    };
    match value.cast::<PyDict>() {
        Ok(parts) => {
            for (name, value) in parts.iter() {
                let name: String =
                    name.extract().map_err(|_| PyTypeError::new_err("the names of parts are strings"))?;
                add(&name, &value)?;
            }
        }
        Err(_) => add(DATA, value)?,
    }
    Ok(artifact)
}

fn bytes_of(value: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    // Bytes do not change, so they are kept as they are.
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Bytes::from_owner(PyBackedBytes::from(bytes.clone())));
    }
    match PyBuffer::<u8>::get(value) {
        Ok(buffer) => Ok(buffer.to_vec(value.py())?.into()),
        Err(_) => Err(PyTypeError::new_err(format!(
            "an artifact is bytes, or a dict from names to bytes, found `{}`",
            value.get_type().name()?
        ))),
    }
}

fn metadata_of(py: Python<'_>, metadata: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<u8>> {
    match metadata.filter(|metadata| !metadata.is_none()) {
        None => Ok(Vec::new()),
        Some(metadata) => hooks::DUMP_PLAIN.get(py)?.call1((metadata,))?.extract(),
    }
}

/// The environment variables of the project, and what they do.
#[pyfunction]
pub(crate) fn _environment_variables() -> Vec<(&'static str, &'static str)> {
    keyprint_store::env::ALL.iter().map(|variable| (variable.name, variable.does)).collect()
}
