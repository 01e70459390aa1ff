//! The choice of the joins whose build side is sent to all workers, so that their probe side stays where it is read.

use std::{fmt, sync::Arc};

use annulus_datafusion::{AnnulusConfig, Joins, config::PlacementMode};
use annulus_join::Sides;
use datafusion::{
    common::{
        JoinType,
        tree_node::{Transformed, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        joins::{HashJoinExec, PartitionMode},
    },
};
use datafusion_distributed::{DistributedConfig, WorkerResolver};

use crate::cyclo::{RingJoinOptions, prefers_broadcast, size_of};

type Rules = Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>;

/// Lets hash joins collect a build side that is small beside their probe side. datafusion-distributed sends it to all
/// workers, where the keys that it has drop rows of the probe side while they are read.
///
/// DataFusion collects build sides of a fixed size at most
/// (`datafusion.optimizer.hash_join_single_partition_threshold`). Between processes, rows that are repartitioned are
/// also encoded, sent and decoded, so more build sides are worth it. A threshold of 0 keeps both sides repartitioned.
///
/// It runs after the sides have been chosen, and before repartitions are added for joins and the operators above them.
pub(super) struct ChooseBroadcasts {
    pub(super) workers: Arc<dyn WorkerResolver>,
}

impl fmt::Debug for ChooseBroadcasts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAME)
    }
}

impl ChooseBroadcasts {
    pub(super) const NAME: &'static str = "ChooseBroadcasts";

    /// Inserts this rule into a list that does not have it, after the choice of joins around a ring.
    pub(super) fn install(self, rules: &mut Rules) {
        if rules.iter().all(|rule| rule.name() != Self::NAME) {
            let selection = rules.iter().rposition(|rule| matches!(rule.name(), "join_selection" | "ChooseCycloJoins"));
            rules.insert(selection.map_or(0, |place| place + 1), Arc::new(self));
        }
    }
}

impl PhysicalOptimizerRule for ChooseBroadcasts {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if is_off(config)? || PlacementMode::from_options(config) == PlacementMode::InProcess {
            return Ok(plan);
        }
        let workers = self.workers.get_urls()?.len();
        let limit = config.extensions.get::<RingJoinOptions>().copied().unwrap_or_default().broadcast_limit;
        let choose = |node: Arc<dyn ExecutionPlan>| {
            let join = node.downcast_ref::<HashJoinExec>().filter(|join| is_safe(join));
            let sizes = join.and_then(|join| size_of(join.left()).zip(size_of(join.right())));
            match (join, sizes) {
                (Some(join), Some((left, right))) if prefers_broadcast(Sides { left, right }, workers, limit) => {
                    let collecting = join.builder().with_partition_mode(PartitionMode::CollectLeft);
                    Ok(Transformed::yes(Arc::new(collecting.recompute_properties().build()?) as _))
                }
                _ => Ok(Transformed::no(node)),
            }
        };
        Ok(plan.transform_up(choose)?.data)
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns whether no side of a join is sent to all workers because of its size.
///
/// # Errors
/// If the session has no options of the engine.
pub(super) fn is_off(config: &ConfigOptions) -> Result<bool> {
    let joins = config.extensions.get::<AnnulusConfig>().map_or(Joins::Auto, |options| options.joins);
    Ok(config.optimizer.hash_join_single_partition_threshold == 0
        || joins == Joins::Never
        || !DistributedConfig::from_config_options(config)?.broadcast_joins)
}

/// Returns whether a join that repartitions both sides has the same rows if each task has all rows of the left side and
/// a part of the right one: each row that it outputs is one of a row of the right side.
fn is_safe(join: &HashJoinExec) -> bool {
    use JoinType::{Inner, Right, RightAnti, RightMark, RightSemi};
    let is_of_right = matches!(join.join_type(), Inner | Right | RightSemi | RightAnti | RightMark);
    is_of_right && !join.null_aware && *join.partition_mode() == PartitionMode::Partitioned
}
