//! The walk's own stack: what is open, and where its next child comes from.

use keyprint_fingerprint::memo::Ties;
use keyprint_fingerprint::{ItemHasher, Mark};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::Known;
use super::builtin::Builtin;
use super::plan::Rule;

/// One open item of the encoding.
pub(crate) struct Frame<'a, 'py> {
    pub(crate) source: Source<'a, 'py>,
    /// The object that is being read; keeps it alive.
    pub(crate) owner: Bound<'py, PyAny>,
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) mark: Mark,
    /// Where this item's children begin among the marks, if their order does not count.
    pub(crate) entries: Option<usize>,
    pub(crate) ties: Ties,
    pub(crate) place: Standing,
    /// The beginning of a very long item, hashed already.
    pub(crate) spilled: Option<Box<ItemHasher>>,
    /// A part of its owner's encoding, not an object of its own.
    pub(crate) part: bool,
    /// Counts towards the limit on reductions that keep making new objects.
    pub(crate) endless: bool,
    /// Shows what Python code handed out.
    pub(crate) handed: bool,
}

/// How a frame begins.
#[derive(Clone, Copy)]
pub(crate) struct Opening {
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) mark: Mark,
    /// Whether the order of the children counts.
    pub(crate) ordered: bool,
    pub(crate) place: Standing,
    pub(crate) part: bool,
}

impl Opening {
    /// An object of its own, ordered, from its first child on.
    pub(crate) fn new(len: usize, mark: Mark, place: Standing) -> Self {
        Self { at: 0, len, mark, ordered: true, place, part: false }
    }
}

/// How an object stands in the graph.
#[derive(Clone, Copy)]
pub(crate) struct Standing {
    /// Something else may refer to it too, so it is remembered.
    pub(crate) tracked: bool,
    /// It was made during this walk.
    pub(crate) fresh: bool,
}

/// Where children come from.
pub(crate) enum Source<'a, 'py> {
    List,
    Tuple,
    Dict {
        position: ffi::Py_ssize_t,
        /// The key of the value that is open now, for paths.
        key: Option<Bound<'py, PyAny>>,
        /// The value whose key is open now.
        pending: Option<Bound<'py, PyAny>>,
    },
    Fields(&'a Known<'py>),
    /// Values taken out beforehand.
    Values(Vec<Bound<'py, PyAny>>),
    Pairs {
        pairs: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
        /// Whether the keys are attribute names.
        attributes: bool,
    },
    Items(Box<Items<'py>>),
}

/// Parts of different kinds.
pub(crate) struct Items<'py> {
    pub(crate) items: Vec<Item<'py>>,
    /// How a path names each; empty for a part that a path passes through.
    pub(crate) labels: &'static [&'static str],
    /// The same where it is only known now; comes first.
    pub(crate) names: Vec<String>,
}

/// One part of an object that is not simply a value.
pub(crate) enum Item<'py> {
    None,
    Bool(bool),
    Absent,
    Value(Bound<'py, PyAny>),
    Bytes(Vec<u8>),
    /// What an object holds as an instance of a builtin.
    Content(Bound<'py, PyAny>, Builtin),
    Sequence(u8, Vec<Bound<'py, PyAny>>),
    Pairs {
        tag: u8,
        pairs: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
        attributes: bool,
    },
}

impl Frame<'_, '_> {
    /// How a path shows the child that is open now.
    pub(crate) fn child_label(&self) -> String {
        let last = self.at.saturating_sub(1);
        match &self.source {
            // An element of a set has no position; its label shows the element.
            Source::Values(values) if self.entries.is_some() => match values.get(last) {
                Some(value) => format!("{{{}}}", short_repr(value)),
                None => String::new(),
            },
            Source::List | Source::Tuple | Source::Values(_) => format!("[{last}]"),
            Source::Dict { key, pending, .. } => match (key, pending) {
                (_, Some(_)) => ".<key>".to_owned(),
                (Some(key), None) => format!("[{}]", short_repr(key)),
                (None, None) => String::new(),
            },
            Source::Fields(known) => match &known.plan.rule {
                Rule::Fields { fields, .. } => match fields.get(last) {
                    Some(field) => format!(".{}", field.name.bind(self.owner.py()).to_string_lossy()),
                    None => String::new(),
                },
                _ => String::new(),
            },
            Source::Pairs { pairs, attributes } => match pairs.get(last / 2) {
                Some(_) if last.is_multiple_of(2) => ".<key>".to_owned(),
                Some((key, _)) if *attributes => match key.cast::<PyString>() {
                    Ok(name) => format!(".{}", name.to_string_lossy()),
                    Err(_) => format!("[{}]", short_repr(key)),
                },
                Some((key, _)) => format!("[{}]", short_repr(key)),
                None => String::new(),
            },
            Source::Items(items) if items.names.get(last).is_some() => format!(".{}", items.names[last]),
            Source::Items(items) => match items.labels.get(last) {
                Some(&"") | None => String::new(),
                Some(label) => format!(".{label}"),
            },
        }
    }
}

/// A short text for a value in a path or an explanation; never fails, never runs user code.
pub(crate) fn short_repr(value: &Bound<'_, PyAny>) -> String {
    const MOST: usize = 48;
    let pointer = value.get_type_ptr();
    let exact = [Builtin::Str, Builtin::Int, Builtin::Float, Builtin::Complex, Builtin::Bytes]
        .into_iter()
        .find(|kind| kind.type_object() == pointer);
    let plain = exact.is_some() || value.is_none() || pointer == &raw mut ffi::PyBool_Type;
    if !plain {
        let name = value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        return match value.len() {
            Ok(length) if Builtin::ALL.iter().any(|kind| kind.type_object() == pointer) => {
                format!("<{name} of {length}>")
            }
            _ => format!("<{name}>"),
        };
    }
    // A long text or number is cut before it is written out.
    if matches!(exact, Some(Builtin::Str | Builtin::Bytes))
        && value.len().is_ok_and(|length| length > 4 * MOST)
        && let Ok(head) = value.get_item(pyo3::types::PySlice::new(value.py(), 0, MOST as isize, 1))
    {
        let length = value.len().unwrap_or_default();
        return head
            .repr()
            .map_or_else(|_| "?".to_owned(), |text| format!("{}… ({length} long)", text.to_string_lossy()));
    }
    let repr = match value.repr() {
        Ok(text) => text.to_string_lossy().into_owned(),
        // An int with more digits than the interpreter is willing to print.
        Err(_) => return "<large int>".to_owned(),
    };
    if repr.chars().count() <= 2 * MOST {
        return repr;
    }
    let head: String = repr.chars().take(MOST).collect();
    format!("{head}…")
}
