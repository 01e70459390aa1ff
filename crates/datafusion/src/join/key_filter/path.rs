//! Which dynamic filters reach the columns that they are about.
//!
//! On its way down DataFusion finds the columns of a filter by their names (`FilterRemapper` in
//! `filter_pushdown.rs`). Of several with one name it takes the first, or in a `ProjectionExec` the
//! last; and below a semi join it takes a column with the name of the key, though the other side's
//! key may have another. A filter that goes astray drops rows which the join needs.

use std::{collections::HashSet, sync::Arc};

use annulus_join::Side;
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

use crate::join::properties::JoinShape;

/// Returns what a join passes to its children: of the filters from above, and of its own for each
/// child, those that do not go astray.
///
/// # Errors
/// If a node cannot say what it passes on.
pub(in crate::join) fn describe(
    join: &JoinShape<'_>,
    from_above: &[Arc<dyn PhysicalExpr>],
    own: Vec<Vec<Arc<dyn PhysicalExpr>>>,
    config: &ConfigOptions,
) -> Result<FilterDescription> {
    let mut all = FilterDescription::new();
    let mut own = own.into_iter();
    for side in Side::BOTH {
        let child = join.input(side);
        let mut passed = if passes(join.kind, side) {
            let places = found(join, side, from_above);
            ChildFilterDescription::from_child_with_allowed_indices(from_above, places, child)?
        } else {
            ChildFilterDescription::all_unsupported(from_above)
        };
        for filter in own.next().into_iter().flatten() {
            if arrives(child, &filter, config)? {
                passed = passed.with_self_filter(filter);
            }
        }
        all = all.with_child(passed);
    }
    Ok(all)
}

/// Returns whether rows of a side can be dropped before the join rather than after it, as
/// `lr_is_preserved` in DataFusion's `hash_join/exec.rs` says.
fn passes(kind: JoinType, side: Side) -> bool {
    use JoinType::*;
    match kind {
        Inner | LeftSemi | RightSemi => true,
        Left | LeftAnti | LeftMark => side == Side::Left,
        Right | RightAnti | RightMark => side == Side::Right,
        Full => false,
    }
}

/// Returns the columns of a join's output, of those that `filters` use, which a search by name
/// finds on one side: columns of that side, and of a semi join keys that have the same name on both.
fn found(join: &JoinShape<'_>, side: Side, filters: &[Arc<dyn PhysicalExpr>]) -> HashSet<usize> {
    let used: HashSet<_> = filters.iter().flat_map(collect_columns).map(|column| column.index()).collect();
    if used.is_empty() {
        return used;
    }
    let schemas = Side::BOTH.map(|side| join.input(side).schema());
    let (_, columns) = build_join_schema(&schemas[0], &schemas[1], &join.kind);
    let is_semi = matches!(join.kind, JoinType::LeftSemi | JoinType::RightSemi);
    let is_found = |place: &usize| {
        let place = join.projection.map_or(*place, |projection| projection[*place]);
        let from = match columns[place].side {
            JoinSide::Left => Side::Left,
            JoinSide::Right => Side::Right,
            JoinSide::None => return false,
        };
        let name = schemas[from as usize].field(columns[place].index).name();
        let first = schemas[side as usize].index_of(name).ok();
        if from == side {
            return first == Some(columns[place].index);
        }
        let is_key = |(left, right): &(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)| {
            let keys = [left, right].map(|key| key.downcast_ref::<Column>());
            let [Some(here), Some(there)] = [from, side].map(|side| keys[side as usize]) else { return false };
            here.index() == columns[place].index && there.name() == name && first == Some(there.index())
        };
        is_semi && join.on.iter().any(is_key)
    };
    used.into_iter().filter(is_found).collect()
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
    let passed = plan.gather_filters_for_pushdown(FilterPushdownPhase::Post, vec![Arc::clone(filter)], config)?;
    for (index, filters) in passed.parent_filters().into_iter().enumerate() {
        for passed in filters.iter().filter(|passed| matches!(passed.discriminant, PushedDown::Yes)) {
            let child = plan.children()[index];
            if !finds_columns(plan, index, filter) || !arrives_below(child, &passed.predicate, config)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns whether the columns of `filter`, which `plan` passes to one of its children, are those
/// that a search by name finds there.
fn finds_columns(plan: &Arc<dyn ExecutionPlan>, child: usize, filter: &Arc<dyn PhysicalExpr>) -> bool {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let side = if child == 0 { Side::Left } else { Side::Right };
        let found = found(&JoinShape::from(join), side, std::slice::from_ref(filter));
        return collect_columns(filter).iter().all(|column| found.contains(&column.index()));
    }
    let (schema, below) = (plan.schema(), plan.children()[child].schema());
    let keys = plan.downcast_ref::<AggregateExec>().map(|grouping| grouping.group_expr().expr());
    collect_columns(filter).iter().all(|column| {
        let first = below.index_of(column.name()).ok();
        if plan.is::<ProjectionExec>() {
            // It does not look for the columns below, but among its own.
            is_single(&schema, column.name())
        } else if let Some(keys) = keys {
            let key = keys.get(column.index()).and_then(|(key, _)| key.downcast_ref::<Column>());
            key.is_some_and(|key| key.name() == column.name() && first == Some(key.index()))
        } else if schema == below || plan.is::<UnionExec>() {
            first == Some(column.index())
        } else {
            // It has other columns than its input, as a filter may.
            is_single(&below, column.name())
        }
    })
}

/// Returns whether one column has this name.
fn is_single(schema: &Schema, name: &str) -> bool {
    schema.fields().iter().filter(|field| field.name() == name).count() == 1
}
