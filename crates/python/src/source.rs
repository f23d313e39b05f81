//! `keyprint._native.SourceTable`: the functions of a file, for Python to resolve against what is loaded.

use keyprint_source::{Function, How, ParameterKind, Root, Slot, Table};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use rustc_hash::FxHashMap;

use crate::fingerprint::PyFingerprint;

/// What is known of the functions of a file.
#[pyclass(frozen, module = "keyprint._native")]
pub(crate) struct SourceTable {
    table: Table,
}

/// What is known of one function.
#[pyclass(frozen, module = "keyprint._native")]
pub(crate) struct SourceFunction {
    function: Function,
}

#[pymethods]
impl SourceTable {
    /// Parses a file's text.
    #[staticmethod]
    #[pyo3(signature = (text, /))]
    fn parse(py: Python<'_>, text: &str) -> PyResult<Self> {
        let table =
            py.detach(|| Table::of(text)).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { table })
    }

    /// Reads what `to_bytes` wrote; nothing if it is of another version.
    #[staticmethod]
    #[pyo3(signature = (data, /))]
    fn from_bytes(data: &[u8]) -> Option<Self> {
        Table::from_bytes(data).map(|table| Self { table })
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.table.to_bytes())
    }

    /// Returns the table with digests of compiled code: name, line, names of parameters and digest of
    /// each code object. Functions that cannot be told apart by these get none.
    #[pyo3(signature = (codes, /))]
    fn with_codes(&self, codes: Vec<(String, u32, Vec<String>, [u8; 32])>) -> Self {
        type Place = (String, u32, Vec<String>);
        let mut digests: FxHashMap<Place, Vec<[u8; 32]>> = FxHashMap::default();
        for (name, line, parameters, digest) in codes {
            digests.entry((name, line, parameters)).or_default().push(digest);
        }
        let place = |function: &Function| -> Place {
            let parameters = function.parameters.iter().map(|parameter| parameter.name.clone()).collect();
            (function.name.clone(), function.line, parameters)
        };
        let mut count: FxHashMap<Place, usize> = FxHashMap::default();
        for function in &self.table.functions {
            *count.entry(place(function)).or_default() += 1;
        }
        let mut table = self.table.clone();
        for function in &mut table.functions {
            let place = place(function);
            if let (Some([only]), 1) = (digests.get(&place).map(Vec::as_slice), count[&place])
                && !function.codes.contains(only)
            {
                function.codes.push(*only);
            }
        }
        Self { table }
    }

    /// Returns the function that begins in a line, if its compiled code has this digest.
    #[pyo3(signature = (name, line, code, /))]
    fn find(&self, name: &str, line: u32, code: [u8; 32]) -> Option<SourceFunction> {
        let function = self.table.functions.iter().find(|function| {
            function.name == name && function.line == line && function.codes.contains(&code)
        });
        function.map(|function| SourceFunction { function: function.clone() })
    }

    /// Returns the digest of the only function of a name that begins in a line.
    #[pyo3(signature = (name, line, /))]
    fn digest_at(&self, name: &str, line: u32) -> Option<PyFingerprint> {
        let mut functions =
            self.table.functions.iter().filter(|function| function.name == name && function.line == line);
        match (functions.next(), functions.next()) {
            (Some(only), None) => Some(PyFingerprint::new(only.digest, true)),
            _ => None,
        }
    }

    fn __len__(&self) -> usize {
        self.table.functions.len()
    }
}

/// A root as kind and name: a number for a parameter, three values for an import.
fn root<'py>(py: Python<'py>, root: &Root) -> PyResult<Bound<'py, PyTuple>> {
    match root {
        Root::Parameter(at) => ("parameter", *at).into_pyobject(py),
        Root::Free(name) => ("free", name).into_pyobject(py),
        Root::Global(name) => ("global", name).into_pyobject(py),
        Root::Import { module, level, name } => ("import", (module, *level, name)).into_pyobject(py),
    }
}

fn path<'py>(py: Python<'py>, path: &[String]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, path)
}

#[pymethods]
impl SourceFunction {
    #[getter]
    fn name(&self) -> &str {
        &self.function.name
    }

    #[getter]
    fn qualname(&self) -> &str {
        &self.function.qualname
    }

    #[getter]
    fn line(&self) -> u32 {
        self.function.line
    }

    /// Where the text begins and ends, in bytes.
    #[getter]
    fn span(&self) -> (u32, u32) {
        (self.function.start, self.function.end)
    }

    #[getter]
    fn digest(&self) -> PyFingerprint {
        PyFingerprint::new(self.function.digest, true)
    }

    /// Names that lead to it, digest and line of each decorator, the outermost first.
    #[getter]
    fn decorators(&self) -> Vec<(Vec<String>, PyFingerprint, u32)> {
        let row = |decorator: &keyprint_source::Decorator| {
            (decorator.path.clone(), PyFingerprint::new(decorator.digest, true), decorator.line)
        };
        self.function.decorators.iter().map(row).collect()
    }

    /// Name and kind of each parameter; the kinds are those of `inspect`, as numbers.
    #[getter]
    fn parameters(&self) -> Vec<(String, u8)> {
        let kind = |kind| match kind {
            ParameterKind::PositionalOnly => 0,
            ParameterKind::Ordinary => 1,
            ParameterKind::Variadic => 2,
            ParameterKind::KeywordOnly => 3,
            ParameterKind::Keywords => 4,
        };
        self.function
            .parameters
            .iter()
            .map(|parameter| (parameter.name.clone(), kind(parameter.kind)))
            .collect()
    }

    /// What is read: kind of root, root, path, how, line.
    #[getter]
    fn uses<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let how = |how| match how {
            How::Whole => "whole",
            How::Called => "called",
            How::Annotation => "annotation",
            How::Super => "super",
            How::Imported => "imported",
            How::Builtin => "builtin",
            How::Optional => "optional",
            How::Type => "type",
            How::Dynamic => "dynamic",
            How::Documentation => "documentation",
            How::Identity => "identity",
            How::Assigned => "assigned",
            How::Written => "written",
            How::Stored => "stored",
            How::Updated => "updated",
            How::Mutated => "mutated",
            How::Order => "order",
            How::Annotations => "annotations",
            How::Names => "names",
        };
        let usage = |usage: &keyprint_source::Use| {
            (root(py, &usage.root)?, path(py, &usage.path)?, how(usage.how), usage.line).into_pyobject(py)
        };
        self.function.uses.iter().map(usage).collect()
    }

    /// What is handed on: root and path of the argument, root and path of the function, slot, line.
    #[getter]
    fn argument_flows<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let flow = |flow: &keyprint_source::ArgumentFlow| -> PyResult<Bound<'py, PyTuple>> {
            let slot = match &flow.slot {
                Slot::Position(at) => at.into_pyobject(py)?.into_any(),
                Slot::Keyword(name) => name.into_pyobject(py)?.into_any(),
            };
            let (argument, callee) = (root(py, &flow.root)?, root(py, &flow.callee)?);
            let paths = (path(py, &flow.path)?, path(py, &flow.callee_path)?);
            (argument, paths.0, callee, paths.1, slot, flow.line, flow.call).into_pyobject(py)
        };
        self.function.argument_flows.iter().map(flow).collect()
    }

    /// The lines of the statements.
    #[getter]
    fn statements(&self) -> Vec<u32> {
        self.function.statements.clone()
    }

    fn __repr__(&self) -> String {
        format!("<SourceFunction {} at line {}>", self.function.qualname, self.function.line)
    }
}

/// Members through which anything may be read.
#[pyfunction]
pub(crate) fn _dynamic_members() -> Vec<&'static str> {
    keyprint_source::DYNAMIC.to_vec()
}
