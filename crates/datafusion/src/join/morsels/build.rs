//! The build side: all rows of the left input, prepared.

use std::{
    sync::{Arc, atomic::AtomicUsize},
    task::Poll,
};

use annulus_join::Output;
use arrow::array::RecordBatch;
use datafusion::{
    error::{DataFusionError, Result},
    execution::{
        TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, SendableRecordBatchStream, SpillManager,
        metrics::{ExecutionPlanMetricsSet, SpillMetrics},
    },
};
use futures::{
    FutureExt,
    future::{self, BoxFuture, Shared},
};

use super::{
    input::{self, Unread},
    left::{Disk, Left, Part},
    method::Method,
};
use crate::join::{collect::threads, hash::BuildMetrics};

/// The most memory for a part that is read from disk. More saves little.
const PART_BYTES: usize = 16 << 20;
/// The bytes of a part, and of a morsel, for which a join with files does not depend on the pool. It
/// takes them, and a batch of each side, even if the pool refuses, and does not reserve them then:
/// other operators need not fail.
const LEAST_BYTES: usize = 1 << 16;

/// The prepared build side of one execution, which all output partitions share.
pub(super) struct Build<M: Method> {
    pub(super) left: Left<M>,
    pub(super) output: Arc<Output>,
    /// A morsel is full at this many bytes, even if it has too few rows.
    pub(super) morsel_bytes: usize,
    /// The number of output partitions that have not joined all of their rows.
    pub(super) probing: AtomicUsize,
    /// Accounts for the memory of the rows, or for that of one part for each output partition.
    _memory: MemoryReservation,
}

/// The build side, once it is there. The output partitions poll it; dropping all of them stops the
/// inputs.
pub(super) type BuildFuture<M> = Shared<BoxFuture<'static, Result<Arc<Build<M>>, Arc<DataFusionError>>>>;

/// Waits for a build side that several tasks wait for.
///
/// The task in which the last step of `build` runs wakes the others on its own thread, and tokio
/// keeps the last one that it woke for that thread (its `lifo_slot`). So that all go on at once, on
/// as many threads as are free, each task goes once to the queue from which other threads take tasks.
pub(super) async fn all_go_on<F: Future<Output: Clone>>(build: Shared<F>) -> F::Output {
    let built = build.await;
    let mut is_queued = false;
    // Unlike `tokio::task::yield_now`, this tells an idle thread.
    future::poll_fn(|context| {
        if std::mem::replace(&mut is_queued, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    built
}

/// The parts from which a build side is made.
pub(super) struct BuildInput<M> {
    method: Arc<M>,
    inputs: Vec<SendableRecordBatchStream>,
    memory: MemoryReservation,
    threads: usize,
    /// The number of output partitions.
    probes: usize,
    /// Writes rows that do not fit into memory, if files are allowed.
    spill: Option<SpillManager>,
    metrics: BuildMetrics,
}

impl<M: Method> BuildInput<M> {
    /// Starts all partitions of the left side, for this number of output partitions.
    ///
    /// # Errors
    /// Those of the left side.
    pub(super) fn new(
        method: Arc<M>,
        left: &Arc<dyn ExecutionPlan>,
        probes: usize,
        context: &Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Self> {
        let partitions = left.output_partitioning().partition_count();
        let inputs = (0..partitions).map(|part| left.execute(part, Arc::clone(context)));
        let files = context.runtime_env().disk_manager.tmp_files_enabled();
        let spill = files.then(|| {
            let schema = Arc::clone(&method.rows().sides.left.schema);
            SpillManager::new(context.runtime_env(), SpillMetrics::new(metrics, 0), schema)
                .with_compression_type(context.session_config().spill_compression())
        });
        Ok(Self {
            inputs: inputs.collect::<Result<_>>()?,
            method,
            memory: MemoryConsumer::new(M::NAMES.operator).register(context.memory_pool()),
            threads: threads(context),
            probes,
            spill,
            metrics: BuildMetrics::new(metrics),
        })
    }

    /// Returns the future of the build side. Nothing is read until it is polled.
    pub(super) fn start(self) -> BuildFuture<M> {
        self.build().map(|built| built.map(Arc::new).map_err(Arc::new)).boxed().shared()
    }

    async fn build(self) -> Result<Build<M>> {
        let Self { method, inputs, memory, threads, probes, spill, metrics } = self;
        let plan = method.rows();
        let output = plan.output()?;
        let mut unread = inputs.into_iter().map(|stream| Unread { held: None, stream }).collect();
        let (mut disk, mut room, mut granted) = (None, 0, 0);
        let left = loop {
            let read = input::read(unread, &memory, M::ROW_BYTES, spill.is_some()).await?;
            if let Some(refused) = read.refused.filter(|_| spill.is_none()) {
                return Err(no_memory::<M>(refused));
            }
            let _timer = metrics.time.timer();
            let rows: usize = read.batches.iter().map(RecordBatch::num_rows).sum();
            metrics.rows.add(rows);
            let batches = read.batches.iter().map(|batch| plan.sides.left.read(batch)).collect::<Result<Vec<_>>>()?;
            let run = Part::all(&*method, &output, batches, threads)?;
            // Rows that were read though the pool refused may not fit.
            let is_all = disk.is_none() && read.unread.is_empty();
            let fits = is_all && memory.try_resize(Part::bytes(&run)).is_ok();
            let Some(manager) = spill.as_ref().filter(|_| !fits) else {
                memory.resize(Part::bytes(&run));
                break Left::Memory(run.into_iter().map(Arc::new).collect());
            };
            let disk = disk.get_or_insert_with(|| Disk::new(manager.clone()));
            granted = memory.size().max(granted);
            for part in run.iter().filter(|_| rows > 0) {
                room = room.max(disk.write(part, PART_BYTES.min(share(granted, probes)))?);
            }
            drop((run, read.batches));
            memory.free();
            unread = read.unread;
            if unread.is_empty() {
                break Left::Disk(std::mem::replace(disk, Disk::new(manager.clone())));
            }
        };
        if let Left::Disk(disk) = &left {
            // A pool that refuses does not end the join.
            let _ = memory.try_resize(probes * room + disk.bits_bytes());
        }
        metrics.memory.set(memory.size());
        let morsel_bytes = if let Left::Disk(_) = left { share(granted, probes) } else { usize::MAX };
        let morsel_bytes = morsel_bytes.min(M::MORSEL_BYTES);
        Ok(Build { left, output, morsel_bytes, probing: AtomicUsize::new(probes), _memory: memory })
    }
}

/// Returns the share of the memory that each output partition may take for a part of the left side,
/// and for a morsel. The last two quarters are for operators above and below.
fn share(granted: usize, probes: usize) -> usize {
    (granted / (4 * probes.max(1))).max(LEAST_BYTES)
}

/// Returns the error for a pool that has no room for a join.
fn no_memory<M: Method>(error: DataFusionError) -> DataFusionError {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(refused) if refused.contains(M::NAMES.operator) => {
            DataFusionError::ResourcesExhausted(format!(
                "a {} has no memory for its left side: enable the disk manager, which is disabled, or allow more \
                 memory: {refused}",
                M::NAMES.join
            ))
        }
        // An input was refused memory, or failed.
        _ => error,
    }
}
