//! Hidden columns.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayData, ArrayRef, AsArray, BinaryArray, LargeBinaryArray, UInt32Array, UInt64Array, make_array},
    buffer::{Buffer, OffsetBuffer, ScalarBuffer},
    datatypes::DataType,
    error::ArrowError,
    row::RowConverter,
};
use xxhash_rust::xxh3::xxh3_64;

/// Whether one number of at most 8 bytes stands for each key.
pub(super) fn is_convertible(data_type: &DataType) -> bool {
    *data_type == DataType::Boolean || matches!(data_type.primitive_width(), Some(1 | 2 | 4 | 8))
}

pub(super) fn converted_type(data_type: &DataType) -> DataType {
    if data_type.primitive_width() == Some(8) { DataType::UInt64 } else { DataType::UInt32 }
}

/// Numbers that are equal where the keys are.
pub(super) fn converted(keys: &ArrayRef) -> ArrayRef {
    let data = keys.to_data();
    let narrow = |values: Vec<u32>| Arc::new(UInt32Array::from(values)) as ArrayRef;
    match (keys.data_type(), keys.data_type().primitive_width()) {
        (DataType::Boolean, _) => narrow(keys.as_boolean().values().iter().map(u32::from).collect()),
        (DataType::Float16, _) => narrow(data.buffer::<u16>(0)[..data.len()].iter().map(|&b| half(b).into()).collect()),
        (DataType::Float32, _) => narrow(data.buffer(0)[..data.len()].iter().map(|&bits| single(bits)).collect()),
        (_, Some(1)) => narrow(data.buffer::<u8>(0)[..data.len()].iter().map(|&byte| byte.into()).collect()),
        (_, Some(2)) => narrow(data.buffer::<u16>(0)[..data.len()].iter().map(|&pair| pair.into()).collect()),
        _ => Arc::new(UInt64Array::from_iter_values(data.buffer(0)[..data.len()].iter().map(|&bits| double(bits)))),
    }
}

/// Hashes of the keys' bytes, and the bytes, which are equal where the keys are.
pub(super) fn hashes_and_bytes(converter: &RowConverter, keys: &[ArrayRef]) -> Result<[ArrayRef; 2], ArrowError> {
    let keys: Vec<ArrayRef> = keys.iter().map(normalised).collect::<Result<_, _>>()?;
    let bytes: BinaryArray = converter.convert_columns(&keys)?.try_into_binary()?;
    let hashes = UInt64Array::from_iter_values((0..bytes.len()).map(|row| xxh3_64(bytes.value(row))));
    let offsets: ScalarBuffer<i64> = bytes.offsets().iter().map(|&offset| i64::from(offset)).collect();
    let bytes = LargeBinaryArray::try_new(OffsetBuffer::new(offsets), bytes.values().clone(), None)?;
    Ok([Arc::new(hashes), Arc::new(bytes)])
}

/// The column with one zero and one NaN, at any depth.
fn normalised(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !has_floats(&column.to_data()) {
        return Ok(Arc::clone(column));
    }
    Ok(make_array(normalised_data(column.to_data())?))
}

fn has_floats(data: &ArrayData) -> bool {
    data.data_type().is_floating() || data.child_data().iter().any(has_floats)
}

fn normalised_data(data: ArrayData) -> Result<ArrayData, ArrowError> {
    let all = data.buffers().first();
    let values: Option<Buffer> = all.and_then(|all| match data.data_type() {
        DataType::Float16 => Some(all.typed_data().iter().map(|&bits| half(bits)).collect()),
        DataType::Float32 => Some(all.typed_data().iter().map(|&bits| single(bits)).collect()),
        DataType::Float64 => Some(all.typed_data().iter().map(|&bits| double(bits)).collect()),
        _ => None,
    });
    let children = data.child_data().iter().cloned().map(normalised_data).collect::<Result<_, _>>()?;
    let builder = data.into_builder().child_data(children);
    match values {
        Some(values) => builder.buffers(vec![values]).build(),
        None => builder.build(),
    }
}

fn half(bits: u16) -> u16 {
    match bits & 0x7FFF {
        0 => 0,
        0x7C01.. => 0x7E00,
        _ => bits,
    }
}

fn single(bits: u32) -> u32 {
    match f32::from_bits(bits) {
        0.0 => 0,
        value if value.is_nan() => f32::NAN.to_bits(),
        _ => bits,
    }
}

fn double(bits: u64) -> u64 {
    match f64::from_bits(bits) {
        0.0 => 0,
        value if value.is_nan() => f64::NAN.to_bits(),
        _ => bits,
    }
}
