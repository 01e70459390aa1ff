//! Comparisons that DataFusion makes by the bits of a value, where `=` takes more values for equal: 0.0
//! and -0.0.

use datafusion::{
    common::{
        DFSchema, ScalarValue,
        tree_node::{Transformed, TreeNode},
    },
    error::Result,
    logical_expr::{
        Case, Expr, ExprSchemable, LogicalPlan, Operator, binary_expr,
        expr::{AggregateFunction, ScalarFunction},
        expr_rewriter::NamePreserver,
        lit,
        utils::merge_schema,
        when,
    },
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

/// Makes DataFusion take one zero for the other wherever values are compared. Lists of `IN` that have
/// one get the other. `nullif` and `CASE x WHEN` compare with `=`. In the keys of windows and the
/// arguments of `DISTINCT` aggregates, both zeros are 0.0.
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
        let (names, schema) = (NamePreserver::new(&plan), merge_schema(&plan.inputs()));
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.transform_up(|part| by_value(part, &schema))?;
            Ok(changed.update_data(|expr| name.restore(expr)))
        })
    }
}

fn by_value(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_float = |expr: &Expr| expr.get_type(schema).is_ok_and(|data_type| data_type.is_floating());
    match expr {
        Expr::InList(_) => with_both(expr),
        Expr::Case(Case { expr: Some(base), when_then_expr, else_expr }) if is_float(&base) && !base.is_volatile() => {
            let equals = |value: Box<Expr>| Box::new(binary_expr((*base).clone(), Operator::Eq, *value));
            let when_then_expr = when_then_expr.into_iter().map(|(value, then)| (equals(value), then)).collect();
            Ok(Transformed::yes(Expr::Case(Case { expr: None, when_then_expr, else_expr })))
        }
        Expr::ScalarFunction(ScalarFunction { func, args })
            if func.name() == "nullif" && args.len() == 2 && is_float(&args[0]) && !args[0].is_volatile() =>
        {
            let null = ScalarValue::try_from(&args[0].get_type(schema)?)?;
            let is_equal = binary_expr(args[0].clone(), Operator::Eq, args[1].clone());
            Ok(Transformed::yes(when(is_equal, Expr::Literal(null, None)).otherwise(args[0].clone())?))
        }
        Expr::WindowFunction(mut window) => {
            let mut is_changed = false;
            let keys = window.params.partition_by.iter_mut();
            for key in keys.chain(window.params.order_by.iter_mut().map(|sort| &mut sort.expr)) {
                is_changed |= one_zero(key, schema)?;
            }
            Ok(Transformed::new_transformed(Expr::WindowFunction(window), is_changed))
        }
        Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
            let mut is_changed = false;
            for argument in params.args.iter_mut().filter(|_| params.distinct) {
                is_changed |= one_zero(argument, schema)?;
            }
            Ok(Transformed::new_transformed(Expr::AggregateFunction(AggregateFunction { func, params }), is_changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Makes -0.0 of a float 0.0. Returns whether it changed the expression.
fn one_zero(expr: &mut Expr, schema: &DFSchema) -> Result<bool> {
    let data_type = expr.get_type(schema)?;
    if !data_type.is_floating() || expr.is_volatile() || has_one_zero(expr) {
        return Ok(false);
    }
    let zero = Expr::Literal(ScalarValue::new_zero(&data_type)?, None);
    let name = expr.schema_name().to_string();
    let value = std::mem::replace(expr, lit(false));
    let is_zero = binary_expr(value.clone(), Operator::Eq, zero.clone());
    *expr = when(is_zero, zero).otherwise(value)?.alias(name);
    Ok(true)
}

fn has_one_zero(expr: &Expr) -> bool {
    match expr.clone().unalias() {
        Expr::Case(Case { expr: None, when_then_expr, .. }) => {
            matches!(&when_then_expr[..], [(_, then)] if is_zero(then))
        }
        literal => matches!(literal, Expr::Literal(..)),
    }
}

fn is_zero(expr: &Expr) -> bool {
    let Expr::Literal(value, _) = expr else { return false };
    ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| zero == *value)
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
