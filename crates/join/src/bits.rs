//! The values of fixed-width columns as unsigned integers of the same width.

use arrow::{
    array::Array,
    buffer::{Buffer, ScalarBuffer},
    datatypes::ArrowNativeType,
};

/// Returns the values of a column of `size_of::<T>()` bytes per value as integers with the same bits.
///
/// The result refers to the column's memory if that is aligned for `T`, and is a copy otherwise. Arrow
/// aligns intervals of 8 and 16 bytes to 4 and 8 bytes only.
pub(crate) fn bits<T: ArrowNativeType>(column: &dyn Array) -> ScalarBuffer<T> {
    let data = column.to_data();
    let bytes = data.buffers()[0].slice_with_length(data.offset() * size_of::<T>(), data.len() * size_of::<T>());
    let aligned =
        if bytes.as_ptr().cast::<T>().is_aligned() { bytes } else { Buffer::from_slice_ref(bytes.as_slice()) };
    ScalarBuffer::new(aligned, 0, data.len())
}
