//! The rules for tables that are partitioned already.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::ExecutionPlan,
};

use super::{Rules, collected, in_turn, install, is_shipped, kept, unused};
use crate::table::is_declared;

/// A rule for plans with scans that declare the partitioning of a
/// [`DatasetTable`](crate::DatasetTable). Others stay as they are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PartitionedTables {
    /// Scans declare nothing if nothing uses it. On workers, joins on it collect no side. Runs before exchanges are
    /// inserted.
    Unused,
    /// Only one side of a join is exchanged. Runs after exchanges were inserted.
    KeptPartitions,
    /// Partitions run a few at a time. Runs when the plan is complete.
    InTurn,
}

impl PartitionedTables {
    /// Inserts the rules into a list, except for those that it has.
    pub(crate) fn install(rules: &mut Rules) {
        install(Self::Unused, "EnsureRequirements", rules);
        install(Self::KeptPartitions, "CombinePartialFinalAggregate", rules);
        install(Self::InTurn, "SanityCheckPlan", rules);
    }
}

impl PhysicalOptimizerRule for PartitionedTables {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let mut any = false;
        plan.apply(|node| {
            any = is_declared(node.as_ref());
            Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        match self {
            _ if !any => Ok(plan),
            Self::Unused if is_shipped(config) => {
                let plan = collected::partitioned(unused::without_ranges(plan, config)?)?;
                unused::optimize(plan, config)
            }
            Self::Unused => unused::optimize(plan, config),
            Self::KeptPartitions => kept::optimize(plan, config),
            Self::InTurn => in_turn::optimize(plan, config),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Unused => "UnusedPartitions",
            Self::KeptPartitions => "KeptPartitions",
            Self::InTurn => "PartitionsInTurn",
        }
    }

    fn schema_check(&self) -> bool {
        true
    }
}
