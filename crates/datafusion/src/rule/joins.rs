//! The choice of the joins that run on `annulus-join`.

use std::sync::Arc;

use datafusion::{
    common::{
        JoinType,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
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
    sizes::Sizes,
};
use crate::{
    config::{AnnulusConfig, Joins},
    join::SharedHashJoinExec,
};

/// The most rows of the build side of a right anti join that stays with DataFusion's operator. Its
/// table is as fast to make then, and it outputs rows in less time.
const FEW_ROWS: usize = 1 << 17;
/// The most bytes of these rows: DataFusion's operator does not spill.
const FEW_BYTES: usize = 4 << 20;

/// Replaces `HashJoinExec` by [`SharedHashJoinExec`], before DataFusion decides about repartitions:
/// ours needs none.
///
/// A join of tables that are partitioned alike by its keys stays until exchanges were inserted. It
/// then has a table for each partition, and only those of the partitions that run are in memory.
/// With `annulus.joins = auto`, an anti join that outputs rows of its probe side stays if its build
/// side is small.
///
/// DataFusion chooses the build side by rows or bytes that statistics tell. Where it knows neither,
/// as for CSV and JSON, the side with the smaller files becomes the build side.
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
        let mut sizes = Sizes::default();
        plan.visit(&mut sizes)?;
        let replace = |node: Arc<dyn ExecutionPlan>| {
            let Some(stock) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
            let size = sizes.found.pop_front().unwrap_or_default();
            if let Some(why) = why_stock(stock, joins == Joins::Auto && size.is_within(FEW_ROWS, FEW_BYTES)) {
                log::debug!("{}", stays(stock, why));
                return Ok(Transformed::no(node));
            }
            if joins_partitions(&node)? {
                // The second step replaces it.
                return Ok(Transformed::no(node));
            }
            if size.is_reversed() && config.optimizer.join_reordering && can_swap(stock) {
                return SharedHashJoinExec::swapped(stock, format!("{joins}: {}", size.reversed()))
                    .map(Transformed::yes);
            }
            let ours: Arc<dyn ExecutionPlan> =
                Arc::new(SharedHashJoinExec::try_new(stock, format!("{joins}: {size}"))?);
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
            let ours = stock
                .map(|stock| SharedHashJoinExec::try_partitioned(stock, format!("{joins}: partitioned alike")))
                .transpose()?;
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
pub(super) fn has_orders_of(ours: &SharedHashJoinExec, stock: &Arc<dyn ExecutionPlan>) -> bool {
    let orders = stock.equivalence_properties().oeq_class();
    let has = |order: &LexOrdering| {
        ours.properties().equivalence_properties().ordering_satisfy(order.clone()).unwrap_or(false)
    };
    orders.iter().all(has)
}

/// Returns why the hash joins in a finished plan stayed with DataFusion's operator, though
/// `annulus.joins` let them run on Annulus: a sentence for each.
///
/// # Errors
/// If DataFusion cannot walk the plan.
pub fn why_stock_joins(plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Vec<String>> {
    let mut all = Vec::new();
    if super::joins(config, &AnnulusConfig::default()) != Joins::Never {
        plan.apply(|node| {
            if let Some(join) = node.downcast_ref::<HashJoinExec>() {
                // A large one without another reason has been replaced.
                let why = why_stock(join, true).unwrap_or("its output has an order that Annulus does not keep");
                all.push(stays(join, why));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(all)
}

/// Returns why a hash join is not replaced, if it cannot be, or has a small build side and should
/// not be.
fn why_stock(join: &HashJoinExec, is_small: bool) -> Option<&'static str> {
    let few =
        (is_small && is_collected_anti(join)).then_some("an anti join with few rows on its build side is faster so");
    SharedHashJoinExec::obstacle(join).or(few)
}

/// Returns whether the sides of a join can be swapped.
fn can_swap(join: &HashJoinExec) -> bool {
    join.join_type().supports_swap() && !join.null_aware
}

/// Returns the sentence about a hash join that stays.
fn stays(join: &HashJoinExec, why: &str) -> String {
    let on: Vec<_> = join.on().iter().map(|(left, right)| format!("({left}, {right})")).collect();
    format!("the {:?} join on [{}] stays with DataFusion's HashJoinExec: {why}", join.join_type(), on.join(", "))
}

/// Returns whether a join outputs the probe side's rows without a partner, and has one table for all
/// of its partitions: then neither operator repartitions or drops rows early.
fn is_collected_anti(join: &HashJoinExec) -> bool {
    *join.join_type() == JoinType::RightAnti && *join.partition_mode() == PartitionMode::CollectLeft
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
