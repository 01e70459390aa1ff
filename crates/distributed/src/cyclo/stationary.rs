//! The rows that stay on a worker: in memory, and on disk if they do not fit.

use std::sync::Arc;

use annulus_datafusion::CycloJoin;
use annulus_join::Side;
use datafusion::{
    arrow::array::RecordBatch,
    common::{exec_err, internal_datafusion_err, utils::memory::RecordBatchMemoryCounter},
    error::{DataFusionError, Result},
    execution::{
        SpillFile, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_plan::{SpillManager, metrics::SpillMetrics},
};
use futures::TryStreamExt;
use tokio::runtime::Handle;

use super::input::Batches;

/// The bytes that preparing a row takes beside its columns: its hash and place, or keys to sort by.
const ROW_BYTES: usize = 64;
/// The most memory for a part: rows are gathered in one batch, whose text has offsets of 32 bits.
pub(super) const MOST_BYTES: usize = 3 << 30;

/// Returns the memory that preparing rows takes: they are gathered, so for a while they are there twice.
pub(super) fn prepare_bytes(bytes: usize, rows: usize) -> usize {
    2 * bytes + rows * ROW_BYTES
}

/// The stationary rows of a task, in parts. Each revolution joins one.
pub(super) struct Stationary {
    /// The part in memory, which is joined first.
    first: Vec<RecordBatch>,
    on_disk: Vec<Arc<dyn SpillFile>>,
    spill: Option<SpillManager>,
    /// All rows.
    pub(super) rows: usize,
    /// The most rows of a part.
    pub(super) largest: u64,
    /// Accounts for one part.
    memory: MemoryReservation,
}

impl Stationary {
    /// Returns none yet. With `spill`, rows that `memory` does not grant go to disk.
    pub(super) fn new(memory: MemoryReservation, spill: Option<SpillManager>) -> Self {
        Self { first: Vec::new(), on_disk: Vec::new(), spill, rows: 0, largest: 0, memory }
    }

    /// Returns none yet, with the memory and the disk of a task. `metrics` count what goes to disk.
    pub(super) fn for_task(join: &CycloJoin, context: &TaskContext, metrics: SpillMetrics) -> Self {
        let spill = context.runtime_env().disk_manager.tmp_files_enabled().then(|| {
            SpillManager::new(context.runtime_env(), metrics, Arc::clone(join.schema(Side::Left)))
                .with_compression_type(context.session_config().spill_compression())
        });
        let memory = MemoryConsumer::new("CycloJoinExec").with_can_spill(spill.is_some());
        Self::new(memory.register(context.memory_pool()), spill)
    }

    /// Reads all rows.
    ///
    /// # Errors
    /// Those of the input and of the disk, and if there is neither memory nor a disk.
    pub(super) fn read(&mut self, join: &CycloJoin, mut batches: Batches) -> Result<()> {
        let (mut counter, mut rows, mut most) = (RecordBatchMemoryCounter::new(), 0, 0);
        while let Some(batch) = batches.next()? {
            if batch.num_rows() == 0 {
                continue;
            }
            let batch = join.read(Side::Left, &batch)?;
            let bytes =
                |counter: &mut RecordBatchMemoryCounter| prepare_bytes(counter.count_batch(&batch), batch.num_rows());
            let granted = match self.memory.size() {
                size if size > MOST_BYTES => exec_err!("a part of a side has {size} bytes, which is too many"),
                _ => self.memory.try_grow(bytes(&mut counter)),
            };
            if let Err(refused) = granted
                && !self.first.is_empty()
            {
                most = most.max(self.memory.size());
                self.flush(refused)?;
                (counter, rows) = (RecordBatchMemoryCounter::new(), 0);
                // A part has at least one batch, even if the pool refuses.
                self.memory.try_resize(bytes(&mut counter)).ok();
            }
            self.rows += batch.num_rows();
            rows += batch.num_rows() as u64;
            self.largest = self.largest.max(rows);
            self.first.push(batch);
        }
        // Parts come back from the disk one after the other.
        let most = most.max(self.memory.size());
        self.memory.try_resize(most).ok();
        Ok(())
    }

    fn flush(&mut self, refused: DataFusionError) -> Result<()> {
        let Some(spill) = &self.spill else {
            return Err(refused.context(
                "a join has no memory for the rows that stay on this worker: enable the disk manager, which is \
                 disabled, or allow more memory",
            ));
        };
        let file = spill.spill_record_batch_and_finish(&std::mem::take(&mut self.first), "cyclo-join")?;
        self.on_disk.push(file.ok_or_else(|| internal_datafusion_err!("rows that were not spilled"))?);
        Ok(())
    }

    /// Returns the number of parts, at least one.
    pub(super) fn parts(&self) -> usize {
        1 + self.on_disk.len()
    }

    /// Takes the part that is in memory.
    pub(super) fn take_first(&mut self) -> Vec<RecordBatch> {
        std::mem::take(&mut self.first)
    }

    /// Reads part `number`, from 1. Other tasks may have more parts than this one: then it is empty.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn take(&mut self, number: usize, runtime: &Handle) -> Result<Vec<RecordBatch>> {
        let (Some(spill), Some(file)) = (&self.spill, self.on_disk.get(number - 1)) else { return Ok(Vec::new()) };
        let stream = spill.read_spill_as_stream_unbuffered(Arc::clone(file), None)?;
        runtime.block_on(stream.try_collect())
    }
}
