//! The log of a command that serves others.

use std::io::stderr;

use anyhow::{Context, Result};
use tracing::Level;

/// Logs events to standard error, one per line, with time in UTC and level.
///
/// # Errors
/// If events are logged already.
pub fn to_stderr() -> Result<()> {
    up_to(Level::INFO)
}

/// Logs warnings and errors alone, like [`to_stderr`].
///
/// # Errors
/// As there.
pub fn warnings_to_stderr() -> Result<()> {
    up_to(Level::WARN)
}

fn up_to(level: Level) -> Result<()> {
    let lines = tracing_subscriber::fmt().with_max_level(level).with_writer(stderr).with_target(false).with_ansi(false);
    lines.try_init().map_err(anyhow::Error::from_boxed).context("cannot log")
}
