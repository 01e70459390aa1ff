//! The log of a command that serves others.

use std::io::stderr;

use anyhow::{Context, Result};

/// Logs events to standard error, one per line, with time in UTC and level.
///
/// # Errors
/// If events are logged already.
pub fn to_stderr() -> Result<()> {
    let lines = tracing_subscriber::fmt().with_writer(stderr).with_target(false).with_ansi(false);
    lines.try_init().map_err(anyhow::Error::from_boxed).context("cannot log")
}
