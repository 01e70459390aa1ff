//! Sums and differences of integers that are compared, as whole numbers.
//!
//! DataFusion's integers wrap around: `x - y <= 3` with unsigned columns is false where x is 1 and y
//! is 2. A join by a band adds no numbers, so it could not tell. Where a sum of a comparison of
//! several columns may leave its type, its terms are cast to a type that holds it.

use std::ops::RangeInclusive;

use arrow::datatypes::DataType;
use datafusion::{
    common::{ExprSchema, ScalarValue, tree_node::TreeNode, tree_node::TreeNodeRecursion},
    error::Result,
    logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator, cast},
};

/// Returns whether comparisons by `op` say which value is greater. Equal keys are hashed, by all
/// operators alike.
pub(super) fn is_order(op: Operator) -> bool {
    matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

/// Casts the terms of sums in these operands of one comparison, where the sums may wrap around.
pub(super) fn widen(operands: Vec<Expr>, schema: &dyn ExprSchema) -> Result<Vec<Expr>> {
    if !operands.iter().any(|operand| may_wrap(operand, schema)) || !has_two_columns(&operands)? {
        return Ok(operands);
    }
    let widened = operands.into_iter().map(|operand| {
        if !may_wrap(&operand, schema) {
            return operand;
        }
        let fits = range(&operand, schema).is_some_and(|sums| is_within(&sums, &LONG));
        sum_of(operand, &if fits { DataType::Int64 } else { DataType::Decimal128(20, 0) })
    });
    Ok(widened.collect())
}

/// All values of 64-bit integers with a sign.
const LONG: RangeInclusive<i128> = i64::MIN as i128..=i64::MAX as i128;

fn is_within(inner: &RangeInclusive<i128>, outer: &RangeInclusive<i128>) -> bool {
    outer.contains(inner.start()) && outer.contains(inner.end())
}

fn has_two_columns(operands: &[Expr]) -> Result<bool> {
    let mut columns = Vec::new();
    for operand in operands {
        operand.apply(|part| {
            let column = match part {
                Expr::Column(column) | Expr::OuterReferenceColumn(_, column) => column,
                _ => return Ok(TreeNodeRecursion::Continue),
            };
            if !columns.contains(column) {
                columns.push(column.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(columns.len() > 1)
}

/// Returns the values of an integer type.
pub(crate) fn values(data_type: &DataType) -> Option<RangeInclusive<i128>> {
    Some(match data_type {
        DataType::Int8 => i8::MIN.into()..=i8::MAX.into(),
        DataType::Int16 => i16::MIN.into()..=i16::MAX.into(),
        DataType::Int32 => i32::MIN.into()..=i32::MAX.into(),
        DataType::Int64 => LONG,
        DataType::UInt8 => 0..=u8::MAX.into(),
        DataType::UInt16 => 0..=u16::MAX.into(),
        DataType::UInt32 => 0..=u32::MAX.into(),
        DataType::UInt64 => 0..=u64::MAX.into(),
        _ => return None,
    })
}

/// Returns the range of a sum or a difference of values of these ranges.
pub(crate) fn sum(
    left: &RangeInclusive<i128>,
    minus: bool,
    right: &RangeInclusive<i128>,
) -> Option<RangeInclusive<i128>> {
    let (low, high) = if minus { (right.end(), right.start()) } else { (right.start(), right.end()) };
    let add = |a: i128, b: i128| if minus { a.checked_sub(b) } else { a.checked_add(b) };
    Some(add(*left.start(), *low)?..=add(*left.end(), *high)?)
}

/// Returns the value of an integer constant.
pub(crate) fn whole(value: &ScalarValue) -> Option<i128> {
    Some(match *value {
        ScalarValue::Int8(Some(value)) => value.into(),
        ScalarValue::Int16(Some(value)) => value.into(),
        ScalarValue::Int32(Some(value)) => value.into(),
        ScalarValue::Int64(Some(value)) => value.into(),
        ScalarValue::UInt8(Some(value)) => value.into(),
        ScalarValue::UInt16(Some(value)) => value.into(),
        ScalarValue::UInt32(Some(value)) => value.into(),
        ScalarValue::UInt64(Some(value)) => value.into(),
        _ => return None,
    })
}

/// A sum or a difference, or what keeps its value.
enum Part<'a> {
    Sum(&'a Expr, bool, &'a Expr),
    Absolute(&'a Expr),
    Wider(&'a Expr),
    Term,
}

fn part<'a>(expr: &'a Expr, schema: &dyn ExprSchema) -> Part<'a> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus, right }) => Part::Sum(left, false, right),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) => Part::Sum(left, true, right),
        Expr::ScalarFunction(function) if function.func.name() == "abs" && function.args.len() == 1 => {
            Part::Absolute(&function.args[0])
        }
        Expr::Cast(Cast { expr, field }) => {
            let types = (expr.get_type(schema).ok().as_ref().and_then(values), values(field.data_type()));
            match types {
                (Some(from), Some(to)) if is_within(&from, &to) => Part::Wider(expr),
                _ => Part::Term,
            }
        }
        _ => Part::Term,
    }
}

/// Returns the range of an integer expression, if no sum in it wraps around.
fn range(expr: &Expr, schema: &dyn ExprSchema) -> Option<RangeInclusive<i128>> {
    match part(expr, schema) {
        Part::Sum(left, minus, right) => sum(&range(left, schema)?, minus, &range(right, schema)?),
        Part::Wider(expr) => range(expr, schema),
        Part::Absolute(expr) => {
            let all = range(expr, schema)?;
            Some(0..=all.start().unsigned_abs().max(all.end().unsigned_abs()).try_into().ok()?)
        }
        Part::Term => match expr {
            Expr::Literal(value, _) => whole(value).map(|value| value..=value),
            Expr::Negative(inner) => match &**inner {
                Expr::Literal(value, _) => whole(value).map(|value| -value..=-value),
                _ => values(&expr.get_type(schema).ok()?),
            },
            other => values(&other.get_type(schema).ok()?),
        },
    }
}

/// Returns whether a sum in an integer expression may leave its type.
fn may_wrap(expr: &Expr, schema: &dyn ExprSchema) -> bool {
    let within = match part(expr, schema) {
        Part::Sum(left, _, right) => may_wrap(left, schema) || may_wrap(right, schema),
        Part::Absolute(inner) | Part::Wider(inner) => may_wrap(inner, schema),
        Part::Term => return false,
    };
    let own = || {
        let all = expr.get_type(schema).ok().as_ref().and_then(values)?;
        Some(!is_within(&range(expr, schema)?, &all))
    };
    within || own().unwrap_or(false)
}

/// Returns a sum of terms that are cast to `wide`.
fn sum_of(expr: Expr, wide: &DataType) -> Expr {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) => {
            let [left, right] = [left, right].map(|term| Box::new(sum_of(*term, wide)));
            Expr::BinaryExpr(BinaryExpr { left, op, right })
        }
        Expr::ScalarFunction(mut function) if function.func.name() == "abs" => {
            function.args = function.args.into_iter().map(|term| sum_of(term, wide)).collect();
            Expr::ScalarFunction(function)
        }
        // A cast that kept the value of a sum.
        Expr::Cast(Cast { expr, field }) if values(field.data_type()).is_some() && is_sum(&expr) => sum_of(*expr, wide),
        other => cast(other, wide.clone()),
    }
}

fn is_sum(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(op, Operator::Plus | Operator::Minus),
        Expr::Cast(Cast { expr, .. }) => is_sum(expr),
        _ => false,
    }
}
