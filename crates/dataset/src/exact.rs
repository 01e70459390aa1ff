//! Decodes values as texts first if the decoders of their types would round them silently.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit},
    error::ArrowError,
};

/// Returns `schema` with texts in place of the types that are `rounded`, at any depth.
pub(crate) fn as_texts(schema: &Schema, rounded: fn(&DataType) -> bool) -> SchemaRef {
    Arc::new(Schema::new(schema.fields().iter().map(|field| as_text(field, rounded)).collect::<Vec<_>>()))
}

fn as_text(field: &FieldRef, rounded: fn(&DataType) -> bool) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| as_text(field, rounded)).collect()),
        DataType::List(item) => DataType::List(as_text(item, rounded)),
        DataType::Map(entries, sorted) => DataType::Map(as_text(entries, rounded), *sorted),
        other if rounded(other) => DataType::Utf8,
        other => other.clone(),
    };
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
}

/// Returns `batch`, some of whose columns are texts, with the types of `schema`. Returns an error
/// if a text is not a value of its type, or would be rounded.
pub(crate) fn parse(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| parse_column(column, field.data_type())).collect::<Result<_, _>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &rows)
}

/// Returns `column`, in which texts may stand for values of other types, as `data_type`.
pub(crate) fn parse_column(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    match (column.data_type(), data_type) {
        (from, to) if from == to => return Ok(Arc::clone(column)),
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let column = column.as_struct();
            let columns =
                column.columns().iter().zip(fields).map(|(column, field)| parse_column(column, field.data_type()));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            let rows = column.len();
            return Ok(Arc::new(StructArray::try_new_with_length(
                fields.clone(),
                columns,
                column.nulls().cloned(),
                rows,
            )?));
        }
        (DataType::List(_), DataType::List(item)) => {
            let column = column.as_list::<i32>();
            let items = parse_column(column.values(), item.data_type())?;
            let (offsets, nulls) = (column.offsets().clone(), column.nulls().cloned());
            return Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, items, nulls)?));
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => {
            let column = column.as_map();
            let parsed = parse_column(&(Arc::new(column.entries().clone()) as ArrayRef), entries.data_type())?;
            let (offsets, nulls) = (column.offsets().clone(), column.nulls().cloned());
            let parsed = parsed.as_struct().clone();
            return Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, parsed, nulls, *sorted)?));
        }
        _ => {}
    }
    if let Some(texts) = column.as_string_opt::<i32>()
        && let Some(text) = texts.iter().flatten().find(|text| is_more_than(text, data_type))
    {
        return Err(ArrowError::CastError(format!("'{text}' is more than its type, {data_type}, holds")));
    }
    cast_with_options(column, data_type, &CastOptions { safe: false, ..Default::default() })
}

/// Returns whether a cast would silently drop a part of a time or decimal.
fn is_more_than(text: &str, data_type: &DataType) -> bool {
    match data_type {
        // A longer text has a time, or a sign and a year of more than four digits.
        DataType::Date32 => text.len() > "2026-01-01".len() && !text.starts_with(['+', '-']),
        DataType::Timestamp(_, None) if has_zone(text) => true,
        DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) => {
            let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction).bytes();
            fraction.take_while(u8::is_ascii_digit).skip(digits(*unit)).any(|digit| digit != b'0')
        }
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => {
            let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction).bytes();
            fraction.skip((*scale).max(0) as usize).any(|digit| digit != b'0')
        }
        _ => false,
    }
}

/// Returns whether a time names a zone.
fn has_zone(text: &str) -> bool {
    let is_zone = |byte: u8| matches!(byte, b'+' | b'-') || byte.is_ascii_alphabetic();
    text.bytes().skip("2026-01-01T".len()).any(is_zone)
}

/// Returns the number of digits of a fraction of a second that are kept.
fn digits(unit: TimeUnit) -> usize {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}
