//! The types of columns in files: such as other programs read.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    compute::cast,
    datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit},
    error::ArrowError,
};

use crate::column_types::{with_fields, with_type};

/// Returns the columns as Parquet files store them, and describe them to readers. Views of text and
/// bytes become plain, since many readers have few functions for views. Parquet has no type for
/// timestamps and times of day in seconds, which become those in milliseconds, nor for dates in
/// milliseconds, which become timestamps. Decimals have 128 bits, which the files store in as few
/// bytes.
///
/// # Errors
/// If a column has a union, which Parquet does not have.
pub fn for_parquet(schema: &Schema) -> Result<SchemaRef, ArrowError> {
    match schema.fields().iter().find(|field| has_union(field.data_type())) {
        Some(field) => Err(ArrowError::NotYetImplemented(format!(
            "column '{}' is of type {}, which Parquet does not have: write another format, or take one of its types \
             with union_extract",
            field.name(),
            field.data_type()
        ))),
        None => Ok(with_types(schema, &parquet_type)),
    }
}

/// Returns whether a type is a union, or has one within.
fn has_union(data_type: &DataType) -> bool {
    let mut found = matches!(data_type, DataType::Union(..));
    with_fields(data_type, &mut |field| {
        found |= has_union(field.data_type());
        Arc::clone(field)
    });
    found
}

/// Returns the type that Parquet has for another one; `None` if it has that.
fn parquet_type(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, zone) => Some(DataType::Timestamp(TimeUnit::Millisecond, zone.clone())),
        DataType::Time32(TimeUnit::Second) => Some(DataType::Time32(TimeUnit::Millisecond)),
        DataType::Date64 => Some(DataType::Timestamp(TimeUnit::Millisecond, None)),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            Some(DataType::Decimal128(*precision, *scale))
        }
        // The reader of Parquet files makes no dictionaries of decimals.
        DataType::Dictionary(_, values) if values.is_decimal() => {
            Some(parquet_type(values).unwrap_or_else(|| values.as_ref().clone()))
        }
        DataType::Dictionary(keys, values) => {
            parquet_type(values).map(|values| DataType::Dictionary(keys.clone(), Box::new(values)))
        }
        other => plain_text(other),
    }
}

/// Returns the columns as Arrow files store them: views become plain, and dictionaries become their
/// values. A file of this format has one dictionary for all its batches.
pub fn for_arrow(schema: &Schema) -> SchemaRef {
    with_types(schema, &|of| match of {
        DataType::Dictionary(_, values) => Some(plain_text(values).unwrap_or_else(|| values.as_ref().clone())),
        other => plain_text(other),
    })
}

/// Returns the columns with plain text and bytes in place of views.
pub fn with_plain_text(schema: &Schema) -> SchemaRef {
    with_types(schema, &plain_text)
}

/// Returns the plain type of a view; `None` for other types.
fn plain_text(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Utf8View => Some(DataType::Utf8),
        DataType::BinaryView => Some(DataType::Binary),
        _ => None,
    }
}

/// Returns the rows with the columns of `schema`, cast where the types differ.
///
/// # Errors
/// If Arrow has no such cast.
pub fn cast_to(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    adapt(batch, schema, |_, _| false)
}

/// Returns the rows for a writer of Parquet files with the columns of `schema`, which
/// [`for_parquet`] has returned. Columns of views stay: the writer encodes them as text and bytes.
///
/// # Errors
/// If Arrow has no cast that is needed.
pub fn for_parquet_writer(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    adapt(batch, schema, |from, to| plain_text(from).as_ref() == Some(to))
}

/// Returns a column for a writer of Parquet files that has it as type `to`, as [`for_parquet_writer`] does.
pub(super) fn column_for_parquet(column: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let from = column.data_type();
    if from == to || plain_text(from).as_ref() == Some(to) { Ok(Arc::clone(column)) } else { cast(column, to) }
}

/// Returns the rows with the columns of `schema`, except those whose types need no cast by `keeps`.
fn adapt(
    batch: &RecordBatch,
    schema: &SchemaRef,
    keeps: impl Fn(&DataType, &DataType) -> bool,
) -> Result<RecordBatch, ArrowError> {
    if batch.schema_ref() == schema {
        return Ok(batch.clone());
    }
    let mut fields: Vec<FieldRef> = schema.fields().to_vec();
    let column = |(column, field): (&ArrayRef, &mut FieldRef)| {
        let from = column.data_type();
        if from != field.data_type() && !keeps(from, field.data_type()) {
            return cast(column, field.data_type());
        }
        *field = Arc::new(Field::clone(field).with_data_type(from.clone()));
        Ok(Arc::clone(column))
    };
    let columns = batch.columns().iter().zip(&mut fields).map(column).collect::<Result<_, _>>()?;
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &rows)
}

/// Returns the columns with other types, at any depth, where `other` gives one. Views of lists
/// become lists.
fn with_types(schema: &Schema, other: &impl Fn(&DataType) -> Option<DataType>) -> SchemaRef {
    let fields: Fields = schema.fields().iter().map(|field| with_type(field, other)).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}
