//! Semi-joins of scans with the keys that their rows must have further up, beyond an exchange.
//!
//! The keys of a join drop rows of the other side while it is scanned, but only in the stage of the join. If a
//! grouping or an exchange is between, all rows of the scan are grouped or sent first. Here, the scan gets a semi-join
//! with a small scan that has all keys which have partners, and that all workers receive:
//!
//! ```text
//! join on a.k = b.k                           join on a.k = b.k
//!   join on a.k = p.k                           join on a.k = p.k
//!     p, filtered                  becomes        p, filtered
//!     a                                           a
//!   group by b.k                                group by b.k
//!     b                                           semi-join on p.k = b.k
//!                                                   p, filtered
//!                                                   b
//! ```
//!
//! The small scan is read once more. Semi-joins as a means of sending fewer rows are those of Bernstein and Chiu,
//! "Using Semi-Joins to Solve Relational Queries" (Journal of the ACM, 1981).

use std::{fmt, sync::Arc};

use annulus_datafusion::config::PlacementMode;
use annulus_join::{Side, Sides};
use datafusion::{
    catalog::memory::DataSourceExec,
    common::{
        JoinType, NullEquality,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    physical_expr::{PhysicalExpr, expressions::Column, projection::ProjectionExpr},
    physical_expr_common::physical_expr::is_volatile,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions,
        aggregates::AggregateExec,
        coop::CooperativeExec,
        filter::FilterExec,
        joins::{HashJoinExec, PartitionMode},
        projection::ProjectionExec,
    },
};
use datafusion_distributed::WorkerResolver;

use super::broadcast::is_off;
use crate::cyclo::{BUILD_ROW, SideSize, size_of};

type Rules = Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>;

/// Nanoseconds that a row costs between its scan and a join beyond an exchange, and to be scanned and filtered.
const PASSED_ROW: f64 = 40.0;
const SCANNED_ROW: f64 = 10.0;
/// The least ratio of what a semi-join saves to what it costs. The selectivity of most filters is a guess.
const LEAST_GAIN: f64 = 4.0;

/// Adds semi-joins to scans. It runs after the choice of the joins that collect a side, and before repartitions are
/// added.
pub(super) struct SemiJoinReduction {
    pub(super) workers: Arc<dyn WorkerResolver>,
}

impl fmt::Debug for SemiJoinReduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAME)
    }
}

impl SemiJoinReduction {
    const NAME: &'static str = "SemiJoinReduction";

    /// Inserts this rule into a list that does not have it, after the one that is named `after`.
    pub(super) fn install(self, after: &str, rules: &mut Rules) {
        if rules.iter().all(|rule| rule.name() != Self::NAME) {
            let place = rules.iter().rposition(|rule| rule.name() == after);
            rules.insert(place.map_or(0, |place| place + 1), Arc::new(self));
        }
    }
}

impl PhysicalOptimizerRule for SemiJoinReduction {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if is_off(config)? || PlacementMode::from_options(config) == PlacementMode::InProcess {
            return Ok(plan);
        }
        let workers = self.workers.get_urls()?.len();
        let reduce = |node: Arc<dyn ExecutionPlan>| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
            Ok(reduced(join, workers)?.map_or_else(|| Transformed::no(Arc::clone(&node)), Transformed::yes))
        };
        plan.transform_up(reduce).data()
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A column of a plan.
#[derive(Clone)]
struct PlanColumn {
    plan: Arc<dyn ExecutionPlan>,
    column: usize,
}

/// A scan that has all keys with partners.
struct KeySource {
    keys: PlanColumn,
    /// Its estimated rows, and those before its filters.
    rows: f64,
    scanned_rows: f64,
    workers: usize,
}

/// Returns a join with a semi-join below one of its sides, if that is worth it.
fn reduced(join: &HashJoinExec, workers: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    // Missing keys that are equal might come from outer joins below.
    if join.null_aware || join.null_equality() != NullEquality::NullEqualsNothing {
        return Ok(None);
    }
    let inputs = Sides { left: join.left(), right: join.right() };
    for (left, right) in join.on() {
        let (Some(left), Some(right)) = (column_of(left), column_of(right)) else { continue };
        let keys = Sides { left, right };
        for side in [Side::Right, Side::Left].into_iter().filter(|side| drops_unmatched(*join.join_type(), *side)) {
            let other = PlanColumn { plan: Arc::clone(inputs[side.other()]), column: keys[side.other()] };
            let Some(source) = KeySource::find(&other, workers) else { continue };
            let is_sent = *join.partition_mode() == PartitionMode::Partitioned || side == Side::Left;
            let target = PlanColumn { plan: Arc::clone(inputs[side]), column: keys[side] };
            if let Some(target) = source.reduce(&target, is_sent)? {
                let children = match side {
                    Side::Left => vec![target, Arc::clone(inputs.right)],
                    Side::Right => vec![Arc::clone(inputs.left), target],
                };
                return join.builder().with_new_children(children)?.build_exec().map(Some);
            }
        }
    }
    Ok(None)
}

/// Returns whether rows of a side that have no partner do not reach the output, and change nothing of it.
fn drops_unmatched(join: JoinType, side: Side) -> bool {
    use JoinType::*;
    match side {
        Side::Left => matches!(join, Inner | Right | LeftSemi | RightSemi | RightAnti | RightMark),
        Side::Right => matches!(join, Inner | Left | RightSemi | LeftSemi | LeftAnti | LeftMark),
    }
}

/// Returns whether all rows of a side that reach the output have a partner.
fn are_matched(join: JoinType, side: Side) -> bool {
    match side {
        Side::Left => matches!(join, JoinType::Inner | JoinType::LeftSemi),
        Side::Right => matches!(join, JoinType::Inner | JoinType::RightSemi),
    }
}

/// Returns whether rows of a side with certain keys can be dropped before the join instead of after it.
fn is_preserved(join: JoinType, side: Side) -> bool {
    use JoinType::*;
    match side {
        Side::Left => matches!(join, Inner | Left | LeftSemi | LeftAnti | LeftMark),
        Side::Right => matches!(join, Inner | Right | RightSemi | RightAnti | RightMark),
    }
}

impl KeySource {
    /// Returns the smallest filtered scan with all values of a key.
    fn find(key: &PlanColumn, workers: usize) -> Option<Self> {
        let mut scans = Vec::new();
        add_sources(key, &mut scans);
        let sized = scans.into_iter().filter(|keys| is_repeatable(&keys.plan)).filter_map(|keys| {
            let (rows, scanned) = (size_of(&keys.plan)?.rows, size_of(scan_of(&keys.plan)?)?.rows);
            Some(Self { keys, rows, scanned_rows: scanned, workers })
        });
        sized.filter(|source| source.rows < source.scanned_rows).min_by(|a, b| a.rows.total_cmp(&b.rows))
    }

    /// Returns a plan whose scan of a column is semi-joined with the keys; `None` if that pays for no
    /// scan. The rows of a plan that `is_sent` are exchanged before the join above.
    fn reduce(&self, target: &PlanColumn, is_sent: bool) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let plan = &target.plan;
        if scan_of(plan).is_some() {
            return if is_sent && self.pays(plan) { self.semi_join(target).map(Some) } else { Ok(None) };
        }
        // With fewer rows, a limit would let others through.
        let Some((child, column)) = input_of(target).filter(|_| plan.fetch().is_none()) else { return Ok(None) };
        let join = plan.downcast_ref::<HashJoinExec>();
        let side = if child == 0 { Side::Left } else { Side::Right };
        if join.is_some_and(|join| !is_preserved(*join.join_type(), side) || is_semi_join_of_scan(join)) {
            return Ok(None);
        }
        let is_sent_to = |join: &HashJoinExec| *join.partition_mode() == PartitionMode::Partitioned || child == 0;
        let is_sent = is_sent || plan.is::<AggregateExec>() || join.is_some_and(is_sent_to);
        let mut children: Vec<_> = plan.children().into_iter().cloned().collect();
        let below = PlanColumn { plan: Arc::clone(&children[child]), column };
        let Some(reduced) = self.reduce(&below, is_sent)? else { return Ok(None) };
        children[child] = reduced;
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Arc::clone(plan).replace_children(children, options).map(Some)
    }

    /// Returns whether a semi-join of `scan` is expected to save more than it costs.
    fn pays(&self, scan: &Arc<dyn ExecutionPlan>) -> bool {
        let Some(SideSize { rows, .. }) = size_of(scan) else { return false };
        let workers = self.workers as f64;
        let saved = rows * (1.0 - self.rows / self.scanned_rows) * PASSED_ROW / workers;
        // Each key has several rows: the scans are those of a table and of one that refers to it.
        rows >= 2.0 * self.scanned_rows
            && saved >= LEAST_GAIN * (self.rows * BUILD_ROW + self.scanned_rows * SCANNED_ROW / workers)
    }

    fn semi_join(&self, target: &PlanColumn) -> Result<Arc<dyn ExecutionPlan>> {
        let column = |plan: &Arc<dyn ExecutionPlan>, column: usize| -> Arc<dyn PhysicalExpr> {
            Arc::new(Column::new(plan.schema().field(column).name(), column))
        };
        let PlanColumn { plan, column: key } = &self.keys;
        let name = plan.schema().field(*key).name().clone();
        let keys = ProjectionExec::try_new(vec![ProjectionExpr::new(column(plan, *key), name)], Arc::clone(plan))?;
        let keys: Arc<dyn ExecutionPlan> = Arc::new(keys);
        let on = vec![(column(&keys, 0), column(&target.plan, target.column))];
        let join = HashJoinExec::try_new(
            keys,
            Arc::clone(&target.plan),
            on,
            None,
            &JoinType::RightSemi,
            None,
            PartitionMode::CollectLeft,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        Ok(Arc::new(join))
    }
}

/// Adds the filtered scans that have all values of a column.
fn add_sources(key: &PlanColumn, into: &mut Vec<PlanColumn>) {
    if scan_of(&key.plan).is_some() {
        into.push(key.clone());
        return;
    }
    let Some((child, column)) = input_of(key) else { return };
    let children = key.plan.children();
    add_sources(&PlanColumn { plan: Arc::clone(children[child]), column }, into);
    let Some(join) = key.plan.downcast_ref::<HashJoinExec>() else { return };
    let side = if child == 0 { Side::Left } else { Side::Right };
    if !are_matched(*join.join_type(), side) {
        return;
    }
    for (left, right) in join.on() {
        let (Some(left), Some(right)) = (column_of(left), column_of(right)) else { continue };
        let keys = Sides { left, right };
        if keys[side] == column {
            let plan = Arc::clone(children[1 - child]);
            add_sources(&PlanColumn { plan, column: keys[side.other()] }, into);
        }
    }
}

/// Returns the child of a plan, and its column, from which a column comes unchanged.
fn input_of(column: &PlanColumn) -> Option<(usize, usize)> {
    let PlanColumn { plan, column } = column;
    let projected = |projection: Option<&[usize]>| projection.map_or(Some(*column), |all| all.get(*column).copied());
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return Some((0, column_of(&projection.expr().get(*column)?.expr)?));
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return Some((0, projected(filter.projection().as_deref())?));
    }
    if let Some(grouping) = plan.downcast_ref::<AggregateExec>() {
        let keys = grouping.group_expr();
        // Several sets have rows in which a key is missing.
        return match keys.is_single() {
            true => Some((0, column_of(&keys.expr().get(*column)?.0)?)),
            false => None,
        };
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let column = projected(join.projection.as_deref())?;
        let left = join.left().schema().fields().len();
        use JoinType::*;
        return match join.join_type() {
            Inner | Left | Right | Full if column < left => Some((0, column)),
            Inner | Left | Right | Full => Some((1, column - left)),
            LeftSemi | LeftAnti => Some((0, column)),
            RightSemi | RightAnti => Some((1, column)),
            LeftMark => (column < left).then_some((0, column)),
            RightMark => (column < join.right().schema().fields().len()).then_some((1, column)),
        };
    }
    plan.is::<CooperativeExec>().then_some((0, *column))
}

/// Returns the scan of a plan that has nothing above it but what filters and computes; `None` for another plan.
fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    if plan.is::<DataSourceExec>() {
        return Some(plan);
    }
    let is_above = plan.is::<FilterExec>() || plan.is::<ProjectionExec>() || plan.is::<CooperativeExec>();
    is_above.then(|| scan_of(plan.children()[0])).flatten()
}

/// Returns whether a scan has the same rows when it is read again.
fn is_repeatable(scan: &Arc<dyn ExecutionPlan>) -> bool {
    let exprs: Vec<_> = match (scan.downcast_ref::<FilterExec>(), scan.downcast_ref::<ProjectionExec>()) {
        (Some(filter), _) => vec![filter.predicate()],
        (_, Some(projection)) => projection.expr().iter().map(|column| &column.expr).collect(),
        _ => Vec::new(),
    };
    scan.fetch().is_none() && !exprs.into_iter().any(is_volatile) && scan.children().into_iter().all(is_repeatable)
}

fn is_semi_join_of_scan(join: &HashJoinExec) -> bool {
    *join.join_type() == JoinType::RightSemi
        && *join.partition_mode() == PartitionMode::CollectLeft
        && scan_of(join.right()).is_some()
}

/// Returns the index of the column that an expression is.
fn column_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}
