//! The one line for a worker, and the worker itself.

use std::sync::{Arc, Weak};

use annulus_datafusion::AnnulusConfig;
use datafusion::{
    error::{DataFusionError, Result},
    execution::{SessionState, runtime_env::RuntimeEnv},
};
use datafusion_distributed::{
    DistributedConfig, DistributedExt, Worker, WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse,
    WorkerQueryContext, WorkerSessionBuilder,
};
use url::Url;

use crate::{
    channels::{Channels, keeps_heads},
    head::rewrite_stage,
    options,
};

/// A worker that runs the stages of queries on the operators of Annulus.
#[derive(Clone)]
pub struct AnnulusWorker {
    worker: Arc<Worker>,
}

impl AnnulusWorker {
    /// Returns a worker whose queries share the memory, the disk and the object stores of `runtime`,
    /// and reach other workers by `channels`.
    pub fn new(runtime: Arc<RuntimeEnv>, channels: Channels) -> Self {
        let worker = Arc::new_cyclic(|worker: &Weak<Worker>| {
            Worker::from_session_builder(Sessions { channels, worker: Weak::clone(worker) })
                .with_runtime_env(runtime)
                .with_version(env!("CARGO_PKG_VERSION"))
        });
        Self { worker }
    }

    /// Returns the worker of datafusion-distributed, for a server of one's own.
    pub fn inner(&self) -> &Worker {
        &self.worker
    }
}

/// Builds the session of a task.
struct Sessions {
    channels: Channels,
    worker: Weak<Worker>,
}

#[async_trait::async_trait]
impl WorkerSessionBuilder for Sessions {
    async fn build_session_state(&self, context: WorkerQueryContext) -> Result<SessionState> {
        let url = options::own_url(&context.headers).and_then(|url| Url::parse(url).ok());
        let channels = match url {
            Some(url) => self.channels.of_worker(url, Weak::clone(&self.worker)),
            None => self.channels.clone(),
        };
        on_worker(context, channels)
    }
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
    let WorkerQueryContext { mut builder, headers } = context;
    let config = builder.config().get_or_insert_default();
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
    let rewrite = |event: WorkerPlanRewriteEvent<'_>| {
        let options = event.session_config.options();
        let keeps_head = keeps_heads(DistributedConfig::from_config_options(options)?);
        rewrite_stage(event.plan, options, keeps_head).map(WorkerPlanRewriteEventResponse::new)
    };
    if let Some(worker) = channels.own_worker() {
        // Else tasks of this worker would reach each other without `channels`, and ask for other heads.
        builder.set_distributed_local_worker_context(worker.to_local_worker_context(elsewhere()?));
    }
    Ok(builder
        .with_distributed_channel_resolver(channels)
        .with_distributed_worker_plan_rewrite_handler(rewrite)
        .build())
}
