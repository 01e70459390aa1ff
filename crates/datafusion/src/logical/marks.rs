//! `EXISTS` in a `SELECT` list, in a grouping or in a window.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    error::Result,
    logical_expr::{Expr, Filter, LogicalPlan, LogicalPlanBuilder, expr_rewriter::NamePreserver},
    optimizer::{OptimizerConfig, OptimizerRule, decorrelate_predicate_subquery::DecorrelatePredicateSubquery},
};

pub(super) fn has_exists(expr: &Expr) -> bool {
    expr.exists(|part| Ok(matches!(part, Expr::Exists(_)))).unwrap_or(false)
}

/// Joins the subqueries of `EXISTS` in a node's expressions below the node. A node with one that
/// cannot be joined stays as it is.
pub(super) fn join(plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let [input] = plan.inputs()[..] else { return Ok(Transformed::no(plan)) };
    let (mut input, names, mut all) = (input.clone(), NamePreserver::new(&plan), true);
    let mut exprs = Vec::new();
    for expr in plan.expressions() {
        let name = names.save(&expr);
        let marked = expr.transform_up(|part| {
            if !matches!(part, Expr::Exists(_)) {
                return Ok(Transformed::no(part));
            }
            match mark(&part, &input, config)? {
                Some((joined, mark)) => {
                    input = joined;
                    Ok(Transformed::yes(mark))
                }
                None => {
                    all = false;
                    Ok(Transformed::no(part))
                }
            }
        })?;
        exprs.push(name.restore(marked.data));
    }
    if !all {
        return Ok(Transformed::no(plan));
    }
    let columns: Vec<Expr> = plan.schema().iter().map(Expr::from).collect();
    let marked = plan.with_new_exprs(exprs, vec![input])?;
    if marked.schema().fields().len() == columns.len() {
        return Ok(Transformed::yes(marked));
    }
    // A window outputs the columns of its input, and so the marks.
    Ok(Transformed::yes(LogicalPlanBuilder::from(marked).project(columns)?.build()?))
}

/// Returns a plan with a row for each of `input`, and the column of it that is the value of an
/// `EXISTS`. DataFusion's rule makes it below a filter that has no other condition.
fn mark(exists: &Expr, input: &LogicalPlan, config: &dyn OptimizerConfig) -> Result<Option<(LogicalPlan, Expr)>> {
    let filter = Filter::try_new(exists.clone().is_true(), Arc::new(input.clone()))?;
    let joined = DecorrelatePredicateSubquery::new().rewrite(LogicalPlan::Filter(filter), config)?.data;
    let LogicalPlan::Projection(projection) = joined else { return Ok(None) };
    let LogicalPlan::Filter(filter) = projection.input.as_ref() else { return Ok(None) };
    Ok(match &filter.predicate {
        Expr::IsTrue(mark) if !has_exists(mark) => Some((filter.input.as_ref().clone(), mark.as_ref().clone())),
        _ => None,
    })
}
