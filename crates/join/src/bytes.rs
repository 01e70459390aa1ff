//! The memory of rows whose buffers hold more than them.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::DataType,
};

/// Returns the bytes of memory of a batch's rows, without unused parts of their buffers.
///
/// ```
/// use std::sync::Arc;
///
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
///
/// let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
/// let batch = RecordBatch::try_from_iter([("number", numbers)])?;
/// assert_eq!(annulus_join::rows_bytes(&batch.slice(10, 5)), 5 * 8);
/// # Ok::<(), arrow::error::ArrowError>(())
/// ```
pub fn rows_bytes(batch: &RecordBatch) -> usize {
    let column = |column: &ArrayRef| {
        let values = match column.data_type() {
            DataType::Utf8View => column.as_string_view().total_buffer_bytes_used(),
            DataType::BinaryView => column.as_binary_view().total_buffer_bytes_used(),
            _ => 0,
        };
        let data = column.to_data();
        values + data.get_slice_memory_size().unwrap_or_else(|_| column.get_buffer_memory_size())
    };
    batch.columns().iter().map(column).sum()
}

/// Returns the column, copied without values that none of its rows uses if it is of views.
pub(crate) fn compact_views(column: ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => column,
    }
}
