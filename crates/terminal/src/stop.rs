//! Ends a measurement early.

use std::{
    io,
    process::{Child, ChildStdout, Command, ExitStatus},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use anyhow::{Context, Result, bail};

/// Tells a measurement to end. Runs end at their next batch, and a process that is waited for is
/// killed.
#[derive(Debug, Default)]
pub struct Stop {
    set: AtomicBool,
    child: Mutex<Option<Child>>,
}

impl Stop {
    /// Asks for the end.
    pub fn set(&self) {
        self.set.store(true, Relaxed);
        if let Some(child) = &mut *self.child() {
            // If it has ended already, all is well.
            child.kill().ok();
        }
    }

    /// Whether the end was asked for.
    pub fn is_set(&self) -> bool {
        self.set.load(Relaxed)
    }

    /// Goes on, unless the end was asked for.
    ///
    /// # Errors
    /// If the end was asked for.
    pub fn check(&self) -> Result<()> {
        if self.is_set() {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Starts `command`, whose standard output is a pipe; one at a time.
    ///
    /// # Errors
    /// If it cannot be started, or the end was asked for.
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

/// A process that is killed when its [`Stop`] is set.
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
