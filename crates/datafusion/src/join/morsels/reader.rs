//! Reads the right side in morsels.

use arrow::array::RecordBatch;
use datafusion::{
    common::utils::memory::RecordBatchMemoryCounter,
    error::Result,
    execution::{SendableRecordBatchStream, memory_pool::MemoryReservation},
};
use futures::StreamExt;

use super::{method::Method, metrics::ProbeMetrics};

/// The size of a morsel: it is full at this many rows, or bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct MorselSize {
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

/// Reads the right side in morsels.
pub(super) struct Reader {
    /// The input, until it has ended.
    input: Option<SendableRecordBatchStream>,
    /// A batch for which the last morsel had no memory.
    held: Option<RecordBatch>,
    memory: MemoryReservation,
}

impl Reader {
    pub(super) fn new(input: SendableRecordBatchStream, memory: MemoryReservation) -> Self {
        Self { input: Some(input), held: None, memory }
    }

    /// Gives the memory of a morsel back.
    pub(super) fn free(&self) {
        self.memory.free();
    }

    /// Returns the batches of a morsel, or `None` after the last one. Reserves the memory to prepare
    /// them, except that of a single batch that the pool refuses.
    ///
    /// # Errors
    /// If the input fails.
    pub(super) async fn read<M: Method>(
        &mut self,
        method: &M,
        size: MorselSize,
        metrics: &ProbeMetrics,
    ) -> Result<Option<Vec<RecordBatch>>> {
        let (mut batches, mut rows, mut counter) = (Vec::new(), 0, RecordBatchMemoryCounter::new());
        while rows < size.rows && self.memory.size() < size.bytes {
            let batch = match (self.held.take(), &mut self.input) {
                (Some(batch), _) => batch,
                (None, None) => break,
                (None, Some(input)) => match input.next().await {
                    None => {
                        self.input = None;
                        break;
                    }
                    Some(batch) => {
                        let batch = batch?;
                        metrics.batches.add(1);
                        metrics.rows.add(batch.num_rows());
                        let _compute = metrics.baseline.elapsed_compute().timer();
                        method.rows().sides.right.read(&batch)?
                    }
                },
            };
            if batch.num_rows() == 0 {
                continue;
            }
            // The rows are gathered, so for a while they are there twice.
            let bytes = 2 * counter.count_batch(&batch) + batch.num_rows() * M::ROW_BYTES;
            if self.memory.try_grow(bytes).is_err() && !batches.is_empty() {
                self.held = Some(batch);
                break;
            }
            rows += batch.num_rows();
            batches.push(batch);
        }
        Ok((!batches.is_empty()).then_some(batches))
    }
}
