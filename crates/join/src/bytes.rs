//! How much memory columns take.

use arrow::array::{Array, ArrayRef};

/// Bytes of columns, also where they are a part of larger buffers. What Arrow cannot say of a type is taken to be all of its buffers.
pub(crate) fn column_bytes(columns: &[ArrayRef]) -> usize {
    let bytes = |column: &ArrayRef| {
        let data = column.to_data();
        data.get_slice_memory_size().unwrap_or_else(|_| data.get_buffer_memory_size())
    };
    columns.iter().map(bytes).sum()
}
