//! A kernel's graph as plain Python data, which is kept with what is compiled.

use keyprint_lang::graph::{Node, Task, graph_of};
use keyprint_lang::ir::{Kernel, Origin};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// The record of a graph. `members` are the members of enums that its labels are, and whether their names mean them
/// in the kernel.
pub(crate) fn of<'py>(
    py: Python<'py>,
    kernel: &Kernel,
    members: &[Option<(Bound<'py, PyAny>, bool)>],
) -> PyResult<Bound<'py, PyDict>> {
    let graph = graph_of(kernel);
    let record = PyDict::new(py);
    record.set_item("arguments", arguments(py, kernel)?)?;
    let loops = graph.loops.iter().map(|one| (one.counter, one.parent).into_pyobject(py));
    record.set_item("loops", lists(py, loops)?)?;
    let gates = graph.gates.iter().map(|one| (one.label, one.flag, one.parent).into_pyobject(py));
    record.set_item("gates", lists(py, gates)?)?;
    let labels = PyList::empty(py);
    for (label, member) in kernel.labels.iter().flatten().zip(members) {
        match member {
            Some((member, is_named)) => labels.append((member, &label.name, is_named))?,
            None => labels.append((label.value, &label.name, false))?,
        }
    }
    let labels = labels.iter().map(Ok::<_, PyErr>);
    record.set_item("labels", lists(py, labels)?)?;
    record.set_item("has_checkpoints", kernel.labels.is_some())?;
    record.set_item("nodes", nodes(py, &graph.nodes)?)?;
    Ok(record)
}

/// Tuples as lists, as plain data has them.
fn lists<'py, T, E>(
    py: Python<'py>,
    all: impl Iterator<Item = Result<Bound<'py, T>, E>>,
) -> PyResult<Bound<'py, PyList>>
where
    PyErr: From<E>,
{
    let found = PyList::empty(py);
    for one in all {
        found.append(PyList::new(py, one?.into_any().try_iter()?.collect::<PyResult<Vec<_>>>()?)?)?;
    }
    Ok(found)
}

/// The arguments by number: arrays, then numbers.
fn arguments<'py>(py: Python<'py>, kernel: &Kernel) -> PyResult<Bound<'py, PyList>> {
    let found = PyList::empty(py);
    for array in &kernel.arrays {
        let one = PyDict::new(py);
        one.set_item("name", array.name.split('#').next())?;
        one.set_item("kind", if array.origin == Origin::Argument { "array" } else { "field" })?;
        one.set_item("dtype", array.scalar.name())?;
        one.set_item("ndim", array.ndim)?;
        found.append(one)?;
    }
    for number in &kernel.numbers {
        let one = PyDict::new(py);
        one.set_item("name", &number.name)?;
        one.set_item("kind", "number")?;
        one.set_item("dtype", number.scalar.name())?;
        found.append(one)?;
    }
    Ok(found)
}

fn nodes<'py>(py: Python<'py>, all: &[Node]) -> PyResult<Bound<'py, PyList>> {
    let found = PyList::empty(py);
    for node in all {
        let one = PyDict::new(py);
        match node {
            Node::Task(task) => fill_task(&one, task)?,
            Node::Loop(id, site, body) => {
                one.set_item("kind", "loop")?;
                one.set_item("id", id)?;
                one.set_item("site", site)?;
                one.set_item("nodes", nodes(py, body)?)?;
            }
            Node::Checkpoint(gate, site, body) => {
                one.set_item("kind", "checkpoint")?;
                one.set_item("id", gate)?;
                one.set_item("site", site)?;
                one.set_item("nodes", nodes(py, body)?)?;
            }
            Node::Sections(site, sections) => {
                one.set_item("kind", "sections")?;
                one.set_item("site", site)?;
                let sections =
                    sections.iter().map(|section| nodes(py, section)).collect::<PyResult<Vec<_>>>()?;
                one.set_item("sections", PyList::new(py, sections)?)?;
            }
        }
        found.append(one)?;
    }
    Ok(found)
}

fn fill_task(one: &Bound<'_, PyDict>, task: &Task) -> PyResult<()> {
    one.set_item("kind", "task")?;
    one.set_item("id", task.id)?;
    one.set_item("parallel", task.is_parallel)?;
    one.set_item("site", task.site)?;
    one.set_item("gate", task.gate)?;
    one.set_item("reads", &task.reads)?;
    one.set_item("writes", &task.writes)
}
