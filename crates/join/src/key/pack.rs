//! Several key columns as one number, in which each column takes as many bits as its values on the
//! build side need. Such numbers are exact: no column has to be compared beside them.
//!
//! ```text
//! build side   a from 7 to 9, b from 'T000' to 'T999'   ->  a - 7 in 2 bits, b - 'T000' in 20 bits
//! probe side   a = 12                                   ->  no partner, as if the key were null
//! ```
//! A text of at most 8 bytes is a number of 8 bytes, the first one on top, beside its length. The bytes that all
//! texts of the build side lack take no bits.

use arrow::{
    array::{Array, ArrayRef, GenericBinaryArray, OffsetSizeTrait, RecordBatch},
    buffer::{BooleanBuffer, NullBuffer},
};

use super::compare::Data;
use crate::parallel;

/// The longest text that is a number.
const MOST_BYTES: usize = size_of::<u64>();

/// How the keys of a build side become numbers.
#[derive(Debug)]
pub(crate) struct PackedLayout {
    fields: Vec<Field>,
}

/// What a column, or a part of it, takes of the number.
#[derive(Clone, Copy, Debug)]
struct Field {
    /// The key column.
    column: usize,
    part: Part,
    /// The least value, and how far the greatest is from it.
    first: u64,
    span: u64,
    /// The number of lower bits that are zero in all values.
    zeros: u32,
    /// The number of lower bits that other fields take.
    shift: u32,
}

#[derive(Clone, Copy, Debug)]
enum Part {
    /// The value, in the order of unsigned numbers.
    Value,
    /// The number of bytes of a text.
    Length,
}

impl PackedLayout {
    /// Returns the layout of the keys in the columns `columns` of these batches, of types for which
    /// [`Values::has`](super::Values::has) is true. Returns `None` if they need more than 64 bits.
    /// O(rows).
    pub(super) fn new(batches: &[RecordBatch], columns: &[usize], threads: usize) -> Option<Self> {
        let mut fields = Vec::new();
        let mut bits = 0;
        for (column, &index) in columns.iter().enumerate() {
            let arrays: Vec<&ArrayRef> = batches.iter().map(|batch| batch.column(index)).collect();
            let mut zeros = 0;
            for &part in Part::all(arrays.first()?) {
                let bounds = parallel::map(threads, arrays.clone(), |array| bounds(array, part));
                let bounds: Option<Vec<(u64, u64)>> = bounds.into_iter().collect();
                let (first, last) = bounds?.into_iter().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
                // All keys are null where there is no least one.
                let span = last.checked_sub(first)?;
                fields.push(Field { column, part, first, span, zeros, shift: bits });
                bits += u64::BITS - (span >> zeros).leading_zeros();
                if bits > u64::BITS {
                    return None;
                }
                if let Part::Length = part {
                    // Longer texts have no partner by their length. One byte more does no harm.
                    zeros = u8::BITS * (MOST_BYTES - (last as usize).max(1)) as u32;
                }
            }
        }
        Some(Self { fields })
    }

    /// Returns the numbers of keys, and which of them are valid: those that have no null and are within
    /// the bounds of the build side. O(rows).
    pub(super) fn pack(&self, keys: &[ArrayRef], nulls: Option<NullBuffer>) -> (Vec<u64>, Option<NullBuffer>) {
        let rows = keys.first().map_or(0, Array::len);
        let (mut numbers, mut outside) = (vec![0; rows], vec![false; rows]);
        for &Field { column, part, first, span, zeros, shift } in &self.fields {
            for_each(&Data::from_column(&keys[column]), part, |row, value| {
                let above = value.unwrap_or(0).wrapping_sub(first);
                // A field without bits may have a shift of 64. It adds nothing.
                numbers[row] |= (above >> zeros).wrapping_shl(shift);
                outside[row] |= value.is_none() || above > span;
            });
        }
        if !outside.contains(&true) {
            return (numbers, nulls);
        }
        let inside = NullBuffer::new(BooleanBuffer::collect_bool(rows, |row| !outside[row]));
        (numbers, NullBuffer::union(nulls.as_ref(), Some(&inside)))
    }
}

impl Part {
    /// Returns the parts of a column of this type.
    fn all(column: &ArrayRef) -> &'static [Self] {
        if column.data_type().is_primitive() { &[Self::Value] } else { &[Self::Length, Self::Value] }
    }
}

/// Returns the least and the greatest value of a part of a column, the other way round if all are null.
/// Returns `None` if a value does not fit into 64 bits.
fn bounds(column: &ArrayRef, part: Part) -> Option<(u64, u64)> {
    let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let (mut first, mut last, mut fits) = (u64::MAX, 0, true);
    for_each(&Data::from_column(column), part, |row, value| {
        if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
            fits &= value.is_some();
            let value = value.unwrap_or(first);
            (first, last) = (first.min(value), last.max(value));
        }
    });
    fits.then_some((first, last))
}

/// Calls `each` with the values of a part, or with nothing for a value that does not fit into 64 bits.
#[inline(always)]
fn for_each(data: &Data, part: Part, mut each: impl FnMut(usize, Option<u64>)) {
    macro_rules! numbers {
        ($values:expr, $signed:ty) => {
            $values.iter().enumerate().for_each(|(row, &value)| each(row, Some(ordered(i64::from(value as $signed)))))
        };
    }
    match data {
        Data::B1(values) => numbers!(values, i8),
        Data::B2(values) => numbers!(values, i16),
        Data::B4(values) => numbers!(values, i32),
        Data::B8(values) => numbers!(values, i64),
        Data::B16(values) => values
            .iter()
            .enumerate()
            .for_each(|(row, &value)| each(row, i64::try_from(value.cast_signed()).ok().map(ordered))),
        Data::Bytes(values) => texts(values, part, each),
        Data::LargeBytes(values) => texts(values, part, each),
        Data::Views(values) => values.views().iter().enumerate().for_each(|(row, &view)| {
            let length = view as u32 as usize;
            let value = match part {
                Part::Length => length as u64,
                // Behind the length, and short texts end with zeros.
                Part::Value => ((view >> u32::BITS) as u64).swap_bytes(),
            };
            each(row, (length <= MOST_BYTES).then_some(value));
        }),
    }
}

#[inline(always)]
fn texts<O: OffsetSizeTrait>(values: &GenericBinaryArray<O>, part: Part, mut each: impl FnMut(usize, Option<u64>)) {
    for row in 0..values.len() {
        let text = values.value(row);
        let value = match part {
            Part::Length => text.len() as u64,
            Part::Value => first_bytes(text),
        };
        each(row, (text.len() <= MOST_BYTES).then_some(value));
    }
}

/// Returns a text's first bytes as a number, the first one on top.
fn first_bytes(text: &[u8]) -> u64 {
    let mut bytes = [0; MOST_BYTES];
    let length = text.len().min(MOST_BYTES);
    bytes[..length].copy_from_slice(&text[..length]);
    u64::from_be_bytes(bytes)
}

/// Returns an unsigned number in the same order.
fn ordered(value: i64) -> u64 {
    value.cast_unsigned() ^ 1 << 63
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray, StringViewArray};

    use super::*;

    fn layout(columns: Vec<ArrayRef>) -> Option<PackedLayout> {
        let names = ["a", "b", "c"];
        let indices: Vec<usize> = (0..columns.len()).collect();
        let batch = RecordBatch::try_from_iter_with_nullable(names.into_iter().zip(columns).map(|(n, c)| (n, c, true)));
        PackedLayout::new(&[batch.unwrap()], &indices, 1)
    }

    fn longs(values: [i64; 2]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    #[test]
    fn keys_are_packed_where_all_bits_fit() {
        let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text; 2])) };
        let view = |text: &str| -> ArrayRef { Arc::new(StringViewArray::from(vec![text; 2])) };
        assert!(layout(vec![longs([i64::MIN, i64::MAX])]).is_some());
        assert!(layout(vec![longs([i64::MIN, i64::MAX]), longs([7, 7])]).is_some(), "the second takes no bits");
        assert!(layout(vec![longs([7, 7]), longs([i64::MIN, i64::MAX]), text("T001")]).is_some());
        assert!(layout(vec![longs([i64::MIN, i64::MAX]), longs([7, 8])]).is_none());
        assert!(layout(vec![text("12345678"), view("")]).is_some());
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["T000", "T999"]));
        assert!(layout(vec![longs([0, 1 << 42]), texts.clone()]).is_some(), "the texts take 20 bits");
        assert!(layout(vec![longs([0, 1 << 44]), texts]).is_none());
        assert!(layout(vec![text("123456789")]).is_none() && layout(vec![view("123456789")]).is_none());
        assert!(layout(vec![Arc::new(Int64Array::new_null(2)), longs([1, 2])]).is_none(), "there is no key");
    }

    #[test]
    fn texts_that_are_longer_have_no_partner() {
        let packed = layout(vec![Arc::new(StringViewArray::from(vec!["ab", "b"])) as ArrayRef]).unwrap();
        let keys: [ArrayRef; 1] = [Arc::new(StringArray::from(vec!["ab", "b", "aba", "b\0", "ac", ""]))];
        let (numbers, nulls) = packed.pack(&keys, None);
        assert_ne!(numbers[0], numbers[1]);
        assert!(!numbers[..2].contains(&numbers[4]) && numbers[3] != numbers[1]);
        assert_eq!(nulls.unwrap().iter().collect::<Vec<_>>(), [true, true, false, true, true, false]);
    }

    #[test]
    fn keys_outside_of_the_build_side_are_null() {
        let packed = layout(vec![longs([5, 6]), longs([-1, 0])]).unwrap();
        let keys: [ArrayRef; 2] =
            [Arc::new(Int64Array::from(vec![5, 6, 4, 7, 6])), Arc::new(Int64Array::from(vec![-1, 0, 0, 0, 1]))];
        let (numbers, nulls) = packed.pack(&keys, None);
        assert_eq!(numbers[..2], [0, 3]);
        assert_eq!(nulls.unwrap().iter().collect::<Vec<_>>(), [true, true, false, false, false]);
    }
}
