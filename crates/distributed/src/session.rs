//! The one line for a coordinator.

use std::sync::Arc;

use annulus_datafusion::SessionStateBuilderExt as _;
use datafusion::execution::SessionStateBuilder;
use datafusion_distributed::{DistributedExt, SessionStateBuilderExt as _, WorkerResolver};

use crate::{
    channels::Channels,
    planner::StagePlanner,
    scans::{divide_files, keep_whole},
};

/// Lets the queries of a DataFusion session run on workers.
pub trait SessionStateBuilderExt {
    /// Plans queries for the workers that `workers` knows, and reaches them by `channels`. Queries
    /// that are too small for several tasks run in this process.
    ///
    /// It includes [`with_annulus`](annulus_datafusion::SessionStateBuilderExt::with_annulus). Call it
    /// after `with_config`, `with_query_planner` and `with_physical_optimizer_rules`, which replace
    /// what it edits. The workers must be those of Annulus ([`on_worker`](crate::on_worker)).
    #[must_use]
    fn with_annulus_workers(self, workers: impl WorkerResolver + 'static, channels: Channels) -> Self;
}

impl SessionStateBuilderExt for SessionStateBuilder {
    fn with_annulus_workers(self, workers: impl WorkerResolver + 'static, channels: Channels) -> Self {
        let mut builder = self;
        let here = builder.query_planner().clone();
        let mut builder = builder
            .with_distributed_worker_resolver(workers)
            .with_distributed_channel_resolver(channels)
            .with_distributed_desired_task_count_handler(keep_whole)
            .with_distributed_scale_up_leaf_node_handler(divide_files)
            .with_distributed_planner()
            .with_annulus();
        match builder.query_planner().take() {
            Some(engine) => builder.with_query_planner(Arc::new(StagePlanner { engine, here })),
            None => builder,
        }
    }
}
