//! `keyprint._native.main`: the command line, run from Python.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::time::SystemTime;

use keyprint_cli::{Context, run};
use pyo3::prelude::*;

/// Runs the command line with arguments that begin with the program's name; returns the exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> i32 {
    py.detach(|| {
        let (mut out, mut err, mut input) = (io::stdout(), io::stderr(), io::stdin());
        let (out_is_terminal, err_is_terminal) = (out.is_terminal(), err.is_terminal());
        let context = Context {
            out: &mut out,
            err: &mut err,
            input: &mut input,
            out_is_terminal,
            err_is_terminal,
            now: SystemTime::now(),
        };
        run(arguments, context)
    })
}
