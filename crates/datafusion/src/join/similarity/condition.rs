//! The condition of a similarity join, split by what evaluates it.

use std::sync::Arc;

use annulus_join::{Comparison, EditDistance, Likeness, Side, Sides, TextCondition, VectorThreshold};
use arrow::datatypes::DataType;
use datafusion::{
    common::ScalarValue,
    logical_expr::Operator,
    physical_expr::{
        ScalarFunctionExpr, conjunction,
        expressions::{BinaryExpr, CastExpr, Literal},
        split_conjunction,
    },
    physical_expr_common::physical_expr::is_volatile,
    physical_plan::joins::utils::JoinFilter,
};

use super::vectors::{vector_argument, vector_metric};
use crate::{
    functions::TokenFunction,
    join::{
        band::{Columns, Key},
        convert,
    },
};

/// The condition of a similarity join.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) likeness: Likeness,
    /// The texts or vectors of each side, then the keys that are equal.
    pub(super) keys: Sides<Vec<Key>>,
    /// The predicate that the likeness evaluates.
    pub(super) predicate: Key,
    /// The other predicates, over the columns of the join's filter.
    pub(super) rest: Option<Key>,
}

/// Returns whether a condition bounds the likeness of texts, which may stand beside equal keys.
pub(crate) fn is_similarity(filter: &JoinFilter) -> bool {
    Condition::from_filter(filter).is_some_and(|condition| matches!(condition.likeness, Likeness::Texts(_)))
}

impl Condition {
    /// Returns the parts of `filter`. `None` if no predicate bounds the likeness of both sides, or a predicate
    /// is volatile.
    pub(super) fn from_filter(filter: &JoinFilter) -> Option<Self> {
        if is_volatile(filter.expression()) {
            return None;
        }
        let columns = Columns::new(filter);
        let predicates = split_conjunction(filter.expression());
        let found = |predicate: &&Key| Some((Arc::clone(predicate), likeness(filter, &columns, predicate)?));
        let (predicate, (likeness, alike)) = predicates.iter().find_map(found)?;
        let others = predicates.into_iter().filter(|other| !Arc::ptr_eq(other, &predicate)).map(Arc::clone);
        let others: Vec<Key> = others.collect();
        let mut keys = alike.map(|key| vec![key]);
        if let Likeness::Texts(_) = likeness {
            for equal in others.iter().filter_map(|other| equal_keys(filter, &columns, other)) {
                keys.left.push(equal.left);
                keys.right.push(equal.right);
            }
        }
        Some(Self { likeness, keys, predicate, rest: (!others.is_empty()).then(|| conjunction(others)) })
    }
}

/// Returns what a predicate says of the likeness of an expression of each side.
fn likeness(filter: &JoinFilter, columns: &Columns<'_>, predicate: &Key) -> Option<(Likeness, Sides<Key>)> {
    let comparison: &BinaryExpr = predicate.downcast_ref()?;
    let op = convert::comparison(*comparison.op())?;
    let (call, op, value) = match (number(comparison.left()), number(comparison.right())) {
        (None, Some(value)) => (comparison.left(), op, value),
        (Some(value), None) => (comparison.right(), op.swapped(), value),
        _ => return None,
    };
    let call = call.downcast_ref::<CastExpr>().map_or(call, CastExpr::expr);
    let function: &ScalarFunctionExpr = call.downcast_ref()?;
    let (name, [a, b, rest @ ..]) = (function.fun().name(), function.args()) else { return None };
    if let Some(metric) = vector_metric(name) {
        let (a, b) = (vector_argument(a, filter.schema())?, vector_argument(b, filter.schema())?);
        let threshold = VectorThreshold { comparison: op, value };
        return Some((Likeness::Vectors(metric, threshold), sides(columns, &a, &b)?));
    }
    let condition = match (name, op) {
        ("levenshtein", Comparison::LessOrEqual) => TextCondition::Distance(edits(value.floor())?),
        ("levenshtein", Comparison::Less) => TextCondition::Distance(edits(value.ceil() - 1.0)?),
        (_, Comparison::GreaterOrEqual | Comparison::Greater) => {
            let least = if op == Comparison::Greater { value.next_up() } else { value };
            TextCondition::Similarity(TokenFunction::similarity(name, rest.first().and_then(integer), least)?)
        }
        _ => return None,
    };
    let is_text =
        |expr: &Key| matches!(columns.type_of(expr), Some(DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View));
    if !is_text(a) || !is_text(b) {
        return None;
    }
    Some((Likeness::Texts(condition), sides(columns, a, b)?))
}

/// Returns the largest number of edits.
fn edits(most: f64) -> Option<EditDistance> {
    // A text has fewer characters than this.
    let is_count = (0.0..=f64::from(u32::MAX)).contains(&most);
    is_count.then_some(EditDistance { most: most as u32 })
}

/// Returns two expressions by the side whose columns they have; `None` if they are not of one side each.
fn sides(columns: &Columns<'_>, a: &Key, b: &Key) -> Option<Sides<Key>> {
    let (a, b) = (columns.whole(a)?, columns.whole(b)?);
    match (a.side, b.side) {
        (Side::Left, Side::Right) => Some(Sides { left: a.key, right: b.key }),
        (Side::Right, Side::Left) => Some(Sides { left: b.key, right: a.key }),
        _ => None,
    }
}

/// Returns the keys that a predicate compares, if equal ones have equal hashes: not floats, of which -0.0 and
/// 0.0 are equal.
fn equal_keys(filter: &JoinFilter, columns: &Columns<'_>, predicate: &Key) -> Option<Sides<Key>> {
    let comparison: &BinaryExpr = predicate.downcast_ref()?;
    let (a, b) = (comparison.left(), comparison.right());
    let types = (a.data_type(filter.schema()).ok()?, b.data_type(filter.schema()).ok()?);
    let is_hashed = types.0 == types.1 && !types.0.is_floating() && !types.0.is_nested();
    if *comparison.op() != Operator::Eq || !is_hashed {
        return None;
    }
    sides(columns, a, b)
}

fn number(expr: &Key) -> Option<f64> {
    let value = expr.downcast_ref::<Literal>()?.value().cast_to(&DataType::Float64).ok()?;
    match value {
        ScalarValue::Float64(value) => value,
        _ => None,
    }
}

fn integer(expr: &Key) -> Option<i64> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::Int64(value) => *value,
        _ => None,
    }
}
