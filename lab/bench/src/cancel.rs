//! Cancellation of measurements.

use std::{
    io,
    process::{Child, ChildStdout, Command, ExitStatus},
};

use annulus_sync::CancelToken;
use anyhow::{Context, Result, bail};
use parking_lot::{Mutex, MutexGuard};

/// A request to end a measurement. It has a [`CancelToken`] for runs, which end at their next
/// batch. A process that the measurement waits for is killed.
#[derive(Debug, Default)]
pub struct Stop {
    token: CancelToken,
    child: Mutex<Option<Child>>,
}

impl Stop {
    /// Requests the end.
    pub fn cancel(&self) {
        self.token.cancel();
        if let Some(child) = &mut *self.child() {
            // It may have ended already.
            child.kill().ok();
        }
    }

    /// Returns whether the end was requested.
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Checks that the measurement should continue.
    ///
    /// # Errors
    /// If the end was requested.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Starts `command`, whose standard output must be a pipe. Only one process may run at a time.
    ///
    /// # Errors
    /// If it cannot be started, or the end was requested.
    pub fn spawn(&self, command: &mut Command) -> Result<(ChildProcess<'_>, ChildStdout)> {
        let mut running = self.child();
        self.check()?;
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().context("its standard output is not a pipe")?;
        *running = Some(child);
        Ok((ChildProcess(self), stdout))
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock()
    }
}

/// A process that is killed when its [`Stop`] is cancelled.
pub struct ChildProcess<'a>(&'a Stop);

impl ChildProcess<'_> {
    /// Waits for the process, after its output was closed.
    ///
    /// # Errors
    /// If the system does not report an exit status.
    pub fn wait(self) -> io::Result<ExitStatus> {
        let child = self.0.child().take();
        child.map_or(Err(io::ErrorKind::NotFound.into()), |mut child| child.wait())
    }
}
