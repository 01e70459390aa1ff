//! Work that runs while Python waits, or does something else.

use std::{future::Future, sync::Arc};

use annulus_dataset::CancelToken;
use pyo3::{IntoPyObjectExt, prelude::*};

use crate::{errors::Failure, handle::SessionHandle, task::Task};

/// The progress of work.
pub trait Progress: Send + Sync {
    /// Returns what has been done, and all that is to be done, if that is known.
    fn so_far(&self) -> (u64, Option<u64>);
}

/// Makes an object of Python from what work has made.
type Ending = Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>> + Send>;

/// Work that has been started, and its end.
#[pyclass(frozen, module = "annulus_data._internal")]
pub struct Work {
    task: Task<Ending>,
    /// The text of the statement, in which errors have a place.
    sql: Option<String>,
    progress: Option<Arc<dyn Progress>>,
    /// The session, which lives while its work runs.
    session: SessionHandle,
}

impl Work {
    /// Starts `work` on the threads of the session.
    ///
    /// # Errors
    /// If the session is closed.
    pub fn start<T: for<'py> IntoPyObject<'py> + Send + 'static>(
        session: &SessionHandle,
        sql: Option<String>,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> PyResult<Self> {
        let ending = async move {
            let made = work.await?;
            let ending: Ending = Box::new(move |py| made.into_bound_py_any(py));
            Ok(ending)
        };
        let task = session.open()?.start(ending);
        Ok(Self { task, sql, progress: None, session: session.clone() })
    }

    pub fn with_progress(mut self, progress: impl Progress + 'static) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Lets `cancel` end the work, which runs on other threads.
    pub fn with_cancel(mut self, cancel: CancelToken) -> Self {
        self.task = self.task.with_cancel(cancel);
        self
    }
}

#[pymethods]
impl Work {
    /// Waits for the end and returns what the work has made; `progress` is called now and then with what
    /// has been done, and with all that is to be done if that is known. An interrupt, or an error of
    /// `progress`, ends the work.
    #[pyo3(signature = (progress=None))]
    fn wait<'py>(&self, py: Python<'py>, progress: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        self.session.check()?;
        self.task.wait(py, || match (&progress, &self.progress) {
            (Some(callback), Some(progress)) => callback.call1(py.detach(|| progress.so_far())).map(drop),
            _ => Ok(()),
        })?;
        self.result(py)
    }

    /// Makes the session call `callback` when the work is over.
    fn on_end(&self, callback: Py<PyAny>) {
        self.task.on_end(callback);
    }

    /// Returns what the work has made, once.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.task.end(self.sql.as_deref())?(py)
    }

    /// Cancels the work, and waits until it has stopped.
    fn cancel(&self, py: Python<'_>) {
        self.task.stop(py);
    }
}
