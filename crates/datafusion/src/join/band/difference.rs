//! Bounds on the difference of two keys: `a.x - b.y <= 3`, `abs(a.x - b.y) < 3`.

use std::sync::Arc;

use annulus_join::{BandParts, Comparison, Offset, Term};
use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::{
    common::ScalarValue,
    logical_expr::Operator,
    physical_expr::{
        ScalarFunctionExpr,
        expressions::{BinaryExpr, CastExpr, Literal},
    },
};

use super::{
    term::{Columns, Key, offset, widened},
    whole,
};

/// Returns the bounds that a comparison of a difference to a constant sets. Differences of floats
/// are rounded, so they set none.
pub(super) fn bounds(
    columns: &Columns<'_>,
    (a, op, b): (&Key, Comparison, &Key),
    predicate: &Key,
) -> Option<BandParts<Key, Key>> {
    let (difference, op, constant) = match (a.downcast_ref::<Literal>(), b.downcast_ref::<Literal>()) {
        (None, Some(constant)) => (a, op, constant),
        (Some(constant), None) => (b, op.swapped(), constant),
        _ => return None,
    };
    let difference = uncast(columns, difference);
    let absolute = difference.downcast_ref::<ScalarFunctionExpr>().filter(|function| function.fun().name() == "abs");
    let difference = match absolute {
        Some(function) => uncast(columns, function.args().first()?),
        None => difference,
    };
    let minus: &BinaryExpr = difference.downcast_ref()?;
    let data_type = columns.type_of(minus.left())?;
    if *minus.op() != Operator::Minus || data_type.is_floating() || columns.type_of(minus.right())? != data_type {
        return None;
    }
    if !whole::stays_in_type(columns, minus, &data_type) {
        return None;
    }
    // Intervals with more days are greater, however many hours the others have.
    if matches!(constant.value(), ScalarValue::IntervalMonthDayNano(Some(value)) if value.days != 0) {
        return None;
    }
    let by = match columns.type_of(difference)? {
        days if data_type == DataType::Date32 && days.is_integer() => offset(&days, constant.value())?,
        _ => offset(&data_type, constant.value())?,
    };
    let (left, right) = (minus.left(), minus.right());
    let (left, right) = whole::uncast(columns, left, right).unwrap_or((Arc::clone(left), Arc::clone(right)));
    let part = |op, by: Offset| {
        let right = Term { offset: by, ..columns.whole(&right)? };
        BandParts::new(columns.whole(&left)?, op, right, Arc::clone(predicate))
    };
    match (absolute, op) {
        (None, op) => part(op, by),
        // Beyond a distance, there are two ranges.
        (Some(_), Comparison::Greater | Comparison::GreaterOrEqual) => None,
        (Some(_), op) => part(op, by)?.and(part(op.swapped(), by.negated()?)?),
    }
}

/// Returns what a cast that keeps all values is of.
fn uncast<'a>(columns: &Columns<'_>, expr: &'a Key) -> &'a Key {
    let Some(cast) = expr.downcast_ref::<CastExpr>() else { return expr };
    let types = columns.type_of(cast.expr()).zip(columns.type_of(expr));
    let keeps_values = types.is_some_and(|(from, to)| {
        let wider = from.is_integer() && to.is_signed_integer() && from.primitive_width() < to.primitive_width();
        let time = matches!((&from, &to), (DataType::Duration(_), DataType::Interval(IntervalUnit::MonthDayNano)));
        wider || time || widened(&from, &to).is_some()
    });
    if keeps_values { uncast(columns, cast.expr()) } else { expr }
}
