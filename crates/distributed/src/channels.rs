//! The connections to workers.

mod ask;

use std::{
    collections::HashMap,
    error::Error as StdError,
    fmt, io,
    sync::{Arc, Weak},
    time::Duration,
};

use annulus_roundabout::{BufferCache, secure::Identity};
use async_trait::async_trait;
use datafusion::{
    arrow::array::RecordBatch,
    error::{DataFusionError, Result},
    execution::TaskContext,
    physical_plan::metrics::ExecutionPlanMetricsSet,
};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, DistributedConfig, ExecuteTaskRequest, GetWorkerInfoRequest,
    GetWorkerInfoResponse, ProducerHead, SetPlanRequest, Worker, WorkerChannel, WorkerToCoordinatorMsg, grpc,
};
use futures::{Stream, StreamExt, TryStreamExt, stream::BoxStream};
use http::{HeaderMap, Uri};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tower::service_fn;
use url::Url;

use crate::{
    cyclo::Meetings,
    failures::Queries,
    large_lists::restored,
    members,
    network::{self, CONNECTION_BYTES, STREAM_BYTES},
    options::{self, Addressed},
    resident::ResidentStore,
    results::Results,
    workers::address_of,
};

/// The silence after which a worker or a coordinator is lost, unless another one is set.
pub const DEFAULT_SILENCE: Duration = Duration::from_secs(10);

/// The connections of a process to workers, one for each, which all of its queries share. Clones
/// share them, too.
///
/// A connection that is lost is made again when it is next needed. What was running on it fails with
/// an error that names the worker.
#[derive(Clone)]
pub struct Channels {
    open: Arc<Mutex<HashMap<Url, Channel>>>,
    queries: Queries,
    silence: Duration,
    identity: Option<Identity>,
    /// The provider of libfabric through which joins go around a ring, and the address to use.
    fabric: Option<Arc<str>>,
    /// Where the tasks of joins meet, if a worker of this process serves them.
    meetings: Meetings,
    /// The tables that a worker of this process keeps.
    resident: ResidentStore,
    /// The datasets that this process writes.
    results: Results,
    /// The buffers of rings, which outlive them.
    buffers: BufferCache,
    /// The worker of this process, and the URL by which others know it.
    own: Option<(Url, Weak<Worker>)>,
}

impl Default for Channels {
    fn default() -> Self {
        Self::new(DEFAULT_SILENCE)
    }
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channels").field("silence", &self.silence).finish_non_exhaustive()
    }
}

impl Channels {
    /// Returns connections that are lost after `silence`: the other side then answers nothing, not
    /// even the connection's own questions.
    pub fn new(silence: Duration) -> Self {
        let (open, queries, meetings) = (Arc::default(), Queries::default(), Meetings::default());
        let (resident, results, buffers) = (ResidentStore::default(), Results::default(), BufferCache::default());
        Self { open, queries, silence, identity: None, fabric: None, meetings, resident, results, buffers, own: None }
    }

    /// Encrypts connections, with `identity` on this side and hosts of its ring on the other. Workers
    /// take plans from submitters only.
    #[must_use]
    pub fn with_identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Lets fragments of joins go through libfabric, if all tasks of a join name the same provider:
    /// `PROVIDER` or `PROVIDER@ADDRESS`. They are sealed if connections are encrypted.
    #[cfg(feature = "ofi")]
    #[must_use]
    pub fn with_fabric(mut self, name: &str) -> Self {
        self.fabric = Some(name.into());
        self
    }

    /// Returns the version of the worker at `url`, if it answers.
    ///
    /// # Errors
    /// If it cannot be reached, or refuses this side. The error names it.
    pub async fn version_of(&self, url: &Url) -> Result<String> {
        let mut channel = self.get_worker_client_for_url(url).await?;
        Ok(channel.get_worker_info(GetWorkerInfoRequest {}).await?.version)
    }

    /// Returns the silence after which the other side is lost.
    pub(crate) fn silence(&self) -> Duration {
        self.silence
    }

    /// Returns the identity of this side, if connections are encrypted.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Returns the provider of libfabric for joins, `PROVIDER` or `PROVIDER@ADDRESS`.
    pub(crate) fn fabric(&self) -> Option<&str> {
        self.fabric.as_deref()
    }

    /// Lets joins around a ring borrow buffers that this process keeps.
    pub(crate) fn with_buffers(self, buffers: BufferCache) -> Self {
        Self { buffers, ..self }
    }

    /// Returns the buffers that this process keeps for rings.
    pub(crate) fn buffers(&self) -> &BufferCache {
        &self.buffers
    }

    /// Returns the meetings at the worker of this process.
    pub(crate) fn meetings(&self) -> &Meetings {
        &self.meetings
    }

    /// Returns the resident tables of the worker of this process.
    pub(crate) fn resident(&self) -> &ResidentStore {
        &self.resident
    }

    /// Returns the datasets that this process writes.
    pub(crate) fn results(&self) -> &Results {
        &self.results
    }

    /// Returns whether the worker at `url` is that of this process.
    pub(crate) fn is_own(&self, url: &Url) -> bool {
        self.own.as_ref().is_some_and(|(own, _)| own == url)
    }

    /// Returns the same connections for the worker at `url`, which is in this process: its tasks
    /// reach each other without a connection.
    pub(crate) fn of_worker(&self, url: Url, worker: Weak<Worker>) -> Self {
        Self { own: Some((url, worker)), ..self.clone() }
    }

    /// Returns the worker of this process.
    pub(crate) fn own_worker(&self) -> Option<Arc<Worker>> {
        self.own.as_ref()?.1.upgrade()
    }

    fn channel(&self, url: &Url) -> Result<Channel> {
        let mut open = self.open.lock();
        if let Some(channel) = open.get(url) {
            return Ok(channel.clone());
        }
        let endpoint = Endpoint::from_shared(url.to_string())
            .map_err(|error| DataFusionError::Configuration(format!("invalid worker '{url}': {error}")))?
            .connect_timeout(self.silence)
            .executor(network::Executor)
            .initial_stream_window_size(STREAM_BYTES)
            .initial_connection_window_size(CONNECTION_BYTES)
            .http2_keep_alive_interval(self.silence / 2)
            .keep_alive_timeout(self.silence / 2);
        let identity = self.identity.clone();
        let connect = move |uri: Uri| {
            let connecting = members::connect(uri, identity.clone());
            async { Ok::<_, io::Error>(TokioIo::new(connecting.await?)) }
        };
        let channel = endpoint.connect_with_connector_lazy(service_fn(connect));
        open.insert(url.clone(), channel.clone());
        Ok(channel)
    }
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        if let Some((own, worker)) = &self.own
            && own == url
            && let Some(worker) = worker.upgrade()
        {
            return Ok(Box::new(InProcess(worker)));
        }
        let channel = grpc::BoxCloneSyncChannel::new(self.channel(url)?);
        let (inner, queries) = (grpc::create_worker_client(channel), self.queries.clone());
        Ok(Box::new(Named { url: url.clone(), inner, queries }))
    }
}

/// Returns whether stages keep the heads that workers gave them. With task counts that are found
/// while a query runs, DataFusion's heads are only known then.
pub(crate) fn keeps_heads(config: &DistributedConfig) -> bool {
    !config.dynamic_task_count
}

/// Returns `request` for a worker that has given the stage its head.
fn with_own_head(request: ExecuteTaskRequest, context: &TaskContext) -> Result<ExecuteTaskRequest> {
    let keeps = keeps_heads(DistributedConfig::from_session_config(context.session_config())?);
    Ok(match request.producer_head {
        ProducerHead::RepartitionExec { .. } if keeps => {
            ExecuteTaskRequest { producer_head: ProducerHead::None, ..request }
        }
        _ => request,
    })
}

/// A connection whose errors name the worker.
struct Named {
    url: Url,
    inner: Box<dyn WorkerChannel>,
    queries: Queries,
}

#[async_trait]
impl WorkerChannel for Named {
    async fn coordinator_channel(
        &mut self,
        mut headers: HeaderMap,
        request: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let query = self.queries.enter(request.task_key.query_id.as_u128());
        let to = Addressed { worker: self.url.as_str(), execution: query.execution() };
        options::send(context.session_config().options(), to, &mut headers).map_err(|error| query.fail(error))?;
        let answers = self.inner.coordinator_channel(headers, request, messages, metrics, context).await;
        let answers = answers.map_err(|error| query.fail(named(&self.url, error)))?;
        Ok(query.watched(named_stream(&self.url, answers)))
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
        let streams = streams.map_err(|error| named(&self.url, error))?;
        let stream = |stream| Arc::clone(&query).ending(named_stream(&self.url, received(stream)));
        Ok(streams.into_iter().map(stream).collect())
    }

    async fn get_worker_info(&mut self, request: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        self.inner.get_worker_info(request).await.map_err(|error| named(&self.url, error))
    }
}

/// Returns the batches of a task as its plan has them.
fn received(
    stream: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
) -> BoxStream<'static, Result<RecordBatch>> {
    stream.and_then(|batch| std::future::ready(restored(batch))).boxed()
}

fn named_stream<T: Send + 'static>(url: &Url, stream: BoxStream<'static, Result<T>>) -> BoxStream<'static, Result<T>> {
    let url = url.clone();
    stream.map_err(move |error| named(&url, error)).boxed()
}

/// The beginning of the names of workers in errors.
const WORKER: &str = "worker ";

/// Returns an error that names the worker at `url`, unless it names one already: what a worker
/// reports may come from another one.
pub(crate) fn named(url: &Url, error: DataFusionError) -> DataFusionError {
    if names_worker(&error) { error } else { plain(url, error).context(format!("{WORKER}{}", address_of(url))) }
}

/// Returns the error of a connection with its cause alone. The library's text has the types of all errors
/// above it.
fn plain(url: &Url, error: DataFusionError) -> DataFusionError {
    let DataFusionError::External(inner) = &error else { return error };
    let (mut texts, mut next): (Vec<String>, Option<&(dyn StdError + 'static)>) = (Vec::new(), Some(inner.as_ref()));
    while let Some(cause) = next {
        texts.push(cause.to_string());
        next = cause.source();
    }
    if let Some(text) = members::of_tls(&address_of(url), &texts) {
        return DataFusionError::Execution(text.to_owned());
    }
    match inner.downcast_ref::<Status>() {
        // Made here from the error of a connection: the worker has sent none.
        Some(status) if status.code() == Code::Unknown && status.source().is_some() => {
            DataFusionError::Execution("it was lost: the connection to it broke".to_owned())
        }
        Some(status) if status.code() == Code::Unavailable => DataFusionError::External(status.message().into()),
        _ => error,
    }
}

fn names_worker(error: &DataFusionError) -> bool {
    match error {
        DataFusionError::Context(text, cause) => text.starts_with(WORKER) || names_worker(cause),
        DataFusionError::Shared(cause) => names_worker(cause),
        DataFusionError::Diagnostic(_, cause) => names_worker(cause),
        _ => false,
    }
}

/// The worker of this process.
struct InProcess(Arc<Worker>);

#[async_trait]
impl WorkerChannel for InProcess {
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
        Ok(streams.into_iter().map(received).collect())
    }

    async fn get_worker_info(&mut self, _: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        Ok(GetWorkerInfoResponse { version: self.0.version().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_worker_that_had_it() {
        let (near, far) = (Url::parse("http://a:1").unwrap(), Url::parse("http://b:2").unwrap());
        let error = named(&far, DataFusionError::Execution("lost".to_owned()));
        let error = named(&near, DataFusionError::Shared(Arc::new(error))).to_string();
        assert!(error.contains("worker b:2") && error.contains("lost") && !error.contains("a:1"), "{error}");
    }

    #[tokio::test]
    async fn a_worker_that_is_not_there_is_named() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        drop(listener);
        let mut channel = Channels::default().get_worker_client_for_url(&url).await.unwrap();
        let error = channel.get_worker_info(GetWorkerInfoRequest {}).await.err().unwrap().to_string();
        assert!(error.contains(&format!("worker {}", address_of(&url))), "{error}");
    }
}
