//! Correlated subqueries that DataFusion turns into joins, though a join has other rows.
//!
//! A join finds no partner where the condition of a subquery keeps no row. But an aggregate without
//! groups has a row then, as in `EXISTS (SELECT count(*) FROM b WHERE b.k = a.k)`. And the condition
//! cannot move above a limit or a window, which look at the rows of one outer row.

use std::sync::Arc;

use datafusion::{
    common::{
        not_impl_err,
        tree_node::{Transformed, TreeNode},
    },
    error::Result,
    logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SkipType, Subquery, expr::Exists, lit},
};

/// Rewrites `EXISTS` of aggregates without groups in an expression.
///
/// # Errors
/// If DataFusion would forget an offset or the input of a window.
pub(super) fn rewrite_exists(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|part| {
        let Expr::Exists(Exists { subquery, negated }) = &part else { return Ok(Transformed::no(part)) };
        if subquery.outer_ref_columns.is_empty() {
            return Ok(Transformed::no(part));
        }
        if is_one_row(&subquery.subquery) {
            return Ok(Transformed::yes(lit(!negated)));
        }
        if let Some(kept) = condition_on_one_row(&subquery.subquery)? {
            let kept = Expr::ScalarSubquery(Subquery { subquery: Arc::new(kept), ..subquery.clone() });
            return Ok(Transformed::yes(if *negated { kept.is_not_true() } else { kept.is_true() }));
        }
        check(subquery, false)?;
        Ok(Transformed::no(part))
    })
}

/// Returns whether an expression has a correlated `EXISTS`.
pub(super) fn has_exists(expr: &Expr) -> bool {
    let is_one = |part: &Expr| matches!(part, Expr::Exists(exists) if !exists.subquery.outer_ref_columns.is_empty());
    expr.exists(|part| Ok(is_one(part))).unwrap_or(false)
}

/// Returns whether a plan has exactly one row: it is an aggregate without groups.
pub(super) fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => is_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_one_row(&alias.input),
        LogicalPlan::Sort(sort) => sort.fetch.is_none() && is_one_row(&sort.input),
        _ => false,
    }
}

/// Returns the plan of the condition on which a plan has one row, rather than none.
fn condition_on_one_row(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::Filter(filter) if is_one_row(&filter.input) && !filter.predicate.contains_outer() => {
            let input = LogicalPlanBuilder::from(filter.input.as_ref().clone());
            input.project([filter.predicate.clone().alias("kept")])?.build().map(Some)
        }
        LogicalPlan::Projection(projection) => condition_on_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => condition_on_one_row(&alias.input),
        _ => Ok(None),
    }
}

/// Checks that DataFusion can move the conditions of a correlated subquery out of it. Where `values`
/// of the subquery count, no limit and no `HAVING` of one group may be above one; otherwise no offset.
///
/// # Errors
/// If what is above one cannot be.
pub(super) fn check(subquery: &Subquery, values: bool) -> Result<()> {
    if subquery.outer_ref_columns.is_empty() {
        return Ok(());
    }
    let mut obstacle = match values && condition_on_one_row(&subquery.subquery)?.is_some() {
        true => Some("HAVING without GROUP BY"),
        false => None,
    };
    let has_join = subquery.subquery.exists(|node| Ok(matches!(node, LogicalPlan::Join(_))))?;
    subquery.subquery.exists(|node| {
        let is_above = !node.all_out_ref_exprs().is_empty();
        let found = match node {
            LogicalPlan::Limit(limit) if is_above => {
                let skips = !matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)));
                (values || skips).then_some("LIMIT or OFFSET")
            }
            // It may be visited after the condition, and removed with those above one.
            LogicalPlan::Limit(_) => has_join.then_some("LIMIT or OFFSET beside a join"),
            LogicalPlan::Window(_) if is_above => Some("a window function"),
            LogicalPlan::Aggregate(aggregate) if is_above => {
                let has_sets = aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
                has_sets.then_some("GROUPING SETS")
            }
            _ => None,
        };
        obstacle = obstacle.or(found);
        Ok(obstacle.is_some())
    })?;
    match obstacle {
        None => Ok(()),
        Some(what) => not_impl_err!(
            "{what} above a condition on the outer query in EXISTS, IN, ANY or ALL: join the tables, and number the \
             rows with row_number()"
        ),
    }
}
