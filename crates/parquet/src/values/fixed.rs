//! Values of fixed width.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, Decimal32Array, Decimal64Array, Decimal128Array, Decimal256Array,
        FixedSizeBinaryArray, Float16Array, PrimitiveArray, make_array,
    },
    buffer::{Buffer, ScalarBuffer},
    datatypes::{
        ArrowNativeType, DataType, Date64Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
        TimeUnit, TimestampNanosecondType, UInt8Type, UInt16Type, i256,
    },
};
use bytes::Bytes;
use parquet::{
    basic::{Encoding, Type},
    data_type::Int96,
};

use super::delta;
use crate::{
    column::Column,
    error::{PageError, ScanError},
};

/// Decodes `count` values.
///
/// # Errors
/// If the bytes are not such values, or a decimal's precision is impossible.
pub(super) fn decode(column: &Column, encoding: Encoding, bytes: Bytes, count: usize) -> Result<ArrayRef, ScanError> {
    let corrupt = |error| column.corrupt(error);
    match column.physical {
        Type::INT32 => {
            let values = match encoding {
                Encoding::DELTA_BINARY_PACKED => {
                    let values = delta::integers(&bytes, count).map_err(corrupt)?.0;
                    values.into_iter().map(|value| value as i32).collect::<Vec<_>>().into()
                }
                _ => native::<i32>(&bytes_of(encoding, bytes, 4, count).map_err(corrupt)?),
            };
            from_i32(PrimitiveArray::new(values, None), &column.data_type)
        }
        Type::INT64 => {
            let values = match encoding {
                Encoding::DELTA_BINARY_PACKED => delta::integers(&bytes, count).map_err(corrupt)?.0.into(),
                _ => native::<i64>(&bytes_of(encoding, bytes, 8, count).map_err(corrupt)?),
            };
            from_i64(PrimitiveArray::new(values, None), &column.data_type)
        }
        Type::FLOAT => {
            let values = native::<f32>(&bytes_of(encoding, bytes, 4, count).map_err(corrupt)?);
            Ok(Arc::new(PrimitiveArray::<Float32Type>::new(values, None)))
        }
        Type::DOUBLE => {
            let values = native::<f64>(&bytes_of(encoding, bytes, 8, count).map_err(corrupt)?);
            Ok(Arc::new(PrimitiveArray::<Float64Type>::new(values, None)))
        }
        Type::INT96 => from_int96(&bytes_of(encoding, bytes, 12, count).map_err(corrupt)?, &column.data_type),
        Type::FIXED_LEN_BYTE_ARRAY => {
            let bytes = match encoding {
                Encoding::DELTA_BYTE_ARRAY => {
                    let mut values = Vec::with_capacity(count.min(bytes.len()).saturating_mul(column.length));
                    let whole = delta::byte_arrays(&bytes, count, |value| {
                        values.extend_from_slice(value);
                        if value.len() == column.length { Ok(()) } else { Err(PageError::Count) }
                    });
                    whole.map_err(corrupt)?;
                    values.into()
                }
                _ => bytes_of(encoding, bytes, column.length, count).map_err(corrupt)?,
            };
            from_fixed(bytes, column, count)
        }
        _ => Err(corrupt(PageError::Encoding)),
    }
}

/// Returns the bytes of `count` values of `width` bytes, one after the other.
fn bytes_of(encoding: Encoding, bytes: Bytes, width: usize, count: usize) -> Result<Bytes, PageError> {
    let length = count.checked_mul(width).filter(|&length| length <= bytes.len()).ok_or(PageError::Short)?;
    match encoding {
        Encoding::PLAIN => Ok(bytes.slice(..length)),
        // The first bytes of all values come first.
        Encoding::BYTE_STREAM_SPLIT => {
            // A page may have padding after its values.
            let is_even = bytes.len().is_multiple_of(width.max(1));
            let stride = if is_even { bytes.len() / width.max(1) } else { count };
            let mut values = vec![0; length];
            for (place, stream) in bytes.chunks(stride.max(1)).take(width).enumerate() {
                values.iter_mut().skip(place).step_by(width).zip(stream).for_each(|(value, byte)| *value = *byte);
            }
            Ok(values.into())
        }
        _ => Err(PageError::Encoding),
    }
}

/// Returns values that are written from the lowest byte on. They are copied only if they are not aligned.
fn native<T: ArrowNativeType>(bytes: &Bytes) -> ScalarBuffer<T> {
    let width = size_of::<T>();
    let count = bytes.len() / width;
    if bytes.as_ptr().align_offset(align_of::<T>()) == 0 {
        return ScalarBuffer::new(Buffer::from(bytes.clone()), 0, count);
    }
    let mut values = vec![T::default(); count];
    // SAFETY: `values` has `count * width` bytes, which any bytes can be.
    let target = unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast::<u8>(), count * width) };
    target.copy_from_slice(&bytes[..count * width]);
    values.into()
}

/// As the `parquet` crate's reader takes integers of 32 bits for the other types.
fn from_i32(values: PrimitiveArray<Int32Type>, target: &DataType) -> Result<ArrayRef, ScanError> {
    Ok(match target {
        DataType::Int8 => Arc::new(values.unary::<_, Int8Type>(|value| value as i8)),
        DataType::Int16 => Arc::new(values.unary::<_, Int16Type>(|value| value as i16)),
        DataType::UInt8 => Arc::new(values.unary::<_, UInt8Type>(|value| value as u8)),
        DataType::UInt16 => Arc::new(values.unary::<_, UInt16Type>(|value| value as u16)),
        DataType::Decimal64(precision, scale) => {
            let wide: Decimal64Array = values.unary(i64::from);
            Arc::new(wide.with_precision_and_scale(*precision, *scale)?)
        }
        DataType::Decimal32(precision, scale) => {
            let same: Decimal32Array = values.reinterpret_cast();
            Arc::new(same.with_precision_and_scale(*precision, *scale)?)
        }
        _ => from_integers(&values, target)?,
    })
}

/// As the `parquet` crate's reader takes integers of 64 bits for the other types.
fn from_i64(values: PrimitiveArray<Int64Type>, target: &DataType) -> Result<ArrayRef, ScanError> {
    Ok(match target {
        DataType::Decimal64(precision, scale) => {
            let same: Decimal64Array = values.reinterpret_cast();
            Arc::new(same.with_precision_and_scale(*precision, *scale)?)
        }
        _ => from_integers(&values, target)?,
    })
}

/// Returns integers as decimals of 128 or 256 bits, or with another type of their own width.
fn from_integers<T: ArrowPrimitiveType<Native: Into<i128>>>(
    values: &PrimitiveArray<T>,
    target: &DataType,
) -> Result<ArrayRef, ScanError> {
    Ok(match target {
        DataType::Decimal128(precision, scale) => {
            let wide: Decimal128Array = values.unary(Into::into);
            Arc::new(wide.with_precision_and_scale(*precision, *scale)?)
        }
        DataType::Decimal256(precision, scale) => {
            let wide: Decimal256Array = values.unary(|value| i256::from_i128(value.into()));
            Arc::new(wide.with_precision_and_scale(*precision, *scale)?)
        }
        _ => named(values, target)?,
    })
}

/// Gives values another type of the same width.
fn named<T: ArrowPrimitiveType>(values: &PrimitiveArray<T>, target: &DataType) -> Result<ArrayRef, ScanError> {
    Ok(make_array(values.to_data().into_builder().data_type(target.clone()).build()?))
}

fn from_int96(bytes: &Bytes, target: &DataType) -> Result<ArrayRef, ScanError> {
    let unit = match target {
        DataType::Timestamp(unit, _) => *unit,
        _ => TimeUnit::Nanosecond,
    };
    let values = bytes.chunks_exact(12).map(|value| {
        let word = |at: usize| u32::from_le_bytes([value[at], value[at + 1], value[at + 2], value[at + 3]]);
        let mut time = Int96::new();
        time.set_data(word(0), word(4), word(8));
        match unit {
            TimeUnit::Second => time.to_seconds(),
            TimeUnit::Millisecond => time.to_millis(),
            TimeUnit::Microsecond => time.to_micros(),
            TimeUnit::Nanosecond => time.to_nanos(),
        }
    });
    let values = PrimitiveArray::<TimestampNanosecondType>::from_iter_values(values);
    named(&values.reinterpret_cast::<Date64Type>(), target)
}

/// `Column::try_new` has checked that the length fits the type.
fn from_fixed(bytes: Bytes, column: &Column, count: usize) -> Result<ArrayRef, ScanError> {
    let length = column.length;
    Ok(match &column.data_type {
        DataType::Decimal128(precision, scale) => {
            let values = bytes.chunks_exact(length).map(|value| i128::from_be_bytes(extended(value)));
            Arc::new(Decimal128Array::from_iter_values(values).with_precision_and_scale(*precision, *scale)?)
        }
        DataType::Decimal256(precision, scale) => {
            let values = bytes.chunks_exact(length).map(|value| i256::from_be_bytes(extended(value)));
            Arc::new(Decimal256Array::from_iter_values(values).with_precision_and_scale(*precision, *scale)?)
        }
        DataType::Float16 => Arc::new(Float16Array::new(native(&bytes), None)),
        DataType::FixedSizeBinary(size) => {
            let values = bytes.slice(..count * length);
            Arc::new(FixedSizeBinaryArray::try_new(*size, Buffer::from(values), None)?)
        }
        _ => return Err(column.corrupt(PageError::Encoding)),
    })
}

/// Returns a number of fewer bytes, the highest first, as one of `N`.
fn extended<const N: usize>(value: &[u8]) -> [u8; N] {
    let sign = if value[0] >= 0x80 { 0xff } else { 0 };
    let mut wide = [sign; N];
    wide[N - value.len()..].copy_from_slice(value);
    wide
}
