//! Types of columns in other layouts.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields};

/// Returns the type of views of texts or bytes; `None` for other types.
pub(crate) fn view_of(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => Some(DataType::Utf8View),
        DataType::Binary | DataType::LargeBinary => Some(DataType::BinaryView),
        _ => None,
    }
}

/// Returns the column with another type, at any depth, where `other` gives one. Views of lists become
/// lists.
pub(crate) fn with_type(field: &FieldRef, other: &impl Fn(&DataType) -> Option<DataType>) -> FieldRef {
    let inner = |field: &FieldRef| with_type(field, other);
    let data_type = match field.data_type() {
        DataType::List(item) | DataType::ListView(item) => DataType::List(inner(item)),
        DataType::LargeList(item) | DataType::LargeListView(item) => DataType::LargeList(inner(item)),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(inner(item), *len),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect::<Fields>()),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        plain => match other(plain) {
            Some(data_type) => data_type,
            None => return Arc::clone(field),
        },
    };
    if data_type == *field.data_type() {
        return Arc::clone(field);
    }
    let changed = Field::new(field.name(), data_type, field.is_nullable());
    Arc::new(changed.with_metadata(field.metadata().clone()))
}
