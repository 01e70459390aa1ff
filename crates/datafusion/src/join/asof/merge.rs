//! Merges a partition of the left side with the right side, both sorted by key and time.

use std::{cmp::Ordering, sync::Arc};

use annulus_join::AsOfComparison;
use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, new_null_array},
    compute::interleave,
    datatypes::DataType,
};
use datafusion::{common::internal_err, error::Result, execution::SendableRecordBatchStream};
use futures::{Stream, StreamExt, stream};

use super::{
    layout::Layout,
    sorted::{KEY, TIME},
};

/// Both sides, sorted, and the place that the merge has reached.
pub(super) struct Merge {
    left: SendableRecordBatchStream,
    right: SendableRecordBatchStream,
    comparison: AsOfComparison,
    layout: Layout,
    /// The batch of the right side that has the next row, and the row's index there.
    next: Option<(Arc<SortedBatch>, usize)>,
    /// The last row of the right side that came into reach.
    reached: Option<(Arc<SortedBatch>, usize)>,
}

/// A batch, with its key and time as bytes.
struct SortedBatch {
    batch: RecordBatch,
    keys: BinaryArray,
    times: BinaryArray,
}

/// The partners of the rows of a batch: where they are in some batches of the right side.
#[derive(Default)]
struct Partners {
    batches: Vec<Arc<SortedBatch>>,
    /// The batch, counted from 1, and the row; batch 0 has one row of nulls.
    places: Vec<(usize, usize)>,
}

impl SortedBatch {
    fn new(batch: RecordBatch) -> Result<Self> {
        let column = |name| batch.column_by_name(name).map(|column| column.as_binary().clone());
        match (column(KEY), column(TIME)) {
            (Some(keys), Some(times)) => Ok(Self { batch, keys, times }),
            _ => internal_err!("sorted rows have no keys"),
        }
    }
}

impl Partners {
    fn push(&mut self, partner: Option<&(Arc<SortedBatch>, usize)>) {
        let Some((batch, row)) = partner else { return self.places.push((0, 0)) };
        if self.batches.last().is_none_or(|last| !Arc::ptr_eq(last, batch)) {
            self.batches.push(Arc::clone(batch));
        }
        self.places.push((self.batches.len(), *row));
    }

    /// Returns a column of the partners.
    fn column(&self, index: usize, data_type: &DataType) -> Result<ArrayRef> {
        let nulls = new_null_array(data_type, 1);
        let columns = self.batches.iter().map(|batch| batch.batch.column(index).as_ref());
        let columns: Vec<&dyn Array> = [nulls.as_ref()].into_iter().chain(columns).collect();
        Ok(interleave(&columns, &self.places)?)
    }
}

impl Merge {
    /// Returns the merge of two sides that are sorted by the bytes of key and time, which come behind
    /// their own columns.
    pub(super) fn new(
        left: SendableRecordBatchStream,
        right: SendableRecordBatchStream,
        comparison: AsOfComparison,
        layout: Layout,
    ) -> Self {
        Self { left, right, comparison, layout, next: None, reached: None }
    }

    /// Returns the output, in the order of the left side.
    pub(super) fn stream(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        stream::try_unfold(self, |mut merge| async move {
            let Some(batch) = merge.left.next().await.transpose()? else { return Ok(None) };
            // The sides may always have a batch.
            tokio::task::consume_budget().await;
            let output = merge.join(batch).await?;
            Ok(Some((output, merge)))
        })
    }

    async fn join(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let left = SortedBatch::new(batch)?;
        let mut partners = Partners::default();
        for row in 0..left.batch.num_rows() {
            if left.keys.is_null(row) {
                partners.push(None);
                continue;
            }
            let (key, time) = (left.keys.value(row), left.times.value(row));
            self.reach(key, time).await?;
            partners.push(self.reached.as_ref().filter(|(right, row)| right.keys.value(*row) == key));
        }
        let schema = self.right.schema();
        let has_partner = partners.places.iter().map(|&(batch, _)| batch > 0).collect();
        let column = |index: usize| partners.column(index, schema.field(index).data_type());
        self.layout.output(&left.batch, Some(has_partner), column)
    }

    /// Goes on in the right side until the next row is beyond the reach of a row of the left side.
    async fn reach(&mut self, key: &[u8], time: &[u8]) -> Result<()> {
        loop {
            let (right, row) = match self.next.take() {
                Some(next) if next.1 < next.0.batch.num_rows() => next,
                _ => match self.right.next().await.transpose()? {
                    Some(batch) => (Arc::new(SortedBatch::new(batch)?), 0),
                    None => return Ok(()),
                },
            };
            if row == right.batch.num_rows() {
                continue;
            }
            let is_reached = match right.keys.value(row).cmp(key) {
                Ordering::Less => true,
                Ordering::Equal => self.comparison.reaches(time, right.times.value(row)),
                Ordering::Greater => false,
            };
            if !is_reached {
                self.next = Some((right, row));
                return Ok(());
            }
            self.reached = Some((Arc::clone(&right), row));
            self.next = Some((right, row + 1));
        }
    }
}
