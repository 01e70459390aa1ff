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
    let has_int96 = leaves.columns().iter().any(|leaf| leaf.physical_type() == Type::INT96);
    has_int96.then(|| {
        retyped(metadata, &|of| matches!(of, DataType::Timestamp(TimeUnit::Nanosecond, _)).then(|| to.clone()))
    })
}

/// Returns the columns of a file with plain timestamps of 96 bits in place of dictionaries, of which the
/// reader makes none. A file that says which types its columns had may name them.
pub(super) fn plain(metadata: &ArrowReaderMetadata) -> SchemaRef {
    retyped(metadata, &|of| match of {
        DataType::Dictionary(_, values) => Some(values.as_ref().clone()),
        _ => None,
    })
}

/// Returns the columns of a file with other types for those leaves of 96 bits for which `other` has one.
fn retyped(metadata: &ArrowReaderMetadata, other: &impl Fn(&DataType) -> Option<DataType>) -> SchemaRef {
    let (schema, leaves, mut leaf) = (metadata.schema(), metadata.parquet_schema(), 0);
    let fields = schema.fields().iter().map(|field| retyped_field(field, leaves, &mut leaf, other));
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Returns a field whose first leaf is number `leaf` of the file, and moves `leaf` behind it.
fn retyped_field(
    field: &FieldRef,
    leaves: &SchemaDescriptor,
    leaf: &mut usize,
    other: &impl Fn(&DataType) -> Option<DataType>,
) -> FieldRef {
    let mut inner = |field: &FieldRef| retyped_field(field, leaves, leaf, other);
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(inner(item), *length),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        of => {
            let is_int96 = *leaf < leaves.num_columns() && leaves.column(*leaf).physical_type() == Type::INT96;
            *leaf += 1;
            other(of).filter(|_| is_int96).unwrap_or_else(|| of.clone())
        }
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}
