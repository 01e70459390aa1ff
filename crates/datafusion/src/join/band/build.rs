//! The build side: all rows of the left input, sorted.

use std::{
    mem::size_of,
    sync::{Arc, atomic::AtomicUsize},
};

use annulus_join::{MergeBuild, Output, SideRows};
use arrow::array::RecordBatch;
use datafusion::{
    common::{runtime::JoinSet, utils::memory::RecordBatchMemoryCounter},
    error::{DataFusionError, Result},
    execution::memory_pool::MemoryReservation,
    physical_plan::SendableRecordBatchStream,
};
use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, Shared},
};

use super::{metrics::BuildMetrics, plan::BandPlan};
use crate::error::{from_join, from_panic};

/// Memory that sorting takes for each row, beside the rows themselves: the key twice, and what the
/// sort itself needs.
pub(super) const SORT_BYTES: usize = 36 + 2 * size_of::<u128>();

/// The sorted build side of one execution, which all output partitions share.
pub(super) struct Build {
    pub(super) sorted: MergeBuild,
    pub(super) rows: SideRows,
    pub(super) output: Arc<Output>,
    /// The number of output partitions that have not joined all of their rows.
    pub(super) probing: AtomicUsize,
    /// Accounts for the memory of the rows.
    _memory: Arc<MemoryReservation>,
}

/// The build side, once it is there. The output partitions poll it; dropping all of them stops the
/// inputs.
pub(super) type BuildFuture = Shared<BoxFuture<'static, Result<Arc<Build>, Arc<DataFusionError>>>>;

/// The parts from which a build side is made.
pub(super) struct BuildInput {
    pub(super) plan: Arc<BandPlan>,
    pub(super) inputs: Vec<SendableRecordBatchStream>,
    pub(super) memory: MemoryReservation,
    pub(super) threads: usize,
    /// The number of output partitions.
    pub(super) probes: usize,
    pub(super) metrics: BuildMetrics,
}

impl BuildInput {
    /// Returns the future of the build side. Nothing is read until it is polled.
    pub(super) fn start(self) -> BuildFuture {
        self.build().map(|built| built.map(Arc::new).map_err(Arc::new)).boxed().shared()
    }

    async fn build(self) -> Result<Build> {
        let memory = Arc::new(self.memory);
        let mut tasks = JoinSet::new();
        for input in self.inputs {
            tasks.spawn(read(input, Arc::clone(&self.plan), Arc::clone(&memory), self.metrics.clone()));
        }
        let mut batches = Vec::new();
        while let Some(read) = tasks.join_next().await {
            batches.extend(read.map_err(|error| match error.try_into_panic() {
                Ok(payload) => from_panic(&*payload),
                Err(error) => DataFusionError::ExecutionJoin(Box::new(error)),
            })??);
        }
        let _timer = self.metrics.time.timer();
        // The rows are gathered in their order, so for a while they are there twice.
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        memory.try_grow(memory.size() + rows * SORT_BYTES).map_err(no_memory)?;
        let sorted = self.plan.join.prepare_build(batches, self.threads).map_err(from_join)?;
        let output = self.plan.output()?;
        let rows = output.build_rows(sorted.batch()).map_err(from_join)?;
        let bytes = sorted.memory_bytes() + rows.matched().map_or(0, |matched| matched.rows().div_ceil(8));
        memory.resize(bytes);
        self.metrics.memory.add(bytes);
        Ok(Build { sorted, rows, output, probing: AtomicUsize::new(self.probes), _memory: memory })
    }
}

/// Reads one input.
async fn read(
    mut input: SendableRecordBatchStream,
    plan: Arc<BandPlan>,
    memory: Arc<MemoryReservation>,
    metrics: BuildMetrics,
) -> Result<Vec<RecordBatch>> {
    let (mut batches, mut counter) = (Vec::new(), RecordBatchMemoryCounter::new());
    while let Some(batch) = input.next().await {
        let batch = batch?;
        let _timer = metrics.time.timer();
        metrics.batches.add(1);
        metrics.rows.add(batch.num_rows());
        if batch.num_rows() > 0 {
            let batch = plan.sides.left.read(&batch)?;
            memory.try_grow(counter.count_batch(&batch)).map_err(no_memory)?;
            batches.push(batch);
        }
    }
    Ok(batches)
}

/// Returns the error for a pool that has no room for a join.
pub(super) fn no_memory(error: DataFusionError) -> DataFusionError {
    // The place at which a join that spills would go on.
    let error = error.find_root();
    DataFusionError::ResourcesExhausted(format!(
        "a band join keeps its left side in memory, and sorts its right side in parts; allow more memory, or set \
         annulus.joins to 'never', so that DataFusion's operator spills: {error}"
    ))
}
