//! `IN (SELECT ...)`, `NOT IN (SELECT ...)`, and comparisons with `ANY` and `ALL`.
//!
//! DataFusion plans `NOT IN` as a join that knows of nulls only if nothing else is compared: of a
//! correlated subquery it looks at the nulls of all rows, or refuses it; and below `OR`, nulls are
//! forgotten. Here, such a comparison becomes `EXISTS` for the value, for a null in the list and for a
//! list that is not empty. These are never null, and plain joins answer them.

use std::sync::Arc;

use datafusion::{
    common::{
        DFSchema,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    error::Result,
    logical_expr::{
        BinaryExpr, Expr, Filter, LogicalPlan, Operator,
        expr_rewriter::NamePreserver,
        lit,
        utils::{conjunction, split_conjunction_owned},
    },
    optimizer::{OptimizerConfig, OptimizerRule},
};

use super::{
    comparison::{Comparison, has_comparison},
    correlated, marks,
};

/// Rewrites comparisons with subqueries where DataFusion's joins would forget nulls, and joins those
/// of a `SELECT` list, which DataFusion cannot plan.
#[derive(Debug)]
pub(super) struct NullAwareSubqueries;

impl OptimizerRule for NullAwareSubqueries {
    fn name(&self) -> &str {
        "null_aware_subqueries"
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        plan.transform_up_with_subqueries(|node| rewrite_node(node, config))
    }
}

fn rewrite_node(plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let plan = match has(&plan, correlated::has_exists)? {
        true => mapped(plan, correlated::rewrite_exists)?,
        false => Transformed::no(plan),
    };
    plan.transform_data(|plan| match plan {
        LogicalPlan::Filter(filter) if has_comparison(&filter.predicate) => rewrite_filter(filter, config),
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => {
            let plan = match (has(&plan, has_comparison)?, &plan.inputs()[..]) {
                (true, [input]) => {
                    let schema = Arc::clone(input.schema());
                    mapped(plan, |expr| three_valued(expr, &schema, config))?
                }
                _ => Transformed::no(plan),
            };
            plan.transform_data(|plan| match has(&plan, marks::has_exists)? {
                true => marks::join(plan, config),
                false => Ok(Transformed::no(plan)),
            })
        }
        plan => Ok(Transformed::no(plan)),
    })
}

/// Returns whether an expression of the node has something.
fn has(plan: &LogicalPlan, what: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found |= what(expr);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Rewrites the expressions of a node, which keep their names.
fn mapped(plan: LogicalPlan, rewrite: impl Fn(Expr) -> Result<Transformed<Expr>>) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(rewrite(expr)?.update_data(|expr| name.restore(expr)))
    })
}

fn rewrite_filter(filter: Filter, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(filter.input.schema());
    let (mut conjuncts, mut changed) = (Vec::new(), false);
    for conjunct in split_conjunction_owned(filter.predicate) {
        let kept = match Comparison::of_expr(&conjunct) {
            Some(comparison) if comparison.negated => comparison.as_not_in()?,
            _ => None,
        };
        match kept {
            Some(kept) => {
                changed |= kept != conjunct;
                conjuncts.push(kept);
            }
            None => {
                let condition = condition(conjunct, &schema, config)?;
                changed |= condition.transformed;
                conjuncts.extend(split_conjunction_owned(condition.data));
            }
        }
    }
    let predicate = conjunction(conjuncts).unwrap_or_else(|| lit(true));
    let filter = LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?);
    Ok(if changed { Transformed::yes(filter) } else { Transformed::no(filter) })
}

/// Rewrites a condition of which null counts as false.
fn condition(expr: Expr, schema: &DFSchema, config: &dyn OptimizerConfig) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let (left, right) = (condition(*left, schema, config)?, condition(*right, schema, config)?);
            let changed = left.transformed || right.transformed;
            let both = Expr::BinaryExpr(BinaryExpr::new(Box::new(left.data), op, Box::new(right.data)));
            Ok(if changed { Transformed::yes(both) } else { Transformed::no(both) })
        }
        expr => {
            let Some(comparison) = Comparison::of_expr(&expr) else { return three_valued(expr, schema, config) };
            if let Some(one) = comparison.with_one_row() {
                return Ok(Transformed::yes(one));
            }
            if matches!(&expr, Expr::InSubquery(list) if !list.negated) {
                // DataFusion's joins forget nulls, which count as false here.
                correlated::check(comparison.subquery(), true)?;
                return Ok(Transformed::no(expr));
            }
            comparison.check()?;
            let names = config.alias_generator();
            let rewritten = match comparison.negated {
                true => conjunction(comparison.conjuncts(schema, names)?).unwrap_or_else(|| lit(true)),
                false => comparison.condition(schema, names)?,
            };
            Ok(Transformed::yes(rewritten))
        }
    }
}

/// Rewrites the comparisons in an expression so that they keep their values.
fn three_valued(expr: Expr, schema: &DFSchema, config: &dyn OptimizerConfig) -> Result<Transformed<Expr>> {
    expr.transform_up(|part| {
        let is_one = matches!(part, Expr::InSubquery(_) | Expr::SetComparison(_));
        let Some(comparison) = Comparison::of_expr(&part).filter(|_| is_one) else { return Ok(Transformed::no(part)) };
        if let Some(one) = comparison.with_one_row() {
            return Ok(Transformed::yes(one));
        }
        comparison.check()?;
        comparison.three_valued(schema, config.alias_generator()).map(Transformed::yes)
    })
}
