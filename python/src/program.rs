//! The command `annulus`, in a process of Python.

use std::ffi::OsString;

use annulus_cli::{child, cli::Args, program};
use pyo3::{Python, pyfunction};

/// Makes workers of this machine run `program` with `arguments` before their own. The first call counts.
#[pyfunction]
pub fn set_program(program: OsString, arguments: Vec<OsString>) {
    child::run_as(program, arguments);
}

/// Runs the command with `arguments`, of which the first is its name, and returns its exit code.
#[pyfunction]
pub fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| program::run::<Args>(arguments.into_iter()))
}
