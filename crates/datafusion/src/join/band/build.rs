//! The build side: all rows of the left input, sorted.

use std::{
    mem::size_of,
    sync::{Arc, atomic::AtomicUsize},
};

use annulus_join::{MergeBuild, Output, SideRows};
use arrow::array::RecordBatch;
use datafusion::{
    error::{DataFusionError, Result},
    execution::memory_pool::MemoryReservation,
    physical_plan::SendableRecordBatchStream,
};
use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};

use super::plan::BandPlan;
use crate::{
    error::from_join,
    join::{collect::collect, hash::BuildMetrics},
};

/// The name under which the join's memory is reserved.
pub(super) const CONSUMER: &str = "BandJoinExec";

/// Memory that sorting takes for each row, beside the rows themselves: the keys, an index of the
/// second one, and what the sort itself needs.
pub(super) const SORT_BYTES: usize = 36 + 3 * size_of::<u128>();

/// The sorted build side of one execution, which all output partitions share.
pub(super) struct Build {
    pub(super) sorted: MergeBuild,
    pub(super) rows: SideRows,
    pub(super) output: Arc<Output>,
    /// The number of output partitions that have not joined all of their rows.
    pub(super) probing: AtomicUsize,
    /// Accounts for the memory of the rows.
    _memory: MemoryReservation,
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
        let memory = self.memory;
        let batches = collect(self.inputs, &memory).await.map_err(no_memory)?;
        let _timer = self.metrics.time.timer();
        let batches = batches.iter().map(|batch| self.plan.sides.left.read(batch)).collect::<Result<Vec<_>>>()?;
        // The rows are gathered in their order, so for a while they are there twice.
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        memory.try_grow(memory.size() + rows * SORT_BYTES).map_err(no_memory)?;
        let sorted = self.plan.join.prepare_build(batches, self.threads).map_err(from_join)?;
        let output = self.plan.output()?;
        let rows = output.build_rows(sorted.batch()).map_err(from_join)?;
        let bytes = sorted.memory_bytes() + rows.matched().map_or(0, |matched| matched.rows().div_ceil(8));
        memory.resize(bytes);
        self.metrics.rows.add(sorted.batch().num_rows());
        self.metrics.memory.set(bytes);
        Ok(Build { sorted, rows, output, probing: AtomicUsize::new(self.probes), _memory: memory })
    }
}

/// Returns the error for a pool that has no room for a join.
pub(super) fn no_memory(error: DataFusionError) -> DataFusionError {
    // The place at which a join that spills would go on.
    match error.find_root() {
        DataFusionError::ResourcesExhausted(refused) if refused.contains(CONSUMER) => {
            DataFusionError::ResourcesExhausted(format!(
                "a band join keeps its left side in memory, and sorts its right side in parts; allow more memory, or \
                 set annulus.joins to 'never', so that DataFusion's operator spills: {refused}"
            ))
        }
        // An input was refused memory, or failed.
        _ => error,
    }
}
