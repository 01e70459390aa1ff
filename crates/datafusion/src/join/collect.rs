//! Reads all of one side of a join.

use arrow::array::RecordBatch;
use datafusion::{
    common::{runtime::SpawnedTask, utils::memory::RecordBatchMemoryCounter},
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, memory_pool::MemoryReservation},
};
use futures::{StreamExt, future};

use crate::error::from_panic;

/// Reads these streams at once, each in a task of its own, and reserves memory for the batches. The
/// batches of a stream come one after the other, in the order of the streams. Dropping the future
/// ends the tasks.
///
/// # Errors
/// The first error or panic of a stream, or [`DataFusionError::ResourcesExhausted`].
pub(super) async fn collect(
    streams: Vec<SendableRecordBatchStream>,
    reservation: &MemoryReservation,
) -> Result<Vec<RecordBatch>> {
    // Each task has a reservation of its own, so that tasks do not wait for each other.
    let read = |stream| SpawnedTask::spawn(read(stream, reservation.new_empty()));
    let tasks: Vec<_> = streams.into_iter().map(read).collect();
    let parts = future::try_join_all(tasks.into_iter().map(ended)).await?;
    let mut all = Vec::new();
    for (batches, own) in parts {
        reservation.grow(own.free());
        all.extend(batches);
    }
    Ok(all)
}

/// Returns what a task returns, or its panic as an error.
pub(super) async fn ended<T>(task: SpawnedTask<Result<T>>) -> Result<T> {
    task.await.map_err(|error| match error.try_into_panic() {
        Ok(payload) => from_panic(&*payload),
        Err(error) => DataFusionError::ExecutionJoin(Box::new(error)),
    })?
}

/// Reads one stream. Batches may share memory, which is reserved once.
async fn read(
    mut stream: SendableRecordBatchStream,
    reservation: MemoryReservation,
) -> Result<(Vec<RecordBatch>, MemoryReservation)> {
    let (mut batches, mut memory) = (Vec::new(), RecordBatchMemoryCounter::new());
    while let Some(batch) = stream.next().await.transpose()? {
        if batch.num_rows() > 0 {
            reservation.try_grow(memory.count_batch(&batch)).map_err(no_memory)?;
            batches.push(batch);
        }
    }
    Ok((batches, reservation))
}

/// Returns the error for a pool that has no room for the build side.
pub(super) fn no_memory(error: DataFusionError) -> DataFusionError {
    DataFusionError::ResourcesExhausted(format!(
        "a hash join keeps its build side in memory; allow more memory, or set \
         datafusion.optimizer.prefer_hash_join to false, so that a sort-merge join spills: {}",
        error.find_root()
    ))
}
