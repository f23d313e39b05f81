//! `keyprint.Fingerprint`, the digest as a Python value.

use keyprint_fingerprint::Fingerprint;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The 256-bit identity of a value.
#[pyclass(frozen, name = "Fingerprint", module = "keyprint")]
pub(crate) struct PyFingerprint {
    pub(crate) digest: Fingerprint,
    pub(crate) durable: bool,
}

impl PyFingerprint {
    pub(crate) fn new(digest: Fingerprint, durable: bool) -> Self {
        Self { digest, durable }
    }
}

#[pymethods]
impl PyFingerprint {
    #[new]
    #[pyo3(signature = (value, /, *, durable=true))]
    fn parse(value: &Bound<'_, PyAny>, durable: bool) -> PyResult<Self> {
        let digest = if let Ok(bytes) = value.cast::<PyBytes>() {
            let raw = bytes.as_bytes();
            let bytes = raw.try_into().map_err(|_| {
                PyValueError::new_err(format!("a fingerprint has 32 bytes, found {}", raw.len()))
            })?;
            Fingerprint::from_bytes(bytes)
        } else {
            let text: &str = value.extract()?;
            text.parse().map_err(|error| PyValueError::new_err(format!("{error}")))?
        };
        Ok(Self { digest, durable })
    }

    /// All 64 hexadecimal digits.
    fn hex(&self) -> String {
        self.digest.hex()
    }

    /// The first 12 hexadecimal digits: for people.
    #[getter]
    fn short(&self) -> String {
        self.digest.short()
    }

    /// Whether another process would find the same: no fallback and no identity was used.
    #[getter]
    fn durable(&self) -> bool {
        self.durable
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.digest.as_bytes())
    }

    fn __str__(&self) -> String {
        self.digest.hex()
    }

    fn __repr__(&self) -> String {
        let durable = if self.durable { "" } else { ", durable=False" };
        format!("Fingerprint('{}'{durable})", self.digest)
    }

    fn __hash__(&self) -> u64 {
        // The digest is uniform already.
        u64::from_le_bytes(*self.digest.as_bytes().first_chunk().expect("32 bytes are more than 8"))
    }

    fn __richcmp__<'py>(
        &self,
        other: &Bound<'py, PyAny>,
        op: pyo3::basic::CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        match other.cast::<Self>() {
            Ok(other) => {
                let answer = op.matches(self.digest.cmp(&other.get().digest));
                Ok(pyo3::types::PyBool::new(py, answer).to_owned().into_any())
            }
            Err(_) => Ok(py.NotImplemented().into_bound(py)),
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let py = slf.py();
        let this = slf.get();
        let make = py.import("keyprint._native")?.getattr(if this.durable {
            "_durable_fingerprint"
        } else {
            "_process_local_fingerprint"
        })?;
        Ok((make, (this.__bytes__(py),)))
    }
}

/// What a durable fingerprint unpickles through.
#[pyfunction]
pub(crate) fn _durable_fingerprint(bytes: [u8; 32]) -> PyFingerprint {
    PyFingerprint::new(Fingerprint::from_bytes(bytes), true)
}

/// What a fingerprint that is not durable unpickles through.
#[pyfunction]
pub(crate) fn _process_local_fingerprint(bytes: [u8; 32]) -> PyFingerprint {
    PyFingerprint::new(Fingerprint::from_bytes(bytes), false)
}
