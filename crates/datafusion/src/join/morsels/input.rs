//! Reads the left input: all of it, or what fits into memory at a time.

use arrow::array::RecordBatch;
use datafusion::{
    common::{runtime::SpawnedTask, utils::memory::RecordBatchMemoryCounter},
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, memory_pool::MemoryReservation},
};
use futures::{StreamExt, future};

use crate::join::collect::ended;

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
/// memory to prepare their rows, which is reserved: `row_bytes` for each, beside the rows. With
/// `takes_one` a batch of each stream is read though the pool refuses. Dropping the future ends the
/// tasks.
///
/// # Errors
/// The first error or panic of a stream.
pub(super) async fn read(
    inputs: Vec<Unread>,
    reservation: &MemoryReservation,
    row_bytes: usize,
    takes_one: bool,
) -> Result<Rows> {
    let task = |input| SpawnedTask::spawn(read_one(input, reservation.new_empty(), row_bytes, takes_one));
    let tasks: Vec<_> = inputs.into_iter().map(task).collect();
    let mut all = Rows::default();
    for (rows, own) in future::try_join_all(tasks.into_iter().map(ended)).await? {
        reservation.grow(own.free());
        all.batches.extend(rows.batches);
        all.unread.extend(rows.unread);
        all.refused = rows.refused.or(all.refused);
    }
    Ok(all)
}

async fn read_one(
    mut input: Unread,
    reservation: MemoryReservation,
    row_bytes: usize,
    takes_one: bool,
) -> Result<(Rows, MemoryReservation)> {
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
        // The rows are gathered, so for a while they are there twice.
        let bytes = 2 * memory.count_batch(&batch) + batch.num_rows() * row_bytes;
        if let Err(error) = reservation.try_grow(bytes)
            && !(takes_one && rows.batches.is_empty())
        {
            rows.refused = Some(error);
            rows.unread.push(Unread { held: Some(batch), stream: input.stream });
            return Ok((rows, reservation));
        }
        rows.batches.push(batch);
    }
}
