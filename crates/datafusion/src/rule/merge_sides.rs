//! The rule that gives merge joins whole sides.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode},
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions, execution_plan::CardinalityEffect,
        joins::SortMergeJoinExec, sorts::sort::SortExec,
    },
};

use super::{Rules, install};

/// Removes limits from the sorts below merge joins. DataFusion 55.2 copies the limit of a sort above the join to
/// them if the join keeps its order, so that rows with partners beyond the first ones are lost.
///
/// Such a sort keeps its partitions apart, and nothing between it and the join limits all of them together, as
/// it is for a limit of the query.
#[derive(Debug)]
pub(crate) struct WholeMergeSides;

/// The rule that follows the one that copies the limits.
const NEXT: &str = "CombinePartialFinalAggregate";

impl WholeMergeSides {
    /// Adds the rule to those of a session, unless it is there.
    pub(crate) fn install(self, rules: &mut Rules) {
        install(self, NEXT, rules);
    }
}

impl PhysicalOptimizerRule for WholeMergeSides {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replace = |node: Arc<dyn ExecutionPlan>| {
            if !node.is::<SortMergeJoinExec>() {
                return Ok(Transformed::no(node));
            }
            let sides = node.children().into_iter().map(|side| whole(Arc::clone(side)));
            Ok(Transformed::yes(with_children(node.clone(), sides.collect::<Result<_>>()?)?))
        };
        plan.transform_up(replace).data()
    }

    fn name(&self) -> &str {
        "annulus_whole_merge_sides"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns a side without limits of its partitions.
fn whole(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let is_copied = plan.downcast_ref::<SortExec>().is_some_and(SortExec::preserve_partitioning);
    let keeps_all = plan.fetch().is_none() && matches!(plan.cardinality_effect(), CardinalityEffect::Equal);
    if !is_copied && !keeps_all {
        return Ok(plan);
    }
    let [input] = plan.children()[..] else { return Ok(plan) };
    let input = whole(Arc::clone(input))?;
    let unlimited = if plan.fetch().is_some() { plan.with_fetch(None).unwrap_or(plan) } else { plan };
    with_children(unlimited, vec![input])
}

fn with_children(
    plan: Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    plan.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}
