//! `keyprint.fold`: the native fold, over whatever Python callables describe.

use keyprint_fingerprint::Folder;
use keyprint_fingerprint::stream::shape;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::failure::Failure;
use crate::walk::short_repr;

/// Nodes that cycles made the fold visit again, before it gives up.
const MOST_REPEATS: usize = 250_000;

struct PythonFolder<'a, 'py> {
    py: Python<'py>,
    deconstruct: &'a Bound<'py, PyAny>,
    combine: &'a Bound<'py, PyAny>,
    back: Option<&'a Bound<'py, PyAny>>,
    memoize: bool,
    /// Nodes by address, kept so that their addresses are not used again.
    kept: Vec<Bound<'py, PyAny>>,
    folded: usize,
}

impl<'py> Folder for PythonFolder<'_, 'py> {
    type Node = Bound<'py, PyAny>;
    /// What `deconstruct` returned.
    type State = Bound<'py, PyAny>;
    type Output = Bound<'py, PyAny>;
    type Key = usize;
    type Error = PyErr;

    fn key(&self, node: &Self::Node) -> Option<usize> {
        Some(node.as_ptr() as usize)
    }

    fn remember(&self) -> bool {
        self.memoize
    }

    fn open(&mut self, node: &Self::Node) -> PyResult<(Self::State, Vec<Self::Node>)> {
        self.folded += 1;
        if self.folded.is_multiple_of(4096) {
            self.py.check_signals()?;
        }
        self.kept.push(node.clone());
        let deconstructed = self.deconstruct.call1((node,))?;
        let pair = deconstructed.cast_into::<PyTuple>().ok().filter(|pair| pair.len() == 2);
        let Some(pair) = pair else {
            let failure = Failure::refuse(
                "bad-rule",
                format!("`deconstruct` must return (state, parts) for {}", short_repr(node)),
            );
            return Err(failure.into_exception(self.py, "$"));
        };
        let parts = pair.get_item(1)?.try_iter()?.collect::<PyResult<_>>()?;
        Ok((pair.get_item(0)?, parts))
    }

    fn close(&mut self, state: Self::State, parts: Vec<Self::Output>) -> PyResult<Self::Output> {
        self.combine.call1((state, PyTuple::new(self.py, parts)?))
    }

    fn back(&mut self, node: &Self::Node, distance: usize) -> PyResult<Self::Output> {
        match self.back {
            Some(back) => back.call1((distance,)),
            None => {
                let failure = Failure::refuse("cycle", format!("{} contains itself", short_repr(node)))
                    .hint("pass cycles= a function of the distance, to say what a back reference becomes");
                Err(failure.into_exception(self.py, "$"))
            }
        }
    }

    fn repeated(&mut self, node: &Self::Node, times: usize) -> PyResult<()> {
        if times <= MOST_REPEATS {
            return Ok(());
        }
        let failure =
            Failure::refuse("entangled", format!("{} is part of too many cycles", short_repr(node)));
        Err(failure.into_exception(self.py, "$"))
    }
}

/// Folds a value bottom-up, without recursion.
///
/// `deconstruct(obj)` returns `(state, parts)`; `combine(state, results)` puts the results of the
/// parts together. `cycles` is a function from the distance to an enclosing object to a result, or
/// `False` to refuse cycles.
#[pyfunction]
#[pyo3(signature = (value, /, deconstruct, combine, *, cycles=None, memoize=true))]
pub(crate) fn fold<'py>(
    value: &Bound<'py, PyAny>,
    deconstruct: &Bound<'py, PyAny>,
    combine: &Bound<'py, PyAny>,
    cycles: Option<&Bound<'py, PyAny>>,
    memoize: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let back = match cycles {
        Some(back) if back.is_callable() => Some(back),
        Some(back) if !back.is_none() && back.is_truthy()? => {
            return Err(pyo3::exceptions::PyTypeError::new_err(
                "`cycles` is a function from a distance to a result, or False",
            ));
        }
        _ => None,
    };
    let py = value.py();
    let mut folder = PythonFolder { py, deconstruct, combine, back, memoize, kept: Vec::new(), folded: 0 };
    keyprint_fingerprint::fold(&mut folder, value.clone())
}

/// The digest of a state and the digests of parts: what `keyprint.gt4py.fingerprint_aggregator` computes.
#[pyfunction]
pub(crate) fn aggregate(state: &[u8], parts: Vec<Bound<'_, PyString>>) -> PyResult<String> {
    let mut stream = keyprint_fingerprint::Stream::new();
    let mark = stream.open(keyprint_fingerprint::tag::LIST, parts.len() + 1);
    stream.blob_bytes(state);
    for part in parts {
        stream.str(part.to_str()?);
    }
    stream.close(mark);
    Ok(stream.finish().hex())
}

/// The item of what a deconstructor of the user says of an object whose parts have these items, and its
/// fingerprint: what the walk writes for a description with a tag.
#[pyfunction]
#[pyo3(signature = (tag, ordered, items, /))]
pub(crate) fn _tagged_item<'py>(
    py: Python<'py>,
    tag: Vec<u8>,
    ordered: bool,
    items: Vec<Vec<u8>>,
) -> (Bound<'py, PyBytes>, String) {
    let mut stream = keyprint_fingerprint::Stream::new();
    let record = stream.open_record(&shape("tagged", "", "", &["tag", "value"]));
    stream.blob_bytes(&tag);
    let kind = if ordered { keyprint_fingerprint::tag::LIST } else { keyprint_fingerprint::tag::MULTISET };
    let mark = stream.open(kind, items.len());
    let mut entries = Vec::new();
    for item in &items {
        entries.push(stream.mark());
        stream.replay(item);
    }
    if ordered {
        stream.close(mark);
    } else {
        stream.close_unordered(mark, &entries);
    }
    stream.close(record);
    let item = PyBytes::new(py, stream.bytes());
    (item, stream.finish().hex())
}
