//! The left side, in chunks whose nearest rows are found at once.

use std::sync::Arc;

use annulus_join::Neighbour;
use annulus_rows::rows_bytes;
use arrow::{array::RecordBatch, compute::concat_batches};
use datafusion::{
    error::Result,
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation},
    },
};
use futures::StreamExt;

use crate::join::collect::threads;

/// The most memory of the lists of a chunk, if the right side is in memory.
const LISTS_BYTES: usize = 32 << 20;
/// The most rows of a chunk, if the right side is on disk.
const MOST_ROWS: usize = 1 << 20;
/// The part of the pool that the chunks of all threads take together, if the right side is on disk.
const CHUNKS_SHARE: usize = 2;

/// Takes chunks from a stream.
pub(super) struct Chunks {
    left: SendableRecordBatchStream,
    /// What is left of the last batch.
    rest: Option<RecordBatch>,
    context: Arc<TaskContext>,
    /// The memory that the neighbours of a row take, beside the row.
    row_bytes: usize,
    /// The most bytes of a chunk that has several batches; `None` if each batch is one.
    large_bytes: Option<usize>,
}

/// Rows of the left side, with the memory of them and their neighbours.
pub(super) struct Chunk {
    pub(super) rows: RecordBatch,
    pub(super) memory: MemoryReservation,
}

impl Chunks {
    /// Returns the chunks of a stream. Each row gets up to `k` neighbours, and each of them takes
    /// `right_row_bytes` of memory until it is output. `is_large` puts batches together.
    pub(super) fn new(
        left: SendableRecordBatchStream,
        context: Arc<TaskContext>,
        k: usize,
        right_row_bytes: usize,
        is_large: bool,
    ) -> Self {
        let pair = size_of::<Neighbour<u64>>() + size_of::<(u32, usize, usize)>() + right_row_bytes;
        let large_bytes = is_large.then(|| match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / CHUNKS_SHARE / threads(&context),
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        });
        Self { left, rest: None, context, row_bytes: k.saturating_mul(pair), large_bytes }
    }

    /// Returns the next rows of the left side, whose neighbours fit in memory, or one row.
    ///
    /// # Errors
    /// Those of the stream.
    pub(super) async fn next(&mut self) -> Result<Option<Chunk>> {
        let Some(first) = self.batch().await? else { return Ok(None) };
        let memory = MemoryConsumer::new("NearestJoinExec, lists").register(self.context.memory_pool());
        let rows = self.fitting(&first, &memory).max(1);
        if rows < first.num_rows() {
            self.rest = Some(first.slice(rows, first.num_rows() - rows));
            return Ok(Some(Chunk { rows: first.slice(0, rows), memory }));
        }
        if self.large_bytes.is_none() {
            return Ok(Some(Chunk { rows: first, memory }));
        }
        let (mut batches, mut rows) = (vec![first], rows);
        while rows < MOST_ROWS {
            let Some(batch) = self.batch().await? else { break };
            let some = self.fitting(&batch, &memory);
            if some > 0 {
                batches.push(batch.slice(0, some));
            }
            if some < batch.num_rows() {
                self.rest = Some(batch.slice(some, batch.num_rows() - some));
                break;
            }
            rows += some;
        }
        Ok(Some(Chunk { rows: concat_batches(&batches[0].schema(), &batches)?, memory }))
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

    /// Takes memory for the first rows of a batch, and returns how many these are.
    fn fitting(&self, batch: &RecordBatch, memory: &MemoryReservation) -> usize {
        // Rows are put together, which takes their memory once more.
        let own = 2 * rows_bytes(batch).div_ceil(batch.num_rows().max(1));
        let most = match self.large_bytes {
            Some(bytes) => bytes.saturating_sub(memory.size()) / (own + self.row_bytes),
            None => LISTS_BYTES / self.row_bytes.max(1),
        };
        let mut rows = batch.num_rows().min(most);
        while rows > 0 && memory.try_grow(rows * (own + self.row_bytes)).is_err() {
            rows /= 2;
        }
        rows
    }
}
