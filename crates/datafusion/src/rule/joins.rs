//! The choice of the joins that run on `annulus-join`.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, joins::HashJoinExec},
};

use super::{
    Rules,
    regions::{are_alike, keyed, reads_declared, satisfies},
};
use crate::{
    config::{AnnulusConfig, Joins},
    join::SharedHashJoinExec,
};

/// Replaces `HashJoinExec` by [`SharedHashJoinExec`], before DataFusion decides about repartitions:
/// ours needs none.
///
/// A join of tables that are partitioned alike by its keys stays: it has one partition in memory,
/// and ours the whole build side.
#[derive(Debug, Default)]
pub struct SharedJoins {
    defaults: AnnulusConfig,
}

impl SharedJoins {
    /// The rule's name in `EXPLAIN VERBOSE`.
    pub const NAME: &'static str = "SharedJoins";

    /// Creates a rule that uses `defaults` in sessions without `annulus.*` options.
    pub fn new(defaults: AnnulusConfig) -> Self {
        Self { defaults }
    }

    /// Inserts this rule into a list, before the rule that adds repartitions. A list without that
    /// rule, or with this one, stays unchanged.
    pub fn install(self, rules: &mut Rules) {
        if rules.iter().any(|rule| rule.name() == Self::NAME) {
            return;
        }
        if let Some(place) = rules.iter().position(|rule| rule.name() == "EnsureRequirements") {
            rules.insert(place, Arc::new(self));
        }
    }
}

impl PhysicalOptimizerRule for SharedJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let joins = super::joins(config, &self.defaults);
        if joins == Joins::Never {
            return Ok(plan);
        }
        let replace = |node: Arc<dyn ExecutionPlan>| {
            let Some(stock) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
            if SharedHashJoinExec::obstacle(stock).is_some() || joins_partitions(&node)? {
                return Ok(Transformed::no(node));
            }
            let ours: Arc<dyn ExecutionPlan> = Arc::new(SharedHashJoinExec::try_new(stock, joins.to_string())?);
            Ok(Transformed::yes(ours))
        };
        Ok(plan.transform_up(replace)?.data)
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns whether a join reads tables whose partitions match, so that it needs no exchange.
fn joins_partitions(join: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let (keyed, children) = (keyed(join), join.children());
    let inputs: Vec<_> = keyed.iter().map(|&child| children[child]).collect();
    if inputs.len() < 2 || !inputs.iter().all(|input| reads_declared(input)) || !are_alike(&inputs) {
        return Ok(false);
    }
    for (&child, input) in keyed.iter().zip(&inputs) {
        if !satisfies(join, child, input, false)? {
            return Ok(false);
        }
    }
    Ok(true)
}
