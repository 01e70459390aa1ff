//! Types of columns in other layouts.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};

/// Returns the type of views of texts or bytes; `None` for other types.
pub(crate) fn view_of(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => Some(DataType::Utf8View),
        DataType::Binary | DataType::LargeBinary => Some(DataType::BinaryView),
        _ => None,
    }
}

/// Returns a struct, a list or a map with what `inner` returns for each of its fields; `None` for other
/// types.
pub(crate) fn with_fields(data_type: &DataType, inner: &mut impl FnMut(&FieldRef) -> FieldRef) -> Option<DataType> {
    Some(match data_type {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::ListView(item) => DataType::ListView(inner(item)),
        DataType::LargeListView(item) => DataType::LargeListView(inner(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(inner(item), *length),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        _ => return None,
    })
}

/// Returns the column with another type, at any depth, where `other` gives one. Views of lists become
/// lists.
pub(crate) fn with_type(field: &FieldRef, other: &impl Fn(&DataType) -> Option<DataType>) -> FieldRef {
    let own = field.data_type();
    let data_type = match with_fields(own, &mut |field| with_type(field, other)) {
        Some(DataType::ListView(item)) => DataType::List(item),
        Some(DataType::LargeListView(item)) => DataType::LargeList(item),
        Some(nested) => nested,
        None => other(own).unwrap_or_else(|| own.clone()),
    };
    if data_type == *own {
        return Arc::clone(field);
    }
    let changed = Field::new(field.name(), data_type, field.is_nullable());
    Arc::new(changed.with_metadata(field.metadata().clone()))
}
