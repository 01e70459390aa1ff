//! What a task of a query reaches beyond its plan.

use std::sync::Arc;

use datafusion::{error::Result, execution::TaskContext};
use url::Url;

use super::{QueryHandle, Registration, RingAgreement, WorkerState};
use crate::net::Connections;

/// The worker of a task, and the connections to other workers.
#[derive(Clone, Debug)]
pub(crate) struct TaskAccess {
    pub(crate) connections: Connections,
    /// The URL by which the coordinator addresses this worker.
    pub(crate) worker: Url,
    /// The identifier of the execution of the query.
    pub(crate) execution: String,
    pub(crate) state: WorkerState,
}

impl TaskAccess {
    /// Returns the access of a task; `None` in the process of the coordinator.
    pub(crate) fn from_context(context: &TaskContext) -> Option<Arc<Self>> {
        context.session_config().get_extension()
    }

    /// Returns the query of the task.
    pub(crate) fn query(&self) -> QueryHandle {
        self.state.queries.handle(&self.execution)
    }

    /// Waits for the other tasks of a join, at the worker at `url`.
    ///
    /// # Errors
    /// If it cannot be reached, or the tasks do not come. The error names it.
    pub(crate) async fn meet(&self, url: &Url, registration: Registration) -> Result<RingAgreement> {
        if *url != self.worker {
            return self.connections.ask(url, &registration).await;
        }
        let member = self.connections.identity().map(|identity| identity.member().host.to_string());
        let agreed = self.state.meetings.meet(registration, member).await;
        agreed.map_err(|error| self.connections.name_worker(url, error.into()))
    }
}
