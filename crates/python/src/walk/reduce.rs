//! Objects that only their own reduction describes: `copyreg`, then `__reduce_ex__`.

use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::frame::Item;
use super::plan::Plan;
use super::{builtin, reference};
use crate::failure::{Failure, Walked};
use crate::interned::intern;
use keyprint_fingerprint::tag;

/// The pickle protocol whose reductions are read; pinned, because reductions depend on it.
pub(crate) const PROTOCOL: u8 = 4;

/// The parts of a reduction.
pub(crate) const PARTS: &[&str] = &["function", "arguments", "state", "items", "pairs", "setter"];

/// A reduction may list items through an iterator; one that gives more than this is taken to be endless.
const MOST_ITEMS: usize = 1 << 26;

/// What a reduction says.
pub(crate) enum Reduction<'py> {
    /// The name of a module attribute.
    Name(String, String),
    /// Function, arguments, state, items, pairs, setter.
    Parts(Vec<Item<'py>>),
}

/// The reducer that the program registered for a type, if any.
pub(crate) fn registered<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    let table = py.import(intern!(py, "copyreg"))?.getattr(intern!(py, "dispatch_table"))?;
    let kind = object.get_type();
    match builtin::dict_get(table.as_borrowed(), kind.as_any()) {
        Ok(reducer) => Ok(reducer.map(|reducer| reducer.to_owned())),
        // A class without a hash, which its metaclass has taken away, cannot be in a dict.
        Err(error) if error.is_instance_of::<PyTypeError>(py) && kind.hash().is_err() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reduces an object.
pub(crate) fn reduce<'py>(object: &Bound<'py, PyAny>, plan: &Plan) -> Walked<Reduction<'py>> {
    let py = object.py();
    let reduced = match registered(object)? {
        Some(reducer) => reducer.call1((object,)),
        None => object.call_method1(intern!(py, "__reduce_ex__"), (PROTOCOL,)),
    };
    let reduced = reduced.map_err(|error| not_reducible(plan).because(py, error))?;
    if let Ok(name) = reduced.cast::<PyString>() {
        let (module, _) = reference::name_of(object)?;
        // NumPy's functions do not say where they are; their type does.
        let module = if module.is_empty() { plan.class.module.clone() } else { module };
        return Ok(Reduction::Name(module, name.to_string_lossy().into_owned()));
    }
    let Ok(parts) = reduced.cast_into::<PyTuple>() else {
        return Err(malformed(plan, "it is neither a name nor a tuple"));
    };
    if !(2..=6).contains(&parts.len()) {
        return Err(malformed(plan, &format!("it has {} parts, not 2 to 6", parts.len())));
    }
    let part = |at: usize| parts.get_item(at).ok().filter(|part| !part.is_none());
    let mut items = vec![
        Item::Value(parts.get_item(0)?),
        Item::Value(parts.get_item(1)?),
        match part(2) {
            None => Item::None,
            Some(state) => Item::Value(without_hidden(state, plan)?),
        },
    ];
    for at in [3, 4] {
        items.push(match part(at) {
            None => Item::None,
            Some(iterator) => Item::Sequence(tag::LIST, listed(&iterator, plan)?),
        });
    }
    items.push(part(5).map_or(Item::None, Item::Value));
    Ok(Reduction::Parts(items))
}

fn listed<'py>(iterator: &Bound<'py, PyAny>, plan: &Plan) -> Walked<Vec<Bound<'py, PyAny>>> {
    let mut values = Vec::new();
    for value in iterator.try_iter()? {
        values.push(value?);
        if values.len() > MOST_ITEMS {
            return Err(malformed(plan, "its items do not end"));
        }
        if values.len().is_multiple_of(65_536) {
            iterator.py().check_signals()?;
        }
    }
    Ok(values)
}

/// The state without what `cached_property` memoised and what is skipped by name.
fn without_hidden<'py>(state: Bound<'py, PyAny>, plan: &Plan) -> Walked<Bound<'py, PyAny>> {
    let py = state.py();
    if plan.hidden.is_empty() {
        return Ok(state);
    }
    let filtered = |state: &Bound<'py, PyAny>| -> PyResult<Option<Bound<'py, PyAny>>> {
        let Ok(dict) = state.cast_exact::<PyDict>() else { return Ok(None) };
        if !plan.hidden.iter().any(|name| dict.contains(name.bind(py)).unwrap_or(false)) {
            return Ok(None);
        }
        let copy = dict.copy()?;
        for name in &plan.hidden {
            if copy.contains(name.bind(py))? {
                copy.del_item(name.bind(py))?;
            }
        }
        Ok(Some(copy.into_any()))
    };
    if let Some(copy) = filtered(&state)? {
        return Ok(copy);
    }
    // The default state of an object with slots: a pair of dictionaries.
    if let Ok(pair) = state.cast_exact::<PyTuple>()
        && pair.len() == 2
    {
        let (first, second) = (pair.get_item(0)?, pair.get_item(1)?);
        let halves = (filtered(&first)?, filtered(&second)?);
        if halves.0.is_some() || halves.1.is_some() {
            let halves = [halves.0.unwrap_or(first), halves.1.unwrap_or(second)];
            return Ok(PyTuple::new(py, halves)?.into_any());
        }
    }
    Ok(state)
}

pub(crate) fn not_reducible(plan: &Plan) -> Failure {
    let class = format!("{}.{}", plan.class.module, plan.class.qualname);
    Failure::refuse("not-reducible", format!("a `{class}` does not say what it consists of")).hint(format!(
        "register a rule: overrides={{{}: rule}}, or `__fingerprint__` on the class, or a reducer with `copyreg.pickle`; \
         a field that should not count can opt out with `keyprint.no_fingerprint()`",
        plan.class.qualname
    ))
}

fn malformed(plan: &Plan, why: &str) -> Failure {
    Failure::refuse(
        "malformed-reduction",
        format!("the reduction of a `{}.{}` cannot be used: {why}", plan.class.module, plan.class.qualname),
    )
    .hint("register a rule for the class: overrides={...} or `__fingerprint__`")
}

/// An attribute that may be missing.
pub(crate) fn optional<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    match object.getattr(name) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_instance_of::<PyAttributeError>(object.py()) => Ok(None),
        Err(error) => Err(error),
    }
}
