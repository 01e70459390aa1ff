//! The memory of rows whose buffers hold more than them.

use arrow::{
    array::{Array, ArrayData, ArrayRef, ByteView, MAX_INLINE_VIEW_LEN, RecordBatch},
    datatypes::DataType,
};

/// Returns the bytes of memory of a batch's rows, without unused parts of their buffers.
///
/// A view of a long value counts with the bytes that it refers to. So a slice counts as its rows
/// would in buffers of their own, and a value to which several rows refer counts for each of them.
/// Dictionaries, and the items of lists, count whole. O(columns), but O(rows) for a column of
/// views, whose lengths are summed.
///
/// ```
/// use std::sync::Arc;
///
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
///
/// let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
/// let batch = RecordBatch::try_from_iter([("number", numbers)])?;
/// assert_eq!(annulus_rows::rows_bytes(&batch.slice(10, 5)), 5 * 8);
/// # Ok::<(), arrow::error::ArrowError>(())
/// ```
pub fn rows_bytes(batch: &RecordBatch) -> usize {
    let column = |column: &ArrayRef| {
        let data = column.to_data();
        viewed_bytes(&data) + data.get_slice_memory_size().unwrap_or_else(|_| column.get_buffer_memory_size())
    };
    batch.columns().iter().map(column).sum()
}

/// Returns the bytes of the values to which views in this array, or in one within it, refer.
fn viewed_bytes(data: &ArrayData) -> usize {
    let within: usize = data.child_data().iter().map(viewed_bytes).sum();
    let (DataType::Utf8View | DataType::BinaryView) = data.data_type() else { return within };
    let views = &data.buffers()[0].typed_data::<u128>()[data.offset()..data.offset() + data.len()];
    let lengths = views.iter().map(|view| ByteView::from(*view).length);
    lengths.filter(|length| *length > MAX_INLINE_VIEW_LEN).map(|length| length as usize).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{BinaryViewArray, StringViewArray, StructArray},
        datatypes::Field,
    };

    use super::*;

    fn bytes_of(column: ArrayRef) -> usize {
        rows_bytes(&RecordBatch::try_from_iter([("column", column)]).unwrap())
    }

    #[test]
    fn views_count_with_their_long_values() {
        let long = "a value that does not fit in a view";
        let texts = StringViewArray::from_iter([Some(long), Some("short"), None, Some(long), Some(long)]);
        let validity = |rows: usize| rows.div_ceil(8);
        assert_eq!(bytes_of(Arc::new(texts.clone())), 5 * 16 + 3 * long.len() + validity(5));
        assert_eq!(bytes_of(Arc::new(texts.slice(1, 3))), 3 * 16 + long.len() + validity(3));
        let bytes = BinaryViewArray::from_iter_values([long.as_bytes(), b"short"]);
        assert_eq!(bytes_of(Arc::new(bytes)), 2 * 16 + long.len());
    }

    #[test]
    fn views_within_structs_count() {
        let long = "a value that does not fit in a view";
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values([long; 10]));
        let field = Arc::new(Field::new("text", DataType::Utf8View, false));
        let within = StructArray::from(vec![(field, texts)]);
        assert_eq!(bytes_of(Arc::new(within.slice(3, 4))), 4 * (16 + long.len()));
    }
}
