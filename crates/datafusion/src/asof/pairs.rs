//! The pairs of a join of which a query uses one for each row of a side, and the as-of join that gives them alone.

use std::sync::Arc;

use annulus_join::{AsOfBytes, AsOfComparison, AsOfKeys, Side, Sides};
use datafusion::{
    arrow::datatypes::DataType,
    common::{DFSchema, JoinType, NullEquality, ScalarValue},
    error::Result,
    logical_expr::{
        BinaryExpr, Expr, ExprSchemable, Extension, Join, LogicalPlan, LogicalPlanBuilder, Operator,
        expr::Sort,
        utils::{conjunction, split_conjunction},
    },
};

use super::{AsOfJoin, node};

/// The pairs that a query uses of a join: for each row of one side, those that are the first in some orders.
#[derive(Clone, Debug)]
pub(super) struct UsedPairs {
    /// What must be the same for all pairs of the row.
    of_row: Vec<Expr>,
    orders: Vec<Order>,
}

#[derive(Clone, Debug)]
struct Order {
    /// Expressions, and whether the greatest is first.
    by: Vec<(Expr, bool)>,
    /// Whether any pair serves if all pairs of the row are equal.
    may_be_of_row: bool,
}

/// What a query uses beside the values of the row: the greatest time of the other side, or the least.
struct UsedTime<'a> {
    time: &'a Expr,
    is_greatest: bool,
}

/// A join, as seen from the side of which each row has one pair at most.
struct Seen<'a> {
    join: &'a Join,
    side: Side,
}

impl UsedPairs {
    /// Returns the use of no pairs, by expressions that are the same for all pairs of a row.
    pub(super) fn new(of_row: Vec<Expr>) -> Self {
        Self { of_row, orders: Vec::new() }
    }

    /// Adds expressions that must be the same for all pairs of a row.
    pub(super) fn add_of_row(&mut self, exprs: impl IntoIterator<Item = Expr>) {
        self.of_row.extend(exprs);
    }

    /// Adds the first pair in an order, or with `is_last` the last one.
    pub(super) fn add_first(&mut self, order: &[Sort], is_last: bool) {
        let by = order.iter().map(|sort| (sort.expr.clone(), sort.asc == is_last)).collect();
        self.orders.push(Order { by, may_be_of_row: false });
    }

    /// Adds the greatest value of an expression, or the least.
    pub(super) fn add_extreme(&mut self, value: &Expr, is_greatest: bool) {
        self.orders.push(Order { by: vec![(value.clone(), is_greatest)], may_be_of_row: true });
    }

    /// Returns the same pairs of a plan in which other expressions have these values.
    pub(super) fn try_map(&self, map: impl Fn(&Expr) -> Option<Expr>) -> Option<Self> {
        let order = |order: &Order| {
            let by = order.by.iter().map(|(expr, is_greatest)| Some((map(expr)?, *is_greatest)));
            Some(Order { by: by.collect::<Option<_>>()?, ..*order })
        };
        let orders = self.orders.iter().map(order).collect::<Option<_>>()?;
        Some(Self { of_row: self.of_row.iter().map(&map).collect::<Option<_>>()?, orders })
    }

    /// Returns an as-of join that gives the pairs, with the columns of the join that gives all.
    ///
    /// # Errors
    /// If a plan cannot be built.
    pub(super) fn as_of_join(&self, join: &Join) -> Result<Option<LogicalPlan>> {
        let sides: &[Side] = match join.join_type {
            JoinType::Inner => &[Side::Left, Side::Right],
            JoinType::Left => &[Side::Left],
            JoinType::Right => &[Side::Right],
            _ => &[],
        };
        if join.null_equality == NullEquality::NullEqualsNull {
            return Ok(None);
        }
        let found = sides.iter().find_map(|&side| {
            let seen = Seen { join, side };
            seen.as_of_join(&self.time(&seen)?)
        });
        let Some(found) = found else { return Ok(None) };
        let plan = LogicalPlanBuilder::from(LogicalPlan::Extension(Extension { node: Arc::new(found) }));
        let columns = join.schema.columns();
        Ok(Some(if plan.schema().columns() == columns { plan } else { plan.project(columns)? }.build()?))
    }

    /// Returns what the orders have beside values that are the same for all pairs of a row.
    fn time<'a>(&'a self, join: &Seen<'_>) -> Option<UsedTime<'a>> {
        let mut used: Option<UsedTime<'_>> = None;
        for Order { by, may_be_of_row } in &self.orders {
            let mut others = by.iter().filter(|(expr, _)| !join.is_of_row(expr));
            let Some((time, is_greatest)) = others.next() else { if *may_be_of_row { continue } else { return None } };
            let is_same = |used: &UsedTime<'_>| used.time == time && used.is_greatest == *is_greatest;
            if others.next().is_some() || !used.as_ref().is_none_or(is_same) {
                return None;
            }
            used = Some(UsedTime { time, is_greatest: *is_greatest });
        }
        used.filter(|_| self.of_row.iter().all(|expr| join.is_of_row(expr)))
    }
}

impl Seen<'_> {
    fn schema(&self, side: Side) -> &DFSchema {
        if side == Side::Left { self.join.left.schema() } else { self.join.right.schema() }
    }

    /// Returns whether an expression has the columns of a side alone.
    fn is_of(&self, side: Side, expr: &Expr) -> bool {
        expr.column_refs().into_iter().all(|column| self.schema(side).has_column(column)) && !expr.is_volatile()
    }

    /// Returns whether an expression is the same for all pairs of a row.
    fn is_of_row(&self, expr: &Expr) -> bool {
        // Equal zeros of floats differ in an expression.
        let is_key = |column: &Expr| {
            let pairs = self.join.on.iter();
            let mut keys = pairs.map(|(left, right)| if self.side == Side::Left { right } else { left });
            let data_type = column.get_type(self.schema(self.side.other()));
            keys.any(|key| key == column) && data_type.is_ok_and(|data_type| !data_type.is_floating())
        };
        let is_of_row =
            |&column: &&_| self.schema(self.side).has_column(column) || is_key(&Expr::Column(column.clone()));
        expr.column_refs().iter().all(is_of_row) && !expr.is_volatile()
    }

    /// Returns the as-of join that gives the pair of each row with this time.
    fn as_of_join(&self, used: &UsedTime<'_>) -> Option<AsOfJoin> {
        let (mut compared, mut bounds) = (Vec::new(), Vec::new());
        for conjunct in split_conjunction(self.join.filter.as_ref()?) {
            let (row, comparison, other) = self.comparison(conjunct)?;
            let is_before = matches!(comparison, AsOfComparison::AtOrAfter | AsOfComparison::After);
            if is_before == used.is_greatest && other == used.time {
                compared.push((row, conjunct));
            } else if is_before != used.is_greatest && used.is_ascending(other, self.schema(self.side.other())) {
                // If the nearest time is outside, so are all others.
                bounds.push(conjunct.clone());
            } else {
                return None;
            }
        }
        let &[(row, conjunct)] = &compared[..] else { return None };
        let on: Vec<_> = self.join.on.iter().map(|(left, right)| Sides { left, right }).collect();
        if !self.are_joined(&on, row, used.time)? {
            return None;
        }
        let on = on.iter().map(|pair| pair.left.clone().eq(pair.right.clone())).collect();
        let condition = conjunction([conjunct.clone()].into_iter().chain(bounds))?;
        let (left, right) = (self.join.left.as_ref().clone(), self.join.right.as_ref().clone());
        let (row_side, other) = if self.side == Side::Left { (left, right) } else { (right, left) };
        let join = AsOfJoin::try_new(row_side, other, condition, on).ok()?;
        if self.join.join_type == JoinType::Inner { join.inner().ok() } else { Some(join) }
    }

    /// Returns a comparison of both sides: the row's expression, its comparison, and the other one.
    fn comparison<'a>(&self, expr: &'a Expr) -> Option<(&'a Expr, AsOfComparison, &'a Expr)> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
        let is_of = |side, expr: &Expr| self.is_of(side, expr) && !expr.column_refs().is_empty();
        let (row, other) = (self.side, self.side.other());
        if is_of(row, left) && is_of(other, right) {
            Some((left, node::comparison(*op)?, right))
        } else if is_of(other, left) && is_of(row, right) {
            Some((right, node::comparison(op.swap()?)?, left))
        } else {
            None
        }
    }

    /// Returns whether the operator joins keys and times of these types. Floats are left out: equal zeros differ
    /// in an order.
    fn are_joined(&self, on: &[Sides<&Expr>], row: &Expr, time: &Expr) -> Option<bool> {
        let data_type = |side: Side, expr: &Expr| expr.get_type(self.schema(side)).ok();
        let (row, time) = (data_type(self.side, row)?, data_type(self.side.other(), time)?);
        let mut equal = Vec::new();
        for pair in on {
            let (left, right) = (data_type(Side::Left, pair.left)?, data_type(Side::Right, pair.right)?);
            if left != right {
                return Some(false);
            }
            equal.push(left);
        }
        let is_known = AsOfKeys::try_new(&equal, &time).is_ok()
            && AsOfBytes::try_new(&equal, &time, AsOfComparison::AtOrAfter).is_ok();
        Some(row == time && !time.is_floating() && is_known)
    }
}

impl UsedTime<'_> {
    /// Returns whether an expression grows with the time, or stays the same.
    fn is_ascending(&self, expr: &Expr, schema: &DFSchema) -> bool {
        let is_time = |expr: &Expr| expr == self.time;
        // Integers are compared with sums of integers as decimals.
        let is_decimal = |expr: &Expr| {
            let Expr::Cast(cast) = expr else { return false };
            let digits = self.time.get_type(schema).ok().and_then(|time| digits(&time));
            is_time(&cast.expr) && digits.is_some_and(|digits| holds(cast.field.data_type(), digits))
        };
        match expr {
            // Sums of integers may wrap, those of decimals and of points in time do not.
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right }) if is_decimal(left) => {
                matches!(right.as_ref(), Expr::Literal(ScalarValue::Decimal128(..) | ScalarValue::Decimal256(..), _))
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right }) => {
                let Ok(DataType::Timestamp(_, zone)) = self.time.get_type(schema) else { return false };
                is_time(left) && matches!(right.as_ref(), Expr::Literal(length, _) if is_fixed(length, zone.is_some()))
            }
            expr => is_time(expr) || is_decimal(expr),
        }
    }
}

/// Returns the digits of the integers of a type.
fn digits(data_type: &DataType) -> Option<u8> {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    match data_type {
        Int8 | UInt8 => Some(3),
        Int16 | UInt16 => Some(5),
        Int32 | UInt32 => Some(10),
        Int64 => Some(19),
        UInt64 => Some(20),
        _ => None,
    }
}

/// Returns whether a type has all integers of this many digits.
fn holds(decimal: &DataType, digits: u8) -> bool {
    matches!(decimal, DataType::Decimal128(precision, 0) | DataType::Decimal256(precision, 0) if *precision >= digits)
}

/// Returns whether a length of time is the same at all points in time. Months are not, and days are not in zones
/// that change their clocks: the sum of a later point and such a length may be earlier.
fn is_fixed(length: &ScalarValue, has_zone: bool) -> bool {
    let may_have_days = |days: i32| days == 0 || !has_zone;
    match length {
        ScalarValue::DurationSecond(_)
        | ScalarValue::DurationMillisecond(_)
        | ScalarValue::DurationMicrosecond(_)
        | ScalarValue::DurationNanosecond(_) => true,
        ScalarValue::IntervalDayTime(Some(length)) => may_have_days(length.days),
        ScalarValue::IntervalMonthDayNano(Some(length)) => length.months == 0 && may_have_days(length.days),
        _ => false,
    }
}
