//! The condition of a join, split by what evaluates it.

use std::{iter, mem, sync::Arc};

use annulus_join::{Band, BandParts, KeyPair, MergeCondition, MergeJoin, Offset, Side, Sides};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::{
    logical_expr::Operator,
    physical_expr::{PhysicalExpr, conjunction, expressions::BinaryExpr, split_conjunction},
    physical_plan::joins::utils::JoinFilter,
};

use super::{
    difference,
    term::{Columns, Key},
    whole,
};
use crate::join::convert;

/// The condition of a join: equal keys, a band, a second band, and a filter on pairs.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) equal: Vec<Equality>,
    /// Whether null is equal to null in the equal keys.
    pub(super) nulls_equal: bool,
    pub(super) band: BandParts<Key, Key>,
    /// A band of two other keys.
    pub(super) second: Option<BandParts<Key, Key>>,
    /// The other predicates, over the columns of the join's filter.
    pub(super) rest: Option<Arc<dyn PhysicalExpr>>,
}

/// A predicate that compares a key of each side for equality.
#[derive(Clone, Debug)]
pub(super) struct Equality {
    pub(super) keys: Sides<Key>,
    predicate: Key,
    nulls_equal: bool,
}

/// The equal keys of a join, and the other predicates.
#[derive(Clone, Debug)]
pub(in crate::join) struct Equalities {
    equal: Vec<Equality>,
    /// Whether null is equal to null in the keys.
    pub(in crate::join) nulls_equal: bool,
    /// The other predicates, over the columns of the join's filter.
    pub(in crate::join) rest: Option<Arc<dyn PhysicalExpr>>,
}

impl Equalities {
    /// Returns those of `filter`; `None` if there are none, or a predicate is volatile.
    pub(in crate::join) fn from_filter(filter: &JoinFilter) -> Option<Self> {
        let (equal, rest) = equalities(filter)?;
        let nulls_equal = equal.first()?.nulls_equal;
        Some(Self { equal, nulls_equal, rest: (!rest.is_empty()).then(|| conjunction(rest)) })
    }

    /// Returns the keys of a side.
    pub(in crate::join) fn keys(&self, side: Side) -> impl Iterator<Item = &Key> + Clone {
        self.equal.iter().map(move |equal| &equal.keys[side])
    }
}

/// Returns the equal keys of `filter`, and its other predicates; `None` if a predicate is volatile.
fn equalities(filter: &JoinFilter) -> Option<(Vec<Equality>, Vec<Key>)> {
    if is_volatile(filter.expression()) {
        return None;
    }
    let columns = Columns::new(filter);
    let (mut equal, mut rest) = (Vec::<Equality>::new(), Vec::new());
    for predicate in split_conjunction(filter.expression()) {
        match equality(&columns, predicate) {
            Some(found) if equal.first().is_none_or(|first| first.nulls_equal == found.nulls_equal) => {
                equal.push(found);
            }
            _ => rest.push(Arc::clone(predicate)),
        }
    }
    Some((equal, rest))
}

impl Condition {
    /// Returns the parts of `filter`, with the left side as the build side. `None` if no predicate
    /// bounds a key of the left side by one of the right side, or a predicate is volatile.
    pub(super) fn from_filter(filter: &JoinFilter) -> Option<Self> {
        let (equal, others) = equalities(filter)?;
        let columns = Columns::new(filter);
        let (mut bands, mut rest) = (Vec::new(), Vec::new());
        for predicate in others {
            match bounds(&columns, &predicate) {
                Some(found) => bands.push(found),
                None => rest.push(predicate),
            }
        }
        let (band, others) = BandParts::best_in_interval(bands);
        // Each of them was a bound before.
        let others = others.iter().filter_map(|predicate| bounds(&columns, predicate));
        let (second, others) = BandParts::best(others);
        rest.extend(others);
        let nulls_equal = equal.first().is_some_and(|first| first.nulls_equal);
        Some(Self { equal, nulls_equal, band: band?, second, rest: (!rest.is_empty()).then(|| conjunction(rest)) })
    }

    /// Returns the keys of a side: the equal ones, then those of the band and of the second band.
    /// The right side's may have another one for the band's high bound, which comes last.
    pub(super) fn keys(&self, side: Side) -> impl Iterator<Item = &Key> + Clone {
        let high = self.band.high_key.as_ref().filter(|_| side == Side::Right);
        let bands = iter::once(&self.band).chain(&self.second).map(move |band| &band.keys[side]);
        self.equal.iter().map(move |equal| &equal.keys[side]).chain(bands).chain(high)
    }

    /// Returns the condition over key columns at these places, which are in the order of
    /// [`keys`](Self::keys).
    pub(super) fn merge(&self, places: Sides<&[usize]>) -> MergeCondition {
        let pair = |key: usize| KeyPair { build: places.left[key], probe: places.right[key] };
        let (band, second) = (self.equal.len(), self.equal.len() + 1);
        let bands = 1 + usize::from(self.second.is_some());
        MergeCondition {
            equal: (0..self.equal.len()).map(pair).collect(),
            nulls_equal: self.nulls_equal,
            band: self.band.band(Side::Left, pair(band)),
            high_key: places.right.get(self.equal.len() + bands).copied(),
            second: self.second.as_ref().and_then(|parts| parts.band(Side::Left, pair(second))),
        }
    }

    /// Returns the predicates that the merge evaluates as text, with the name of each part.
    pub(super) fn parts(&self) -> Vec<(&'static str, String)> {
        let text = |predicates: &[Key]| predicates.iter().map(whole::shown).collect::<Vec<_>>().join(" AND ");
        let equal: Vec<Key> = self.equal.iter().map(|equal| Arc::clone(&equal.predicate)).collect();
        let mut parts = vec![("equal", text(&equal)), ("band", text(&self.band.predicates))];
        parts.extend(self.second.as_ref().map(|second| ("second_band", text(&second.predicates))));
        parts.retain(|part| !part.1.is_empty());
        parts
    }
}

/// Returns the bound that a predicate sets, if a merge join can evaluate it.
fn bounds(columns: &Columns<'_>, predicate: &Key) -> Option<BandParts<Key, Key>> {
    let comparison: &BinaryExpr = predicate.downcast_ref()?;
    let op = convert::comparison(*comparison.op())?;
    if let Some(found) = difference::bounds(columns, (comparison.left(), op, comparison.right()), predicate) {
        return Some(found);
    }
    let data_type = columns.type_of(comparison.left())?;
    if columns.type_of(comparison.right())? != data_type || !can_be_banded(&data_type) {
        return None;
    }
    let parts = |a, b| BandParts::new(a, op, b, Arc::clone(predicate));
    let (a, b) = (comparison.left(), comparison.right());
    let keys = KeyPair { build: 0, probe: 0 };
    let with_offsets = columns.terms(a, b).and_then(|(a, b)| parts(a, b));
    // The offset of a float must be added to the key of the probe side.
    let usable = with_offsets.filter(|parts| parts.band(Side::Left, keys).is_some());
    usable.or_else(|| parts(columns.whole(a)?, columns.whole(b)?))
}

/// Returns the equality that a predicate states, if a merge join can evaluate it.
fn equality(columns: &Columns<'_>, predicate: &Key) -> Option<Equality> {
    let comparison: &BinaryExpr = predicate.downcast_ref()?;
    let nulls_equal = match comparison.op() {
        Operator::Eq => false,
        Operator::IsNotDistinctFrom => true,
        _ => return None,
    };
    let (a, b) = (comparison.left(), comparison.right());
    let data_type = columns.type_of(a)?;
    if columns.type_of(b)? != data_type || !can_be_equal(&data_type) {
        return None;
    }
    let (mut left, mut right) = (columns.whole(a)?, columns.whole(b)?);
    if left.side == Side::Right {
        mem::swap(&mut left, &mut right);
    }
    let sides = (left.side, right.side) == (Side::Left, Side::Right);
    let keys = Sides { left: left.key, right: right.key };
    sides.then(|| Equality { keys, predicate: Arc::clone(predicate), nulls_equal })
}

const FIRST: KeyPair = KeyPair { build: 0, probe: 0 };

/// Returns whether the merge join supports bands of keys of this type.
fn can_be_banded(data_type: &DataType) -> bool {
    let (low, high) = (std::ops::Bound::Included(Offset::Int(0)), std::ops::Bound::Unbounded);
    let band = Band { keys: FIRST, low, high };
    can_be(data_type, &MergeCondition { band: Some(band), ..MergeCondition::default() })
}

/// Returns whether the merge join supports equal keys of this type.
fn can_be_equal(data_type: &DataType) -> bool {
    can_be(data_type, &MergeCondition { equal: vec![FIRST], ..MergeCondition::default() })
}

fn can_be(data_type: &DataType, condition: &MergeCondition) -> bool {
    let schema = Schema::new(vec![Field::new("", data_type.clone(), true)]).into();
    MergeJoin::try_new(condition, &schema, &schema).is_ok()
}
