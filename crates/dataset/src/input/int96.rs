//! Timestamps that Parquet files store in 96 bits: the nanosecond of a day, and the day. Spark and
//! Impala wrote them. The files do not say which unit they mean.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use parquet::{
    arrow::{ARROW_SCHEMA_META_KEY, arrow_reader::ArrowReaderMetadata},
    basic::Type,
    schema::types::SchemaDescriptor,
};

/// Returns whether a file says which types its columns had when they were written.
pub(super) fn has_arrow_schema(metadata: &ArrowReaderMetadata) -> bool {
    let pairs = metadata.metadata().file_metadata().key_value_metadata();
    pairs.is_some_and(|pairs| pairs.iter().any(|pair| pair.key == ARROW_SCHEMA_META_KEY))
}

/// Returns the columns of a file with type `to` in place of nanoseconds for timestamps of 96 bits;
/// `None` if it has none.
pub(super) fn typed(metadata: &ArrowReaderMetadata, to: &DataType) -> Option<SchemaRef> {
    let leaves = metadata.parquet_schema();
    if !leaves.columns().iter().any(|leaf| leaf.physical_type() == Type::INT96) {
        return None;
    }
    let (schema, mut leaf) = (metadata.schema(), 0);
    let fields: Vec<FieldRef> = schema.fields().iter().map(|field| retyped(field, leaves, &mut leaf, to)).collect();
    Some(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// Returns a field whose first leaf is number `leaf` of the file, and moves `leaf` behind it.
fn retyped(field: &FieldRef, leaves: &SchemaDescriptor, leaf: &mut usize, to: &DataType) -> FieldRef {
    let mut inner = |field: &FieldRef| retyped(field, leaves, leaf, to);
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(inner(item), *length),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        other => {
            let is_int96 = *leaf < leaves.num_columns() && leaves.column(*leaf).physical_type() == Type::INT96;
            *leaf += 1;
            let is_nanoseconds = matches!(other, DataType::Timestamp(TimeUnit::Nanosecond, _));
            if is_int96 && is_nanoseconds { to.clone() } else { other.clone() }
        }
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}
