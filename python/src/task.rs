//! A task on the threads of a session, and a thread of Python that waits for its end.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use annulus_dataset::CancelToken;
use parking_lot::{Condvar, Mutex};
use pyo3::prelude::*;
use tokio::{runtime::Handle, task::AbortHandle};

use crate::{
    closing::Closing,
    errors::{Failure, SessionClosedError},
};

/// The time after which a waiting thread looks for signals, such as Ctrl-C.
const TICK: Duration = Duration::from_millis(20);
/// The time that interrupted work has to stop.
const GRACE: Duration = Duration::from_secs(5);

/// A task that has been started. It is cancelled when this is dropped.
pub struct Task<T> {
    shared: Arc<Shared<T>>,
    task: AbortHandle,
    /// Ends work that runs on other threads, and that the task waits for.
    cancel: Option<CancelToken>,
    /// Whether the session is closing: then nobody waits for a task that does not stop.
    closing: Closing,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    /// The end, until it is taken.
    end: Option<Result<T, Failure>>,
    /// Whether the task is over, by its end or because it was cancelled.
    is_over: bool,
    /// Is called, on a thread of the session, when the task is over.
    callback: Option<Py<PyAny>>,
}

/// Says that the task is over, even if it is dropped.
struct EndSignal<T>(Arc<Shared<T>>);

impl<T> Drop for EndSignal<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_over = true;
        let callback = state.callback.take();
        self.0.changed.notify_all();
        drop(state);
        call(callback);
    }
}

/// Calls back. The interpreter may be ending, and the loop of the caller closed: then nobody waits.
fn call(callback: Option<Py<PyAny>>) {
    if let Some(callback) = callback {
        Python::try_attach(|py| callback.call0(py).map(drop).ok());
    }
}

impl<T: Send + 'static> Task<T> {
    /// Starts `work` on the threads of `runtime`, which end when the session is `closing`.
    pub fn start(
        runtime: &Handle,
        closing: Closing,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Self {
        let state = State { end: None, is_over: false, callback: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let over = EndSignal(Arc::clone(&shared));
        let task = runtime.spawn(async move {
            // Dropped after the end is there, and when the task is cancelled.
            let over = over;
            let end = work.await;
            over.0.state.lock().end = Some(end);
        });
        Self { shared, task: task.abort_handle(), cancel: None, closing }
    }

    pub fn with_cancel(mut self, cancel: CancelToken) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// Waits for the end of the task, or of its session, and calls `look` now and then. An interrupt, or an error of
    /// `look`, ends the task.
    ///
    /// # Errors
    /// The interrupt, or the error of `look`.
    pub fn wait(&self, py: Python<'_>, mut look: impl FnMut() -> PyResult<()>) -> PyResult<()> {
        while !py.detach(|| self.is_over_within(TICK)) && !self.closing.is_closing() {
            if let Err(error) = py.check_signals().and_then(|()| look()) {
                self.stop(py);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits for the end of the task, at most for `time`, and returns whether it came.
    fn is_over_within(&self, time: Duration) -> bool {
        let mut state = self.shared.state.lock();
        if !state.is_over {
            self.shared.changed.wait_for(&mut state, time);
        }
        state.is_over
    }

    /// Returns the end of a task that is over, once.
    ///
    /// # Errors
    /// The task's, or that it was cancelled.
    pub fn end(&self, sql: Option<&str>) -> PyResult<T> {
        match self.shared.state.lock().end.take() {
            Some(end) => end.map_err(|failure| failure.into_python(sql)),
            None => Err(SessionClosedError::new_err("the session was closed, or the work cancelled, before its end")),
        }
    }

    /// Makes the session call `callback` when the task is over.
    pub fn on_end(&self, callback: Py<PyAny>) {
        let mut state = self.shared.state.lock();
        if !state.is_over {
            state.callback = Some(callback);
            return;
        }
        drop(state);
        call(Some(callback));
    }

    /// Cancels the task, and waits until it has stopped.
    pub fn stop(&self, py: Python<'_>) {
        let wait = || {
            let end = Instant::now() + GRACE;
            while !self.is_over_within(TICK) && Instant::now() < end {}
        };
        py.detach(|| {
            if let Some(cancel) = &self.cancel {
                cancel.cancel();
                wait();
            }
            self.task.abort();
            wait();
        });
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.cancel.as_ref().inspect(|cancel| cancel.cancel());
        self.task.abort();
    }
}
