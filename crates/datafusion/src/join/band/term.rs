//! The terms of a comparison: a key of one side, and a constant.

use std::sync::Arc;

use annulus_join::{Offset, Side, Term};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::{
    common::{
        JoinSide, ScalarValue,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, CastExpr, Column, Literal},
        utils::collect_columns,
    },
    physical_plan::joins::utils::{ColumnIndex, JoinFilter},
};

use super::whole;

/// A key: an expression over the columns of one side.
pub(in crate::join) type Key = Arc<dyn PhysicalExpr>;

/// The columns that the filter of a join reads.
pub(in crate::join) struct Columns<'a> {
    schema: &'a SchemaRef,
    places: &'a [ColumnIndex],
}

impl<'a> Columns<'a> {
    pub(in crate::join) fn new(filter: &'a JoinFilter) -> Self {
        Self { schema: filter.schema(), places: filter.column_indices() }
    }

    /// Splits two expressions that are compared, of the form `key + constant` or `key - constant`.
    /// If the constant cannot be an offset, or there is none, the key is the whole expression.
    pub(super) fn terms(&self, a: &Key, b: &Key) -> Option<(Term<Key>, Term<Key>)> {
        let split = |expr: &Key| self.sum(expr).unwrap_or_else(|| (Arc::clone(expr), Offset::Int(0)));
        let ((a, offset_of_a), (b, offset_of_b)) = (split(a), split(b));
        let (a, b) = whole::uncast(self, &a, &b).unwrap_or((a, b));
        Some((Term { offset: offset_of_a, ..self.whole(&a)? }, Term { offset: offset_of_b, ..self.whole(&b)? }))
    }

    /// Returns the expression as a key, with no offset.
    pub(in crate::join) fn whole(&self, expr: &Key) -> Option<Term<Key>> {
        let side = self.only_side(expr)?;
        Some(Term { key: self.of_side(expr)?, side, offset: Offset::Int(0) })
    }

    /// Returns the type of an expression.
    pub(in crate::join) fn type_of(&self, expr: &Key) -> Option<DataType> {
        expr.data_type(self.schema).ok()
    }

    /// Returns an expression over the columns of the filter, and the constant that is added to it.
    fn sum(&self, expr: &Key) -> Option<(Key, Offset)> {
        let data_type = self.type_of(expr)?;
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            let digits = widened(&self.type_of(cast.expr())?, &data_type)?;
            let (key, offset) = self.sum(cast.expr()).unwrap_or_else(|| (Arc::clone(cast.expr()), Offset::Int(0)));
            let Offset::Int(units) = offset else { return None };
            return Some((self.as_type(&key, &data_type)?, Offset::Int(units.checked_mul(power(digits)?)?)));
        }
        let sum: &BinaryExpr = expr.downcast_ref()?;
        let (left, right): (Option<&Literal>, Option<&Literal>) =
            (sum.left().downcast_ref(), sum.right().downcast_ref());
        let (key, constant, minus) = match (sum.op(), left, right) {
            (Operator::Plus, None, Some(constant)) => (sum.left(), constant, false),
            (Operator::Plus, Some(constant), None) => (sum.right(), constant, false),
            (Operator::Minus, None, Some(constant)) => (sum.left(), constant, true),
            _ => return None,
        };
        if !whole::stays_in_type(self, sum, &data_type) {
            return None;
        }
        let offset = offset(&data_type, constant.value())?;
        Some((self.as_type(key, &data_type)?, if minus { offset.negated()? } else { offset }))
    }

    /// Returns an expression with the same values, of this type.
    fn as_type(&self, expr: &Key, data_type: &DataType) -> Option<Key> {
        let of_expr = self.type_of(expr)?;
        if of_expr == *data_type {
            return Some(Arc::clone(expr));
        }
        widened(&of_expr, data_type)?;
        // One cast in the place of two, so that equal keys are seen to be equal.
        if let Some(cast) = expr.downcast_ref::<CastExpr>()
            && widened(&self.type_of(cast.expr())?, &of_expr).is_some()
        {
            return self.as_type(cast.expr(), data_type);
        }
        Some(Arc::new(CastExpr::new(Arc::clone(expr), data_type.clone(), None)))
    }

    /// Returns the side that has all columns of an expression.
    fn only_side(&self, expr: &Key) -> Option<Side> {
        let columns = collect_columns(expr);
        let mut sides = columns.iter().map(|column| self.places.get(column.index()).map(|place| place.side));
        let first = sides.next()??;
        if !sides.all(|side| side == Some(first)) {
            return None;
        }
        match first {
            JoinSide::Left => Some(Side::Left),
            JoinSide::Right => Some(Side::Right),
            JoinSide::None => None,
        }
    }

    /// Returns an expression over the columns of one side, as one over the side's own schema.
    fn of_side(&self, expr: &Key) -> Option<Key> {
        let of_side = |expr: Key| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let index = self.places[column.index()].index;
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), index)) as Key))
        };
        Some(Arc::clone(expr).transform_down(of_side).ok()?.data)
    }
}

/// Returns the digits after the point that the second of two decimals has beyond those of the
/// first, if it can hold all values of the first.
pub(super) fn widened(from: &DataType, to: &DataType) -> Option<u32> {
    let (DataType::Decimal128(digits, scale), DataType::Decimal128(to_digits, to_scale)) = (from, to) else {
        return None;
    };
    let more = u32::try_from(to_scale - scale).ok()?;
    (u32::from(*to_digits) >= u32::from(*digits) + more).then_some(more)
}

fn power(digits: u32) -> Option<i128> {
    10_i128.checked_pow(digits)
}

/// Converts a constant that is added to a value of type `data_type` to the units of this type.
pub(super) fn offset(data_type: &DataType, constant: &ScalarValue) -> Option<Offset> {
    let int = |value: i128| Some(Offset::Int(value));
    match constant {
        ScalarValue::Int8(Some(value)) if data_type.is_integer() => int((*value).into()),
        ScalarValue::Int16(Some(value)) if data_type.is_integer() => int((*value).into()),
        ScalarValue::Int32(Some(value)) if data_type.is_integer() => int((*value).into()),
        ScalarValue::Int64(Some(value)) if data_type.is_integer() => int((*value).into()),
        ScalarValue::UInt8(Some(value)) if data_type.is_integer() => int((*value).into()),
        ScalarValue::UInt16(Some(value)) if data_type.is_integer() => int((*value).into()),
        ScalarValue::UInt32(Some(value)) if data_type.is_integer() => int((*value).into()),
        ScalarValue::UInt64(Some(value)) if data_type.is_integer() => int((*value).into()),
        ScalarValue::Float32(Some(value)) if value.is_finite() && *data_type == DataType::Float32 => {
            Some(Offset::Float((*value).into()))
        }
        ScalarValue::Float64(Some(value)) if value.is_finite() && *data_type == DataType::Float64 => {
            Some(Offset::Float(*value))
        }
        ScalarValue::Decimal128(Some(value), _, from) => match data_type {
            DataType::Decimal128(_, to) => int(value.checked_mul(power(u32::try_from(to.checked_sub(*from)?).ok()?)?)?),
            _ => None,
        },
        ScalarValue::IntervalMonthDayNano(Some(value)) if value.months == 0 => {
            time(data_type, value.days.into(), value.nanoseconds.into())
        }
        ScalarValue::DurationSecond(Some(value)) => time(data_type, 0, i128::from(*value) * 1_000_000_000),
        ScalarValue::DurationMillisecond(Some(value)) => time(data_type, 0, i128::from(*value) * 1_000_000),
        ScalarValue::DurationMicrosecond(Some(value)) => time(data_type, 0, i128::from(*value) * 1_000),
        ScalarValue::DurationNanosecond(Some(value)) => time(data_type, 0, (*value).into()),
        _ => None,
    }
}

/// Returns a time span in the units of a date or a timestamp, if that is a whole number.
fn time(data_type: &DataType, days: i128, nanoseconds: i128) -> Option<Offset> {
    const DAY: i128 = 24 * 60 * 60 * 1_000_000_000;
    let unit = match data_type {
        // Dates ignore, or round, the time of a day.
        DataType::Date32 if nanoseconds == 0 => DAY,
        // In a time zone, days differ in length.
        DataType::Timestamp(unit, zone) if days == 0 || zone.is_none() => match unit {
            TimeUnit::Second => 1_000_000_000,
            TimeUnit::Millisecond => 1_000_000,
            TimeUnit::Microsecond => 1_000,
            TimeUnit::Nanosecond => 1,
        },
        _ => return None,
    };
    let span = days * DAY + nanoseconds;
    (span % unit == 0).then_some(Offset::Int(span / unit))
}
