//! Bands: comparisons that bound the difference of two keys.

use std::ops::Bound;

use annulus_join::{Band, Comparison, KeyPair, MergeCondition, MergeJoin, Offset, Term};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::{
    logical_expr::{BinaryExpr, Expr, Operator},
    scalar::ScalarValue,
};

use super::sql::Sql;

/// The bounds of a band, and the predicates that set them.
pub(super) type BandParts = annulus_join::BandParts<Expr, Expr>;

/// Returns the band of a comparison, if it is one.
pub(super) fn parts(sql: &Sql, part: &Expr) -> Option<BandParts> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = part else { return None };
    let op = match op {
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    };
    let (a, b) = (term(sql, left)?, term(sql, right)?);
    let data_type = sql.type_of(&a.key).ok()?;
    if sql.type_of(&b.key).ok()? != data_type || !can_be_banded(&data_type) {
        return None;
    }
    BandParts::new(a, op, b, part.clone())
}

/// Splits `expr`, `expr + constant` or `expr - constant`.
fn term(sql: &Sql, expr: &Expr) -> Option<Term<Expr>> {
    let (inner, offset) = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (&**left, op, &**right) {
            (inner, Operator::Plus, Expr::Literal(value, _)) => (inner, constant(sql, inner, value)),
            (Expr::Literal(value, _), Operator::Plus, inner) => (inner, constant(sql, inner, value)),
            (inner, Operator::Minus, Expr::Literal(value, _)) => {
                (inner, constant(sql, inner, value).and_then(Offset::negated))
            }
            _ => (expr, None),
        },
        _ => (expr, None),
    };
    let (expr, offset) = match offset {
        Some(offset) => (inner, offset),
        None => (expr, Offset::Int(0)),
    };
    Some(Term { side: sql.only_side(expr)?, key: expr.clone(), offset })
}

/// Converts a constant that is added to `inner` to the units of its type.
fn constant(sql: &Sql, inner: &Expr, value: &ScalarValue) -> Option<Offset> {
    use DataType::{Date32, Timestamp};
    let data_type = sql.type_of(inner).ok()?;
    let int = |value: i128| Some(Offset::Int(value));
    match value {
        ScalarValue::Int8(Some(value)) => int((*value).into()),
        ScalarValue::Int16(Some(value)) => int((*value).into()),
        ScalarValue::Int32(Some(value)) => int((*value).into()),
        ScalarValue::Int64(Some(value)) => int((*value).into()),
        ScalarValue::UInt8(Some(value)) => int((*value).into()),
        ScalarValue::UInt16(Some(value)) => int((*value).into()),
        ScalarValue::UInt32(Some(value)) => int((*value).into()),
        ScalarValue::UInt64(Some(value)) => int((*value).into()),
        ScalarValue::Float32(Some(value)) if value.is_finite() => Some(Offset::Float((*value).into())),
        ScalarValue::Float64(Some(value)) if value.is_finite() => Some(Offset::Float(*value)),
        ScalarValue::IntervalMonthDayNano(Some(value)) if value.months == 0 => match data_type {
            Date32 if value.nanoseconds == 0 => int(value.days.into()),
            // In a time zone, days differ in length.
            Timestamp(unit, zone) if value.days == 0 || zone.is_none() => {
                let nanoseconds = i128::from(value.days) * NANOSECONDS_A_DAY + i128::from(value.nanoseconds);
                let unit = nanoseconds_of(unit);
                (nanoseconds % unit == 0).then_some(Offset::Int(nanoseconds / unit))
            }
            _ => None,
        },
        _ => None,
    }
}

const NANOSECONDS_A_DAY: i128 = 24 * 60 * 60 * 1_000_000_000;

fn nanoseconds_of(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// Returns whether the merge join supports bands of keys of this type.
fn can_be_banded(data_type: &DataType) -> bool {
    let schema = Schema::new(vec![Field::new("", data_type.clone(), true)]).into();
    let keys = KeyPair { build: 0, probe: 0 };
    let band = Band { keys, low: Bound::Included(Offset::Int(0)), high: Bound::Unbounded };
    let condition = MergeCondition { band: Some(band), ..MergeCondition::default() };
    MergeJoin::try_new(&condition, &schema, &schema).is_ok()
}
