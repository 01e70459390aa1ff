//! Lets joins around a ring, joins with the nearest rows, resident tables and datasets have several tasks.

use std::sync::Arc;

use annulus_datafusion::{NearestJoinExec, config::PlacementMode};
use datafusion::{
    arrow::datatypes::DataType,
    catalog::memory::DataSourceExec,
    common::{
        JoinType,
        tree_node::{Transformed, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    physical_expr::{Partitioning, PhysicalExpr, expressions::Column},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
        aggregates::AggregateExec,
        coalesce_partitions::CoalescePartitionsExec,
        joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode},
        repartition::RepartitionExec,
        sorts::sort_preserving_merge::SortPreservingMergeExec,
        union::UnionExec,
    },
};
use datafusion_distributed::{BroadcastExec, DistributedConfig};

use crate::{
    cyclo::{CycloJoinExec, RingJoinOptions, size_of},
    resident::{KeepExec, ResidentScanExec},
    results::WriteExec,
    stage::is_whole,
};

/// Repartitions inputs of joins around a ring that have all of their rows in one task, since the join would run
/// in that task alone. It sends the right side of joins with the nearest rows to all tasks, or gathers both sides
/// in one task if that is too large. It repartitions the inputs of resident tables, however few rows they have, and
/// lets each task write its own part of a dataset.
#[derive(Debug)]
pub(crate) struct LiftInputs;

impl LiftInputs {
    const NAME: &'static str = "LiftInputs";

    /// Inserts this rule at the end of a list that does not have it, but before the plan is checked.
    pub(crate) fn install(self, rules: &mut Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>) {
        if rules.iter().all(|rule| rule.name() != Self::NAME) {
            let check = rules.iter().rposition(|rule| rule.name() == "SanityCheckPlan");
            rules.insert(check.unwrap_or(rules.len()), Arc::new(self));
        }
    }
}

const RECOMPUTE: ReplaceChildrenOptions = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);

impl LiftInputs {
    /// Returns an operator with inputs of several tasks, if it is one that should have them.
    fn lifted(
        node: &Arc<dyn ExecutionPlan>,
        partitions: usize,
        broadcasts: bool,
        broadcast_limit: usize,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let replace = |inputs| Arc::clone(node).replace_children(inputs, RECOMPUTE);
        let inputs = node.children().into_iter();
        if let Some(keep) = node.downcast_ref::<KeepExec>() {
            let inputs = inputs.map(|input| spread(input, keep.keys(), partitions)).collect::<Result<_>>()?;
            return replace(inputs).map(Some);
        }
        if let Some(write) = node.downcast_ref::<WriteExec>() {
            if write.gathers() {
                return replace(inputs.map(|input| gathered(Arc::clone(input))).collect()).map(Some);
            }
            // Each task writes its own rows.
            let apart = inputs.map(|input| {
                let all = input.downcast_ref::<CoalescePartitionsExec>().filter(|all| all.fetch().is_none());
                Arc::clone(all.map_or(input, CoalescePartitionsExec::input))
            });
            return Ok(Some(Arc::new(CoalescePartitionsExec::new(replace(apart.collect())?))));
        }
        if node.is::<NearestJoinExec>() {
            let inputs: Vec<_> = inputs.cloned().collect();
            let is_small =
                |side: &Arc<dyn ExecutionPlan>| size_of(side).is_some_and(|size| size.bytes <= broadcast_limit as f64);
            return match <[_; 2]>::try_from(inputs) {
                Ok([left, right]) if broadcasts && is_small(&right) => {
                    // The engine sets the number of tasks.
                    replace(vec![left, Arc::new(BroadcastExec::new(right, 1))]).map(Some)
                }
                Ok(inputs) => replace(inputs.map(gathered).into()).map(Some),
                Err(_) => Ok(None),
            };
        }
        if !node.is::<CycloJoinExec>() {
            return Ok(None);
        }
        let has_one = node.output_partitioning().partition_count() == 1;
        let lifted = replace(inputs.map(|input| lift(input, partitions, broadcasts)).collect::<Result<_>>()?)?;
        // Operators above rely on one partition.
        Ok(Some(if has_one { gathered(lifted) } else { lifted }))
    }
}

impl PhysicalOptimizerRule for LiftInputs {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if PlacementMode::from_options(config) == PlacementMode::InProcess {
            return Ok(plan);
        }
        let broadcasts = DistributedConfig::from_config_options(config)?.broadcast_joins;
        let partitions = config.execution.target_partitions;
        let RingJoinOptions { broadcast_limit, .. } = config.extensions.get().copied().unwrap_or_default();
        let lifted = plan.transform_up(|node| match Self::lifted(&node, partitions, broadcasts, broadcast_limit)? {
            Some(lifted) => Ok(Transformed::yes(lifted)),
            None => Ok(Transformed::no(node)),
        })?;
        // With a limit it would leave the ring when it has enough groups. Those of other tasks may be others,
        // and have to be found.
        let whole = lifted.data.transform_up(|node| {
            let limited = node.downcast_ref::<AggregateExec>().filter(|aggregate| aggregate.limit_options().is_some());
            Ok(match limited {
                Some(limited) if reads_ring(&node) => {
                    Transformed::yes(Arc::new(limited.with_new_limit_options(None)) as _)
                }
                _ => Transformed::no(node),
            })
        })?;
        Ok(whole.data)
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the input in one partition.
fn gathered(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let has_one = input.output_partitioning().partition_count() == 1;
    if has_one { input } else { Arc::new(CoalescePartitionsExec::new(input)) }
}

/// Returns whether a join around a ring is in the same stage as `plan`, below it.
fn reads_ring(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_boundary = plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.downcast_ref::<RepartitionExec>().is_some_and(is_by_hash);
    !is_boundary && (plan.is::<CycloJoinExec>() || plan.children().into_iter().any(reads_ring))
}

fn is_by_hash(repartition: &RepartitionExec) -> bool {
    matches!(repartition.partitioning(), Partitioning::Hash(..))
}

/// Returns the input, with its rows spread by hash if it would have one task.
fn lift(input: &Arc<dyn ExecutionPlan>, partitions: usize, broadcasts: bool) -> Result<Arc<dyn ExecutionPlan>> {
    if !has_one_task(input, broadcasts) {
        return Ok(Arc::clone(input));
    }
    let schema = input.schema();
    let columns = schema.fields().iter().enumerate().filter(|(_, field)| can_be_hashed(field.data_type()));
    let keys: Vec<Arc<dyn PhysicalExpr>> =
        columns.map(|(index, field)| Arc::new(Column::new(field.name(), index)) as _).collect();
    if keys.is_empty() { Ok(Arc::clone(input)) } else { spread(input, keys, partitions) }
}

/// Returns the input with its rows spread by the hash of keys, unless they are spread by hash already.
fn spread(
    input: &Arc<dyn ExecutionPlan>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    partitions: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    let input = match input.downcast_ref::<RepartitionExec>() {
        Some(repartition) if is_by_hash(repartition) => return Ok(Arc::clone(input)),
        Some(repartition) => repartition.input(),
        None => input,
    };
    let by_hash = Partitioning::Hash(keys, partitions.max(2));
    Ok(Arc::new(RepartitionExec::try_new(Arc::clone(input), by_hash)?))
}

fn can_be_hashed(data_type: &DataType) -> bool {
    data_type.is_primitive()
        || matches!(data_type, DataType::Boolean | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Returns whether the engine runs what is below the next boundary of stages in one task
/// (`inject_network_boundaries.rs` of datafusion-distributed).
fn has_one_task(plan: &Arc<dyn ExecutionPlan>, broadcasts: bool) -> bool {
    if plan.downcast_ref::<RepartitionExec>().is_some_and(is_by_hash) {
        return false;
    }
    if plan.is::<CoalescePartitionsExec>() || plan.is::<SortPreservingMergeExec>() {
        return true;
    }
    // What is sent to all tasks is a stage of its own.
    let is_sent = plan.is::<BroadcastExec>();
    if is_sent || plan.is::<CycloJoinExec>() || plan.is::<UnionExec>() || plan.is::<ResidentScanExec>() {
        return false;
    }
    let children = plan.children();
    if children.is_empty() {
        return plan.downcast_ref::<DataSourceExec>().is_none_or(|scan| is_whole(scan) != Some(false));
    }
    let sends_left = match (plan.downcast_ref::<HashJoinExec>(), plan.downcast_ref::<NestedLoopJoinExec>()) {
        (Some(join), _) if *join.partition_mode() == PartitionMode::CollectLeft => Some(!join.null_aware),
        (_, Some(join)) => Some(*join.join_type() != JoinType::Full),
        _ => plan.is::<CrossJoinExec>().then_some(true),
    };
    match (sends_left, &children[..]) {
        (Some(can_send), [_, right]) => !(can_send && broadcasts) || has_one_task(right, broadcasts),
        _ => children.into_iter().any(|child| has_one_task(child, broadcasts)),
    }
}
