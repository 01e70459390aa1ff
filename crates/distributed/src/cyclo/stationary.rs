//! The stationary side of a task: in memory, and on disk if it does not fit.

use std::sync::Arc;

use annulus_cyclo::{JoinSpec, Share};
use annulus_datafusion::DescribedJoin;
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

use super::{
    budget::{MOST_PART_BYTES, MemoryBudget, prepare_bytes, reservation},
    failure::{RingFailure, Witness},
    input::{Batches, Input},
    resident::{PreparedMemory, ResidentSide},
    task::TaskSetup,
};
use crate::state::RingAgreement;

/// The stationary side of a task before it is read.
pub(super) struct StationaryInput {
    pub(super) input: Input,
    /// The side as a share of a resident table, if its worker has that.
    pub(super) resident: Option<ResidentSide>,
}

/// The stationary side of a task after it was read.
pub(super) struct StationarySide {
    /// The side as a share of a resident table, which need not be read.
    resident: Option<ResidentSide>,
    /// Empty for a resident table.
    rows: StationaryRows,
}

impl StationaryInput {
    /// Reads the side, unless it is a share of a resident table for which there is memory.
    ///
    /// # Errors
    /// If the input fails, or there is neither memory nor a disk.
    pub(super) fn read(self, setup: &TaskSetup, budget: &MemoryBudget) -> Result<StationarySide> {
        let TaskSetup { join, context, metrics, .. } = setup;
        // Without memory to prepare it, a share is read like any other side, and spilled.
        let resident = self.resident.filter(|resident| resident.can_stay(&budget.for_preparation));
        let mut rows = StationaryRows::for_task(join, context, metrics.spill.clone());
        if resident.is_none() {
            let _timer = metrics.read_time.timer();
            rows.read(join, self.input.read())?;
            metrics.stationary_rows.add(rows.rows);
        }
        Ok(StationarySide { resident, rows })
    }
}

impl StationarySide {
    /// Returns the rows of the largest part.
    pub(super) fn largest_part(&self) -> u64 {
        self.resident.as_ref().map_or(self.rows.largest, |resident| resident.share.info().rows)
    }

    /// Returns the number of parts, at least one.
    pub(super) fn parts(&self) -> usize {
        1 + self.rows.on_disk.len()
    }

    /// Returns the first part, prepared for the join.
    ///
    /// # Errors
    /// If the rows cannot be prepared.
    pub(super) fn prepare(
        &mut self,
        setup: &TaskSetup,
        spec: &JoinSpec,
        agreement: &RingAgreement,
        budget: &MemoryBudget,
        witness: &Witness<'_>,
    ) -> Result<Share, RingFailure> {
        let TaskSetup { join, context, metrics, .. } = setup;
        let share = match self.resident.take() {
            Some(resident) => {
                let _timer = metrics.setup_time.timer();
                let memory = PreparedMemory { preparation: &budget.for_preparation, kept: reservation(context) };
                let prepared = resident.prepare(join, spec, agreement.rows, memory)?;
                metrics.stationary_rows.add(prepared.rows());
                Share::with_prepared(spec, &prepared, Vec::new())
            }
            None => Share::prepare(spec, std::mem::take(&mut self.rows.first), Vec::new()),
        };
        share.map_err(|error| witness.failure(error))
    }

    /// Reads part `number`, from 1. Other tasks may have more parts than this one: then it is empty.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn take_part(&mut self, number: usize, runtime: &Handle) -> Result<Vec<RecordBatch>> {
        self.rows.take(number, runtime)
    }
}

/// The stationary rows of a task, in parts. Each revolution joins one part.
struct StationaryRows {
    /// The part in memory, which is joined first.
    first: Vec<RecordBatch>,
    on_disk: Vec<Arc<dyn SpillFile>>,
    spill: Option<SpillManager>,
    /// The number of all rows.
    rows: usize,
    /// The most rows of a part.
    largest: u64,
    /// Accounts for one part.
    memory: MemoryReservation,
}

impl StationaryRows {
    /// Returns no rows yet. With `spill`, rows for which `memory` does not grow go to disk.
    fn new(memory: MemoryReservation, spill: Option<SpillManager>) -> Self {
        Self { first: Vec::new(), on_disk: Vec::new(), spill, rows: 0, largest: 0, memory }
    }

    /// Returns no rows yet, with the memory and the disk of a task. `metrics` count the spilled rows.
    fn for_task(join: &DescribedJoin, context: &TaskContext, metrics: SpillMetrics) -> Self {
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
    /// If the input or the disk fails, or there is neither memory nor a disk.
    fn read(&mut self, join: &DescribedJoin, mut batches: Batches) -> Result<()> {
        let (mut counter, mut rows, mut most) = (RecordBatchMemoryCounter::new(), 0, 0);
        while let Some(batch) = batches.next()? {
            if batch.num_rows() == 0 {
                continue;
            }
            let batch = join.read(Side::Left, &batch)?;
            let bytes = |counter: &mut RecordBatchMemoryCounter| {
                let rows = batch.num_rows();
                prepare_bytes(counter.count_batch(&batch), rows) + rows.saturating_mul(join.row_bytes())
            };
            let granted = match self.memory.size() {
                size if size > MOST_PART_BYTES => {
                    exec_err!("a part of the stationary side has {size} bytes: at most {MOST_PART_BYTES} are possible")
                }
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
                "a join has no memory for its stationary rows: enable the disk manager, which is disabled, or allow \
                 more memory",
            ));
        };
        let file = spill.spill_record_batch_and_finish(&std::mem::take(&mut self.first), "cyclo-join")?;
        self.on_disk.push(file.ok_or_else(|| internal_datafusion_err!("rows that were not spilled"))?);
        Ok(())
    }

    fn take(&mut self, number: usize, runtime: &Handle) -> Result<Vec<RecordBatch>> {
        let (Some(spill), Some(file)) = (&self.spill, self.on_disk.get(number - 1)) else { return Ok(Vec::new()) };
        let stream = spill.read_spill_as_stream_unbuffered(Arc::clone(file), None)?;
        runtime.block_on(stream.try_collect())
    }
}
