//! `explain` and `diff`: a value's tree of fingerprints, and where two of them part.

use std::fmt::Write;
use std::sync::Arc;

use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::fingerprint::PyFingerprint;
use crate::trace::{Node, Trace};

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

/// The node that shows the parts of an object.
fn resolved(trace: &Trace, id: usize) -> usize {
    trace.nodes[id].same.unwrap_or(id)
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
        let children = &self.trace.nodes[resolved(&self.trace, self.id)].children;
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
        let mut text = String::new();
        let mut pending = vec![(self.id, 0)];
        let mut written = 0;
        while let Some((id, level)) = pending.pop() {
            if written == lines {
                let _ = writeln!(text, "… and {} more", pending.len() + 1);
                break;
            }
            written += 1;
            let node = &self.trace.nodes[id];
            let label = if id == self.id { &self.path } else { &node.label };
            let shared = if node.same.is_some() { "  (shared)" } else { "" };
            let _ = writeln!(
                text,
                "{}  {:indent$}{label}  {}{shared}",
                node.digest.short(),
                "",
                node.text,
                indent = 2 * level
            );
            if node.same.is_some() {
                continue;
            }
            if level == depth && !node.children.is_empty() {
                let _ = writeln!(text, "{:14}{:indent$}…", "", "", indent = 2 * (level + 1));
                continue;
            }
            pending.extend(node.children.iter().rev().map(|&child| (child, level + 1)));
        }
        text
    }

    fn __str__(&self) -> String {
        self.render(8, 200)
    }

    fn __repr__(&self) -> String {
        format!("<Explanation of {} at {}: {}>", self.node().text, self.path, self.node().digest.short())
    }
}

/// One place where two values differ.
#[pyclass(frozen, get_all, module = "keyprint")]
pub(crate) struct Difference {
    /// The path to the place.
    path: String,
    /// What is there on the left; `None` for nothing.
    left: Option<String>,
    /// What is there on the right; `None` for nothing.
    right: Option<String>,
}

#[pymethods]
impl Difference {
    fn __str__(&self) -> String {
        match (&self.left, &self.right) {
            (Some(left), Some(right)) if left == right => {
                format!("{}: {left} on both sides, but of different content", self.path)
            }
            (Some(left), Some(right)) => format!("{}: {left} != {right}", self.path),
            (Some(left), None) => format!("{}: {left} only on the left", self.path),
            (None, Some(right)) => format!("{}: {right} only on the right", self.path),
            (None, None) => self.path.clone(),
        }
    }

    fn __repr__(&self) -> String {
        format!("<Difference {}>", self.__str__())
    }
}

/// The first places, at most `limit`, where two traced values differ.
pub(crate) fn differences(left: &Trace, right: &Trace, limit: usize) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut compared = FxHashSet::default();
    let mut pending = vec![(0, 0, "$".to_owned())];
    while let Some((a, b, path)) = pending.pop() {
        if differences.len() == limit {
            break;
        }
        let (left_node, right_node) = (&left.nodes[a], &right.nodes[b]);
        if left_node.digest == right_node.digest {
            continue;
        }
        let (a, b) = (resolved(left, a), resolved(right, b));
        // A place that was compared before, by another way, would only repeat itself.
        if !compared.insert((a, b)) && !left.nodes[a].children.is_empty() {
            continue;
        }
        let before = (pending.len(), differences.len());
        compare_parts(left, right, (a, b), &path, &mut pending, &mut differences);
        if (pending.len(), differences.len()) == before {
            differences.push(Difference {
                path,
                left: Some(left_node.text.clone()),
                right: Some(right_node.text.clone()),
            });
        }
    }
    differences.truncate(limit);
    differences
}

/// Lines the parts of two values up by label.
fn compare_parts(
    left: &Trace,
    right: &Trace,
    (a, b): (usize, usize),
    path: &str,
    pending: &mut Vec<(usize, usize, String)>,
    differences: &mut Vec<Difference>,
) {
    let (left_node, right_node) = (&left.nodes[a], &right.nodes[b]);
    // Values of different kinds are not compared part by part.
    let kind = |node: &Node| node.text.split(" of ").next().map(str::to_owned);
    if left_node.children.is_empty() || right_node.children.is_empty() || kind(left_node) != kind(right_node)
    {
        return;
    }
    let mut there: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    for &child in right_node.children.iter().rev() {
        there.entry(&right.nodes[child].label).or_default().push(child);
    }
    let mut pairs = Vec::new();
    for &child in &left_node.children {
        let node = &left.nodes[child];
        let path = format!("{path}{}", node.label);
        match there.get_mut(node.label.as_str()).and_then(Vec::pop) {
            Some(partner) => pairs.push((child, partner, path)),
            None => differences.push(Difference { path, left: Some(node.text.clone()), right: None }),
        }
    }
    let mut left_over: Vec<usize> = there.into_values().flatten().collect();
    left_over.sort_unstable();
    for child in left_over {
        let node = &right.nodes[child];
        differences.push(Difference {
            path: format!("{path}{}", node.label),
            left: None,
            right: Some(node.text.clone()),
        });
    }
    let differing = pairs.into_iter().filter(|(a, b, _)| left.nodes[*a].digest != right.nodes[*b].digest);
    let mut differing: Vec<_> = differing.collect();
    differing.reverse();
    pending.extend(differing);
}
