//! The right side: read by a task for each of its partitions, then indexed by all threads. If it does not
//! fit in memory, it is sorted on disk (`sorted`).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use annulus_join::{AsOfIndex, Side, Sides};
use annulus_rows::rows_bytes;
use arrow::{array::RecordBatch, compute::concat_batches, datatypes::SchemaRef};
use datafusion::{
    common::runtime::SpawnedTask,
    error::{DataFusionError, Result},
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
};
use futures::{
    FutureExt, StreamExt,
    future::{self, BoxFuture, Shared},
};

use super::{
    condition::AsOfCondition,
    metrics::Metrics,
    sorted::{self, SortedRows},
};
use crate::{
    error::from_join,
    join::collect::{ended, threads},
};

/// The bytes that an index takes for each row, while it is made.
const INDEX_BYTES: usize = 32;

/// The right side, ready to be looked up.
#[derive(Debug)]
pub(super) enum RightSide {
    Indexed(Box<IndexedRows>),
    /// Rows that do not fit in memory.
    Sorted(SortedRows),
}

#[derive(Debug)]
pub(super) struct IndexedRows {
    pub(super) rows: RecordBatch,
    pub(super) index: AsOfIndex,
    _memory: Arc<MemoryReservation>,
}

/// The right side, for each of the streams that wait for it.
pub(super) type BuildFuture = Shared<BoxFuture<'static, Result<Arc<RightSide>, Arc<DataFusionError>>>>;

/// What is needed to read the right side.
pub(super) struct Setup {
    pub(super) condition: Arc<AsOfCondition>,
    pub(super) schemas: Sides<SchemaRef>,
    pub(super) streams: Vec<SendableRecordBatchStream>,
    pub(super) context: Arc<TaskContext>,
    pub(super) metrics: Metrics,
}

/// The rows that were read of a stream, and the stream, if memory ended before it.
struct ReadRows {
    batches: Vec<RecordBatch>,
    rest: Option<SendableRecordBatchStream>,
}

impl Setup {
    /// Returns the right side in the making, which starts now, in a task, or when it is first polled.
    /// Dropping it ends the task.
    pub(super) fn start(self, now: bool) -> BuildFuture {
        let build = self.build();
        let build = if now { ended(SpawnedTask::spawn(build)).left_future() } else { build.right_future() };
        build.map(|built| built.map(Arc::new).map_err(Arc::new)).boxed().shared()
    }

    async fn build(self) -> Result<RightSide> {
        let Self { condition, schemas, streams, context, metrics } = self;
        let consumer = MemoryConsumer::new("AsOfJoinExec").with_can_spill(true);
        let memory = Arc::new(consumer.register(context.memory_pool()));
        let is_full = Arc::new(AtomicBool::new(false));
        let tasks = streams
            .into_iter()
            .map(|stream| ended(SpawnedTask::spawn(read(stream, Arc::clone(&memory), Arc::clone(&is_full)))));
        let read: Vec<ReadRows> = future::try_join_all(tasks.collect::<Vec<_>>()).await?;
        if read.iter().any(|read| read.rest.is_some()) {
            memory.free();
            let inputs = read.into_iter().map(|read| sorted::chained(&schemas.right, read.batches, read.rest));
            let right = sorted::Rows { side: Side::Right, schema: schemas.right.clone(), condition, context };
            return Ok(RightSide::Sorted(right.write(inputs.collect(), &metrics).await?));
        }
        let _timer = metrics.build.time.timer();
        let batches: Vec<RecordBatch> = read.into_iter().flat_map(|read| read.batches).collect();
        let rows = match &batches[..] {
            [batch] => batch.clone(),
            _ => concat_batches(&schemas.right, &batches)?,
        };
        drop(batches);
        let keys = condition.keys(schemas.as_ref().map(AsRef::as_ref))?;
        let columns = condition.columns(Side::Right, &rows)?;
        let index = AsOfIndex::prepare(keys, &columns, &rows, threads(&context)).map_err(from_join)?;
        let bytes = rows_bytes(&rows) + index.memory_bytes();
        // What was read is in memory, whatever the pool says.
        memory.resize(bytes);
        metrics.build.rows.add(rows.num_rows());
        metrics.build.memory.set_max(bytes);
        Ok(RightSide::Indexed(Box::new(IndexedRows { rows, index, _memory: memory })))
    }
}

/// Reads a stream until it ends, or until memory is full for one of the streams.
async fn read(
    mut stream: SendableRecordBatchStream,
    memory: Arc<MemoryReservation>,
    is_full: Arc<AtomicBool>,
) -> Result<ReadRows> {
    let mut batches = Vec::new();
    loop {
        // Only whether it was set counts.
        if is_full.load(Ordering::Relaxed) {
            return Ok(ReadRows { batches, rest: Some(stream) });
        }
        let Some(batch) = stream.next().await.transpose()? else { break };
        if batch.num_rows() == 0 {
            continue;
        }
        let bytes = rows_bytes(&batch) + INDEX_BYTES * batch.num_rows();
        if memory.try_grow(bytes).is_err() {
            is_full.store(true, Ordering::Relaxed);
        }
        batches.push(batch);
    }
    Ok(ReadRows { batches, rest: None })
}
