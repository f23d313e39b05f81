//! `explain` and `diff`: a value's tree of fingerprints, and where two of them part.

use std::sync::Arc;

use keyprint_fingerprint::trace::{self, Node, Trace};
use pyo3::prelude::*;

use crate::fingerprint::PyFingerprint;

/// A value, its fingerprint, and the same for its parts.
#[pyclass(frozen, module = "keyprint")]
pub(crate) struct Explanation {
    trace: Arc<Trace>,
    id: usize,
    path: String,
    durable: bool,
}

impl Explanation {
    pub(crate) fn new(trace: Trace, durable: bool) -> Self {
        Self { trace: Arc::new(trace), id: 0, path: "$".to_owned(), durable }
    }

    fn node(&self) -> &Node {
        &self.trace.nodes[self.id]
    }
}

#[pymethods]
impl Explanation {
    /// The path to this value from the one that was explained.
    #[getter]
    fn path(&self) -> &str {
        &self.path
    }

    /// How this value is reached from its parent.
    #[getter]
    fn label(&self) -> &str {
        &self.node().label
    }

    /// A short text for this value.
    #[getter]
    fn text(&self) -> &str {
        &self.node().text
    }

    /// The fingerprint of this value, as it counts here.
    #[getter]
    fn fingerprint(&self) -> PyFingerprint {
        PyFingerprint::new(self.node().digest, self.durable)
    }

    /// Whether the value was met before; its parts are the same.
    #[getter]
    fn shared(&self) -> bool {
        self.node().same.is_some()
    }

    /// The parts.
    #[getter]
    fn children(&self) -> Vec<Self> {
        let children = &self.trace.nodes[self.trace.resolved(self.id)].children;
        children
            .iter()
            .map(|&id| Self {
                trace: Arc::clone(&self.trace),
                id,
                path: format!("{}{}", self.path, self.trace.nodes[id].label),
                durable: self.durable,
            })
            .collect()
    }

    /// The tree as text, down to `depth` levels and `lines` lines.
    #[pyo3(signature = (*, depth=8, lines=200))]
    fn render(&self, depth: usize, lines: usize) -> String {
        self.trace.render(self.id, &self.path, depth, lines)
    }

    fn __str__(&self) -> String {
        self.render(8, 200)
    }

    fn __repr__(&self) -> String {
        format!("<Explanation of {} at {}: {}>", self.node().text, self.path, self.node().digest.short())
    }
}

/// One place where two values differ.
#[pyclass(frozen, module = "keyprint")]
pub(crate) struct Difference(trace::Difference);

#[pymethods]
impl Difference {
    /// The path to the place.
    #[getter]
    fn path(&self) -> &str {
        &self.0.path
    }

    /// What is there on the left; `None` for nothing.
    #[getter]
    fn left(&self) -> Option<&str> {
        self.0.left.as_deref()
    }

    /// What is there on the right; `None` for nothing.
    #[getter]
    fn right(&self) -> Option<&str> {
        self.0.right.as_deref()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Difference {}>", self.0)
    }
}

/// The first places, at most `limit`, where two traced values differ.
pub(crate) fn differences(left: &Trace, right: &Trace, limit: usize) -> Vec<Difference> {
    trace::differences(left, right, limit).into_iter().map(Difference).collect()
}
