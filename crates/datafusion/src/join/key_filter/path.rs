//! Which dynamic filters reach the columns that they are about.
//!
//! On its way down DataFusion finds the columns of a filter by their names (`FilterRemapper` in
//! `filter_pushdown.rs`). Of several with one name it takes the first, or in a `ProjectionExec` the
//! last; and below a semi join it takes a column with the name of the key, though the other side's
//! key may have another. A filter that goes astray drops rows which the join needs.

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    arrow::datatypes::Schema,
    common::{JoinSide, JoinType},
    config::ConfigOptions,
    error::Result,
    physical_expr::{PhysicalExpr, expressions::Column, utils::collect_columns},
    physical_plan::{
        ExecutionPlan,
        aggregates::AggregateExec,
        filter_pushdown::{ChildFilterDescription, FilterDescription, FilterPushdownPhase, PushedDown},
        joins::{HashJoinExec, utils::build_join_schema},
        projection::ProjectionExec,
        union::UnionExec,
    },
};

/// Returns what a hash join passes to its children as the stock operator does, less the filters
/// that would go astray: of those from above, and of its own.
///
/// # Errors
/// If a node cannot say what it passes on.
pub(in crate::join) fn describe(
    stock: &HashJoinExec,
    phase: FilterPushdownPhase,
    from_above: &[Arc<dyn PhysicalExpr>],
    config: &ConfigOptions,
) -> Result<FilterDescription> {
    let own = stock.gather_filters_for_pushdown(phase, Vec::new(), config)?.self_filters();
    let mut all = FilterDescription::new();
    for ((side, child), own) in [(JoinSide::Left, stock.left()), (JoinSide::Right, stock.right())].into_iter().zip(own)
    {
        let mut passed = match passes(stock, side) {
            true => {
                let places = places(stock, side)?;
                ChildFilterDescription::from_child_with_allowed_indices(from_above, places, child)?
            }
            false => ChildFilterDescription::all_unsupported(from_above),
        };
        for filter in own {
            if arrives(child, &filter, config)? {
                passed = passed.with_self_filter(filter);
            }
        }
        all = all.with_child(passed);
    }
    Ok(all)
}

/// Returns whether rows of a side can be dropped before the join, rather than after it.
fn passes(stock: &HashJoinExec, side: JoinSide) -> bool {
    use JoinType::*;
    match stock.join_type() {
        Inner | LeftSemi | RightSemi => true,
        Left | LeftAnti | LeftMark => side == JoinSide::Left,
        Right | RightAnti | RightMark => side == JoinSide::Right,
        Full => false,
    }
}

/// Returns the places in the output of a join's columns that can be found by name on one side. They
/// are that side's columns, and of a semi join the keys that have the same name on both sides.
fn places(stock: &HashJoinExec, side: JoinSide) -> Result<HashSet<usize>> {
    let (left, right, kind) = (stock.left().schema(), stock.right().schema(), stock.join_type());
    let (_, all) = build_join_schema(&left, &right, kind);
    let output = stock.projection.as_deref().map_or_else(|| (0..all.len()).collect(), <[usize]>::to_vec);
    let is_semi = matches!(kind, JoinType::LeftSemi | JoinType::RightSemi);
    let column = |key: &Arc<dyn PhysicalExpr>| key.downcast_ref::<Column>().cloned();
    let keys: Vec<_> = stock
        .on()
        .iter()
        .filter_map(|(left, right)| Some((column(left)?, column(right)?)))
        .filter(|_| is_semi)
        .collect();
    let is_found = |place: usize| {
        let schema = if all[place].side == JoinSide::Left { &left } else { &right };
        let name = schema.field(all[place].index).name();
        let other = if side == JoinSide::Left { &left } else { &right };
        let is_key = |(left, right): &(Column, Column)| {
            let (own, other) = if side == JoinSide::Left { (right, left) } else { (left, right) };
            own.index() == all[place].index && own.name() == other.name()
        };
        all[place].side != JoinSide::None
            && is_single(other, name)
            && (all[place].side == side || is_single(schema, name) && keys.iter().any(is_key))
    };
    Ok((0..output.len()).filter(|&place| is_found(output[place])).collect())
}

/// Returns whether a filter on the output of `plan` has the right columns wherever it arrives below.
///
/// # Errors
/// If a node cannot say what it passes on.
pub(crate) fn arrives(
    plan: &Arc<dyn ExecutionPlan>,
    filter: &Arc<dyn PhysicalExpr>,
    config: &ConfigOptions,
) -> Result<bool> {
    let mut config = config.clone();
    // Joins on the way shall not look for ways of filters of their own.
    config.optimizer.enable_join_dynamic_filter_pushdown = false;
    arrives_below(plan, filter, &config)
}

fn arrives_below(
    plan: &Arc<dyn ExecutionPlan>,
    filter: &Arc<dyn PhysicalExpr>,
    config: &ConfigOptions,
) -> Result<bool> {
    // A projection replaces the columns itself, and does not look for them below.
    let is_projection = plan.is::<ProjectionExec>();
    if is_projection && !are_single(&plan.schema(), filter) {
        return Ok(false);
    }
    let passed = plan.gather_filters_for_pushdown(FilterPushdownPhase::Post, vec![Arc::clone(filter)], config)?;
    for (child, filters) in plan.children().into_iter().zip(passed.parent_filters()) {
        for passed in filters.iter().filter(|passed| matches!(passed.discriminant, PushedDown::Yes)) {
            let is_right = is_projection
                || are_single(&child.schema(), &passed.predicate) && has_same(plan, filter, &passed.predicate);
            if !is_right || !arrives_below(child, &passed.predicate, config)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns whether an operator whose inputs may name their columns otherwise has found the columns
/// of a filter below.
fn has_same(plan: &Arc<dyn ExecutionPlan>, filter: &Arc<dyn PhysicalExpr>, passed: &Arc<dyn PhysicalExpr>) -> bool {
    if let Some(grouping) = plan.downcast_ref::<AggregateExec>() {
        let keys = grouping.group_expr().expr();
        let is_key = |column: &Column| {
            keys.iter().any(|(key, name)| key.downcast_ref() == Some(column) && name == column.name())
        };
        return collect_columns(passed).iter().all(is_key);
    }
    !plan.is::<UnionExec>() || collect_columns(passed) == collect_columns(filter)
}

fn are_single(schema: &Schema, filter: &Arc<dyn PhysicalExpr>) -> bool {
    collect_columns(filter).iter().all(|column| is_single(schema, column.name()))
}

/// Returns whether one column has this name.
fn is_single(schema: &Schema, name: &str) -> bool {
    schema.fields().iter().filter(|field| field.name() == name).count() == 1
}
