//! Bands: comparisons that bound the difference of two keys.

use std::ops::Bound;

use annulus_join::{Band, KeyPair, MergeCondition, MergeJoin, Offset, Side, Sides};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::{
    logical_expr::{BinaryExpr, Expr, Operator},
    scalar::ScalarValue,
};

use super::sql::Sql;

/// `low <= left - right <= high`.
#[derive(Clone)]
pub(super) struct BandParts {
    /// The keys of the left and the right side.
    pub(super) keys: Sides<Expr>,
    pub(super) low: Bound<Offset>,
    pub(super) high: Bound<Offset>,
    /// For floats, the side to which offsets are added. The side matters because sums are rounded.
    pub(super) offset_side: Option<Side>,
    /// The predicates that the band replaces.
    pub(super) whole: Vec<Expr>,
}

/// The sum of an expression over one side and a constant.
struct Term {
    expr: Expr,
    side: Side,
    offset: Offset,
}

/// Returns the band of a comparison, if it is one.
pub(super) fn parts(sql: &Sql, part: &Expr) -> Option<BandParts> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = part else { return None };
    if !matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq) {
        return None;
    }
    let (a, b) = (term(sql, left)?, term(sql, right)?);
    let (left, op, right) = match (a.side, b.side) {
        (Side::Left, Side::Right) => (a, *op, b),
        (Side::Right, Side::Left) => (b, op.swap()?, a),
        _ => return None,
    };
    let data_type = sql.type_of(&left.expr).ok()?;
    if sql.type_of(&right.expr).ok()? != data_type || !can_be_banded(&data_type) {
        return None;
    }
    let (offset, offset_side) = difference(right.offset, left.offset)?;
    let (low, high) = match op {
        Operator::Lt => (Bound::Unbounded, Bound::Excluded(offset)),
        Operator::LtEq => (Bound::Unbounded, Bound::Included(offset)),
        Operator::Gt => (Bound::Excluded(offset), Bound::Unbounded),
        _ => (Bound::Included(offset), Bound::Unbounded),
    };
    Some(BandParts {
        keys: Sides { left: left.expr, right: right.expr },
        low,
        high,
        offset_side,
        whole: vec![part.clone()],
    })
}

/// Returns the band with the most bounds, and the conditions of the others.
pub(super) fn best(found: Vec<(BandParts, Expr)>) -> (Option<BandParts>, Vec<Expr>) {
    let mut bands: Vec<BandParts> = Vec::new();
    let mut others = Vec::new();
    for (band, part) in found {
        match bands.iter_mut().find(|other| other.keys == band.keys) {
            Some(other) => {
                if !other.merge(band) {
                    others.push(part);
                }
            }
            None => bands.push(band),
        }
    }
    let bounds = |band: &BandParts| band.whole.len();
    let Some(best) = (0..bands.len()).rev().max_by_key(|&place| bounds(&bands[place])) else {
        return (None, others);
    };
    let best = bands.swap_remove(best);
    others.extend(bands.into_iter().flat_map(|band| band.whole));
    (Some(best), others)
}

impl BandParts {
    /// Adds the other band's bound, if this band lacks it and both round the same side.
    fn merge(&mut self, other: Self) -> bool {
        let sides = match (self.offset_side, other.offset_side) {
            (Some(a), Some(b)) if a != b => return false,
            (a, b) => a.or(b),
        };
        match (&mut self.low, &mut self.high, other.low, other.high) {
            (low @ Bound::Unbounded, _, bound @ (Bound::Included(_) | Bound::Excluded(_)), _) => *low = bound,
            (_, high @ Bound::Unbounded, _, bound @ (Bound::Included(_) | Bound::Excluded(_))) => *high = bound,
            _ => return false,
        }
        self.offset_side = sides;
        self.whole.extend(other.whole);
        true
    }

    /// Returns the band with `build` as the stationary side, over key columns at these places.
    /// Returns `None` if it would round differently.
    pub(super) fn band(&self, build: Side, keys: KeyPair) -> Option<Band> {
        // The band is `probe + offset`.
        if self.offset_side == Some(build) {
            return None;
        }
        let (low, high) = match build {
            Side::Left => (self.low, self.high),
            Side::Right => (negated(self.high)?, negated(self.low)?),
        };
        Some(Band { keys, low, high })
    }
}

fn negated(bound: Bound<Offset>) -> Option<Bound<Offset>> {
    let negate = |offset| match offset {
        Offset::Int(value) => i128::checked_neg(value).map(Offset::Int),
        Offset::Float(value) => Some(Offset::Float(-value)),
    };
    Some(match bound {
        Bound::Included(offset) => Bound::Included(negate(offset)?),
        Bound::Excluded(offset) => Bound::Excluded(negate(offset)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

/// Splits `expr`, `expr + constant` or `expr - constant`.
fn term(sql: &Sql, expr: &Expr) -> Option<Term> {
    let (inner, offset) = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (&**left, op, &**right) {
            (inner, Operator::Plus, Expr::Literal(value, _)) => (inner, constant(sql, inner, value)),
            (Expr::Literal(value, _), Operator::Plus, inner) => (inner, constant(sql, inner, value)),
            (inner, Operator::Minus, Expr::Literal(value, _)) => {
                (inner, constant(sql, inner, value).and_then(negated_offset))
            }
            _ => (expr, None),
        },
        _ => (expr, None),
    };
    let (expr, offset) = match offset {
        Some(offset) => (inner, offset),
        None => (expr, Offset::Int(0)),
    };
    Some(Term { side: sql.only_side(expr)?, expr: expr.clone(), offset })
}

fn negated_offset(offset: Offset) -> Option<Offset> {
    match negated(Bound::Included(offset))? {
        Bound::Included(offset) => Some(offset),
        _ => None,
    }
}

/// Returns `right - left` of two constants, and for floats the side to which the difference is
/// added.
fn difference(right: Offset, left: Offset) -> Option<(Offset, Option<Side>)> {
    match (right, left) {
        (Offset::Int(right), Offset::Int(left)) => Some((Offset::Int(right.checked_sub(left)?), None)),
        (right @ Offset::Float(_), Offset::Int(0)) => Some((right, Some(Side::Right))),
        (Offset::Int(0), left @ Offset::Float(_)) => Some((negated_offset(left)?, Some(Side::Left))),
        _ => None,
    }
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
