//! Processes of this program that work for another one, and end with it.

use anyhow::Result;

/// Makes the system send SIGTERM when the thread of `parent` that started this process ends. Returns
/// whether the parent is still there; if not, no signal arrives.
///
/// # Errors
/// If the system refuses.
#[cfg(target_os = "linux")]
pub fn end_with(parent: u32) -> Result<bool> {
    use anyhow::Context;
    use nix::sys::{prctl::set_pdeathsig, signal::Signal};
    set_pdeathsig(Signal::SIGTERM).context("cannot ask the system to end this process with its parent")?;
    Ok(std::os::unix::process::parent_id() == parent)
}

#[cfg(not(target_os = "linux"))]
pub fn end_with(_: u32) -> Result<bool> {
    Ok(true)
}
