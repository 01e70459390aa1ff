//! What is known of the keys of a build side.

use std::sync::Arc;

use annulus_join::{KeyHashes, KeySet, KeySetBuilder};
use arrow::{
    array::{Array, ArrayRef},
    datatypes::DataType,
};
use datafusion::{
    error::Result,
    functions_aggregate::min_max::{MaxAccumulator, MinAccumulator},
    logical_expr::{Accumulator, Operator},
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, lit},
    },
};

/// A set that takes more than this share of other keys for members costs more than it saves.
const MOST_FALSE: f64 = 0.5;

/// The keys of a build side, or of a part of it.
#[derive(Debug)]
pub(in crate::join) struct Known {
    pub(super) columns: Vec<KeyColumn>,
    set: Option<KeySetBuilder>,
}

/// What is known of one key column.
#[derive(Debug)]
pub(super) struct KeyColumn {
    bounds: Option<Bounds>,
    pub(super) has_null: bool,
    pub(super) has_value: bool,
}

/// The least and the greatest key.
#[derive(Debug)]
struct Bounds {
    least: MinAccumulator,
    greatest: MaxAccumulator,
}

impl Known {
    /// Returns what is known of no rows, with keys of these types.
    ///
    /// # Errors
    /// If a type has no order, though it should.
    pub(in crate::join) fn new<'a>(types: impl Iterator<Item = &'a DataType>) -> Result<Self> {
        Ok(Self { columns: types.map(KeyColumn::new).collect::<Result<_>>()?, set: None })
    }

    /// Begins to collect a set of all keys in this number of bytes, if there are any.
    pub(in crate::join) fn collect_set(&mut self, bytes: usize) {
        self.set = (bytes > 0).then(|| KeySetBuilder::new(bytes));
    }

    /// Adds rows with these keys.
    ///
    /// # Errors
    /// If a kernel fails.
    pub(in crate::join) fn update(&mut self, keys: &[ArrayRef]) -> Result<()> {
        self.columns.iter_mut().zip(keys).try_for_each(|(column, keys)| column.update(keys))
    }

    /// Adds what is known of other rows, except for a set.
    ///
    /// # Errors
    /// If a kernel fails.
    pub(in crate::join) fn merge(&mut self, other: Self) -> Result<()> {
        self.columns.iter_mut().zip(other.columns).try_for_each(|(column, other)| column.merge(other))
    }

    /// Adds the keys of rows to the set, if one is collected.
    pub(in crate::join) fn insert(&mut self, keys: &KeyHashes) {
        if let Some(set) = &mut self.set {
            set.insert(keys);
        }
    }

    /// Returns what is known of all rows, and the set, if it drops enough of others.
    pub(in crate::join) fn complete(mut self) -> (Self, Option<KeySet>) {
        let set = self.set.take().filter(|set| set.false_positives() < MOST_FALSE);
        (self, set.map(KeySetBuilder::complete))
    }
}

impl KeyColumn {
    fn new(data_type: &DataType) -> Result<Self> {
        Ok(Self { bounds: Bounds::new(data_type)?, has_null: false, has_value: false })
    }

    fn update(&mut self, keys: &ArrayRef) -> Result<()> {
        let nulls = keys.logical_null_count();
        self.has_null |= nulls > 0;
        self.has_value |= nulls < keys.len();
        match &mut self.bounds {
            Some(bounds) => bounds.update(keys),
            None => Ok(()),
        }
    }

    fn merge(&mut self, other: Self) -> Result<()> {
        self.has_null |= other.has_null;
        self.has_value |= other.has_value;
        match (&mut self.bounds, other.bounds) {
            (Some(bounds), Some(mut other)) => {
                bounds.least.update_batch(&[other.least.evaluate()?.to_array()?])?;
                bounds.greatest.update_batch(&[other.greatest.evaluate()?.to_array()?])
            }
            _ => Ok(()),
        }
    }

    /// Returns the conditions that a key lies within the bounds.
    pub(super) fn bound_conditions(&mut self, key: &Arc<dyn PhysicalExpr>) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        let Some(Bounds { least, greatest }) = &mut self.bounds else { return Ok(Vec::new()) };
        let bound = |operator, bound| -> Arc<dyn PhysicalExpr> {
            Arc::new(BinaryExpr::new(Arc::clone(key), operator, lit(bound)))
        };
        Ok(vec![bound(Operator::GtEq, least.evaluate()?), bound(Operator::LtEq, greatest.evaluate()?)])
    }
}

impl Bounds {
    /// Returns nothing if the type has no order that scans can use.
    fn new(data_type: &DataType) -> Result<Option<Self>> {
        if !(data_type.is_integer() || data_type.is_temporal() || data_type.is_decimal() || data_type.is_string()) {
            return Ok(None);
        }
        let (least, greatest) = (MinAccumulator::try_new(data_type)?, MaxAccumulator::try_new(data_type)?);
        Ok(Some(Self { least, greatest }))
    }

    fn update(&mut self, keys: &ArrayRef) -> Result<()> {
        self.least.update_batch(std::slice::from_ref(keys))?;
        self.greatest.update_batch(std::slice::from_ref(keys))
    }
}
