//! An open session: its threads, its workers and its files.

use std::{
    path::PathBuf,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use annulus_cli::{
    cluster::{ClusterArgs, Remote},
    inputs::Inputs,
    spill::SpillFolder,
};
use anyhow::{Context, Error, Result};
use datafusion::{execution::TaskContextProvider, prelude::SessionContext};
use parking_lot::Mutex;
use pyo3::prelude::*;
use tokio::runtime::{Handle, Runtime};

use crate::{
    closing::CloseSignal,
    errors::{Failure, SessionClosedError},
    owner::Owner,
    task::Task,
};

/// The time that tasks have to stop when a session is closed.
const GRACE: Duration = Duration::from_secs(5);

/// A session that lives as long as this, unless it is closed.
#[derive(Clone)]
pub struct SessionHandle(Arc<SessionSlot>);

struct SessionSlot {
    owner: Owner,
    /// `None` when the session is closed.
    open: Mutex<Option<Arc<OpenSession>>>,
}

/// An open session.
pub struct OpenSession {
    /// Taken when this is dropped.
    parts: Option<SessionParts>,
    owner: Owner,
}

/// What a session has, in the order in which it is given back.
pub struct SessionParts {
    pub ctx: SessionContext,
    /// The same, for those who keep it by a weak reference.
    pub contexts: Arc<SessionContext>,
    /// The inputs of its tables, which may have been copied.
    pub inputs: Arc<Inputs>,
    pub closing: CloseSignal,
    pub runtime: Runtime,
    pub workers: Option<WorkerProcesses>,
    pub spill: SpillFolder,
}

impl OpenSession {
    fn parts(&self) -> &SessionParts {
        // Taken when this is dropped.
        self.parts.as_ref().expect("an open session has its parts")
    }

    pub fn ctx(&self) -> SessionContext {
        self.parts().ctx.clone()
    }

    /// Returns what makes contexts of tasks, as long as the session is open.
    pub fn task_contexts(&self) -> Arc<dyn TaskContextProvider> {
        Arc::clone(&self.parts().contexts) as _
    }

    pub fn handle(&self) -> Handle {
        self.parts().runtime.handle().clone()
    }

    /// Starts `work` on the threads of the session.
    pub fn start<T: Send + 'static>(&self, work: impl Future<Output = Result<T, Failure>> + Send + 'static) -> Task<T> {
        let parts = self.parts();
        Task::start(parts.runtime.handle(), parts.closing.receiver(), work)
    }

    pub fn inputs(&self) -> Arc<Inputs> {
        Arc::clone(&self.parts().inputs)
    }

    /// Returns the folder for spilled rows and copies of inputs.
    pub fn spill(&self) -> PathBuf {
        self.parts().spill.path().to_owned()
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        let Some(parts) = self.parts.take() else { return };
        if !self.owner.is_here() {
            // The threads are those of another process, and the files, too.
            std::mem::forget(parts);
            return;
        }
        let SessionParts { ctx, contexts, inputs, closing, runtime, workers, spill } = parts;
        closing.send();
        drop((ctx, contexts, inputs));
        // A thread that reads a table of the caller may wait for the interpreter, which this thread may hold.
        let mut runtime = Some(runtime);
        Python::try_attach(|py| py.detach(|| runtime.take().map(shut_down)));
        if let Some(runtime) = runtime {
            shut_down(runtime);
        }
        drop(workers);
        drop(spill);
    }
}

/// Ends the tasks of a session.
fn shut_down(runtime: Runtime) {
    if Handle::try_current().is_ok() {
        runtime.shutdown_background();
    } else {
        runtime.shutdown_timeout(GRACE);
    }
}

impl SessionHandle {
    pub fn new(parts: SessionParts) -> Self {
        let owner = Owner::this();
        let open = OpenSession { parts: Some(parts), owner };
        Self(Arc::new(SessionSlot { owner, open: Mutex::new(Some(Arc::new(open))) }))
    }

    /// Ends the session when nothing uses it any more. In a process that was forked, nothing happens.
    pub fn close(&self) {
        let open = self.0.open.lock().take();
        drop(open);
    }

    pub fn is_closed(&self) -> bool {
        self.0.open.lock().is_none()
    }

    /// Returns the session, unless it is closed.
    ///
    /// # Errors
    /// If it is closed, or belongs to another process.
    pub fn open(&self) -> PyResult<Arc<OpenSession>> {
        self.check()?;
        let open = self.0.open.lock();
        open.clone().ok_or_else(|| SessionClosedError::new_err("the session is closed: open another one"))
    }

    /// # Errors
    /// If the session belongs to another process.
    pub fn check(&self) -> PyResult<()> {
        self.0.owner.check()
    }
}

/// Workers that were started for a session. Their processes end with the thread that started them, so it
/// lives as long as this.
pub struct WorkerProcesses {
    remote: Option<Remote>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl WorkerProcesses {
    /// # Errors
    /// If a worker does not start.
    pub fn start(args: ClusterArgs, memory_bytes: Option<usize>) -> Result<Self> {
        let (report, started) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let keep = move || {
            let cluster = args.start(memory_bytes);
            let told = cluster.as_ref().map(|cluster| cluster.remote().cloned());
            // The thread that starts them waits for this.
            report.send(told.map_err(|error| Error::msg(annulus_cli::errors::text(error)))).ok();
            // Ends when the sender is dropped.
            stopped.recv().ok();
            drop(cluster);
        };
        let thread = thread::Builder::new().name("workers".to_owned()).spawn(keep)?;
        let remote = started.recv().context("the thread that starts workers has ended")??;
        Ok(Self { remote, stop: Some(stop), thread: Some(thread) })
    }
}

impl WorkerProcesses {
    pub fn remote(&self) -> Option<&Remote> {
        self.remote.as_ref()
    }
}

impl Drop for WorkerProcesses {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has no result.
            thread.join().ok();
        }
    }
}
