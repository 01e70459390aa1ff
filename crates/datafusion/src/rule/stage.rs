//! The stages of a distributed query, which a coordinator has planned with DataFusion's operators.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        joins::{HashJoinExec, PartitionMode},
    },
};

use super::{
    BandJoin, EncodedScans, FastDecimals, FirstRows, RingRepartition, RunAggregates, SoundBounds, joins::has_orders_of,
};
use crate::{
    config::{AnnulusConfig, Joins},
    join::SharedHashJoinExec,
};

/// Returns the plan of a stage with the operators of Annulus in the place of DataFusion's, for the
/// process that executes it.
///
/// Operators are replaced one for one, and the last one keeps its partitions and its order: other
/// processes read them, and match the metrics of the stage with the operators that they sent. So
/// joins keep the repartitions below them. A plan that was replaced already stays as it is.
///
/// # Errors
/// If DataFusion cannot walk the plan.
pub fn replace_in_stage(plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let defaults = AnnulusConfig::default();
    let options = config.extensions.get::<AnnulusConfig>().unwrap_or(&defaults);
    let mut plan = plan;
    if options.joins != Joins::Never {
        plan = in_shape(plan, |plan| BandJoin::replace(plan, options, options.joins))?;
        plan = plan.transform_up(|node| hash_join(node, options.joins))?.data;
    }
    plan = in_shape(plan, |plan| RunAggregates::default().optimize(plan, config))?;
    plan = in_shape(plan, |plan| FirstRows.optimize(plan, config))?;
    let plan = RingRepartition::default().optimize(plan, config)?;
    // Scans arrive without what guards them.
    let plan = SoundBounds::Pruning.optimize(SoundBounds::Statistics.optimize(plan, config)?, config)?;
    let plan = in_shape(plan, |plan| EncodedScans::in_stage(plan, options))?;
    in_shape(plan, |plan| FastDecimals.optimize(plan, config))
}

/// Replaces `node` if it is a hash join that ours can run with the same orders.
fn hash_join(node: Arc<dyn ExecutionPlan>, joins: Joins) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let stock = node.downcast_ref::<HashJoinExec>().filter(|stock| SharedHashJoinExec::obstacle(stock).is_none());
    let Some(stock) = stock else { return Ok(Transformed::no(node)) };
    let why = format!("{joins}: in a stage");
    let ours = match stock.partition_mode() {
        PartitionMode::Partitioned => SharedHashJoinExec::try_partitioned(stock, why)?,
        PartitionMode::CollectLeft => SharedHashJoinExec::try_new(stock, why)?,
        PartitionMode::Auto => return Ok(Transformed::no(node)),
    };
    // In the same mode, it has the same partitions.
    Ok(if has_orders_of(&ours, &node) { Transformed::yes(Arc::new(ours)) } else { Transformed::no(node) })
}

/// Returns the changed plan if each operator has as many inputs as before, else `plan`.
fn in_shape(
    plan: Arc<dyn ExecutionPlan>,
    change: impl FnOnce(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = change(Arc::clone(&plan))?;
    Ok(if has_shape_of(&changed, &plan) { changed } else { plan })
}

fn has_shape_of(one: &Arc<dyn ExecutionPlan>, other: &Arc<dyn ExecutionPlan>) -> bool {
    let (one, other) = (one.children(), other.children());
    one.len() == other.len() && one.into_iter().zip(other).all(|(one, other)| has_shape_of(one, other))
}
