//! Reads the left input: all of it, or what fits into memory at a time.

use arrow::array::RecordBatch;
use datafusion::{
    common::{runtime::SpawnedTask, utils::memory::RecordBatchMemoryCounter},
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, memory_pool::MemoryReservation},
};
use futures::{StreamExt, future};

use super::build::SORT_BYTES;
use crate::error::from_panic;

/// A stream, and a batch of it that did not fit.
pub(super) struct Unread {
    pub(super) held: Option<RecordBatch>,
    pub(super) stream: SendableRecordBatchStream,
}

/// Some of the rows of the streams.
#[derive(Default)]
pub(super) struct Rows {
    /// The batches of a stream follow each other, in the order of the streams.
    pub(super) batches: Vec<RecordBatch>,
    /// The streams that have not ended.
    pub(super) unread: Vec<Unread>,
    /// The last refusal of memory.
    pub(super) refused: Option<DataFusionError>,
}

/// Reads these streams at once, each in a task of its own, until they end or the pool refuses the
/// memory to sort their rows, which is reserved. Dropping the future ends the tasks.
///
/// # Errors
/// The first error or panic of a stream.
pub(super) async fn read(inputs: Vec<Unread>, reservation: &MemoryReservation) -> Result<Rows> {
    let tasks: Vec<_> =
        inputs.into_iter().map(|input| SpawnedTask::spawn(read_one(input, reservation.new_empty()))).collect();
    let ended = |task: SpawnedTask<_>| async {
        task.await.map_err(|error| match error.try_into_panic() {
            Ok(payload) => from_panic(&*payload),
            Err(error) => DataFusionError::ExecutionJoin(Box::new(error)),
        })?
    };
    let mut all = Rows::default();
    for (rows, own) in future::try_join_all(tasks.into_iter().map(ended)).await? {
        reservation.grow(own.free());
        all.batches.extend(rows.batches);
        all.unread.extend(rows.unread);
        all.refused = rows.refused.or(all.refused);
    }
    Ok(all)
}

async fn read_one(mut input: Unread, reservation: MemoryReservation) -> Result<(Rows, MemoryReservation)> {
    let (mut rows, mut memory) = (Rows::default(), RecordBatchMemoryCounter::new());
    loop {
        let batch = match input.held.take() {
            Some(batch) => batch,
            None => match input.stream.next().await.transpose()? {
                Some(batch) => batch,
                None => return Ok((rows, reservation)),
            },
        };
        if batch.num_rows() == 0 {
            continue;
        }
        // The rows are gathered in their order, so for a while they are there twice.
        let bytes = 2 * memory.count_batch(&batch) + batch.num_rows() * SORT_BYTES;
        if let Err(error) = reservation.try_grow(bytes) {
            rows.refused = Some(error);
            rows.unread.push(Unread { held: Some(batch), stream: input.stream });
            return Ok((rows, reservation));
        }
        rows.batches.push(batch);
    }
}
