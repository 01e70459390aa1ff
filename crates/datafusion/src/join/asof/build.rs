//! The right side: read by a task for each of its partitions, then indexed by all threads. If it does not
//! fit in memory, it is sorted on disk (`sorted`).

use std::sync::Arc;

use annulus_join::{AsOfIndex, Side, Sides};
use arrow::{
    array::{Array, ArrayRef, RecordBatch, UInt32Array, new_empty_array},
    compute::{concat, take},
    datatypes::{DataType, SchemaRef},
};
use datafusion::{
    common::internal_err,
    error::Result,
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
};

use super::{
    condition::AsOfCondition,
    layout::{has_runs, runs_or_nulls},
    metrics::Metrics,
    sorted::{self, SortedRows},
};
use crate::{
    error::from_join,
    join::collect::{SharedBuild, read_while_fitting, shared, threads},
};

/// The bytes that an index takes for each row, while it is made.
const INDEX_BYTES: usize = 48;

/// The right side, ready to be looked up.
#[derive(Debug)]
pub(super) enum RightSide {
    Indexed(Arc<IndexedRows>),
    /// Rows that do not fit in memory.
    Sorted(SortedRows),
}

#[derive(Debug)]
pub(super) struct IndexedRows {
    /// The columns that the output needs; the others are gone.
    columns: Vec<Option<ArrayRef>>,
    pub(super) index: AsOfIndex,
    _memory: Arc<MemoryReservation>,
}

impl IndexedRows {
    /// Returns a column of the partners of some rows of the left side.
    ///
    /// # Errors
    /// If the output does not need the column.
    pub(super) fn partners(&self, column: usize, rows: &UInt32Array) -> Result<ArrayRef> {
        match self.columns.get(column) {
            Some(Some(column)) if has_runs(column) => {
                runs_or_nulls(column, rows.iter().map(|row| row.map(|row| row as usize)))
            }
            Some(Some(column)) => Ok(take(column, rows, None)?),
            _ => internal_err!("column {column} of the right side was not kept"),
        }
    }
}

/// The right side, for each of the streams that wait for it.
pub(super) type BuildFuture = SharedBuild<RightSide>;

/// What is needed to read the right side.
pub(super) struct Setup {
    pub(super) condition: Arc<AsOfCondition>,
    pub(super) schemas: Sides<SchemaRef>,
    pub(super) streams: Vec<SendableRecordBatchStream>,
    /// The columns that the output needs.
    pub(super) columns: Vec<usize>,
    pub(super) context: Arc<TaskContext>,
    pub(super) metrics: Metrics,
}

impl Setup {
    /// Returns the right side in the making, which starts now, in a task, or when it is first polled.
    /// Dropping it ends the task.
    pub(super) fn start(self, now: bool) -> BuildFuture {
        shared(self.build(), now)
    }

    async fn build(self) -> Result<RightSide> {
        let Self { condition, schemas, streams, columns, context, metrics } = self;
        let consumer = MemoryConsumer::new("AsOfJoinExec").with_can_spill(true);
        let memory = Arc::new(consumer.register(context.memory_pool()));
        let read = read_while_fitting(streams, &memory, INDEX_BYTES).await?;
        // Columns are put together, which takes the memory of the rows once more.
        let bytes: usize = read.iter().map(|read| read.bytes).sum();
        if read.iter().any(|read| read.rest.is_some()) || memory.try_grow(bytes).is_err() {
            memory.free();
            let inputs = read.into_iter().map(|read| read.into_stream(&schemas.right));
            let right = sorted::Rows { side: Side::Right, schema: schemas.right.clone(), condition, context };
            return Ok(RightSide::Sorted(right.write(inputs.collect(), &metrics).await?));
        }
        let _timer = metrics.build.time.timer();
        let batches: Vec<RecordBatch> = read.into_iter().flat_map(|read| read.batches).collect();
        let keys = condition.keys(schemas.as_ref().map(AsRef::as_ref))?;
        let key_columns =
            batches.iter().map(|batch| condition.columns(Side::Right, batch)).collect::<Result<Vec<_>>>()?;
        let index = AsOfIndex::prepare(keys, &key_columns, &batches, threads(&context)).map_err(from_join)?;
        metrics.build.rows.add(batches.iter().map(RecordBatch::num_rows).sum());
        drop(key_columns);
        let right = schemas.right.fields();
        let kept =
            |index: usize| columns.contains(&index).then(|| concatenated(&batches, index, right[index].data_type()));
        let columns = (0..right.len()).map(|index| kept(index).transpose()).collect::<Result<Vec<_>>>()?;
        let kept_bytes: usize = columns.iter().flatten().map(|column| column.get_buffer_memory_size()).sum();
        memory.resize(kept_bytes + index.memory_bytes());
        metrics.build.memory.set_max(kept_bytes + index.memory_bytes());
        Ok(RightSide::Indexed(Arc::new(IndexedRows { columns, index, _memory: memory })))
    }
}

/// Returns a column of all batches.
fn concatenated(batches: &[RecordBatch], index: usize, data_type: &DataType) -> Result<ArrayRef> {
    let columns: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(index).as_ref()).collect();
    if columns.is_empty() { Ok(new_empty_array(data_type)) } else { Ok(concat(&columns)?) }
}
