//! The channel of a query to a worker in another process.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    arrow::array::RecordBatch, error::Result, execution::TaskContext, physical_plan::metrics::ExecutionPlanMetricsSet,
};
use datafusion_distributed::{
    CoordinatorToWorkerMsg, DistributedConfig, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    ProducerHead, SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::{Stream, StreamExt, TryStreamExt, stream::BoxStream};
use http::HeaderMap;

use super::{
    failures::RunningQueries,
    headers::{self, QueryHeaders, QueryRestarts},
    naming::WorkerName,
    restarts::LostWorkers,
    sent::Restorer,
};

/// Returns whether stages keep the heads that workers gave them. With task counts that are decided while a
/// query runs, DataFusion's heads are only known then.
pub(crate) fn keeps_heads(config: &DistributedConfig) -> bool {
    !config.dynamic_task_count
}

/// Returns `request` for a worker that has given the stage its head.
pub(crate) fn with_own_head(request: ExecuteTaskRequest, context: &TaskContext) -> Result<ExecuteTaskRequest> {
    let keeps = keeps_heads(DistributedConfig::from_session_config(context.session_config())?);
    Ok(match request.producer_head {
        ProducerHead::RepartitionExec { .. } if keeps => {
            ExecuteTaskRequest { producer_head: ProducerHead::None, ..request }
        }
        _ => request,
    })
}

/// Returns the batches of a task with the types of its plan.
pub(crate) fn restored_stream(
    stream: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
) -> BoxStream<'static, Result<RecordBatch>> {
    let mut restorer = Restorer::default();
    stream.and_then(move |batch| std::future::ready(restorer.restored(batch))).boxed()
}

/// A channel whose errors name the worker.
pub(super) struct RemoteChannel {
    pub(super) worker: WorkerName,
    pub(super) inner: Box<dyn WorkerChannel>,
    pub(super) queries: RunningQueries,
    pub(super) lost: LostWorkers,
}

#[async_trait]
impl WorkerChannel for RemoteChannel {
    async fn coordinator_channel(
        &mut self,
        mut headers: HeaderMap,
        request: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let query = self.queries.enter(request.task_key.query_id.as_u128());
        let restarts = context.session_config().get_extension::<QueryRestarts>().map_or(0, |restarts| restarts.0);
        let sent = QueryHeaders { worker: self.worker.url.as_str(), execution: &query.execution(), restarts };
        headers::add(context.session_config().options(), sent, &mut headers).map_err(|error| query.fail(error))?;
        let answers = self.inner.coordinator_channel(headers, request, messages, metrics, context).await;
        let answers = answers.map_err(|error| query.fail(self.worker.put_on(error)))?;
        self.lost.note(&self.worker.url, true);
        Ok(query.watched(self.worker.put_on_stream(answers)))
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let request = with_own_head(request, context)?;
        let query = self.queries.enter(request.task_key.query_id.as_u128());
        let streams = self.inner.execute_task(headers, request, metrics, context).await;
        let streams = streams.map_err(|error| self.worker.put_on(error))?;
        let stream = |stream| Arc::clone(&query).ending(self.worker.put_on_stream(restored_stream(stream)));
        Ok(streams.into_iter().map(stream).collect())
    }

    async fn get_worker_info(&mut self, request: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        self.inner.get_worker_info(request).await.map_err(|error| self.worker.put_on(error))
    }
}
