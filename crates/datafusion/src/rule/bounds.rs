//! The rules that keep DataFusion from believing bounds that prove nothing.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::ExecutionPlan,
};

use super::Rules;
use crate::bounds::{forget_unproved, guard_pruning};

/// Lets scans of Parquet files claim, and prune by, only what their statistics prove. See
/// [`bounds`](crate::bounds).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SoundBounds {
    /// The statistics of plans. Runs before all rules that believe them.
    Statistics,
    /// What prunes open files. Runs when all predicates have reached their scans.
    Pruning,
}

impl SoundBounds {
    /// Inserts both steps at the ends of a list that does not have them.
    pub(crate) fn install(rules: &mut Rules) {
        if !rules.iter().any(|rule| rule.name() == Self::Statistics.name()) {
            rules.insert(0, Arc::new(Self::Statistics));
            rules.push(Arc::new(Self::Pruning));
        }
    }
}

impl PhysicalOptimizerRule for SoundBounds {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let change = |node: Arc<dyn ExecutionPlan>| {
            let changed = match self {
                Self::Statistics => forget_unproved(node.as_ref()),
                Self::Pruning => guard_pruning(node.as_ref()),
            };
            Ok(changed.map_or_else(|| Transformed::no(node), Transformed::yes))
        };
        Ok(plan.transform_up(change)?.data)
    }

    fn name(&self) -> &str {
        match self {
            Self::Statistics => "SoundStatistics",
            Self::Pruning => "SoundPruning",
        }
    }

    fn schema_check(&self) -> bool {
        true
    }
}
