//! Reads all of one side of a join.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use annulus_rows::rows_bytes;
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::runtime::SpawnedTask,
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, TaskContext, memory_pool::MemoryReservation},
    physical_plan::stream::RecordBatchStreamAdapter,
};
use futures::{
    FutureExt, StreamExt,
    future::{self, BoxFuture, Shared},
    stream,
};
use tokio::task::JoinError;

use crate::error::from_panic;

/// What several streams wait for.
pub(super) type SharedBuild<T> = Shared<BoxFuture<'static, Result<Arc<T>, Arc<DataFusionError>>>>;

/// Keeps the batches of one stream.
pub(super) trait Keeper: Send + 'static {
    /// Keeps a batch, which has rows.
    ///
    /// # Errors
    /// Any error ends the reading of all streams.
    fn keep(&mut self, batch: RecordBatch) -> Result<()>;
}

/// Reads these streams at once, each in a task of its own, and returns their keepers. Dropping the
/// future ends the tasks.
///
/// # Errors
/// The first error or panic of a stream or a keeper.
pub(super) async fn read_all<K: Keeper>(streams: Vec<(SendableRecordBatchStream, K)>) -> Result<Vec<K>> {
    let tasks: Vec<_> = streams.into_iter().map(|(stream, keeper)| SpawnedTask::spawn(read(stream, keeper))).collect();
    future::try_join_all(tasks.into_iter().map(ended)).await
}

async fn read<K: Keeper>(mut stream: SendableRecordBatchStream, mut keeper: K) -> Result<K> {
    while let Some(batch) = stream.next().await.transpose()? {
        if batch.num_rows() > 0 {
            keeper.keep(batch)?;
        }
    }
    Ok(keeper)
}

/// The rows that were read of a stream.
pub(super) struct ReadRows {
    pub(super) batches: Vec<RecordBatch>,
    /// The memory of the rows.
    pub(super) bytes: usize,
    /// The stream, if memory ended before it.
    pub(super) rest: Option<SendableRecordBatchStream>,
}

impl ReadRows {
    /// Returns the rows that were read, and then those of the rest of the stream.
    pub(super) fn into_stream(self, schema: &SchemaRef) -> SendableRecordBatchStream {
        let batches = stream::iter(self.batches.into_iter().map(Ok));
        let rest = stream::iter(self.rest).flatten();
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), batches.chain(rest)))
    }
}

/// Reads these streams at once, each in a task of its own, until they end, or until memory is full for one
/// of them. Takes the memory of the rows, and `row_bytes` more for each of them.
///
/// # Errors
/// The first error or panic of a stream.
pub(super) async fn read_while_fitting(
    streams: Vec<SendableRecordBatchStream>,
    memory: &Arc<MemoryReservation>,
    row_bytes: usize,
) -> Result<Vec<ReadRows>> {
    let is_full = Arc::new(AtomicBool::new(false));
    let read = |stream| read_one(stream, Arc::clone(memory), Arc::clone(&is_full), row_bytes);
    let tasks: Vec<_> = streams.into_iter().map(|stream| SpawnedTask::spawn(read(stream))).collect();
    future::try_join_all(tasks.into_iter().map(ended)).await
}

async fn read_one(
    mut stream: SendableRecordBatchStream,
    memory: Arc<MemoryReservation>,
    is_full: Arc<AtomicBool>,
    row_bytes: usize,
) -> Result<ReadRows> {
    let (mut batches, mut all_bytes) = (Vec::new(), 0);
    loop {
        // Only whether it was set counts.
        if is_full.load(Ordering::Relaxed) {
            return Ok(ReadRows { batches, bytes: all_bytes, rest: Some(stream) });
        }
        let Some(batch) = stream.next().await.transpose()? else { break };
        if batch.num_rows() == 0 {
            continue;
        }
        let bytes = rows_bytes(&batch);
        all_bytes += bytes;
        if memory.try_grow(bytes + row_bytes * batch.num_rows()).is_err() {
            is_full.store(true, Ordering::Relaxed);
        }
        batches.push(batch);
    }
    Ok(ReadRows { batches, bytes: all_bytes, rest: None })
}

/// Returns what several streams wait for, in the making. It starts now, in a task, or when it is first polled.
/// Dropping it ends the task.
pub(super) fn shared<T: Send + Sync + 'static>(
    build: impl Future<Output = Result<T>> + Send + 'static,
    now: bool,
) -> SharedBuild<T> {
    let build = if now { ended(SpawnedTask::spawn(build)).left_future() } else { build.right_future() };
    build.map(|built| built.map(Arc::new).map_err(Arc::new)).boxed().shared()
}

/// Returns what a task returns, or its panic as an error.
pub(super) async fn ended<T>(task: impl Future<Output = Result<Result<T>, JoinError>>) -> Result<T> {
    task.await.map_err(|error| match error.try_into_panic() {
        Ok(payload) => from_panic(&*payload),
        Err(error) => DataFusionError::ExecutionJoin(Box::new(error)),
    })?
}

/// Returns the error for a pool that has no room for the build side.
pub(super) fn no_memory(error: DataFusionError) -> DataFusionError {
    DataFusionError::ResourcesExhausted(format!(
        "a hash join keeps its build side in memory; allow more memory, or set \
         datafusion.optimizer.prefer_hash_join to false, so that a sort-merge join spills: {}",
        error.find_root()
    ))
}

/// Returns the number of threads that prepare a build side: those that the session's partitions may
/// keep busy.
pub(super) fn threads(context: &TaskContext) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    context.session_config().target_partitions().clamp(1, cpus)
}
