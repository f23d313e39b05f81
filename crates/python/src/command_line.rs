//! `keyprint._native.main`: the command line, run from Python.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command line with arguments that begin with the program's name; returns the exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> i32 {
    py.detach(|| keyprint_cli::run_standard(arguments))
}
