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
    let loops =
        graph.loops.iter().map(|graph_loop| (graph_loop.counter, graph_loop.parent).into_pyobject(py));
    record.set_item("loops", lists(py, loops)?)?;
    let gates = graph.gates.iter().map(|gate| (gate.label, gate.flag, gate.parent).into_pyobject(py));
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
    let rows = PyList::empty(py);
    for row in all {
        rows.append(PyList::new(py, row?.into_any().try_iter()?.collect::<PyResult<Vec<_>>>()?)?)?;
    }
    Ok(rows)
}

/// The arguments by number: arrays, then numbers.
fn arguments<'py>(py: Python<'py>, kernel: &Kernel) -> PyResult<Bound<'py, PyList>> {
    let arguments = PyList::empty(py);
    for array in &kernel.arrays {
        let argument = PyDict::new(py);
        argument.set_item("name", array.name.split('#').next())?;
        argument.set_item("kind", if array.origin == Origin::Argument { "array" } else { "field" })?;
        argument.set_item("dtype", array.scalar.name())?;
        argument.set_item("ndim", array.ndim)?;
        arguments.append(argument)?;
    }
    for number in &kernel.numbers {
        let argument = PyDict::new(py);
        argument.set_item("name", &number.name)?;
        argument.set_item("kind", "number")?;
        argument.set_item("dtype", number.scalar.name())?;
        arguments.append(argument)?;
    }
    Ok(arguments)
}

fn nodes<'py>(py: Python<'py>, all: &[Node]) -> PyResult<Bound<'py, PyList>> {
    let records = PyList::empty(py);
    for node in all {
        let record = PyDict::new(py);
        match node {
            Node::Task(task) => fill_task(&record, task)?,
            Node::Loop(id, site, body) => {
                record.set_item("kind", "loop")?;
                record.set_item("id", id)?;
                record.set_item("site", site)?;
                record.set_item("nodes", nodes(py, body)?)?;
            }
            Node::Checkpoint(gate, site, body) => {
                record.set_item("kind", "checkpoint")?;
                record.set_item("id", gate)?;
                record.set_item("site", site)?;
                record.set_item("nodes", nodes(py, body)?)?;
            }
            Node::Sections(site, sections) => {
                record.set_item("kind", "sections")?;
                record.set_item("site", site)?;
                let sections =
                    sections.iter().map(|section| nodes(py, section)).collect::<PyResult<Vec<_>>>()?;
                record.set_item("sections", PyList::new(py, sections)?)?;
            }
        }
        records.append(record)?;
    }
    Ok(records)
}

fn fill_task(record: &Bound<'_, PyDict>, task: &Task) -> PyResult<()> {
    record.set_item("kind", "task")?;
    record.set_item("id", task.id)?;
    record.set_item("parallel", task.is_parallel)?;
    record.set_item("site", task.site)?;
    record.set_item("gate", task.gate)?;
    record.set_item("reads", &task.reads)?;
    record.set_item("writes", &task.writes)
}
