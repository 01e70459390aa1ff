//! Drops the rows of one partition by filters.

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, BooleanArray, RecordBatch},
    buffer::BooleanBuffer,
    compute::BatchCoalescer,
    datatypes::SchemaRef,
};
use datafusion::{
    common::ScalarValue,
    error::Result,
    physical_expr::{
        PhysicalExpr,
        expressions::{DynamicFilterPhysicalExpr, Literal},
        split_conjunction,
    },
};

use super::expr::MayMatch;

/// A filter that keeps more than this share of the rows costs more than it saves.
const MOST_KEPT: f64 = 0.6;
/// The number of rows after which a filter is judged.
const TRIAL_ROWS: usize = 1 << 15;

/// The filters of one partition, and the rows that they have kept.
pub(super) struct RowFilter {
    filters: Vec<FilterTrial>,
    kept: BatchCoalescer,
    has_ended: bool,
}

/// A filter, and how many rows it has kept.
struct FilterTrial {
    filter: Arc<dyn PhysicalExpr>,
    tested: usize,
    kept: usize,
}

impl RowFilter {
    pub(super) fn new(filters: &[Arc<dyn PhysicalExpr>], schema: SchemaRef, batch_rows: usize) -> Self {
        let judged = |filter: &Arc<dyn PhysicalExpr>| FilterTrial { filter: Arc::clone(filter), tested: 0, kept: 0 };
        let kept = BatchCoalescer::new(schema, batch_rows).with_biggest_coalesce_batch_size(Some(batch_rows / 2));
        Self { filters: filters.iter().map(judged).collect(), kept, has_ended: false }
    }

    /// Returns the next batch of kept rows.
    pub(super) fn next(&mut self) -> Option<RecordBatch> {
        self.kept.next_completed_batch()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Takes a batch, or the end of the input.
    pub(super) fn push(&mut self, batch: Option<RecordBatch>) -> Result<()> {
        let Some(batch) = batch else {
            self.has_ended = true;
            return Ok(self.kept.finish_buffered_batch()?);
        };
        let mut keep: Option<BooleanBuffer> = None;
        for filter in self.filters.iter_mut().filter(|filter| filter.is_worthwhile()) {
            if let Some(found) = filter.test(&batch)? {
                keep = Some(keep.map_or_else(|| found.clone(), |keep| &keep & &found));
            }
        }
        match keep {
            Some(keep) => self.kept.push_batch_with_filter(batch, &BooleanArray::new(keep, None))?,
            None => self.kept.push_batch(batch)?,
        }
        Ok(())
    }
}

/// Returns what a filter says at present, or nothing if it does not say anything yet.
///
/// # Errors
/// If the filter was given up by the operator that it comes from.
pub(crate) fn current(filter: &Arc<dyn PhysicalExpr>) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let filter = match filter.downcast_ref::<DynamicFilterPhysicalExpr>() {
        Some(dynamic) => dynamic.current()?,
        None => Arc::clone(filter),
    };
    // The key filter drops all that the bounds beside it drop, and costs less.
    let parts = split_conjunction(&filter);
    let filter = parts.iter().copied().find(|part| part.is::<MayMatch>()).unwrap_or(&filter);
    let is_true = filter.downcast_ref::<Literal>().is_some_and(|literal| *literal.value() == ScalarValue::from(true));
    Ok((!is_true).then(|| Arc::clone(filter)))
}

/// Returns whether a filter that kept `kept` of `tested` rows is worth being tested further.
pub(crate) fn is_worthwhile(tested: usize, kept: usize) -> bool {
    tested < TRIAL_ROWS || (kept as f64) < MOST_KEPT * tested as f64
}

impl FilterTrial {
    fn is_worthwhile(&self) -> bool {
        is_worthwhile(self.tested, self.kept)
    }

    /// Returns the rows to keep, or nothing if the filter does not say anything yet.
    fn test(&mut self, batch: &RecordBatch) -> Result<Option<BooleanBuffer>> {
        let Some(filter) = current(&self.filter)? else { return Ok(None) };
        let keep = filter.evaluate(batch)?.into_array(batch.num_rows())?;
        let keep = keep.as_boolean();
        let keep = match keep.nulls() {
            Some(nulls) => keep.values() & nulls.inner(),
            None => keep.values().clone(),
        };
        self.tested += batch.num_rows();
        self.kept += keep.count_set_bits();
        Ok(Some(keep))
    }
}
