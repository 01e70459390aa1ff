//! The condition of a join, split by what evaluates it.

use std::sync::Arc;

use annulus_join::{Band, BandParts, Comparison, KeyPair, MergeCondition, MergeJoin, Offset, Side};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::{
    logical_expr::Operator,
    physical_expr::{PhysicalExpr, conjunction, expressions::BinaryExpr, split_conjunction},
    physical_plan::joins::utils::JoinFilter,
};

use super::term::{Columns, Key};

/// The condition of a join: a band, and a filter on pairs.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) band: BandParts<Key, Key>,
    /// The other predicates, over the columns of the join's filter.
    pub(super) rest: Option<Arc<dyn PhysicalExpr>>,
}

impl Condition {
    /// Returns the parts of `filter`, with the left side as the build side. `None` if no predicate
    /// compares a key of the left side to one of the right side, or a predicate is volatile.
    pub(super) fn of(filter: &JoinFilter) -> Option<Self> {
        if is_volatile(filter.expression()) {
            return None;
        }
        let columns = Columns::new(filter);
        let (mut bands, mut rest) = (Vec::new(), Vec::new());
        for predicate in split_conjunction(filter.expression()) {
            match bounds(&columns, predicate) {
                Some(found) => bands.push(found),
                None => rest.push(Arc::clone(predicate)),
            }
        }
        let (band, others) = BandParts::best_in_interval(bands);
        rest.extend(others);
        Some(Self { band: band?, rest: (!rest.is_empty()).then(|| conjunction(rest)) })
    }

    /// Returns the band over key columns at these places.
    pub(super) fn band(&self, keys: KeyPair) -> Option<Band> {
        self.band.band(Side::Left, keys)
    }

    /// Returns the predicates of the band as text.
    pub(super) fn text(&self) -> String {
        let predicates: Vec<_> = self.band.predicates.iter().map(ToString::to_string).collect();
        predicates.join(" AND ")
    }
}

/// Returns the bound that a predicate sets, if a merge join can evaluate it.
fn bounds(columns: &Columns<'_>, predicate: &Key) -> Option<BandParts<Key, Key>> {
    let comparison: &BinaryExpr = predicate.downcast_ref()?;
    let op = match comparison.op() {
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    };
    let data_type = columns.type_of(comparison.left())?;
    if columns.type_of(comparison.right())? != data_type || !can_be_banded(&data_type) {
        return None;
    }
    let parts = |a, b| BandParts::new(a, op, b, Arc::clone(predicate));
    let (a, b) = (comparison.left(), comparison.right());
    let keys = KeyPair { build: 0, probe: 0 };
    let with_offsets = parts(columns.term(a)?, columns.term(b)?);
    // The offset of a float must be added to the key of the probe side.
    let usable = with_offsets.filter(|parts| parts.band(Side::Left, keys).is_some());
    usable.or_else(|| parts(columns.whole(a)?, columns.whole(b)?))
}

/// Returns whether the merge join supports bands of keys of this type.
fn can_be_banded(data_type: &DataType) -> bool {
    let schema = Schema::new(vec![Field::new("", data_type.clone(), true)]).into();
    let keys = KeyPair { build: 0, probe: 0 };
    let (low, high) = (std::ops::Bound::Included(Offset::Int(0)), std::ops::Bound::Unbounded);
    let condition = MergeCondition { band: Some(Band { keys, low, high }), ..MergeCondition::default() };
    MergeJoin::try_new(&condition, &schema, &schema).is_ok()
}
