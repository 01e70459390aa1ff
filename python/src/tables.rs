//! Tables of the caller: in memory, without a copy, or streams.

use std::{
    fmt,
    future::pending,
    sync::{Arc, Weak},
};

use arrow::{
    array::{RecordBatch, RecordBatchOptions, RecordBatchReader},
    datatypes::{FieldRef, Fields, Schema, SchemaRef},
    error::ArrowError,
};
use datafusion::{
    catalog::{MemTable, TableProvider, streaming::StreamingTable},
    common::tree_node::TreeNodeRecursion,
    datasource::source_as_provider,
    error::{DataFusionError, Result as EngineResult},
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::LogicalPlan,
    physical_plan::{stream::RecordBatchReceiverStreamBuilder, streaming::PartitionStream},
};
use parking_lot::Mutex;
use pyo3::{exceptions::PyTypeError, prelude::*};
use tokio::{runtime::Handle, sync::mpsc::Sender};

use crate::{
    calls::in_python,
    capsule,
    closing::Closing,
    errors::{InputError, PythonError},
};

/// The key under which pandas keeps what it needs to make its index again. It would be wrong for the rows of
/// a query.
const PANDAS: &str = "pandas";
/// The batches of a stream that wait for a query.
const WAITING: usize = 2;

/// A table of the caller.
#[pyclass(frozen, module = "annulus_data._internal")]
pub struct Table {
    pub provider: Arc<dyn TableProvider>,
}

#[pymethods]
impl Table {
    /// Returns the table of an object that is in memory, which has `__arrow_c_stream__`, in `parts` parts of
    /// about as many rows. No values are copied.
    #[staticmethod]
    fn in_memory(py: Python<'_>, object: &Bound<'_, PyAny>, parts: usize) -> PyResult<Self> {
        let reader = capsule::stream_of(object)?;
        let (schema, batches) = py
            .detach(|| {
                let schema = without_index(&reader.schema());
                let batches = || reader.map(|batch| with_schema(batch?, &schema)).collect::<Result<Vec<_>, _>>();
                capsule::guarded(batches).map(|batches| (Arc::clone(&schema), batches))
            })
            .map_err(|error| unreadable(&error))?;
        Self::of_batches(schema, &batches, parts)
    }

    /// Returns the table of a batch, whose object has `__arrow_c_array__`.
    #[staticmethod]
    fn of_batch(object: &Bound<'_, PyAny>, parts: usize) -> PyResult<Self> {
        let batch = capsule::batch_of(object)?;
        let schema = without_index(batch.schema_ref());
        let batch = with_schema(batch, &schema).map_err(|error| unreadable(&error))?;
        Self::of_batches(schema, &[batch], parts)
    }

    /// Returns the table of a stream. Its rows are read by each query anew, or by one query if the stream
    /// `is_once`: then `reading` is that of the object whose rows they are. A `sample` is a stream of the same
    /// columns that costs less to open.
    #[staticmethod]
    #[pyo3(signature = (stream, is_once, sample=None, reading=None))]
    fn of_stream(
        py: Python<'_>,
        stream: Py<Stream>,
        is_once: bool,
        sample: Option<&Bound<'_, Stream>>,
        reading: Option<Py<Reading>>,
    ) -> PyResult<Self> {
        let reading = reading.map_or_else(|| Py::new(py, Reading::default()), Ok)?;
        let schema = match sample {
            Some(sample) => without_index(&sample.get().open(py)?.schema()),
            None => reading.get().schema(py, stream.get())?,
        };
        let source = Source { stream, schema: Arc::clone(&schema), reading, is_once };
        let provider = StreamingTable::try_new(schema, vec![Arc::new(source)]);
        let provider: Arc<dyn TableProvider> =
            Arc::new(provider.map_err(|error| InputError::new_err(error.strip_backtrace()))?);
        if is_once {
            let mut all = READ_ONCE.lock();
            all.retain(|known| known.strong_count() > 0);
            all.push(Arc::downgrade(&provider));
        }
        Ok(Self { provider })
    }
}

/// The tables that can be read once.
static READ_ONCE: Mutex<Vec<Weak<dyn TableProvider>>> = Mutex::new(Vec::new());

/// Returns whether a plan reads a stream that can be read once only.
pub fn reads_once(plan: &LogicalPlan) -> bool {
    let known: Vec<_> = READ_ONCE.lock().iter().filter_map(Weak::upgrade).collect();
    let mut is_once = false;
    let searched = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(table) = source_as_provider(&scan.source)
        {
            is_once |= known.iter().any(|known| Arc::ptr_eq(known, &table));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    // The closure never fails.
    searched.is_ok() && is_once
}

impl Table {
    fn of_batches(schema: SchemaRef, batches: &[RecordBatch], parts: usize) -> PyResult<Self> {
        let parts = divide(batches, parts.max(1));
        let table = MemTable::try_new(schema, parts).map_err(|error| InputError::new_err(error.strip_backtrace()))?;
        Ok(Self { provider: Arc::new(table) })
    }
}

/// Divides batches into `count` parts of about as many rows, in their order. Parts of batches share their
/// buffers.
fn divide(batches: &[RecordBatch], count: usize) -> Vec<Vec<RecordBatch>> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let most = rows.div_ceil(count).max(1);
    let mut parts = vec![Vec::new()];
    let mut room = most;
    for batch in batches {
        let mut from = 0;
        while from < batch.num_rows() {
            if room == 0 {
                parts.push(Vec::new());
                room = most;
            }
            let length = room.min(batch.num_rows() - from);
            if let Some(part) = parts.last_mut() {
                part.push(batch.slice(from, length));
            }
            (from, room) = (from + length, room - length);
        }
    }
    parts
}

/// Returns `batch` with the columns of `schema`, which may have other metadata.
fn with_schema(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let (_, columns, rows) = batch.into_parts();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// Returns a schema without what pandas notes about its index.
fn without_index(schema: &Schema) -> SchemaRef {
    let mut metadata = schema.metadata().clone();
    metadata.remove(PANDAS);
    Arc::new(Schema::new_with_metadata(schema.fields().clone(), metadata))
}

/// An object of the caller whose rows come in batches.
#[pyclass(frozen, module = "annulus_data._internal")]
pub struct Stream {
    /// A function that returns an object with `__arrow_c_stream__`, or an iterator of batches.
    open: Py<PyAny>,
}

#[pymethods]
impl Stream {
    #[new]
    fn new(open: Py<PyAny>) -> Self {
        Self { open }
    }
}

impl Stream {
    fn open(&self, py: Python<'_>) -> PyResult<Reader> {
        let opened = self.open.call0(py)?.into_bound(py);
        if opened.hasattr("__arrow_c_stream__")? {
            return Ok(Reader::Arrow(Box::new(capsule::stream_of(&opened)?)));
        }
        let mut batches = Batches {
            iterator: opened.try_iter()?.into_any().unbind(),
            next: None,
            schema: SchemaRef::new(Schema::empty()),
        };
        let first = batches.pull(py)?;
        let Some(first) = first else {
            let text = "the generator has no batch, and without one its columns are not known: yield at least one";
            return Err(InputError::new_err(text));
        };
        batches.schema = first.schema();
        batches.next = Some(first);
        Ok(Reader::Python(batches))
    }
}

/// The state of an object whose rows can be read once, which all of its tables share.
#[pyclass(frozen, module = "annulus_data._internal")]
#[derive(Default)]
pub struct Reading(Mutex<ReadingState>);

#[derive(Default)]
struct ReadingState {
    /// The columns, once they are known.
    schema: Option<SchemaRef>,
    /// The stream that told them, until it is read.
    first: Option<Reader>,
    is_begun: bool,
}

#[pymethods]
impl Reading {
    #[new]
    fn new() -> Self {
        Self::default()
    }
}

impl Reading {
    /// Returns the columns of the rows; the first time, opens the stream.
    fn schema(&self, py: Python<'_>, stream: &Stream) -> PyResult<SchemaRef> {
        if let Some(schema) = &self.0.lock().schema {
            return Ok(Arc::clone(schema));
        }
        let first = stream.open(py)?;
        let schema = without_index(&first.schema());
        let mut state = self.0.lock();
        (state.schema, state.first) = (Some(Arc::clone(&schema)), Some(first));
        Ok(schema)
    }
}

/// The batches of a stream.
enum Reader {
    Arrow(Box<arrow::ffi_stream::ArrowArrayStreamReader>),
    Python(Batches),
}

impl Reader {
    fn schema(&self) -> SchemaRef {
        match self {
            Self::Arrow(reader) => reader.schema(),
            Self::Python(batches) => Arc::clone(&batches.schema),
        }
    }

    /// Returns the next batch. Must not be called by a thread that holds the interpreter.
    fn next(&mut self) -> Result<Option<RecordBatch>, DataFusionError> {
        match self {
            Self::Arrow(reader) => Ok(capsule::guarded(|| reader.next().transpose())?),
            Self::Python(batches) => match batches.next.take() {
                Some(batch) => Ok(Some(batch)),
                None => Python::attach(|py| batches.pull(py)).map_err(|error| PythonError(error).into()),
            },
        }
    }
}

/// The batches that an iterator of Python returns.
struct Batches {
    iterator: Py<PyAny>,
    /// The one that told the schema.
    next: Option<RecordBatch>,
    schema: SchemaRef,
}

impl Batches {
    fn pull(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let iterator = self.iterator.bind(py);
        match iterator.try_iter()?.next() {
            None => Ok(None),
            Some(item) => {
                let item = item?;
                if !item.hasattr("__arrow_c_array__")? {
                    let kind = item.get_type().qualname()?;
                    let text = format!("a generator of batches returned a {kind}: yield Arrow record batches");
                    return Err(PyTypeError::new_err(text));
                }
                capsule::batch_of(&item).map(Some)
            }
        }
    }
}

/// The rows of a stream, as one part of a table.
struct Source {
    stream: Py<Stream>,
    schema: SchemaRef,
    reading: Py<Reading>,
    is_once: bool,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Source {
    fn open(&self) -> Result<Reader, DataFusionError> {
        let mut state = self.reading.get().0.lock();
        let (first, was_begun) = (state.first.take(), std::mem::replace(&mut state.is_begun, true));
        drop(state);
        if let Some(first) = first {
            return Ok(first);
        }
        if self.is_once && was_begun {
            let text = "a stream can be read once, and a query has read it already: collect it into a table first";
            return Err(PythonError(InputError::new_err(text)).into());
        }
        in_python(|py| self.stream.get().open(py))
    }
}

/// Returns `batch` with the columns of its table.
fn checked(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, DataFusionError> {
    let (found, expected) = (batch.schema_ref().fields(), schema.fields());
    let is_same = |(a, b): (&FieldRef, &FieldRef)| a.name() == b.name() && a.data_type() == b.data_type();
    if found.len() != expected.len() || !found.iter().zip(expected).all(is_same) {
        let shown = |fields: &Fields| {
            let columns: Vec<_> =
                fields.iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
            columns.join(", ")
        };
        let text =
            format!("a batch of a stream has other columns than the first: {} after {}", shown(found), shown(expected));
        return Err(PythonError(InputError::new_err(text)).into());
    }
    Ok(with_schema(batch, schema)?)
}

impl PartitionStream for Source {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let most = context.session_config().batch_size();
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.schema), WAITING);
        let sender = builder.tx();
        match self.open() {
            Err(error) => builder.spawn(async move {
                // A query that has ended needs no error.
                sender.send(Err(error)).await.ok();
                Ok(())
            }),
            Ok(mut reader) => {
                let schema = Arc::clone(&self.schema);
                let closing = context.session_config().get_extension::<Closing>();
                let runtime = Handle::current();
                builder.spawn_blocking(move || {
                    while let Some(batch) = reader.next()? {
                        let batch = checked(batch, &schema)?;
                        for from in (0..batch.num_rows()).step_by(most) {
                            let part = batch.slice(from, most.min(batch.num_rows() - from));
                            if !runtime.block_on(send(&sender, part, closing.as_deref())) {
                                return Ok(());
                            }
                        }
                    }
                    Ok(())
                });
            }
        }
        builder.build()
    }
}

/// Sends a batch to a query. Returns false if the query has ended, or its session is closing.
async fn send(sender: &Sender<EngineResult<RecordBatch>>, batch: RecordBatch, closing: Option<&Closing>) -> bool {
    let closed = async {
        match closing {
            Some(closing) => closing.wait().await,
            None => pending().await,
        }
    };
    tokio::select! {
        biased;
        () = closed => false,
        sent = sender.send(Ok(batch)) => sent.is_ok(),
    }
}

fn unreadable(error: &ArrowError) -> PyErr {
    InputError::new_err(format!("cannot read a table of Arrow arrays: {error}"))
}
