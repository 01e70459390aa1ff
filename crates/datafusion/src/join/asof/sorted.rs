//! Sides that are sorted by key and time, on disk where they do not fit in memory.
//!
//! Two columns behind the side's own are what is sorted by and compared: the equal keys and the time, each
//! as bytes that sort like them (Arrow's row format). If earlier times of the left side have later partners,
//! times descend. Rows of the right side with equal keys and times ascend by all their columns, so that the
//! last one is the one that counts.

use std::{fmt, sync::Arc};

use annulus_join::Side;
use annulus_rows::rows_bytes;
use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt64Array},
    compute::{SortOptions, filter_record_batch, take},
    datatypes::{DataType, Field, Schema, SchemaRef},
    row::{RowConverter, SortField},
};
use datafusion::{
    common::{ScalarValue, internal_err},
    config::ConfigNonZeroUsize,
    error::Result,
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryReservation},
        runtime_env::RuntimeEnv,
        spill_file::SpillFile,
    },
    logical_expr::Operator,
    physical_expr::{
        LexOrdering, PhysicalExpr, PhysicalSortExpr,
        expressions::{Column, binary, lit},
    },
    physical_plan::{
        EmptyRecordBatchStream, ExecutionPlan, SpillManager,
        sorts::sort::SortExec,
        spill::get_record_batch_memory_size,
        stream::RecordBatchStreamAdapter,
        streaming::{PartitionStream, StreamingTableExec},
    },
};
use futures::{Stream, StreamExt, stream};
use parking_lot::Mutex;

use super::{condition::AsOfCondition, metrics::Metrics};
use crate::{context::with_runtime, error::from_join};

/// The names of the columns of keys and times as bytes.
pub(super) const KEY: &str = "annulus as-of key";
pub(super) const TIME: &str = "annulus as-of time";

/// The part of the session's pool that the sorts of all partitions of one side take together.
const SORTS_SHARE: usize = 4;
/// The least memory of a sort, in bytes.
const MIN_SORT_BYTES: usize = 8 << 20;
/// The share of its memory that a sort reserves for its merges: they hold the keys of all batches in memory as
/// rows, which may take several times the batches.
const MERGE_SHARE: (usize, usize) = (2, 3);
/// The most rows of a batch while it is sorted: merges hold one of each run.
const SORTED_ROWS: usize = 1024;

/// A side to be sorted.
pub(super) struct Rows {
    pub(super) side: Side,
    pub(super) schema: SchemaRef,
    pub(super) condition: Arc<AsOfCondition>,
    pub(super) context: Arc<TaskContext>,
}

/// The sorted rows of the right side, on disk.
#[derive(Clone)]
pub(super) struct SortedRows {
    /// None without rows.
    file: Option<Arc<dyn SpillFile>>,
    manager: Arc<SpillManager>,
}

impl Rows {
    /// Returns the columns of the side, then the key and the time as bytes, and the number of the row if
    /// rows are numbered.
    fn sorted_schema(&self, is_numbered: bool) -> SchemaRef {
        let bytes = [KEY, TIME].map(|name| Arc::new(Field::new(name, DataType::Binary, true)));
        let number = is_numbered.then(number_field);
        let fields = self.schema.fields().iter().cloned().chain(bytes).chain(number);
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Sorts the rows of the right side, and writes them to disk.
    ///
    /// # Errors
    /// If an input fails, there is no memory to sort at all, or the disk is full.
    pub(super) async fn write(&self, inputs: Vec<SendableRecordBatchStream>, metrics: &Metrics) -> Result<SortedRows> {
        let schema = self.sorted_schema(false);
        let input = RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream::select_all(inputs));
        let mut sorted = self.sort(Box::pin(input), false)?;
        let manager = SpillManager::new(self.context.runtime_env(), metrics.files.clone(), schema)
            .with_compression_type(self.context.session_config().spill_compression());
        let mut file = manager.create_in_progress_file("an as-of join")?;
        while let Some(batch) = sorted.next().await.transpose()? {
            metrics.build.rows.add(batch.num_rows());
            file.append_batch(&batch)?;
        }
        Ok(SortedRows { file: file.finish()?, manager: Arc::new(manager) })
    }

    /// Returns the rows sorted by key and time. Those of the right side that have no partner are left out.
    ///
    /// # Errors
    /// If the sort cannot be planned.
    pub(super) fn sort(
        &self,
        input: SendableRecordBatchStream,
        is_numbered: bool,
    ) -> Result<SendableRecordBatchStream> {
        let schema = self.sorted_schema(is_numbered);
        let encoder = self.condition.bytes(&self.schema, self.side)?;
        let (condition, side, with_bytes) = (Arc::clone(&self.condition), self.side, Arc::clone(&schema));
        let mut first = 0;
        let rows = in_pieces(input).map(move |batch| {
            let batch = batch?;
            let number = is_numbered.then(|| UInt64Array::from_iter_values(first..first + batch.num_rows() as u64));
            first += batch.num_rows() as u64;
            let [key, time] = encoder.encode(&condition.columns(side, &batch)?).map_err(from_join)?;
            let is_valid = key.nulls().map(|nulls| BooleanArray::new(nulls.inner().clone(), None));
            let bytes = [Arc::new(key) as ArrayRef, Arc::new(time)];
            let batch = in_own_memory(batch)?;
            let columns = batch.columns().iter().cloned().chain(bytes);
            let columns = columns.chain(number.map(|number| Arc::new(number) as ArrayRef)).collect();
            let batch = RecordBatch::try_new(Arc::clone(&with_bytes), columns)?;
            match is_valid {
                Some(is_valid) if side == Side::Right => Ok(filter_record_batch(&batch, &is_valid)?),
                _ => Ok(batch),
            }
        });
        let own = self.schema.fields().len();
        let mut by = vec![column(&schema, own), column(&schema, own + 1)];
        if side == Side::Right {
            let is_sortable = |&index: &usize| {
                RowConverter::supports_fields(&[SortField::new(schema.field(index).data_type().clone())])
            };
            let columns = || (0..own).filter(is_sortable);
            by.extend(columns().map(|index| one_zero(&schema, index)).collect::<Result<Vec<_>>>()?);
            by.extend(
                columns()
                    .filter(|&index| schema.field(index).data_type().is_floating())
                    .map(|index| column(&schema, index)),
            );
        }
        sorted(Box::pin(RecordBatchStreamAdapter::new(schema, rows)), by, &self.context)
    }
}

impl SortedRows {
    /// Returns the rows in their order.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(super) fn read(&self) -> Result<SendableRecordBatchStream> {
        match &self.file {
            Some(file) => self.manager.read_spill_as_stream(Arc::clone(file), None),
            None => Ok(Box::pin(EmptyRecordBatchStream::new(Arc::clone(self.manager.schema())))),
        }
    }
}

impl fmt::Debug for SortedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortedRows").finish_non_exhaustive()
    }
}

/// Cuts the batches of a stream into those that are sorted.
fn in_pieces(input: SendableRecordBatchStream) -> impl Stream<Item = Result<RecordBatch>> + Send {
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
fn in_own_memory(batch: RecordBatch) -> Result<RecordBatch> {
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

/// Returns the field of the numbers of rows.
pub(super) fn number_field() -> Arc<Field> {
    Arc::new(Field::new("annulus as-of row", DataType::UInt64, false))
}

/// Returns batches, and then those of a stream.
pub(super) fn chained(
    schema: &SchemaRef,
    batches: Vec<RecordBatch>,
    rest: Option<SendableRecordBatchStream>,
) -> SendableRecordBatchStream {
    let batches = stream::iter(batches.into_iter().map(Ok));
    let rest = stream::iter(rest).flatten();
    Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), batches.chain(rest)))
}

/// Returns the column with this index.
pub(super) fn column(schema: &Schema, index: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(schema.field(index).name(), index))
}

/// Returns the column with this index, of floats with 0.0 in place of -0.0: the two are equal.
fn one_zero(schema: &Schema, index: usize) -> Result<Arc<dyn PhysicalExpr>> {
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
