//! The Arrow PyCapsule interface: columns in and out of Python without a copy
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>).

use std::{
    ffi::CStr,
    panic::{AssertUnwindSafe, catch_unwind},
};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchReader, StructArray, make_array},
    datatypes::{Field, Schema},
    error::ArrowError,
    ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi},
    ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream},
};
use pyo3::{exceptions::PyTypeError, prelude::*, types::PyCapsule};

use crate::errors::InputError;

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// Returns the stream of an object that has `__arrow_c_stream__`.
///
/// # Errors
/// If the object has no stream, or the stream is not readable (any more).
pub fn stream_of(object: &Bound<'_, PyAny>) -> PyResult<ArrowArrayStreamReader> {
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast_into::<PyCapsule>().map_err(|_| not_a_capsule("__arrow_c_stream__"))?;
    let stream = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name has a stream, which is moved out here and marked as released.
    let reader = unsafe { ArrowArrayStreamReader::from_raw(stream.as_ptr()) };
    reader.map_err(|error| InputError::new_err(format!("cannot read a stream of Arrow arrays: {error}")))
}

/// Returns the column of an object that has `__arrow_c_array__`.
///
/// # Errors
/// If the object has no array, or its buffers do not fit its type.
pub fn array_of(object: &Bound<'_, PyAny>) -> PyResult<(Field, ArrayRef)> {
    let pair = object.call_method0("__arrow_c_array__")?;
    let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
    let schema = schema.cast_into::<PyCapsule>().map_err(|_| not_a_capsule("__arrow_c_array__"))?;
    let array = array.cast_into::<PyCapsule>().map_err(|_| not_a_capsule("__arrow_c_array__"))?;
    let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: capsules of these names have a schema and an array. The schema stays the capsule's; the array is
    // moved out and marked as released.
    let (schema, array) = unsafe { (schema.as_ref(), FFI_ArrowArray::from_raw(array.as_ptr())) };
    let field = Field::try_from(schema).map_err(|error| unreadable(&error))?;
    let array = guarded(|| {
        // SAFETY: the interface promises that the array has the type of the schema.
        unsafe { from_ffi(array, schema) }.map(make_array)
    });
    Ok((field, array.map_err(|error| unreadable(&error))?))
}

/// Returns the batch of an object whose array is a struct of the columns.
///
/// # Errors
/// If it is not one.
pub fn batch_of(object: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let (field, array) = array_of(object)?;
    if array.null_count() > 0 {
        return Err(InputError::new_err("rows of a table cannot be null as a whole: give the columns as a table"));
    }
    let Some(columns) = array.as_any().downcast_ref::<StructArray>() else {
        let text = format!("expected a batch of columns, found an array of {}", field.data_type());
        return Err(PyTypeError::new_err(text));
    };
    let batch = RecordBatch::from(columns.clone());
    let schema = batch.schema_ref().as_ref().clone().with_metadata(field.metadata().clone());
    batch.with_schema(schema.into()).map_err(|error| unreadable(&error))
}

/// Returns a type or a field that has `__arrow_c_schema__`.
///
/// # Errors
/// If the object has no schema.
pub fn field_of(object: &Bound<'_, PyAny>) -> PyResult<Field> {
    let capsule = object.call_method0("__arrow_c_schema__")?;
    let capsule = capsule.cast_into::<PyCapsule>().map_err(|_| not_a_capsule("__arrow_c_schema__"))?;
    let schema = capsule.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    // SAFETY: a capsule of this name has a schema, which stays the capsule's.
    Field::try_from(unsafe { schema.as_ref() }).map_err(|error| unreadable(&error))
}

/// Returns the capsule of a stream of batches.
///
/// # Errors
/// If Python has no memory for it.
pub fn stream<'py>(py: Python<'py>, reader: Box<dyn RecordBatchReader + Send>) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// Returns the capsule of a schema.
///
/// # Errors
/// If a type cannot be named.
pub fn schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|error| unreadable(&error))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// Returns the capsules of an array: those of its type and its buffers.
///
/// # Errors
/// If the type cannot be named.
pub fn array<'py>(
    py: Python<'py>,
    field: &Field,
    array: &dyn Array,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let (buffers, _) = to_ffi(&array.to_data()).map_err(|error| unreadable(&error))?;
    let schema = FFI_ArrowSchema::try_from(field).map_err(|error| unreadable(&error))?;
    Ok((PyCapsule::new_with_value(py, schema, SCHEMA)?, PyCapsule::new_with_value(py, buffers, ARRAY)?))
}

/// Imports arrays. arrow-rs 59 takes slices of structs in structs to be longer than they are, and panics.
///
/// # Errors
/// Those of `import`, or that it panicked.
pub fn guarded<T>(import: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    catch_unwind(AssertUnwindSafe(import)).unwrap_or_else(|_| {
        let text = "arrow-rs cannot read a slice of nested structs: copy the rows first";
        Err(ArrowError::CDataInterface(text.to_owned()))
    })
}

fn not_a_capsule(method: &str) -> PyErr {
    PyTypeError::new_err(format!("{method} returned something that is not a capsule"))
}

fn unreadable(error: &ArrowError) -> PyErr {
    InputError::new_err(format!("cannot pass Arrow arrays: {error}"))
}
