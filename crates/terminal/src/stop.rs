//! Ending a measurement early.

use std::{
    io,
    process::{Child, ChildStdout, Command, ExitStatus},
    sync::{Mutex, MutexGuard, PoisonError},
};

use annulus_sync::CancelToken;
use anyhow::{Context, Result, bail};

/// Ends a measurement early: a [`CancelToken`] for its runs, which end at their next batch, and the
/// process that it waits for, which is killed.
#[derive(Debug, Default)]
pub struct Stop {
    token: CancelToken,
    child: Mutex<Option<Child>>,
}

impl Stop {
    /// Asks the measurement to end.
    pub fn cancel(&self) {
        self.token.cancel();
        if let Some(child) = &mut *self.child() {
            // If it has ended already, all is well.
            child.kill().ok();
        }
    }

    /// Whether the measurement was asked to end.
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Returns an error if the measurement was asked to end.
    ///
    /// # Errors
    /// If the measurement was asked to end.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Starts `command`, whose standard output is a pipe; one at a time.
    ///
    /// # Errors
    /// If the command cannot be started, or the measurement was asked to end.
    pub fn spawn(&self, command: &mut Command) -> Result<(Running<'_>, ChildStdout)> {
        let mut running = self.child();
        self.check()?;
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().context("its output is no pipe")?;
        *running = Some(child);
        Ok((Running(self), stdout))
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        // Nothing panics while the child is locked.
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process that is killed when its [`Stop`] is cancelled.
pub struct Running<'a>(&'a Stop);

impl Running<'_> {
    /// Waits for its end, which its closed output has announced.
    ///
    /// # Errors
    /// If the system does not say how it ended.
    pub fn wait(self) -> io::Result<ExitStatus> {
        let child = self.0.child().take();
        child.map_or(Err(io::ErrorKind::NotFound.into()), |mut child| child.wait())
    }
}
