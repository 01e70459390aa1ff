//! Ends a measurement early.

use std::{
    io,
    process::{Child, ChildStdout, Command, ExitStatus},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use annulus_baselines::generator::Generator;
use annulus_pages::tuples::{TupleBatch, TupleReader, TupleSource};
use anyhow::{Context, Result, bail};

/// Tells a measurement to end. Runs end at their next batch, and a process that is waited for is killed.
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

    /// # Errors
    /// If the end was asked for.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_set() {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Starts `command`, whose standard output is a pipe; one at a time.
    ///
    /// # Errors
    /// If it cannot be started, or the end was asked for.
    pub(crate) fn spawn(&self, command: &mut Command) -> Result<(Running<'_>, ChildStdout)> {
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
pub(crate) struct Running<'a>(&'a Stop);

impl Running<'_> {
    /// Waits for its end, which its closed output has announced.
    ///
    /// # Errors
    /// If the system does not say how it ended.
    pub(crate) fn wait(self) -> io::Result<ExitStatus> {
        let child = self.0.child().take();
        child.map_or(Err(io::ErrorKind::NotFound.into()), |mut child| child.wait())
    }
}

/// A generator that has no more tuples once it is stopped.
pub(crate) struct Stoppable<'a> {
    pub(crate) generator: &'a Generator,
    pub(crate) stop: &'a Stop,
}

impl TupleSource for Stoppable<'_> {
    fn reader(&self, thread: usize, threads: usize) -> Box<dyn TupleReader + '_> {
        Box::new(Reader { reader: self.generator.reader(thread, threads), stop: self.stop })
    }
}

struct Reader<'a> {
    reader: Box<dyn TupleReader + 'a>,
    stop: &'a Stop,
}

impl TupleReader for Reader<'_> {
    fn fill(&mut self, batch: &mut TupleBatch) -> bool {
        !self.stop.is_set() && self.reader.fill(batch)
    }
}
