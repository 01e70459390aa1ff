//! The channels of the tasks of a worker to other tasks.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::{
    arrow::array::RecordBatch, error::Result, execution::TaskContext, physical_plan::metrics::ExecutionPlanMetricsSet,
};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    SetPlanRequest, Worker, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::{StreamExt, stream::BoxStream};
use http::HeaderMap;
use url::Url;

use crate::net::{Connections, restored_stream, with_own_head};

/// Channels to other workers on their connections, and to the worker itself without one.
#[derive(Clone)]
pub(super) struct TaskChannels {
    pub(super) connections: Connections,
    /// The worker of the task, unless the embedder serves it.
    pub(super) own: Option<OwnWorker>,
}

/// The worker of a task, and the URL by which others reach it.
#[derive(Clone)]
pub(super) struct OwnWorker {
    pub(super) url: Url,
    pub(super) worker: Weak<Worker>,
}

#[async_trait]
impl ChannelResolver for TaskChannels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        if let Some(own) = &self.own
            && own.url == *url
            && let Some(worker) = own.worker.upgrade()
        {
            return Ok(Box::new(LocalChannel(worker)));
        }
        self.connections.get_worker_client_for_url(url).await
    }
}

/// A channel to a worker of this process.
struct LocalChannel(Arc<Worker>);

#[async_trait]
impl WorkerChannel for LocalChannel {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        request: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        _: ExecutionPlanMetricsSet,
        _: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        self.0.coordinator_channel(headers, request, messages.map(Ok).boxed()).await
    }

    async fn execute_task(
        &mut self,
        _: HeaderMap,
        request: ExecuteTaskRequest,
        _: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let (streams, _) = self.0.execute_task(with_own_head(request, context)?).await?;
        Ok(streams.into_iter().map(restored_stream).collect())
    }

    async fn get_worker_info(&mut self, _: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        Ok(GetWorkerInfoResponse { version: self.0.version().to_owned() })
    }
}
