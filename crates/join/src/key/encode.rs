//! Hidden columns.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, LargeBinaryArray, UInt32Array, UInt64Array},
    buffer::{OffsetBuffer, ScalarBuffer},
    datatypes::{DataType, Float16Type, Float32Type, Float64Type},
    error::ArrowError,
    row::RowConverter,
};
use xxhash_rust::xxh3::xxh3_64;

/// Returns whether a key of this type is one number of at most 8 bytes.
pub(super) fn is_convertible(data_type: &DataType) -> bool {
    *data_type == DataType::Boolean || matches!(data_type.primitive_width(), Some(1 | 2 | 4 | 8))
}

pub(super) fn converted_type(data_type: &DataType) -> DataType {
    if data_type.primitive_width() == Some(8) { DataType::UInt64 } else { DataType::UInt32 }
}

/// Returns numbers that are equal if and only if the keys are.
pub(super) fn converted(keys: &ArrayRef) -> ArrayRef {
    let data = one_zero(keys).to_data();
    let narrow = |values: Vec<u32>| Arc::new(UInt32Array::from(values)) as ArrayRef;
    match (keys.data_type(), keys.data_type().primitive_width()) {
        (DataType::Boolean, _) => narrow(keys.as_boolean().values().iter().map(u32::from).collect()),
        (_, Some(1)) => narrow(data.buffer::<u8>(0)[..data.len()].iter().map(|&byte| byte.into()).collect()),
        (_, Some(2)) => narrow(data.buffer::<u16>(0)[..data.len()].iter().map(|&pair| pair.into()).collect()),
        (_, Some(4)) => narrow(data.buffer::<u32>(0)[..data.len()].to_vec()),
        _ => Arc::new(UInt64Array::from_iter_values(data.buffer::<u64>(0)[..data.len()].iter().copied())),
    }
}

/// Returns hashes of the keys' bytes, and the bytes. The bytes are equal if and only if the keys
/// are.
pub(super) fn hashes_and_bytes(converter: &RowConverter, keys: &[ArrayRef]) -> Result<[ArrayRef; 2], ArrowError> {
    let keys: Vec<ArrayRef> = keys.iter().map(one_zero).collect();
    let bytes: BinaryArray = converter.convert_columns(&keys)?.try_into_binary()?;
    let hashes = UInt64Array::from_iter_values((0..bytes.len()).map(|row| xxh3_64(bytes.value(row))));
    Ok([Arc::new(hashes), Arc::new(with_wide_offsets(&bytes)?)])
}

/// Returns the values with offsets of 64 bits, without copying them.
pub(crate) fn with_wide_offsets(bytes: &BinaryArray) -> Result<LargeBinaryArray, ArrowError> {
    let offsets: ScalarBuffer<i64> = bytes.offsets().iter().map(|&offset| i64::from(offset)).collect();
    LargeBinaryArray::try_new(OffsetBuffer::new(offsets), bytes.values().clone(), None)
}

/// Returns the column with 0.0 in place of -0.0 if it is of floats, as the two compare as equal.
/// Within nested values and dictionaries DataFusion compares floats bit by bit, so they are not
/// changed.
pub(crate) fn one_zero(column: &ArrayRef) -> ArrayRef {
    macro_rules! unary {
        ($type:ty) => {
            Arc::new(column.as_primitive::<$type>().unary::<_, $type>(|value| {
                // Compares without the sign bit.
                if value.to_bits() << 1 == 0 { Default::default() } else { value }
            }))
        };
    }
    match column.data_type() {
        DataType::Float16 => unary!(Float16Type),
        DataType::Float32 => unary!(Float32Type),
        DataType::Float64 => unary!(Float64Type),
        _ => Arc::clone(column),
    }
}
