//! The choice of the joins that run on `annulus-join`.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    config::ConfigOptions,
    error::Result,
    physical_expr::LexOrdering,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties,
        joins::{HashJoinExec, PartitionMode},
    },
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
/// A join of tables that are partitioned alike by its keys stays until exchanges were inserted. It
/// then has a table for each partition, and only those of the partitions that run are in memory.
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

    /// Inserts this rule into a list, before the rule that adds repartitions, and its second step
    /// before dynamic filters are pushed down. A list without the former, or with this rule, stays
    /// unchanged.
    pub fn install(self, rules: &mut Rules) {
        if rules.iter().any(|rule| rule.name() == Self::NAME) {
            return;
        }
        if let Some(place) = rules.iter().position(|rule| rule.name() == "EnsureRequirements") {
            super::install(PartitionedJoins { defaults: self.defaults.clone() }, "FilterPushdown(Post)", rules);
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

/// Replaces each `HashJoinExec` that has a table for each partition by a [`SharedHashJoinExec`] of
/// that kind: one whose tables may be larger than memory.
#[derive(Debug)]
struct PartitionedJoins {
    defaults: AnnulusConfig,
}

impl PhysicalOptimizerRule for PartitionedJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let joins = super::joins(config, &self.defaults);
        if joins == Joins::Never {
            return Ok(plan);
        }
        let replace = |node: Arc<dyn ExecutionPlan>| {
            let stock = node.downcast_ref::<HashJoinExec>().filter(|stock| stock.mode == PartitionMode::Partitioned);
            let stock = stock.filter(|stock| SharedHashJoinExec::obstacle(stock).is_none());
            let ours = stock.map(|stock| SharedHashJoinExec::try_partitioned(stock, joins.to_string())).transpose()?;
            Ok(match ours.filter(|ours| has_orders_of(ours, &node)) {
                Some(ours) => Transformed::yes(Arc::new(ours) as _),
                None => Transformed::no(node),
            })
        };
        Ok(plan.transform_up(replace)?.data)
    }

    fn name(&self) -> &str {
        "PartitionedJoins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns whether `ours` has all orders that `stock` has. Operators above may rely on them.
fn has_orders_of(ours: &SharedHashJoinExec, stock: &Arc<dyn ExecutionPlan>) -> bool {
    let orders = stock.equivalence_properties().oeq_class();
    let has = |order: &LexOrdering| {
        ours.properties().equivalence_properties().ordering_satisfy(order.clone()).unwrap_or(false)
    };
    orders.iter().all(has)
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
