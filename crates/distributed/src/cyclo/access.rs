//! What a task knows of the workers around it.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use url::Url;

use crate::{
    channels::Channels,
    status::{Hold, WorkerQueries},
};

/// What a task of a query needs to meet the other tasks of a join.
#[derive(Clone, Debug)]
pub(crate) struct RingAccess {
    pub(crate) channels: Channels,
    /// The URL by which the coordinator addresses this worker.
    pub(crate) own: Url,
    /// The execution of the query, which no other one has.
    pub(crate) execution: String,
    /// The queries of this worker, if it counts them.
    pub(crate) queries: Option<WorkerQueries>,
}

impl RingAccess {
    /// Returns that of a task; `None` in the process that asked.
    pub(crate) fn of(context: &TaskContext) -> Option<Arc<Self>> {
        context.session_config().get_extension()
    }

    /// Lets this worker, if it is asked to stop, wait until this is dropped.
    pub(crate) fn hold(&self) -> Option<Hold> {
        self.queries.as_ref().map(WorkerQueries::hold)
    }

    /// Waits until the coordinator has its answer, has failed, or is gone. At once if this worker does not
    /// count its queries.
    pub(crate) async fn end_of_query(&self) {
        if let Some(queries) = &self.queries {
            queries.end_of(&self.execution).await;
        }
    }
}
