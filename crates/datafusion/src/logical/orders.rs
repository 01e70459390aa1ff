//! `first_value(x ORDER BY a, b, b)`: DataFusion panics if an aggregate's order names an expression
//! twice.

use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    error::Result,
    logical_expr::{Expr, LogicalPlan, expr::Sort},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

/// Removes expressions from the order of an aggregate function that stand in it before.
#[derive(Debug)]
pub(super) struct DistinctOrders;

impl OptimizerRule for DistinctOrders {
    fn name(&self) -> &str {
        "distinct_orders"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        let repeats = |expr: &Expr| matches!(expr, Expr::AggregateFunction(call) if repeats(&call.params.order_by));
        if !aggregate.aggr_expr.iter().any(|expr| expr.exists(|part| Ok(repeats(part))).unwrap_or(false)) {
            return Ok(Transformed::no(plan));
        }
        let names = datafusion::logical_expr::expr_rewriter::NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(expr.transform_up(distinct)?.update_data(|expr| name.restore(expr)))
        })
    }
}

fn distinct(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::AggregateFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
    let changed = repeats(&call.params.order_by);
    let order = std::mem::take(&mut call.params.order_by);
    for sort in order {
        if !call.params.order_by.iter().any(|before| before.expr == sort.expr) {
            call.params.order_by.push(sort);
        }
    }
    let expr = Expr::AggregateFunction(call);
    Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// Returns whether an expression stands in the order twice.
fn repeats(order: &[Sort]) -> bool {
    order.iter().enumerate().any(|(index, sort)| order[..index].iter().any(|before| before.expr == sort.expr))
}
