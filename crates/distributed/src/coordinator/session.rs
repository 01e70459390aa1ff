//! The one line for a coordinator.

use std::sync::Arc;

use annulus_datafusion::{SessionStateBuilderExt as _, config::PlacementMode, install_planners};
use datafusion::execution::SessionStateBuilder;
use datafusion_distributed::{DistributedConfig, DistributedExt, SessionStateBuilderExt as _, WorkerResolver};
use url::{Host, Url};

use super::{
    broadcast::ChooseBroadcasts,
    lift::LiftInputs,
    live::LiveWorkers,
    planner::{PlannerContext, StagePlanner},
    semi_joins::SemiJoinReduction,
};
use crate::{
    codec::AnnulusCodec,
    cyclo::{ChooseCycloJoins, on_all_workers},
    net::Connections,
    resident::{route, with_shares},
    stage::{divide_files, keep_whole, route_tables, tasks_of_tables, tasks_of_units},
};

/// Lets the queries of a DataFusion session run on workers.
pub trait SessionStateBuilderExt {
    /// Plans queries for the workers of `workers`, and reaches them on `connections`. Queries that are too small
    /// for several tasks run in this process. A query whose worker is lost starts again on the others, as often as
    /// the option `annulus.retries` says: its rows are held until it has ended.
    ///
    /// It includes [`with_annulus`](annulus_datafusion::SessionStateBuilderExt::with_annulus). Call it
    /// after `with_config`, `with_query_planner` and `with_physical_optimizer_rules`, which would discard its
    /// changes. The workers must be those of Annulus ([`on_worker`](crate::on_worker)).
    #[must_use]
    fn with_annulus_workers(self, workers: impl WorkerResolver + 'static, connections: Connections) -> Self;
}

impl SessionStateBuilderExt for SessionStateBuilder {
    fn with_annulus_workers(self, workers: impl WorkerResolver + 'static, connections: Connections) -> Self {
        let mut builder = self;
        install_planners(&mut builder);
        let options = builder.config().get_or_insert_default().options_mut();
        options.extensions.insert(PlacementMode::Shipped);
        let is_configured = options.extensions.get::<DistributedConfig>().is_some();
        let in_process = builder.query_planner().clone();
        let live = Arc::new(LiveWorkers::new(Arc::new(workers), connections.clone()));
        let workers: Arc<dyn WorkerResolver> = Arc::clone(&live) as _;
        let rules = &mut builder.physical_optimizers().get_or_insert_default().rules;
        ChooseCycloJoins { workers: Arc::clone(&workers) }.install(rules);
        ChooseBroadcasts { workers: Arc::clone(&workers) }.install(rules);
        SemiJoinReduction { workers: Arc::clone(&workers) }.install(ChooseBroadcasts::NAME, rules);
        LiftInputs.install(rules);
        let mut builder = builder
            .with_distributed_worker_resolver(LiveWorkers::clone(&live))
            .with_distributed_channel_resolver(connections.clone())
            .with_distributed_user_codec(AnnulusCodec)
            .with_distributed_desired_task_count_handler(on_all_workers)
            .with_distributed_desired_task_count_handler(with_shares)
            .with_distributed_route_tasks_handler(route)
            .with_distributed_route_tasks_handler(route_tables)
            .with_distributed_desired_task_count_handler(tasks_of_tables)
            .with_distributed_desired_task_count_handler(keep_whole)
            .with_distributed_desired_task_count_handler(tasks_of_units)
            .with_distributed_scale_up_leaf_node_handler(divide_files)
            .with_distributed_planner()
            .with_annulus();
        // Between processes of one machine, bytes cost less to copy than to compress.
        if !is_configured
            && workers.get_urls().is_ok_and(|urls| urls.iter().all(is_loopback))
            && let Some(config) = builder.config()
            && let Ok(engine) = DistributedConfig::from_config_options_mut(config.options_mut())
        {
            engine.compression = "none".to_owned();
        }
        match builder.query_planner().take() {
            Some(engine) => {
                builder.with_query_planner(Arc::new(StagePlanner::new(PlannerContext { engine, live, in_process })))
            }
            None => builder,
        }
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionConfig;

    use super::*;
    use crate::Workers;

    #[test]
    fn bytes_are_compressed_between_machines() {
        let compression = |workers: &str, config: SessionConfig| {
            let builder = SessionStateBuilder::new().with_default_features().with_config(config);
            let workers: Workers = workers.parse().unwrap();
            let state = builder.with_annulus_workers(workers, Connections::default()).build();
            DistributedConfig::from_config_options(state.config_options()).unwrap().compression.clone()
        };
        assert_eq!(compression("127.0.0.1:7500,localhost:7501", SessionConfig::new()), "none");
        assert_eq!(compression("127.0.0.1:7500,10.0.0.1:7500", SessionConfig::new()), "lz4");
        let mut zstd = DistributedConfig::default();
        zstd.compression = "zstd".to_owned();
        let config = SessionConfig::new().with_option_extension(zstd);
        assert_eq!(compression("127.0.0.1:7500", config), "zstd");
    }
}
