//! Reads all of one side of a join.

use arrow::array::RecordBatch;
use datafusion::{
    common::runtime::SpawnedTask,
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, TaskContext},
};
use futures::{StreamExt, future};

use crate::error::from_panic;

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

/// Returns what a task returns, or its panic as an error.
pub(super) async fn ended<T>(task: SpawnedTask<Result<T>>) -> Result<T> {
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
