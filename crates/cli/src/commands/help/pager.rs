//! Shows long texts page by page on a terminal.

use std::{
    env,
    io::{self, IsTerminal, Write, stdout},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};

/// The pager unless `PAGER` names one, and its options unless `LESS` has some: end after a short text, keep
/// colours, leave the text on the screen.
const PAGER: &str = "less";
const OPTIONS: (&str, &str) = ("LESS", "FRX");

/// Prints `text`; on a terminal, by the program that `PAGER` names, or `less`. An empty `PAGER` means none.
///
/// # Errors
/// If standard output cannot be written.
pub fn show(text: &str) -> Result<()> {
    let pager = env::var("PAGER").unwrap_or_else(|_| PAGER.to_owned());
    if stdout().is_terminal() && !pager.trim().is_empty() && page(&pager, text).is_ok() {
        return Ok(());
    }
    stdout().write_all(text.as_bytes()).context("cannot print")
}

/// # Errors
/// If the pager does not start.
fn page(pager: &str, text: &str) -> io::Result<()> {
    let mut words = pager.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or(PAGER));
    command.args(words).stdin(Stdio::piped());
    if env::var_os(OPTIONS.0).is_none() {
        command.env(OPTIONS.0, OPTIONS.1);
    }
    let mut child = command.spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A reader that has seen enough closes it.
        input.write_all(text.as_bytes()).ok();
    }
    child.wait()?;
    Ok(())
}
