//! Processes of this program that work for another one, and end with it.

use std::{env, ffi::OsString, process::Command, sync::OnceLock};

use anyhow::{Context, Result};

static PROGRAM: OnceLock<(OsString, Vec<OsString>)> = OnceLock::new();

/// Makes [`program`] run `program` with `arguments` before its own, where this process is not the command
/// itself. The first call counts.
pub fn run_as(program: OsString, arguments: Vec<OsString>) {
    // A second program is ignored, as documented.
    PROGRAM.set((program, arguments)).ok();
}

/// Returns this program, to be given the arguments of a command.
///
/// # Errors
/// If the system does not tell which one it is.
pub fn program() -> Result<Command> {
    if let Some((program, arguments)) = PROGRAM.get() {
        let mut command = Command::new(program);
        command.args(arguments);
        return Ok(command);
    }
    Ok(Command::new(env::current_exe().context("cannot find this program")?))
}

/// Makes the system send SIGTERM when the thread of `parent` that started this process ends. Returns
/// whether the parent is still there; if not, no signal arrives.
///
/// # Errors
/// If the system refuses.
#[cfg(target_os = "linux")]
pub fn end_with(parent: u32) -> Result<bool> {
    use nix::sys::{prctl::set_pdeathsig, signal::Signal};
    set_pdeathsig(Signal::SIGTERM).context("cannot ask the system to end this process with its parent")?;
    Ok(std::os::unix::process::parent_id() == parent)
}

#[cfg(not(target_os = "linux"))]
pub fn end_with(_: u32) -> Result<bool> {
    Ok(true)
}
