//! The one line for a worker, and the worker itself.

use std::sync::{Arc, Weak};

use annulus_datafusion::AnnulusConfig;
use annulus_roundabout::BufferCache;
use datafusion::{
    error::{DataFusionError, Result},
    execution::{SessionState, memory_pool::MemoryLimit, runtime_env::RuntimeEnv},
};
use datafusion_distributed::{
    DistributedConfig, DistributedExt, DistributedTaskContext, Worker, WorkerPlanRewriteEvent,
    WorkerPlanRewriteEventResponse, WorkerQueryContext, WorkerSessionBuilder,
};
use url::Url;

use crate::{
    asks::AskService,
    channels::{Channels, keeps_heads},
    codec::AnnulusCodec,
    cyclo::RingAccess,
    head::rewrite_stage,
    options,
    roots::WorkerFiles,
    status::{Shown, TaskPlan, WorkerQueries},
};

/// The most bytes of buffers that a worker keeps for rings: those of two with the default options.
const KEPT_BYTES: usize = 36 << 20;
/// The share of the memory limit that they take at most.
const KEPT_SHARE: usize = 8;

/// A worker that runs the stages of queries on the operators of Annulus.
#[derive(Clone)]
pub struct AnnulusWorker {
    worker: Arc<Worker>,
    runtime: Arc<RuntimeEnv>,
    channels: Channels,
    files: Arc<WorkerFiles>,
    queries: WorkerQueries,
}

impl AnnulusWorker {
    /// Returns a worker whose queries share the memory, the disk and the object stores of `runtime`,
    /// and reach other workers by `channels`.
    pub fn new(runtime: Arc<RuntimeEnv>, channels: Channels) -> Self {
        Self::with_limits(runtime, channels, WorkerFiles::default(), usize::MAX)
    }

    /// Returns such a worker, which keeps the buffers of its rings for the next joins: at most 36 MiB, and an
    /// eighth of the memory limit. It opens datasets and writes them only as `files` allow, and refuses
    /// queries while it runs `most` others. Their error says so.
    pub fn with_limits(runtime: Arc<RuntimeEnv>, channels: Channels, files: WorkerFiles, most: usize) -> Self {
        let queries = WorkerQueries::new(most);
        let most_kept = match runtime.memory_pool.memory_limit() {
            MemoryLimit::Finite(limit) => KEPT_BYTES.min(limit / KEPT_SHARE),
            MemoryLimit::Infinite | MemoryLimit::Unknown => KEPT_BYTES,
        };
        let channels = channels.with_buffers(BufferCache::new(most_kept));
        let files = Arc::new(files);
        let worker = Arc::new_cyclic(|worker: &Weak<Worker>| {
            let (channels, files, queries) = (channels.clone(), Arc::clone(&files), queries.clone());
            let sessions = Sessions { channels, worker: Weak::clone(worker), files, queries };
            Worker::from_session_builder(sessions)
                .with_runtime_env(Arc::clone(&runtime))
                .with_version(env!("CARGO_PKG_VERSION"))
        });
        Self { worker, runtime, channels, files, queries }
    }

    /// Returns the worker of datafusion-distributed, for a server of one's own. Joins around a ring need
    /// [`Server`](crate::Server), where their tasks meet.
    pub fn inner(&self) -> &Worker {
        &self.worker
    }

    /// Returns what answers the requests that are not queries.
    pub(crate) fn asks(&self) -> AskService {
        AskService { channels: self.channels.clone(), shown: self.shown(), files: Arc::clone(&self.files) }
    }

    /// Returns the queries that run.
    pub(crate) fn queries(&self) -> &WorkerQueries {
        &self.queries
    }

    /// Returns what shows the queries.
    pub(crate) fn shown(&self) -> Shown {
        Shown { queries: self.queries.clone(), runtime: Arc::clone(&self.runtime) }
    }
}

/// Builds the session of a task.
struct Sessions {
    channels: Channels,
    worker: Weak<Worker>,
    files: Arc<WorkerFiles>,
    queries: WorkerQueries,
}

#[async_trait::async_trait]
impl WorkerSessionBuilder for Sessions {
    async fn build_session_state(&self, context: WorkerQueryContext) -> Result<SessionState> {
        let channels = match own_url(&context) {
            Some(url) => self.channels.of_worker(url, Weak::clone(&self.worker)),
            None => self.channels.clone(),
        };
        session(context, channels, Arc::clone(&self.files), Some(self.queries.clone()))
    }
}

/// Returns the URL by which the coordinator addresses this worker.
fn own_url(context: &WorkerQueryContext) -> Option<Url> {
    Url::parse(options::own_url(&context.headers)?).ok()
}

/// Returns a URL that no worker has.
fn elsewhere() -> Result<Url> {
    Url::parse("annulus://elsewhere").map_err(|error| DataFusionError::External(Box::new(error)))
}

/// Returns the session of a task with the options of the coordinator, whose operators are those of
/// Annulus. It reaches other workers by `channels`.
///
/// For a [`WorkerSessionBuilder`] of one's own; [`AnnulusWorker`] has this one.
///
/// # Errors
/// If the coordinator has an option that is unknown here.
pub fn on_worker(context: WorkerQueryContext, channels: Channels) -> Result<SessionState> {
    session(context, channels, Arc::default(), None)
}

/// Returns the session, whose plan is added to `queries`.
fn session(
    context: WorkerQueryContext,
    channels: Channels,
    files: Arc<WorkerFiles>,
    queries: Option<WorkerQueries>,
) -> Result<SessionState> {
    let own = own_url(&context);
    let WorkerQueryContext { mut builder, headers } = context;
    let config = builder.config().get_or_insert_default();
    if let (Some(own), Some(execution)) = (own, options::execution(&headers)) {
        let (channels, execution) = (channels.clone(), execution.to_owned());
        config.set_extension(Arc::new(RingAccess { channels, own, execution, queries: queries.clone() }));
    }
    config.set_extension(files);
    let options = config.options_mut();
    if options.extensions.get::<AnnulusConfig>().is_none() {
        options.extensions.insert(AnnulusConfig::default());
    }
    let batch_rows = options.execution.batch_size;
    options::receive(&headers, options)?;
    if DistributedConfig::from_config_options(options)?.shuffle_batch_size != 0 {
        // It was set for workers only.
        options.execution.batch_size = batch_rows;
    }
    let query = options::execution(&headers).map(str::to_owned);
    let rewrite = move |event: WorkerPlanRewriteEvent<'_>| {
        let options = event.session_config.options();
        let keeps_head = keeps_heads(DistributedConfig::from_config_options(options)?);
        let plan = rewrite_stage(event.plan, options, keeps_head)?;
        if let (Some(queries), Some(query)) = (&queries, &query) {
            let (task, of) = event
                .session_config
                .get_extension::<DistributedTaskContext>()
                .map_or((0, 1), |context| (context.task_index, context.task_count));
            queries.add_plan(query, TaskPlan { task, of, plan: Arc::clone(&plan) });
        }
        Ok(WorkerPlanRewriteEventResponse::new(plan))
    };
    if let Some(worker) = channels.own_worker() {
        // Else tasks of this worker would reach each other without `channels`, and ask for other heads.
        builder.set_distributed_local_worker_context(worker.to_local_worker_context(elsewhere()?));
    }
    Ok(builder
        .with_distributed_channel_resolver(channels)
        .with_distributed_user_codec(AnnulusCodec)
        .with_distributed_worker_plan_rewrite_handler(rewrite)
        .build())
}
