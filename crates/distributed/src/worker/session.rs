//! The sessions of tasks on a worker.

use std::sync::{Arc, Weak};

use annulus_datafusion::{AnnulusConfig, install_functions};
use datafusion::{
    error::{DataFusionError, Result},
    execution::SessionState,
};
use datafusion_distributed::{
    DistributedConfig, DistributedExt, DistributedTaskContext, Worker, WorkerPlanRewriteEvent,
    WorkerPlanRewriteEventResponse, WorkerQueryContext, WorkerSessionBuilder,
};
use url::Url;

use super::channels::{OwnWorker, TaskChannels};
use crate::{
    codec::AnnulusCodec,
    files::WorkerFiles,
    net::{Connections, execution, keeps_heads, restarts, set_options, worker_url},
    stage::rewrite_stage,
    state::{TaskAccess, TaskPlan, WorkerQueries, WorkerState},
};

/// Builds the sessions of the tasks of a worker.
pub(super) struct Sessions {
    pub(super) connections: Connections,
    pub(super) worker: Weak<Worker>,
    pub(super) files: Arc<WorkerFiles>,
    pub(super) state: WorkerState,
}

#[async_trait::async_trait]
impl WorkerSessionBuilder for Sessions {
    async fn build_session_state(&self, mut context: WorkerQueryContext) -> Result<SessionState> {
        let url = worker_url(&context.headers).and_then(|url| Url::parse(url).ok());
        let execution = execution(&context.headers).map(str::to_owned);
        let restarts = restarts(&context.headers);
        let connections = self.connections.clone();
        let config = context.builder.config().get_or_insert_default();
        config.set_extension(Arc::clone(&self.files));
        if let (Some(worker), Some(execution)) = (url.clone(), execution.clone()) {
            let (connections, state) = (connections.clone(), self.state.clone());
            config.set_extension(Arc::new(TaskAccess { connections, worker, execution, state }));
        }
        let own = url.map(|url| OwnWorker { url, worker: Weak::clone(&self.worker) });
        let counted =
            execution.map(|execution| CountedQuery { queries: self.state.queries.clone(), execution, restarts });
        session(context, TaskChannels { connections, own }, counted)
    }
}

/// Returns the session of a task, with the options of the coordinator and the operators of Annulus. It
/// reaches other workers on `connections`.
///
/// For a [`WorkerSessionBuilder`] of the embedder. Joins around a ring, resident tables and datasets need an
/// [`AnnulusWorker`](crate::AnnulusWorker), which has the state for them.
///
/// # Errors
/// If the coordinator has an option that is unknown here.
pub fn on_worker(mut context: WorkerQueryContext, connections: Connections) -> Result<SessionState> {
    context.builder.config().get_or_insert_default().set_extension(Arc::<WorkerFiles>::default());
    session(context, TaskChannels { connections: connections.for_worker(), own: None }, None)
}

/// A query that counts the plans of its tasks.
struct CountedQuery {
    queries: WorkerQueries,
    execution: String,
    restarts: usize,
}

fn session(context: WorkerQueryContext, channels: TaskChannels, counted: Option<CountedQuery>) -> Result<SessionState> {
    let WorkerQueryContext { mut builder, headers } = context;
    install_functions(&mut builder);
    let options = builder.config().get_or_insert_default().options_mut();
    if options.extensions.get::<AnnulusConfig>().is_none() {
        options.extensions.insert(AnnulusConfig::default());
    }
    let batch_rows = options.execution.batch_size;
    set_options(&headers, options)?;
    if DistributedConfig::from_config_options(options)?.shuffle_batch_size != 0 {
        // It was set for workers only.
        options.execution.batch_size = batch_rows;
    }
    let rewrite = move |event: WorkerPlanRewriteEvent<'_>| {
        let options = event.session_config.options();
        let keeps_head = keeps_heads(DistributedConfig::from_config_options(options)?);
        let plan = rewrite_stage(event.plan, options, keeps_head)?;
        if let Some(CountedQuery { queries, execution, restarts }) = &counted {
            let (task, count) = event
                .session_config
                .get_extension::<DistributedTaskContext>()
                .map_or((0, 1), |context| (context.task_index, context.task_count));
            queries.add_plan(execution, *restarts, TaskPlan { task, count, plan: Arc::clone(&plan) });
        }
        Ok(WorkerPlanRewriteEventResponse::new(plan))
    };
    if let Some(worker) = channels.own.as_ref().and_then(|own| own.worker.upgrade()) {
        // Otherwise, tasks of this worker would reach each other without `channels`, and ask for other heads.
        builder.set_distributed_local_worker_context(worker.to_local_worker_context(elsewhere()?));
    }
    Ok(builder
        .with_distributed_channel_resolver(channels)
        .with_distributed_user_codec(AnnulusCodec)
        .with_distributed_worker_plan_rewrite_handler(rewrite)
        .build())
}

/// Returns a URL that no worker has.
fn elsewhere() -> Result<Url> {
    Url::parse("annulus://elsewhere").map_err(|error| DataFusionError::External(Box::new(error)))
}
