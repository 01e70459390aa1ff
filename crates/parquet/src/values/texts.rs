//! Values of variable length, as views.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, BinaryViewArray, StringViewArray, make_view},
    buffer::{Buffer, ScalarBuffer},
    datatypes::DataType,
};
use bytes::Bytes;
use parquet::basic::Encoding;

use super::delta;
use crate::{column::Column, error::PageError};

/// Decodes `count` values.
///
/// # Errors
/// If the bytes are not such values, or a text is not UTF-8.
pub(super) fn decode(column: &Column, encoding: Encoding, bytes: Bytes, count: usize) -> Result<ArrayRef, PageError> {
    let is_text = matches!(column.data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let (views, bytes) = match encoding {
        Encoding::PLAIN => (plain(&bytes, count, is_text)?, bytes),
        Encoding::DELTA_LENGTH_BYTE_ARRAY => {
            let (lengths, next) = delta::lengths(&bytes, count)?;
            let bytes = bytes.slice(next..);
            (consecutive(&bytes, lengths, is_text)?, bytes)
        }
        Encoding::DELTA_BYTE_ARRAY => {
            let (mut values, mut lengths) = (Vec::new(), Vec::new());
            delta::byte_arrays(&bytes, count, |value| {
                values.extend_from_slice(value);
                lengths.push(value.len());
                // A few bytes may be the prefix of many long values, but not of more than a page can have.
                if values.len() > i32::MAX as usize { Err(PageError::Count) } else { Ok(()) }
            })?;
            let bytes = Bytes::from(values);
            (consecutive(&bytes, lengths, is_text)?, bytes)
        }
        _ => return Err(PageError::Encoding),
    };
    let (views, buffers) = (ScalarBuffer::from(views), vec![Buffer::from(bytes)]);
    if is_text {
        // SAFETY: each view has the length and the prefix of bytes of the one buffer, within its bounds,
        // which have been found to be UTF-8.
        return Ok(Arc::new(unsafe { StringViewArray::new_unchecked(views, buffers, None) }));
    }
    // SAFETY: each view has the length and the prefix of bytes of the one buffer, within its bounds.
    Ok(Arc::new(unsafe { BinaryViewArray::new_unchecked(views, buffers, None) }))
}

/// Returns views of values that each follow their length in four bytes.
fn plain(bytes: &[u8], count: usize, is_text: bool) -> Result<Vec<u128>, PageError> {
    if bytes.len() > u32::MAX as usize {
        return Err(PageError::Count);
    }
    // As many as there can be: the count is not to be believed before.
    let mut views = Vec::with_capacity(count.min(bytes.len() / 4));
    let (mut next, mut longest) = (0, 0);
    for _ in 0..count {
        let length = bytes[next..].first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
        let start = next + 4;
        let value = length.and_then(|length| bytes.get(start..start.checked_add(length)?)).ok_or(PageError::Short)?;
        views.push(make_view(value, 0, start as u32));
        longest = longest.max(value.len());
        next = start + value.len();
    }
    // Lengths below 128 are four bytes of ASCII. Then all values are UTF-8 exactly if everything is:
    // no character goes on after, or begins before, one of ASCII.
    if is_text && longest < 128 {
        str::from_utf8(&bytes[..next]).map_err(|_| PageError::Utf8)?;
    } else if is_text {
        let mut next = 0;
        for view in &views {
            let (start, length) = (next + 4, *view as u32 as usize);
            next = start + length;
            str::from_utf8(&bytes[start..next]).map_err(|_| PageError::Utf8)?;
        }
    }
    Ok(views)
}

/// Returns views of values that follow each other.
fn consecutive(bytes: &[u8], lengths: Vec<usize>, is_text: bool) -> Result<Vec<u128>, PageError> {
    if bytes.len() > u32::MAX as usize {
        return Err(PageError::Count);
    }
    let text = if is_text { Some(str::from_utf8(bytes)) } else { None };
    let mut next = 0;
    let views = lengths.into_iter().map(|length| {
        let end = next + length;
        let value = bytes.get(next..end).ok_or(PageError::Short)?;
        match text {
            Some(Ok(text)) if !text.is_char_boundary(next) || !text.is_char_boundary(end) => {
                return Err(PageError::Utf8);
            }
            // What is after the last value need not be text.
            Some(Err(_)) if str::from_utf8(value).is_err() => return Err(PageError::Utf8),
            _ => {}
        }
        let view = make_view(value, 0, next as u32);
        next = end;
        Ok(view)
    });
    views.collect()
}
