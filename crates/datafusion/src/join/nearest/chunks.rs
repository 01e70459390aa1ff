//! The left side, in chunks whose nearest rows are found at once.

use std::sync::Arc;

use annulus_join::Neighbour;
use annulus_rows::rows_bytes;
use arrow::{array::RecordBatch, compute::concat_batches};
use datafusion::{
    error::Result,
    execution::{SendableRecordBatchStream, memory_pool::MemoryReservation},
};
use futures::StreamExt;

/// The most memory of the lists of a chunk, if the right side is in memory.
const LISTS_BYTES: usize = 32 << 20;
/// The most rows of a chunk, if the right side is on disk.
const MOST_ROWS: usize = 1 << 20;

/// Takes chunks from a stream.
pub(super) struct Chunks {
    left: SendableRecordBatchStream,
    /// What is left of the last batch.
    rest: Option<RecordBatch>,
    /// The memory of the chunk.
    memory: Arc<MemoryReservation>,
    /// The memory that the neighbours of a row take, beside the row.
    row_bytes: usize,
    /// Whether a chunk has as many batches as memory allows.
    is_large: bool,
}

impl Chunks {
    /// Returns the chunks of a stream. Each row gets up to `k` neighbours, and each of them takes
    /// `right_row_bytes` of memory until it is output.
    pub(super) fn new(
        left: SendableRecordBatchStream,
        memory: Arc<MemoryReservation>,
        k: usize,
        right_row_bytes: usize,
        is_large: bool,
    ) -> Self {
        let pair = size_of::<Neighbour<u64>>() + size_of::<(u32, usize, usize)>() + right_row_bytes;
        Self { left, rest: None, memory, row_bytes: k.saturating_mul(pair), is_large }
    }

    /// Returns the next rows of the left side, whose neighbours fit in memory, or one row.
    ///
    /// # Errors
    /// Those of the stream.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.memory.free();
        let Some(first) = self.batch().await? else { return Ok(None) };
        let rows = self.fitting(&first, LISTS_BYTES).max(1);
        if rows < first.num_rows() {
            self.rest = Some(first.slice(rows, first.num_rows() - rows));
            return Ok(Some(first.slice(0, rows)));
        }
        if !self.is_large {
            return Ok(Some(first));
        }
        let (mut batches, mut rows) = (vec![first], rows);
        while rows < MOST_ROWS {
            let Some(batch) = self.batch().await? else { break };
            if self.fitting(&batch, usize::MAX) < batch.num_rows() {
                self.rest = Some(batch);
                break;
            }
            rows += batch.num_rows();
            batches.push(batch);
        }
        Ok(Some(concat_batches(&batches[0].schema(), &batches)?))
    }

    /// Returns the next batch that has rows.
    async fn batch(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(rest) = self.rest.take() {
            return Ok(Some(rest));
        }
        while let Some(batch) = self.left.next().await.transpose()? {
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// Takes memory for the first rows of a batch, and returns how many these are. Their neighbours take
    /// at most `most` bytes.
    fn fitting(&self, batch: &RecordBatch, most: usize) -> usize {
        let own = 2 * rows_bytes(batch).div_ceil(batch.num_rows().max(1));
        let mut rows = batch.num_rows().min(most / self.row_bytes.max(1));
        while rows > 0 && self.memory.try_grow(rows * (own + self.row_bytes)).is_err() {
            rows /= 2;
        }
        rows
    }
}
