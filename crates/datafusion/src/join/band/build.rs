//! The build side: all rows of the left input, sorted.

use std::{
    mem::size_of,
    sync::{Arc, atomic::AtomicUsize},
};

use annulus_join::Output;
use arrow::array::RecordBatch;
use datafusion::{
    error::{DataFusionError, Result},
    execution::memory_pool::MemoryReservation,
    physical_plan::{SendableRecordBatchStream, SpillManager},
};
use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};

use super::{
    input::{self, Unread},
    left::{Disk, Left, Part},
    plan::BandPlan,
};
use crate::join::hash::BuildMetrics;

/// The name under which the join's memory is reserved.
pub(super) const CONSUMER: &str = "BandJoinExec";

/// Memory that sorting takes for each row, beside the rows themselves: the keys, an index of the
/// second one, and what the sort itself needs.
pub(super) const SORT_BYTES: usize = 36 + 3 * size_of::<u128>();

/// The most memory for a part that is read from disk. More saves little.
const PART_BYTES: usize = 16 << 20;

/// The sorted build side of one execution, which all output partitions share.
pub(super) struct Build {
    pub(super) left: Left,
    pub(super) output: Arc<Output>,
    /// The memory of a morsel from which on it is large enough, unless it has enough rows.
    pub(super) morsel_bytes: usize,
    /// The number of output partitions that have not joined all of their rows.
    pub(super) probing: AtomicUsize,
    /// Accounts for the memory of the rows, or for that of one part for each output partition.
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
    /// Writes rows that do not fit into memory, if files are allowed.
    pub(super) spill: Option<SpillManager>,
    pub(super) metrics: BuildMetrics,
}

impl BuildInput {
    /// Returns the future of the build side. Nothing is read until it is polled.
    pub(super) fn start(self) -> BuildFuture {
        self.build().map(|built| built.map(Arc::new).map_err(Arc::new)).boxed().shared()
    }

    async fn build(self) -> Result<Build> {
        let Self { plan, inputs, memory, threads, probes, spill, metrics } = self;
        let output = plan.output()?;
        let mut unread = inputs.into_iter().map(|stream| Unread { held: None, stream }).collect();
        let (mut disk, mut room, mut granted) = (None, 0, 0);
        let left = loop {
            let read = input::read(unread, &memory).await?;
            let no_progress = read.batches.is_empty() && !read.unread.is_empty();
            if let Some(refused) = read.refused.filter(|_| no_progress || spill.is_none()) {
                return Err(no_memory(refused));
            }
            let _timer = metrics.time.timer();
            let rows: usize = read.batches.iter().map(RecordBatch::num_rows).sum();
            metrics.rows.add(rows);
            let batches = read.batches.iter().map(|batch| plan.sides.left.read(batch)).collect::<Result<Vec<_>>>()?;
            let run = Part::new(&plan, &output, batches, threads)?;
            let is_all = disk.is_none() && read.unread.is_empty();
            let Some(manager) = spill.as_ref().filter(|_| !is_all) else { break Left::Memory(Arc::new(run)) };
            let disk = disk.get_or_insert_with(|| Disk::new(manager.clone()));
            granted = memory.size().max(granted);
            if rows > 0 {
                room = room.max(disk.write(&run, PART_BYTES.min(share(granted, probes)))?);
            }
            drop((run, read.batches));
            memory.free();
            unread = read.unread;
            if unread.is_empty() {
                break Left::Disk(std::mem::replace(disk, Disk::new(manager.clone())));
            }
        };
        match &left {
            Left::Memory(part) => memory.resize(part.memory_bytes()),
            Left::Disk(_) => memory.try_resize(probes * room).map_err(no_memory)?,
        }
        metrics.memory.set(memory.size());
        let morsel_bytes = if let Left::Disk(_) = left { share(granted, probes) } else { usize::MAX };
        Ok(Build { left, output, morsel_bytes, probing: AtomicUsize::new(probes), _memory: memory })
    }
}

/// Returns the share of the memory that each output partition may take for a part of the left side,
/// and for a morsel. The last two quarters are for operators above and below.
fn share(granted: usize, probes: usize) -> usize {
    granted / (4 * probes.max(1))
}

/// Returns the error for a pool that has no room for a join.
pub(super) fn no_memory(error: DataFusionError) -> DataFusionError {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(refused) if refused.contains(CONSUMER) => {
            DataFusionError::ResourcesExhausted(format!(
                "a band join needs memory for a part of each side; allow more memory, or fewer target partitions, or \
                 enable the disk manager, if it is disabled: {refused}"
            ))
        }
        // An input was refused memory, or failed.
        _ => error,
    }
}
