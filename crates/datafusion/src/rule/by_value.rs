//! Comparisons that DataFusion makes by the bits of a value, where `=` takes more values for equal.

use datafusion::{
    common::{
        ScalarValue,
        tree_node::{Transformed, TreeNode},
    },
    error::Result,
    logical_expr::{Expr, LogicalPlan, expr_rewriter::NamePreserver},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

/// Adds the other zero to lists of `IN` that have one of 0.0 and -0.0. DataFusion looks long lists up
/// by the bits of the values, while `=` takes one zero for the other.
#[derive(Debug)]
pub(crate) struct CompareByValue;

impl OptimizerRule for CompareByValue {
    fn name(&self) -> &str {
        "CompareByValue"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.transform_up(with_both)?;
            Ok(changed.update_data(|expr| name.restore(expr)))
        })
    }
}

fn with_both(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::InList(mut list) = expr else { return Ok(Transformed::no(expr)) };
    let others = list.list.iter().filter_map(other_zero).filter(|zero| !list.list.contains(zero));
    let others: Vec<Expr> = others.collect();
    let is_changed = !others.is_empty();
    list.list.extend(others);
    Ok(Transformed::new_transformed(Expr::InList(list), is_changed))
}

/// Returns the other zero, if the literal is one.
fn other_zero(item: &Expr) -> Option<Expr> {
    let Expr::Literal(value, metadata) = item else { return None };
    let is_zero = match value {
        ScalarValue::Float16(Some(value)) => value.to_f32() == 0.0,
        ScalarValue::Float32(Some(value)) => *value == 0.0,
        ScalarValue::Float64(Some(value)) => *value == 0.0,
        _ => false,
    };
    is_zero.then(|| value.arithmetic_negate().ok())?.map(|other| Expr::Literal(other, metadata.clone()))
}
