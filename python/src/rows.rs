//! The rows of queries.

use std::sync::Arc;

use arrow::{
    array::{AsArray, RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray},
    datatypes::{Field, SchemaRef},
    error::ArrowError,
};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use pyo3::{
    prelude::*,
    types::{PyCapsule, PyList, PyTuple},
};
use tokio::sync::Mutex;

use crate::{capsule, errors::Failure, handle::SessionHandle, values::ValueConverter};

/// The columns of rows.
#[pyclass(frozen, module = "annulus_data._internal")]
pub struct Schema(pub SchemaRef);

#[pymethods]
impl Schema {
    /// The names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.0.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The Arrow types of the columns.
    #[getter]
    fn types(&self) -> Vec<String> {
        self.0.fields().iter().map(|field| field.data_type().to_string()).collect()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, &self.0)
    }
}

/// All rows of a query.
#[pyclass(frozen, module = "annulus_data._internal")]
pub struct Rows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Rows {
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        // What operators return may be less strict about nulls than the plan.
        let schema = batches.first().map_or(schema, RecordBatch::schema);
        Self { schema, batches }
    }
}

#[pymethods]
impl Rows {
    #[getter]
    fn schema(&self) -> Schema {
        Schema(Arc::clone(&self.schema))
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The bytes that the columns take.
    #[getter]
    fn bytes(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer casts what it wants to have otherwise, as the interface allows.
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader: Box<dyn RecordBatchReader + Send> =
            Box::new(RecordBatchIterator::new(batches, Arc::clone(&self.schema)));
        capsule::stream(py, reader)
    }

    /// Returns the rows as batches.
    fn batches(&self) -> Vec<Batch> {
        self.batches.iter().cloned().map(Batch).collect()
    }

    /// Returns the rows as tuples of objects of Python.
    fn tuples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        let values = ValueConverter::new(py)?;
        for batch in &self.batches {
            for row in 0..batch.num_rows() {
                let row = batch.columns().iter().map(|column| values.value(column, row));
                rows.append(PyTuple::new(py, row.collect::<PyResult<Vec<_>>>()?)?)?;
            }
        }
        Ok(rows)
    }

    /// Returns the first rows as texts.
    fn texts(&self, py: Python<'_>, first: usize) -> PyResult<Vec<Vec<Option<String>>>> {
        py.detach(|| crate::values::texts(&self.batches, first)).map_err(|error| Failure::new(&error).into_python(None))
    }
}

/// A batch of rows.
#[pyclass(frozen, module = "annulus_data._internal")]
pub struct Batch(RecordBatch);

#[pymethods]
impl Batch {
    #[getter]
    fn schema(&self) -> Schema {
        Schema(self.0.schema())
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    /// The number of columns.
    #[getter]
    fn num_columns(&self) -> usize {
        self.0.num_columns()
    }

    fn __repr__(&self) -> String {
        format!("<annulus_data.Batch: {} rows, {} columns>", self.0.num_rows(), self.0.num_columns())
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, self.0.schema_ref())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // A consumer casts what it wants to have otherwise, as the interface allows.
        drop(requested_schema);
        let array = StructArray::from(self.0.clone());
        let field = Field::new_struct("", self.0.schema_ref().fields().clone(), false);
        let field = field.with_metadata(self.0.schema_ref().metadata().clone());
        capsule::array(py, &field, &array)
    }
}

/// The rows of a query that runs, batch by batch.
#[pyclass(frozen, module = "annulus_data._internal")]
pub struct BatchStream(RunningQuery);

/// A query that runs.
struct RunningQuery {
    session: SessionHandle,
    schema: SchemaRef,
    rows: Arc<Mutex<SendableRecordBatchStream>>,
}

impl BatchStream {
    pub fn new(session: SessionHandle, schema: SchemaRef, rows: SendableRecordBatchStream) -> Self {
        Self(RunningQuery { session, schema, rows: Arc::new(Mutex::new(rows)) })
    }

    pub fn into_reader(self) -> Reader {
        Reader(self.0)
    }
}

impl RunningQuery {
    /// Returns the next batch. The query makes it while Python does something else.
    fn next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let rows = Arc::clone(&self.rows);
        let next = self.session.open()?.start(async move { Ok(rows.lock().await.next().await.transpose()?) });
        next.wait(py, || Ok(()))?;
        next.end(None)
    }
}

#[pymethods]
impl BatchStream {
    #[getter]
    fn schema(&self) -> Schema {
        Schema(Arc::clone(&self.0.schema))
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        Ok(self.0.next(py)?.map(Batch))
    }
}

/// The rows of a query that runs, for a library that reads a stream of Arrow arrays.
pub struct Reader(RunningQuery);

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // The library may hold the interpreter or not. PyO3 counts only what it does itself: where Python stands between,
        // it would take the interpreter for held, though the library has released it.
        let _attached = InterpreterLock::new();
        let next = Python::attach(|py| {
            self.0.next(py).map_err(|error| {
                if error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) {
                    // The library raises an error of its own; Python raises this one after it.
                    // SAFETY: only sets a flag.
                    unsafe { pyo3::ffi::PyErr_SetInterrupt() };
                }
                ArrowError::ExternalError(Box::new(crate::errors::PythonError(error)))
            })
        });
        next.transpose()
    }
}

/// The interpreter, held by this thread whether it was before or not.
struct InterpreterLock(pyo3::ffi::PyGILState_STATE);

impl InterpreterLock {
    fn new() -> Self {
        // SAFETY: any thread may ask for it, and this one gives it back.
        Self(unsafe { pyo3::ffi::PyGILState_Ensure() })
    }
}

impl Drop for InterpreterLock {
    fn drop(&mut self) {
        // SAFETY: the state is that of the call above, in the same thread.
        unsafe { pyo3::ffi::PyGILState_Release(self.0) }
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0.schema)
    }
}

/// Returns the texts of the last column, in which an `EXPLAIN` has its plans: the physical one if it is there.
pub fn last_texts(batches: &[RecordBatch]) -> String {
    let mut plans = Vec::new();
    for batch in batches {
        let (Some(kinds), Some(texts)) = (batch.columns().first(), batch.columns().last()) else { continue };
        let (kinds, texts) = (kinds.as_string::<i32>(), texts.as_string::<i32>());
        plans.extend(kinds.iter().zip(texts).filter_map(|(kind, text)| Some((kind?.to_owned(), text?.to_owned()))));
    }
    let is_physical = |kind: &str| matches!(kind, "physical_plan" | "Plan with Metrics");
    let has_physical = plans.iter().any(|(kind, _)| is_physical(kind));
    let shown = plans.into_iter().filter(|(kind, _)| !has_physical || is_physical(kind));
    shown.map(|(_, text)| text).collect::<Vec<_>>().join("\n")
}
