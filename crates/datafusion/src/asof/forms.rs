//! As-of joins that are written in other words.
//!
//! ```text
//! row_number() OVER (PARTITION BY l ORDER BY r.time DESC) = 1 \
//! max(r.time) ... GROUP BY l                                   > above a join on l.time >= r.time
//! first_value(r.x ORDER BY r.time DESC) ... GROUP BY l        /
//! ```
//! Of the pairs of a row of the left side, all of these use the one with the greatest time of the right side alone:
//! whatever else they partition, group and order by is the same for all pairs of the row. So the join may leave out
//! the other pairs, and is an as-of join. What stands above it stays as it is.

use datafusion::{
    common::{
        Column,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    error::Result,
    logical_expr::{
        BinaryExpr, Expr, Filter, LogicalPlan, Operator, WindowFunctionDefinition,
        expr::{AggregateFunctionParams, NullTreatment, WindowFunctionParams},
        utils::split_conjunction,
    },
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
    scalar::ScalarValue,
};

use super::pairs::UsedPairs;
use crate::config::{AnnulusConfig, Joins};

/// Replaces joins of which only the pairs nearest in time are used by as-of joins, unless `annulus.joins` is
/// `never`.
#[derive(Debug)]
pub(crate) struct AsOfForms;

impl OptimizerRule for AsOfForms {
    fn name(&self) -> &str {
        "annulus_asof_forms"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let options = config.options();
        let joins = options.extensions.get::<AnnulusConfig>().map(|config| config.joins);
        if joins.is_none_or(|joins| joins == Joins::Never) {
            return Ok(Transformed::no(plan));
        }
        let rewritten = match &plan {
            LogicalPlan::Filter(filter) => below_filter(filter)?,
            LogicalPlan::Aggregate(aggregate) => {
                let used = used_by_groups(&aggregate.group_expr, &aggregate.aggr_expr);
                with_input(&plan, used.map(|used| replace_join(&aggregate.input, &used)).transpose()?.flatten())?
            }
            _ => None,
        };
        Ok(rewritten.map_or_else(|| Transformed::no(plan), Transformed::yes))
    }
}

/// Returns the plan with another input, if there is one.
fn with_input(plan: &LogicalPlan, input: Option<LogicalPlan>) -> Result<Option<LogicalPlan>> {
    input.map(|input| plan.with_new_exprs(plan.expressions(), vec![input])).transpose()
}

/// Returns the filter above an as-of join, if it keeps the first row of each partition of a window.
fn below_filter(filter: &Filter) -> Result<Option<LogicalPlan>> {
    for rank in split_conjunction(&filter.predicate).into_iter().filter_map(first_rank) {
        if let Some(input) = below_window(&filter.input, rank)? {
            let filter = Filter::try_new(filter.predicate.clone(), input.into())?;
            return Ok(Some(LogicalPlan::Filter(filter)));
        }
    }
    Ok(None)
}

/// Returns the column that a condition lets through only up to 1.
fn first_rank(condition: &Expr) -> Option<&Column> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
    let (column, op, number) = match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), Expr::Literal(ScalarValue::UInt64(Some(number)), _)) => (column, *op, *number),
        (Expr::Literal(ScalarValue::UInt64(Some(number)), _), Expr::Column(column)) => (column, op.swap()?, *number),
        _ => return None,
    };
    matches!((op, number), (Operator::Eq | Operator::LtEq, 1) | (Operator::Lt, 2)).then_some(column)
}

/// Returns the plan with an as-of join below the window that computes this column.
fn below_window(plan: &LogicalPlan, rank: &Column) -> Result<Option<LogicalPlan>> {
    let input = if let LogicalPlan::Window(window) = plan {
        let is_rank = plan.schema().maybe_index_of_column(rank) == Some(window.input.schema().fields().len());
        let used = match &window.window_expr[..] {
            [expr] if is_rank => used_by_row_number(expr),
            _ => None,
        };
        used.map(|used| replace_join(&window.input, &used)).transpose()?.flatten()
    } else {
        match (passed_on(plan), over_input(plan, &Expr::Column(rank.clone()))) {
            (Some(input), Some(Expr::Column(rank))) => below_window(input, &rank)?,
            _ => None,
        }
    };
    with_input(plan, input)
}

/// Returns the plan with an as-of join instead of the join that gives these pairs.
fn replace_join(plan: &LogicalPlan, used: &UsedPairs) -> Result<Option<LogicalPlan>> {
    if let LogicalPlan::Join(join) = plan {
        return used.as_of_join(join);
    }
    let input = match (passed_on(plan), used.try_map(|expr| over_input(plan, expr))) {
        (Some(input), Some(used)) => replace_join(input, &used)?,
        _ => None,
    };
    with_input(plan, input)
}

/// Returns the input of a plan that passes each of its rows on.
fn passed_on(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    match plan {
        LogicalPlan::Projection(projection) => Some(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => Some(&alias.input),
        _ => None,
    }
}

/// Returns an expression over the columns of a plan that passes its rows on as one over those of its input.
/// `None` if its value may change with each call.
fn over_input(plan: &LogicalPlan, expr: &Expr) -> Option<Expr> {
    let input = passed_on(plan)?;
    let of_input = |column: &Column| {
        let index = plan.schema().maybe_index_of_column(column)?;
        match plan {
            LogicalPlan::Projection(projection) => Some(projection.expr.get(index)?.clone().unalias_nested().data),
            _ => Some(Expr::Column(Column::from(input.schema().qualified_field(index)))),
        }
    };
    let mut is_known = true;
    let replaced = expr.clone().transform(|part| match &part {
        Expr::Column(column) => match of_input(column) {
            Some(of_input) => Ok(Transformed::new(of_input, true, TreeNodeRecursion::Jump)),
            None => {
                is_known = false;
                Ok(Transformed::no(part))
            }
        },
        _ => Ok(Transformed::no(part)),
    });
    let replaced = replaced.data().ok()?;
    (is_known && !replaced.is_volatile()).then_some(replaced)
}

/// Returns the pairs that are used of the rows to which `row_number()` gives 1.
fn used_by_row_number(expr: &Expr) -> Option<UsedPairs> {
    let Expr::WindowFunction(call) = expr.clone().unalias_nested().data else { return None };
    let WindowFunctionDefinition::WindowUDF(function) = &call.fun else { return None };
    let WindowFunctionParams { partition_by, order_by, filter: None, .. } = call.params else { return None };
    let mut used = UsedPairs::new(partition_by);
    used.add_first(&order_by, false);
    (function.name() == "row_number").then_some(used)
}

/// Returns the pairs that are used of the rows of groups, if each function uses one of a group at most.
fn used_by_groups(groups: &[Expr], functions: &[Expr]) -> Option<UsedPairs> {
    let mut used = UsedPairs::new(groups.to_vec());
    for function in functions {
        let Expr::AggregateFunction(call) = function.clone().unalias_nested().data else { return None };
        let AggregateFunctionParams { args, distinct, filter, order_by, null_treatment } = call.params;
        used.add_of_row(filter.map(|filter| *filter));
        match (call.func.name(), &args[..], null_treatment) {
            ("max", [value], _) => used.add_extreme(value, true),
            ("min", [value], _) => used.add_extreme(value, false),
            ("first_value", [_], None | Some(NullTreatment::RespectNulls)) if !distinct => {
                used.add_first(&order_by, false);
            }
            ("last_value", [_], None | Some(NullTreatment::RespectNulls)) if !distinct => {
                used.add_first(&order_by, true);
            }
            _ => return None,
        }
    }
    Some(used)
}
