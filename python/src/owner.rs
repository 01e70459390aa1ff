//! The process that threads and files belong to.

use std::process;

use pyo3::PyResult;

use crate::errors::ForkError;

/// The process that made something. Its threads do not exist in processes that were forked from it.
#[derive(Clone, Copy, Debug)]
pub struct Owner(u32);

impl Owner {
    pub fn this() -> Self {
        Self(process::id())
    }

    pub fn is_here(self) -> bool {
        self.0 == process::id()
    }

    /// # Errors
    /// If this process was forked from the owner.
    pub fn check(self) -> PyResult<()> {
        if self.is_here() {
            return Ok(());
        }
        Err(ForkError::new_err(
            "this process was forked from the one that opened the session, whose threads it does not have: open a \
             session of its own here, or start processes with multiprocessing's 'spawn'",
        ))
    }
}
