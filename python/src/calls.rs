//! Calls of Python by the threads of a session.

use datafusion::error::Result;
use pyo3::prelude::*;
use tokio::{runtime::Handle, task::block_in_place};

use crate::errors::PythonError;

/// Calls Python on a thread of the session. Python may wait for another query of the session, whose tasks then
/// need another thread.
///
/// # Errors
/// What Python raises.
pub fn in_python<T>(call: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
    let call = || Python::attach(call).map_err(|error| PythonError(error).into());
    if Handle::try_current().is_ok() { block_in_place(call) } else { call() }
}
