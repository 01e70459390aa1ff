//! What a task knows of the workers around it.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use url::Url;

use crate::channels::Channels;

/// What a task of a query needs to meet the other tasks of a join.
#[derive(Debug)]
pub(crate) struct RingAccess {
    pub(crate) channels: Channels,
    /// The URL by which the coordinator addresses this worker.
    pub(crate) own: Url,
    /// The execution of the query, which no other one has.
    pub(crate) execution: String,
}

impl RingAccess {
    /// Returns that of a task; `None` in the process that asked.
    pub(crate) fn of(context: &TaskContext) -> Option<Arc<Self>> {
        context.session_config().get_extension()
    }
}
