//! `keyprint.Fingerprinter` and `keyprint.fingerprint`.

use std::sync::LazyLock;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};

use crate::config::{Arrays, Config, Mode, names};
use crate::explain::{Difference, Explanation, differences};
use crate::fingerprint::PyFingerprint;
use crate::walk::level::{self, Event};
use crate::walk::plan::Plans;
use crate::walk::{Outcome, Want, classify, short_repr, walk};

/// The key of field metadata under which fields opt out.
const NAMESPACE: &str = "keyprint";

/// Makes fingerprints, under one set of rules.
#[pyclass(frozen, module = "keyprint")]
pub(crate) struct Fingerprinter {
    config: Config,
    plans: Plans,
}

/// A fingerprint and how much work it took.
#[pyclass(frozen, get_all, module = "keyprint")]
pub(crate) struct Inspection {
    fingerprint: Py<PyFingerprint>,
    /// Objects with parts that were read.
    opened: usize,
    /// Objects with parts that were met again and not read again.
    reused: usize,
}

#[pymethods]
impl Inspection {
    fn __repr__(&self) -> String {
        let Self { fingerprint, opened, reused } = self;
        format!("<Inspection of {}: {opened} opened, {reused} reused>", fingerprint.get().digest.short())
    }
}

#[pymethods]
impl Fingerprinter {
    #[new]
    #[pyo3(signature = (
        *,
        mode="strict",
        overrides=None,
        skip_fields=None,
        arrays="content",
        cycles=true,
        metadata_keys=None,
        _observable=false,
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords, each with a default")]
    fn new(
        mode: &str,
        overrides: Option<&Bound<'_, PyAny>>,
        skip_fields: Option<&Bound<'_, PyAny>>,
        arrays: &str,
        cycles: bool,
        metadata_keys: Option<&Bound<'_, PyAny>>,
        _observable: bool,
    ) -> PyResult<Self> {
        let skip_fields = names("skip_fields", skip_fields)?.unwrap_or_default();
        let namespaces = names("metadata_keys", metadata_keys)?.unwrap_or_else(|| vec![NAMESPACE.to_owned()]);
        let config = Config::parse(mode, overrides, skip_fields, arrays, cycles, namespaces, _observable)?;
        Ok(Self { config, plans: Plans::default() })
    }

    /// The fingerprint of a value.
    fn __call__(&self, value: &Bound<'_, PyAny>) -> PyResult<PyFingerprint> {
        let Outcome { digest, durable, .. } = walk(&self.config, &self.plans, value, Want::Digest)?;
        Ok(PyFingerprint::new(digest, durable))
    }

    /// The fingerprint of a value, with the number of objects that were read for it.
    fn inspect(&self, value: &Bound<'_, PyAny>) -> PyResult<Inspection> {
        let Outcome { digest, durable, opened, reused, .. } =
            walk(&self.config, &self.plans, value, Want::Digest)?;
        Ok(Inspection {
            fingerprint: Py::new(value.py(), PyFingerprint::new(digest, durable))?,
            opened,
            reused,
        })
    }

    /// The fingerprint of a value, the classes of the objects in it, and objects that may be met elsewhere, too:
    /// by address, with whether `==` tells them apart.
    #[allow(clippy::type_complexity, reason = "three things that are found in one walk")]
    fn _with_classes(
        &self,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<(PyFingerprint, Vec<Py<PyType>>, Vec<(usize, bool)>)> {
        let Outcome { digest, durable, classes, met, .. } =
            walk(&self.config, &self.plans, value, Want::Classes)?;
        Ok((PyFingerprint::new(digest, durable), classes, met))
    }

    /// One level of a value: the digest of what it is by itself, and what is met in it: `(child,)`, `(child, name,
    /// True)` for a field, `(ordered, pairs)` where a group of children begins, `()` where it ends.
    fn _level<'py>(
        &self,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyBytes>, Vec<Bound<'py, PyTuple>>)> {
        let py = value.py();
        let (digest, events) = level::level(&self.config, &self.plans, value)?;
        let event = |event| match event {
            Event::Open { ordered, pairs } => PyTuple::new(py, [ordered, pairs]),
            Event::Child(child, None) => PyTuple::new(py, [child]),
            Event::Child(child, Some(name)) => (child, name, true).into_pyobject(py),
            Event::Close => Ok(PyTuple::empty(py)),
        };
        let events = events.into_iter().map(event).collect::<PyResult<_>>()?;
        Ok((PyBytes::new(py, digest.as_bytes()), events))
    }

    /// The item of a value whose children have these items, and its fingerprint.
    fn _assemble<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        items: Vec<Vec<u8>>,
    ) -> PyResult<(Bound<'py, PyBytes>, String)> {
        let (item, digest) = level::assemble(&self.config, &self.plans, value, items)?;
        Ok((PyBytes::new(value.py(), &item), digest.hex()))
    }

    /// The rule that the caller gave for a value, if it is the most specific one.
    fn _rule_for<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        classify::given_rule(&self.config, &value.get_type())
            .map_err(|failure| failure.into_exception(value.py(), "$"))
    }

    /// The labelled tree of fingerprints of a value.
    fn explain(&self, value: &Bound<'_, PyAny>) -> PyResult<Explanation> {
        let Outcome { durable, trace, .. } = walk(&self.config, &self.plans, value, Want::Trace)?;
        Ok(Explanation::new(trace.expect("asked for"), durable))
    }

    /// The first places where two values differ; empty if their fingerprints agree.
    #[pyo3(signature = (left, right, /, *, limit=20))]
    fn diff(
        &self,
        left: &Bound<'_, PyAny>,
        right: &Bound<'_, PyAny>,
        limit: usize,
    ) -> PyResult<Vec<Difference>> {
        let left = walk(&self.config, &self.plans, left, Want::Trace)?.trace.expect("asked for");
        let right = walk(&self.config, &self.plans, right, Want::Trace)?.trace.expect("asked for");
        Ok(differences(&left, &right, limit))
    }

    /// Rules may hold whatever made them, which may hold this.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.config.overrides.iter().try_for_each(|given| {
            visit.call(&given.class)?;
            visit.call(&given.rule)
        })?;
        self.plans.traverse(&visit)
    }

    fn __repr__(&self) -> String {
        let mode = if self.config.mode == Mode::Strict { "strict" } else { "lenient" };
        let arrays = match self.config.arrays {
            Arrays::Content => "content",
            Arrays::Spec => "spec",
            Arrays::Identity => "identity",
        };
        format!("<Fingerprinter mode={mode:?} arrays={arrays:?} cycles={}>", self.config.cycles)
    }
}

fn default(mode: Mode) -> Fingerprinter {
    let config = Config {
        mode,
        arrays: Arrays::Content,
        cycles: true,
        skip_fields: Vec::new(),
        overrides: Vec::new(),
        namespaces: vec![NAMESPACE.to_owned()],
        observable: false,
        overrides_builtins: false,
    };
    Fingerprinter { config, plans: Plans::default() }
}

/// The fingerprint of a value, by the default rules.
#[pyfunction]
#[pyo3(signature = (value, /, *, mode="strict"))]
pub(crate) fn fingerprint(value: &Bound<'_, PyAny>, mode: &str) -> PyResult<PyFingerprint> {
    static STRICT: LazyLock<Fingerprinter> = LazyLock::new(|| default(Mode::Strict));
    static LENIENT: LazyLock<Fingerprinter> = LazyLock::new(|| default(Mode::Lenient));
    match mode {
        "strict" => STRICT.__call__(value),
        "lenient" => LENIENT.__call__(value),
        _ => Config::parse(mode, None, Vec::new(), "content", true, Vec::new(), false)
            .map(|_| unreachable!("refused")),
    }
}

/// A short text for a value, as explanations show it. Never raises, never long.
#[pyfunction]
#[pyo3(signature = (value, /))]
pub(crate) fn _short_text(value: &Bound<'_, PyAny>) -> String {
    short_repr(value)
}
