//! Joins that would collect a side of tables that are partitioned alike.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    error::Result,
    physical_plan::{
        ExecutionPlan,
        joins::{HashJoinExec, PartitionMode},
    },
};

use super::regions::{are_alike, reads_declared, satisfies};

/// Returns a plan whose hash joins collect no side if both sides are partitioned alike by the keys of the join. On
/// workers, a side that is collected is sent to all of them.
pub(super) fn partitioned(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let apart = |node: Arc<dyn ExecutionPlan>| {
        Ok(match joined_apart(&node)? {
            Some(join) => Transformed::yes(join),
            None => Transformed::no(node),
        })
    };
    Ok(plan.transform_up(apart)?.data)
}

/// Returns the join that joins partition by partition, if `node` is one that could.
fn joined_apart(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let join = node.downcast_ref::<HashJoinExec>();
    let Some(join) = join.filter(|join| *join.partition_mode() == PartitionMode::CollectLeft && !join.null_aware)
    else {
        return Ok(None);
    };
    let apart = join.builder().with_partition_mode(PartitionMode::Partitioned).build_exec()?;
    let sides = [join.left(), join.right()];
    for (place, side) in sides.into_iter().enumerate() {
        if !reads_declared(side) || !satisfies(&apart, place, side, false)? {
            return Ok(None);
        }
    }
    Ok(are_alike(&sides).then_some(apart))
}
