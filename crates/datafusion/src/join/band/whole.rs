//! Terms that are whole numbers: sums that cannot wrap around, and integers behind a cast.

use std::{ops::RangeInclusive, sync::Arc};

use arrow::datatypes::DataType;
use datafusion::{
    common::{
        ScalarValue,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::Operator,
    physical_expr::expressions::{BinaryExpr, CastExpr, Literal},
};

use super::term::{Columns, Key};
use crate::compare::exact::{sum, values, whole};

/// Returns whether a sum or a difference of integers always stays in its type. A band adds no
/// numbers, so it cannot tell what a sum that wraps around is. Sums of other types do not wrap.
pub(super) fn stays_in_type(columns: &Columns<'_>, expr: &BinaryExpr, data_type: &DataType) -> bool {
    let Some(all) = values(data_type) else { return true };
    let minus = match expr.op() {
        Operator::Plus => false,
        Operator::Minus => true,
        _ => return false,
    };
    let terms = range(columns, expr.left()).zip(range(columns, expr.right()));
    let found = terms.and_then(|(left, right)| sum(&left, minus, &right));
    found.is_some_and(|found| all.contains(found.start()) && all.contains(found.end()))
}

/// Returns the values that an integer expression may have.
fn range(columns: &Columns<'_>, expr: &Key) -> Option<RangeInclusive<i128>> {
    let all = values(&columns.type_of(expr)?)?;
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return whole(literal.value()).map(|value| value..=value);
    }
    let narrower = match (expr.downcast_ref::<CastExpr>(), expr.downcast_ref::<BinaryExpr>()) {
        (Some(cast), _) => range(columns, cast.expr()),
        (_, Some(terms)) if matches!(terms.op(), Operator::Plus | Operator::Minus) => {
            let found = range(columns, terms.left()).zip(range(columns, terms.right()));
            found.and_then(|(left, right)| sum(&left, *terms.op() == Operator::Minus, &right))
        }
        _ => None,
    };
    // An expression that leaves its type wraps around, to any value.
    Some(narrower.filter(|found| all.contains(found.start()) && all.contains(found.end())).unwrap_or(all))
}

/// Returns the integers of two keys that are casts of the same integer type to decimals without
/// digits after the point: they have the same order, and half the width.
pub(super) fn uncast(columns: &Columns<'_>, a: &Key, b: &Key) -> Option<(Key, Key)> {
    let (a, b) = (integer(columns, a)?, integer(columns, b)?);
    (columns.type_of(&a)? == columns.type_of(&b)?).then_some((a, b))
}

fn integer(columns: &Columns<'_>, key: &Key) -> Option<Key> {
    let cast: &CastExpr = key.downcast_ref()?;
    let DataType::Decimal128(precision, 0) = columns.type_of(key)? else { return None };
    let inner = columns.type_of(cast.expr())?;
    if matches!(inner, DataType::Decimal128(_, 0)) {
        return integer(columns, cast.expr());
    }
    let all = values(&inner)?;
    let holds = 10_i128.checked_pow(precision.into()).is_none_or(|end| *all.end() < end && *all.start() > -end);
    holds.then(|| Arc::clone(cast.expr()))
}

/// Returns a predicate as text, without the casts that keep sums of integers from wrapping around.
pub(super) fn shown(predicate: &Key) -> String {
    let narrowed = Arc::clone(predicate).transform_up(|expr| {
        if let Some(cast) = expr.downcast_ref::<CastExpr>()
            && matches!(cast.cast_type(), DataType::Decimal128(_, 0))
        {
            return Ok(Transformed::yes(Arc::clone(cast.expr())));
        }
        let Some(literal) = expr.downcast_ref::<Literal>() else { return Ok(Transformed::no(expr)) };
        let &ScalarValue::Decimal128(Some(value), _, 0) = literal.value() else { return Ok(Transformed::no(expr)) };
        let Ok(value) = i64::try_from(value) else { return Ok(Transformed::no(expr)) };
        Ok(Transformed::yes(Arc::new(Literal::new(ScalarValue::Int64(Some(value)))) as Key))
    });
    narrowed.map_or_else(|_| predicate.to_string(), |narrowed| narrowed.data.to_string())
}
