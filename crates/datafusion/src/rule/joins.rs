//! The choice of the joins that run on `annulus-join`.

use std::{collections::VecDeque, sync::Arc};

use datafusion::{
    common::{
        JoinType, Statistics,
        stats::Precision,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion, TreeNodeVisitor},
    },
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, StatisticsArgs,
        joins::{HashJoinExec, PartitionMode},
        statistics::StatisticsContext,
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

/// The most rows of the build side of a right anti join that stays with DataFusion's operator. Its
/// table is as fast to make then, and it outputs rows in less time.
const FEW_ROWS: usize = 1 << 17;

/// Replaces `HashJoinExec` by [`SharedHashJoinExec`], before DataFusion decides about repartitions:
/// ours needs none.
///
/// A join of tables that are partitioned alike by its keys stays: it has one partition in memory,
/// and ours the whole build side. With `annulus.joins = auto`, an anti join that outputs rows of its
/// probe side stays if its build side is small.
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
        let mut sizes = Sizes::default();
        plan.visit(&mut sizes)?;
        let replace = |node: Arc<dyn ExecutionPlan>| {
            let Some(stock) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
            let Size { text: size, is_small } = sizes.found.pop_front().unwrap_or_default();
            if let Some(why) = why_stock(&node, joins == Joins::Auto && is_small)? {
                log::debug!("{why}");
                return Ok(Transformed::no(node));
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

/// The sizes of the inputs of each hash join, in the order in which a plan is transformed from
/// below.
#[derive(Default)]
struct Sizes {
    /// Goes by the addresses of nodes, so it is for one plan only.
    statistics: StatisticsContext,
    found: VecDeque<Size>,
}

/// The sizes of the inputs of a join.
#[derive(Default)]
struct Size {
    text: String,
    /// Whether the build side surely has few rows.
    is_small: bool,
}

impl TreeNodeVisitor<'_> for Sizes {
    type Node = Arc<dyn ExecutionPlan>;

    fn f_up(&mut self, node: &Arc<dyn ExecutionPlan>) -> Result<TreeNodeRecursion> {
        if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            let (build, probe) = (self.of(join.left()), self.of(join.right()));
            let width = width(&build, join.left()).map_or_else(String::new, |bytes| format!(" of {bytes} B"));
            let text = format!("{}{width} by {}", rows(&build), rows(&probe));
            let is_small = matches!(build.num_rows, Precision::Exact(rows) if rows <= FEW_ROWS);
            self.found.push_back(Size { text, is_small });
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

impl Sizes {
    /// Returns what is known of an input. Statistics that cannot be computed are no reason to fail.
    fn of(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<Statistics> {
        let found = self.statistics.compute(input.as_ref(), &StatisticsArgs::new());
        found.unwrap_or_else(|_| Arc::new(Statistics::new_unknown(&input.schema())))
    }
}

/// Returns the number of rows as a text: `~` stands before an estimate.
fn rows(input: &Statistics) -> String {
    match input.num_rows {
        Precision::Exact(rows) => format!("{rows} rows"),
        Precision::Inexact(rows) => format!("~{rows} rows"),
        Precision::Absent => "unknown rows".to_owned(),
    }
}

/// Returns the bytes of a row, if they are known.
fn width(input: &Statistics, plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let fixed: Option<usize> = plan.schema().fields().iter().map(|field| field.data_type().primitive_width()).sum();
    fixed.or_else(|| {
        let (rows, bytes) = (input.num_rows.get_value()?, input.total_byte_size.get_value()?);
        bytes.checked_div(*rows)
    })
}

/// Returns why the hash joins in a finished plan stayed with DataFusion's operator, though
/// `annulus.joins` let them run on Annulus: a sentence for each.
///
/// # Errors
/// If DataFusion cannot compare the partitions of a join's inputs.
pub fn why_stock_joins(plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Vec<String>> {
    let mut all = Vec::new();
    if super::joins(config, &AnnulusConfig::default()) != Joins::Never {
        plan.apply(|node| {
            // A large one without another reason has been replaced.
            all.extend(why_stock(node, true)?);
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(all)
}

/// Returns why a node stays as it is, if it is a hash join that cannot be replaced, or has a small
/// build side and should not be.
fn why_stock(node: &Arc<dyn ExecutionPlan>, is_small: bool) -> Result<Option<String>> {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    let why = match SharedHashJoinExec::obstacle(join) {
        Some(obstacle) => obstacle,
        None if joins_partitions(node)? => "the partitions of its tables match",
        None if is_small && is_collected_anti(join) => "an anti join with few rows on its build side is faster so",
        None => return Ok(None),
    };
    let on: Vec<_> = join.on().iter().map(|(left, right)| format!("({left}, {right})")).collect();
    Ok(Some(format!(
        "the {:?} join on [{}] stays with DataFusion's HashJoinExec: {why}",
        join.join_type(),
        on.join(", ")
    )))
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
