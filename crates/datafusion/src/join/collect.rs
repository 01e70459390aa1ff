//! Reads all of one side of a join.

use arrow::array::RecordBatch;
use datafusion::{
    common::runtime::SpawnedTask,
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, memory_pool::MemoryReservation},
    physical_plan::spill::get_record_batch_memory_size,
};
use futures::{TryStreamExt, future};

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
    let read = |stream: SendableRecordBatchStream| {
        // A reservation of the task's own, so that tasks do not wait for each other.
        let own = reservation.new_empty();
        SpawnedTask::spawn(async move {
            let batches: Vec<RecordBatch> = stream
                .try_filter(|batch| future::ready(batch.num_rows() > 0))
                .and_then(|batch| future::ready(own.try_grow(get_record_batch_memory_size(&batch)).map(|()| batch)))
                .try_collect()
                .await?;
            Ok::<_, DataFusionError>((batches, own))
        })
    };
    let tasks: Vec<_> = streams.into_iter().map(read).collect();
    let ended = |task: SpawnedTask<_>| async {
        task.join().await.map_err(|error| match error.try_into_panic() {
            Ok(payload) => from_panic(&*payload),
            Err(error) => DataFusionError::ExecutionJoin(Box::new(error)),
        })?
    };
    let parts = future::try_join_all(tasks.into_iter().map(ended)).await?;
    let mut all = Vec::new();
    for (batches, own) in parts {
        reservation.grow(own.free());
        all.extend(batches);
    }
    Ok(all)
}
