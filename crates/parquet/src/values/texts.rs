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
    let mut next = 0;
    for _ in 0..count {
        let length = bytes[next..].first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
        let start = next + 4;
        let value = length.and_then(|length| bytes.get(start..start.checked_add(length)?)).ok_or(PageError::Short)?;
        views.push(make_view(value, 0, start as u32));
        next = start + value.len();
    }
    if is_text {
        check_texts(&bytes[..next], &views)?;
    }
    Ok(views)
}

/// Checks that values which each follow their length are UTF-8.
fn check_texts(bytes: &[u8], views: &[u128]) -> Result<(), PageError> {
    let check = |bytes| simdutf8::basic::from_utf8(bytes).map(drop).map_err(|_| PageError::Utf8);
    let (mut unchecked, mut next) = (0, 0);
    for view in views {
        let (length, start) = (*view as u32 as usize, next + 4);
        // A length below 128 is four bytes of ASCII. Values around it are UTF-8 exactly if everything is: no character
        // goes on after, or begins before, one of ASCII.
        if length >= 128 {
            check(&bytes[unchecked..next])?;
            unchecked = start;
        }
        next = start + length;
    }
    check(&bytes[unchecked..next])
}

/// Returns views of values that follow each other.
fn consecutive(bytes: &[u8], lengths: Vec<usize>, is_text: bool) -> Result<Vec<u128>, PageError> {
    if bytes.len() > u32::MAX as usize {
        return Err(PageError::Count);
    }
    let text = if is_text { Some(simdutf8::basic::from_utf8(bytes)) } else { None };
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

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    /// Values with characters of several bytes, some of them cut off, of lengths around the one from which on they
    /// are checked apart.
    #[test]
    fn texts_are_checked_one_by_one() {
        let mut random = StdRng::seed_from_u64(5);
        let mut valid = 0;
        for round in 0..3000 {
            let values: Vec<Vec<u8>> = (0..random.random_range(0..6))
                .map(|_| {
                    let length = [0, 1, 20, 120, 127, 128, 129, 195, 300][random.random_range(0..9)];
                    let character = ["a", "\u{e9}", "\u{20ac}", "\u{1f600}"][random.random_range(0..4)];
                    let mut value = character.repeat(length).into_bytes();
                    let is_cut = random.random_bool(0.1);
                    value.truncate(if is_cut { length } else { length - length % character.len() });
                    if is_cut && random.random() {
                        value.reverse();
                    }
                    value
                })
                .collect();
            let length = |value: &Vec<u8>| (value.len() as u32).to_le_bytes();
            let bytes: Vec<u8> = values.iter().flat_map(|value| [&length(value)[..], value].concat()).collect();
            let expected = values.iter().all(|value| str::from_utf8(value).is_ok());
            assert_eq!(plain(&bytes, values.len(), true).is_ok(), expected, "round {round}: {values:?}");
            assert!(plain(&bytes, values.len(), false).is_ok());
            valid += usize::from(expected);
        }
        assert!((500..2900).contains(&valid), "{valid}");
    }
}
