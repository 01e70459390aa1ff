//! The levels of a flat column: which rows have a value.

use arrow::buffer::{BooleanBuffer, NullBuffer};
use bytes::Bytes;

use crate::{error::PageError, hybrid::Hybrid};

/// A level for each row: 1 if it has a value, and else 0.
#[derive(Debug)]
pub(crate) enum Levels {
    /// In runs and groups.
    Hybrid(Bytes),
    /// A bit each, from the highest of a byte on: the format's old BIT_PACKED.
    Bits(Bytes),
}

/// Returns which of `count` rows have a value, or `None` if all have.
///
/// # Errors
/// If there are fewer levels, or one is more than 1.
pub(crate) fn validity(levels: Levels, count: usize) -> Result<Option<NullBuffer>, PageError> {
    let bits = match levels {
        Levels::Hybrid(levels) => Hybrid::new(levels, 1)?.bits(count)?,
        Levels::Bits(levels) if levels.len() < count.div_ceil(8) => return Err(PageError::Short),
        Levels::Bits(levels) => {
            let lowest_first: Vec<u8> = levels.iter().map(|byte| byte.reverse_bits()).collect();
            BooleanBuffer::new(lowest_first.into(), 0, count)
        }
    };
    let nulls = NullBuffer::new(bits);
    Ok((nulls.null_count() > 0).then_some(nulls))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_valid_rows_need_no_bits() {
        assert_eq!(validity(Levels::Hybrid(Bytes::from_static(&[20, 1])), 10), Ok(None));
        let some = validity(Levels::Hybrid(Bytes::from_static(&[3, 0b1011_0111])), 8).unwrap().unwrap();
        assert_eq!(some.iter().collect::<Vec<_>>(), [true, true, true, false, true, true, false, true]);
        let old = validity(Levels::Bits(Bytes::from_static(&[0b1110_1101])), 8).unwrap().unwrap();
        assert_eq!(old, some);
        assert_eq!(validity(Levels::Hybrid(Bytes::from_static(&[8, 2])), 4), Err(PageError::Count));
    }
}
