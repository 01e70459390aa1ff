//! Delta encodings (the format's `Encodings.md`, 5 to 7).

use crate::{bits, error::PageError, hybrid::varint};

/// Decodes integers of DELTA_BINARY_PACKED, and returns them with the place after their last byte.
///
/// # Errors
/// If there are not `count` of them, or the bytes are not such integers.
pub(super) fn integers(bytes: &[u8], count: usize) -> Result<(Vec<i64>, usize), PageError> {
    let mut next = 0;
    let block = usize::try_from(varint(bytes, &mut next)?).map_err(|_| PageError::Count)?;
    let parts = usize::try_from(varint(bytes, &mut next)?).map_err(|_| PageError::Count)?;
    let total = usize::try_from(varint(bytes, &mut next)?).map_err(|_| PageError::Count)?;
    let first = zigzag(varint(bytes, &mut next)?);
    if total != count || parts == 0 || block % parts != 0 || block / parts % 8 != 0 || block == 0 {
        return Err(PageError::Count);
    }
    let part = block / parts;
    let mut values = Vec::with_capacity(count.min(bytes.len().saturating_mul(part)));
    if count > 0 {
        values.push(first);
    }
    let (mut last, mut deltas) = (first, vec![0; part.min(count)]);
    while values.len() < count {
        let least = zigzag(varint(bytes, &mut next)?);
        let widths = bytes.get(next..next.saturating_add(parts)).ok_or(PageError::Short)?;
        next += parts;
        for &width in widths {
            let wanted = (count - values.len()).min(part);
            if wanted == 0 {
                break;
            }
            if width > 64 {
                return Err(PageError::Count);
            }
            let packed = &bytes[next..];
            if packed.len() < (wanted * width as usize).div_ceil(8) {
                return Err(PageError::Short);
            }
            bits::unpack_wide(packed, width.into(), &mut deltas[..wanted]);
            values.extend(deltas[..wanted].iter().map(|&delta| {
                last = last.wrapping_add(least).wrapping_add(delta as i64);
                last
            }));
            // Writers may leave out the padding of the last part.
            next = next.saturating_add(part / 8 * width as usize).min(bytes.len());
        }
    }
    Ok((values, next))
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Decodes lengths of DELTA_BINARY_PACKED, and returns them with the place after their last byte.
///
/// # Errors
/// If there are not `count` of them, or one is negative or more than 2^31.
pub(super) fn lengths(bytes: &[u8], count: usize) -> Result<(Vec<usize>, usize), PageError> {
    let (values, next) = integers(bytes, count)?;
    // They are 32 bits wide.
    let lengths = values.into_iter().map(|length| usize::try_from(length as i32).map_err(|_| PageError::Count));
    Ok((lengths.collect::<Result<_, _>>()?, next))
}

/// Decodes the values of DELTA_BYTE_ARRAY: passes each one to `value`.
///
/// # Errors
/// If there are not `count` of them, or a prefix is longer than the value before it.
pub(super) fn byte_arrays(
    bytes: &[u8],
    count: usize,
    mut value: impl FnMut(&[u8]) -> Result<(), PageError>,
) -> Result<(), PageError> {
    let (prefixes, next) = lengths(bytes, count)?;
    let (suffixes, length) = lengths(&bytes[next..], count)?;
    let (mut rest, mut last) = (&bytes[next + length..], Vec::new());
    for (prefix, suffix) in prefixes.into_iter().zip(suffixes) {
        let (new, later) = rest.split_at_checked(suffix).ok_or(PageError::Short)?;
        if prefix > last.len() {
            return Err(PageError::Count);
        }
        last.truncate(prefix);
        last.extend_from_slice(new);
        value(&last)?;
        rest = later;
    }
    Ok(())
}
