//! The values of a page, or of a dictionary, as an Arrow array without nulls.

mod delta;
mod fixed;
mod texts;

use arrow::{
    array::{ArrayRef, BooleanArray},
    buffer::{BooleanBuffer, Buffer},
    datatypes::DataType,
};
use bytes::Bytes;
use parquet::basic::{Encoding, Type};

use crate::{
    column::Column,
    error::{PageError, ScanError},
    hybrid::Hybrid,
};

/// Decodes `count` values of a column. Texts are views into `bytes`.
///
/// # Errors
/// If the bytes are not such values.
pub(crate) fn decode(column: &Column, encoding: Encoding, bytes: Bytes, count: usize) -> Result<ArrayRef, ScanError> {
    let decoded = match column.physical {
        Type::BOOLEAN => booleans(encoding, bytes, count),
        Type::BYTE_ARRAY => texts::decode(column, encoding, bytes, count),
        _ => return fixed::decode(column, encoding, bytes, count),
    };
    decoded.map_err(|error| column.corrupt(error))
}

impl Column {
    pub(crate) fn corrupt(&self, error: PageError) -> ScanError {
        ScanError::Corrupt { column: self.name.clone(), reason: error.to_string() }
    }
}

fn booleans(encoding: Encoding, bytes: Bytes, count: usize) -> Result<ArrayRef, PageError> {
    let values = match encoding {
        Encoding::PLAIN if bytes.len() < count.div_ceil(8) => return Err(PageError::Short),
        Encoding::PLAIN => BooleanBuffer::new(Buffer::from(bytes), 0, count),
        // The length of the runs comes first.
        Encoding::RLE if count == 0 => BooleanBuffer::new_unset(0),
        Encoding::RLE => Hybrid::new(prefixed(&bytes, &mut 0)?, 1)?.bits(count)?,
        _ => return Err(PageError::Encoding),
    };
    Ok(std::sync::Arc::new(BooleanArray::new(values, None)))
}

/// Returns the bytes whose length is written at `next` in four bytes, and goes on after them.
///
/// # Errors
/// If there are fewer.
pub(crate) fn prefixed(bytes: &Bytes, next: &mut usize) -> Result<Bytes, PageError> {
    let length = bytes.get(*next..).and_then(<[u8]>::first_chunk).ok_or(PageError::Short)?;
    let start = *next + 4;
    let end = start.saturating_add(u32::from_le_bytes(*length) as usize);
    if end > bytes.len() {
        return Err(PageError::Short);
    }
    *next = end;
    Ok(bytes.slice(start..end))
}

/// Returns whether arrays of a type are made of views.
pub(crate) fn is_view(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::BinaryView)
}
