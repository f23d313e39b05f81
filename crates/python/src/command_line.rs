//! `keyprint._native.main`: the command line, run from Python.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command line with arguments that begin with the program's name; returns the exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> i32 {
    // Where packages are that may have NVRTC.
    let modules = py.import("sys").and_then(|sys| sys.getattr("path")).and_then(|path| path.extract());
    py.detach(|| keyprint_cli::run_standard(arguments, &modules.unwrap_or_else(|_| Vec::new())))
}
