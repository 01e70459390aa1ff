//! Sorts of streams, in memory of their own and on disk.

use std::{fmt, sync::Arc};

use annulus_rows::rows_bytes;
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array},
    compute::{SortOptions, take},
    datatypes::{DataType, Schema, SchemaRef},
};
use datafusion::{
    common::{ScalarValue, internal_err},
    config::ConfigNonZeroUsize,
    error::Result,
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryReservation},
        runtime_env::RuntimeEnv,
    },
    logical_expr::Operator,
    physical_expr::{
        LexOrdering, PhysicalExpr, PhysicalSortExpr,
        expressions::{Column, binary, lit},
    },
    physical_plan::{
        EmptyRecordBatchStream, ExecutionPlan,
        sorts::sort::SortExec,
        spill::get_record_batch_memory_size,
        stream::RecordBatchStreamAdapter,
        streaming::{PartitionStream, StreamingTableExec},
    },
};
use futures::{Stream, StreamExt, stream};
use parking_lot::Mutex;

use crate::context::with_runtime;

/// The part of the session's pool that the sorts of all partitions of one side take together.
const SORTS_SHARE: usize = 4;
/// The least memory of a sort, in bytes.
const MIN_SORT_BYTES: usize = 8 << 20;
/// The share of its memory that a sort reserves for its merges: they hold the keys of all batches in memory as
/// rows, which may take several times the batches.
const MERGE_SHARE: (usize, usize) = (2, 3);
/// The most rows of a batch while it is sorted: merges hold one of each run.
const SORTED_ROWS: usize = 1024;

/// Returns the column with this index.
pub(super) fn column(schema: &Schema, index: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(schema.field(index).name(), index))
}

/// Returns the column with this index, of floats with 0.0 in place of -0.0: the two are equal.
pub(super) fn one_zero(schema: &Schema, index: usize) -> Result<Arc<dyn PhysicalExpr>> {
    let (column, data_type) = (column(schema, index), schema.field(index).data_type());
    if !data_type.is_floating() {
        return Ok(column);
    }
    binary(column, Operator::Plus, lit(ScalarValue::new_zero(data_type)?), schema)
}

/// Returns the rows of a stream, sorted by these expressions, with nulls first.
///
/// # Errors
/// If the sort cannot be planned.
pub(super) fn sorted(
    input: SendableRecordBatchStream,
    by: Vec<Arc<dyn PhysicalExpr>>,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = input.schema();
    let options = SortOptions { descending: false, nulls_first: true };
    let Some(ordering) = LexOrdering::new(by.into_iter().map(|expr| PhysicalSortExpr::new(expr, options))) else {
        return internal_err!("a sort by no column");
    };
    let once = Arc::new(Once { schema: Arc::clone(&schema), stream: Mutex::new(Some(input)) });
    let input = StreamingTableExec::try_new(schema, vec![once], None, None, false, None)?;
    let (memory, context) = sort_memory(context);
    let mut rows = SortExec::new(ordering, Arc::new(input)).execute(0, context)?;
    let schema = rows.schema();
    // The memory is taken until the stream is dropped.
    let rows = stream::poll_fn(move |context| {
        let _memory = &memory;
        rows.poll_next_unpin(context)
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

/// Takes the memory of a sort from the session's pool, and returns a context with a pool of that memory alone:
/// sorts of DataFusion 55.2 fail if others take the rest of a pool between their steps. A sort cannot do with
/// less than [`MIN_SORT_BYTES`], so what the session's pool lacks of them is not accounted for.
fn sort_memory(context: &TaskContext) -> (MemoryReservation, Arc<TaskContext>) {
    let partitions = context.session_config().target_partitions().max(1);
    let memory = MemoryConsumer::new("AsOfJoinExec, sorts").register(context.memory_pool());
    let bytes = match context.memory_pool().memory_limit() {
        MemoryLimit::Finite(bytes) => {
            let mut share = bytes / SORTS_SHARE / partitions;
            while share > 0 && memory.try_grow(share).is_err() {
                share /= 2;
            }
            share.max(MIN_SORT_BYTES)
        }
        MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
    };
    let pool = Arc::new(GreedyMemoryPool::new(bytes));
    let runtime = Arc::new(RuntimeEnv { memory_pool: pool, ..context.runtime_env().as_ref().clone() });
    let context = with_runtime(context, runtime, |options| {
        let options = &mut options.execution;
        if let Ok(rows) = ConfigNonZeroUsize::try_new(SORTED_ROWS.min(options.batch_size.get())) {
            options.batch_size = rows;
        }
        options.sort_spill_reservation_bytes = bytes / MERGE_SHARE.1 * MERGE_SHARE.0;
        // It would need several times their memory to put batches of views together.
        options.sort_in_place_threshold_bytes = 0;
    });
    (memory, context)
}

/// A stream as the input of a plan that is executed once.
struct Once {
    schema: SchemaRef,
    stream: Mutex<Option<SendableRecordBatchStream>>,
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}

impl PartitionStream for Once {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let taken = self.stream.lock().take();
        taken.unwrap_or_else(|| Box::pin(EmptyRecordBatchStream::new(Arc::clone(&self.schema))))
    }
}

/// Cuts the batches of a stream into those that are sorted.
pub(super) fn in_pieces(input: SendableRecordBatchStream) -> impl Stream<Item = Result<RecordBatch>> + Send {
    input.flat_map(|batch| {
        let pieces = match batch {
            Ok(batch) => (0..batch.num_rows())
                .step_by(SORTED_ROWS)
                .map(|start| Ok(batch.slice(start, SORTED_ROWS.min(batch.num_rows() - start))))
                .collect(),
            Err(error) => vec![Err(error)],
        };
        stream::iter(pieces)
    })
}

/// Returns a batch whose buffers have little else than its rows. A sort counts whole buffers, and many batches
/// may be slices of one.
pub(super) fn in_own_memory(batch: RecordBatch) -> Result<RecordBatch> {
    if get_record_batch_memory_size(&batch) <= 2 * rows_bytes(&batch) {
        return Ok(batch);
    }
    let all = UInt64Array::from_iter_values(0..batch.num_rows() as u64);
    let columns = batch.columns().iter().map(|column| {
        let column = take(column, &all, None)?;
        let compacted: ArrayRef = match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().gc()),
            DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
            _ => column,
        };
        Ok(compacted)
    });
    Ok(RecordBatch::try_new(batch.schema(), columns.collect::<Result<_>>()?)?)
}
