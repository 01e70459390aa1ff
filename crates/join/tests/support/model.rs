//! The model: the same joins, computed pair by pair.

use std::{cmp::Ordering, ops::Bound};

use annulus_join::{JoinType, MergeCondition, Offset, Side};

use super::values::{Kind, Table, Value, compare};

/// A row of output: the number of the row of each side, if it has one. A mark is 1 or 0 in the place of the other side.
pub type Pair = (Option<i32>, Option<i32>);

/// Returns whether a pair of rows of the build and the probe side satisfies the merge join's own
/// condition.
pub fn satisfies(condition: &MergeCondition, kinds: &[Kind], build: &[Value], probe: &[Value]) -> bool {
    let equal = condition.equal.iter().all(|keys| match (&build[keys.build], &probe[keys.probe]) {
        (Value::Null, Value::Null) => condition.nulls_equal,
        (build, probe) => compare(kinds[keys.build], build, probe) == Some(Ordering::Equal),
    });
    equal
        && [condition.band, condition.second].into_iter().flatten().all(|band| {
            let (kind, build, probe) = (kinds[band.keys.build], &build[band.keys.build], &probe[band.keys.probe]);
            let at_least = |order| matches!(order, Some(Ordering::Greater | Ordering::Equal));
            let low = match band.low {
                Bound::Unbounded => compare(kind, build, probe).is_some(),
                Bound::Included(by) => at_least(compare(kind, build, &plus(kind, probe, by))),
                Bound::Excluded(by) => compare(kind, build, &plus(kind, probe, by)) == Some(Ordering::Greater),
            };
            let high = match band.high {
                Bound::Unbounded => compare(kind, build, probe).is_some(),
                Bound::Included(by) => at_least(compare(kind, &plus(kind, probe, by), build)),
                Bound::Excluded(by) => compare(kind, &plus(kind, probe, by), build) == Some(Ordering::Greater),
            };
            low && high
        })
}

fn plus(kind: Kind, value: &Value, by: Offset) -> Value {
    match (value, by) {
        (Value::Int(value), Offset::Int(by)) => Value::Int(value.saturating_add(by)),
        (Value::Float(value), by) => {
            let by = match by {
                Offset::Int(by) => by as f64,
                Offset::Float(by) => by,
            };
            let float32 = || f64::from(*value as f32 + by as f32);
            let sum = if kind == Kind::Float32 { float32() } else { value + by };
            Value::Float(match (value.is_nan(), sum.is_nan()) {
                (true, _) => *value,
                (false, true) => f64::NAN,
                (false, false) => sum,
            })
        }
        _ => Value::Null,
    }
}

/// Returns the answer of the tests' filter for a pair of rows of the left and the right side.
pub fn filter(left: i32, right: i32) -> Option<bool> {
    match (left * 7 + right * 3) % 5 {
        0 => None,
        1 => Some(false),
        _ => Some(true),
    }
}

/// Returns the output of a join, sorted.
pub fn join(join: JoinType, left: &Table, right: &Table, matches: impl Fn(i32, i32) -> bool) -> Vec<Pair> {
    let (left, right) = (0..left.rows.len() as i32, 0..right.rows.len() as i32);
    let right_of = |l: i32| right.clone().filter(|&r| matches(l, r)).collect::<Vec<_>>();
    let left_of = |r: i32| left.clone().filter(|&l| matches(l, r)).collect::<Vec<_>>();
    let mut pairs: Vec<Pair> = Vec::new();
    if matches!(join, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full) {
        pairs.extend(left.clone().flat_map(|l| right_of(l).into_iter().map(move |r| (Some(l), Some(r)))));
    }
    let lefts = |matched: bool| left.clone().filter(|&l| right_of(l).is_empty() != matched).collect::<Vec<_>>();
    let rights = |matched: bool| right.clone().filter(|&r| left_of(r).is_empty() != matched).collect::<Vec<_>>();
    match join {
        JoinType::Left | JoinType::LeftAnti => pairs.extend(lefts(false).into_iter().map(|l| (Some(l), None))),
        JoinType::LeftSemi => pairs.extend(lefts(true).into_iter().map(|l| (Some(l), None))),
        JoinType::RightSemi => pairs.extend(rights(true).into_iter().map(|r| (None, Some(r)))),
        JoinType::LeftMark => pairs.extend(left.clone().map(|l| (Some(l), Some(i32::from(!right_of(l).is_empty()))))),
        JoinType::RightMark => pairs.extend(right.clone().map(|r| (Some(i32::from(!left_of(r).is_empty())), Some(r)))),
        _ => {}
    }
    if matches!(join, JoinType::Full) {
        pairs.extend(lefts(false).into_iter().map(|l| (Some(l), None)));
    }
    if matches!(join, JoinType::Right | JoinType::Full | JoinType::RightAnti) {
        pairs.extend(rights(false).into_iter().map(|r| (None, Some(r))));
    }
    pairs.sort_unstable();
    pairs
}

/// Converts values of the left and right side to those of the build and probe side, or back.
pub fn by_role<T>(build: Side, left: T, right: T) -> (T, T) {
    if build == Side::Left { (left, right) } else { (right, left) }
}
