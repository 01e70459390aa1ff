//! Keys of several columns, of strings, or with nulls that are equal: hashed column by column, and
//! compared in place.

use std::ops::Range;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, ByteView, GenericBinaryArray, LargeBinaryArray,
        OffsetSizeTrait,
    },
    buffer::{NullBuffer, ScalarBuffer},
    datatypes::DataType,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::{bits::bits, fetch::prefetch};

/// An odd factor (2^64 divided by the golden ratio).
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// The hash of a null, which counts if nulls are equal.
const NULL: u64 = 0xD6E8_FEB8_6659_FD93;

/// The number of pairs whose values are fetched before they are compared: a few hundred lines of the
/// first-level cache.
const BLOCK: usize = 128;

/// A key column, to be hashed or compared. Values are equal if their bytes are.
#[derive(Debug)]
pub(crate) struct Values {
    data: Data,
    /// The nulls, if there are any and they are equal. Otherwise rows with nulls are not looked at.
    nulls: Option<NullBuffer>,
}

/// The values of a key column, in place.
#[derive(Debug)]
pub(crate) enum Data {
    B1(ScalarBuffer<u8>),
    B2(ScalarBuffer<u16>),
    B4(ScalarBuffer<u32>),
    B8(ScalarBuffer<u64>),
    B16(ScalarBuffer<u128>),
    Bytes(BinaryArray),
    LargeBytes(LargeBinaryArray),
    Views(BinaryViewArray),
}

impl Values {
    /// Returns whether keys of this type are equal if and only if their bytes are, and can be
    /// compared in place.
    pub(super) fn has(data_type: &DataType) -> bool {
        use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
        matches!(data_type, Binary | BinaryView | LargeBinary | LargeUtf8 | Utf8 | Utf8View)
            || !data_type.is_floating() && matches!(data_type.primitive_width(), Some(1 | 2 | 4 | 8 | 16))
    }

    /// Returns the values of a column of a type for which [`has`](Self::has) is true. With
    /// `nulls_equal` its nulls are equal to each other, and to nothing else.
    pub(crate) fn from_column(column: &ArrayRef, nulls_equal: bool) -> Self {
        let nulls = column.logical_nulls().filter(|nulls| nulls_equal && nulls.null_count() > 0);
        Self { data: Data::from_column(column), nulls }
    }

    /// Adds the values to the hashes of their rows.
    fn hash(&self, hashes: &mut [u64]) {
        let nulls = self.nulls.as_ref();
        match &self.data {
            Data::B1(values) => each(hashes, nulls, |row| values[row].into()),
            Data::B2(values) => each(hashes, nulls, |row| values[row].into()),
            Data::B4(values) => each(hashes, nulls, |row| values[row].into()),
            Data::B8(values) => each(hashes, nulls, |row| values[row]),
            Data::B16(values) => {
                each(hashes, nulls, |row| values[row] as u64 ^ ((values[row] >> 64) as u64).wrapping_mul(FACTOR));
            }
            // What stands in the place of a null is not looked at.
            Data::Bytes(values) => each(hashes, values.nulls(), |row| xxh3_64(values.value(row))),
            Data::LargeBytes(values) => each(hashes, values.nulls(), |row| xxh3_64(values.value(row))),
            Data::Views(values) => each(hashes, values.nulls(), |row| view_hash(values, row)),
        }
    }

    /// Keeps the pairs whose values are equal, of those from `from` on, and returns the number of
    /// all that remain.
    pub(crate) fn keep_equal(&self, probe: &Self, pairs: (&mut [u32], &mut [u32]), from: usize) -> usize {
        let mut kept = from;
        for start in (from..pairs.0.len()).step_by(BLOCK) {
            let block = start..pairs.0.len().min(start + BLOCK);
            self.data.fetch(&pairs.0[block.clone()]);
            kept = self.keep_block(probe, ((&mut *pairs.0, &mut *pairs.1), kept, block));
        }
        kept
    }

    /// Keeps the pairs of a block whose values are equal, and returns the place after them.
    fn keep_block(&self, probe: &Self, block: Block<'_>) -> usize {
        let nulls = (self.nulls.as_ref(), probe.nulls.as_ref());
        match (&self.data, &probe.data) {
            (Data::B1(build), Data::B1(probe)) => keep(block, nulls, |b, p| build[b] == probe[p]),
            (Data::B2(build), Data::B2(probe)) => keep(block, nulls, |b, p| build[b] == probe[p]),
            (Data::B4(build), Data::B4(probe)) => keep(block, nulls, |b, p| build[b] == probe[p]),
            (Data::B8(build), Data::B8(probe)) => keep(block, nulls, |b, p| build[b] == probe[p]),
            (Data::B16(build), Data::B16(probe)) => keep(block, nulls, |b, p| build[b] == probe[p]),
            (Data::Bytes(build), Data::Bytes(probe)) => keep(block, nulls, |b, p| build.value(b) == probe.value(p)),
            (Data::LargeBytes(build), Data::LargeBytes(probe)) => {
                keep(block, nulls, |b, p| build.value(b) == probe.value(p))
            }
            (Data::Views(build), Data::Views(probe)) => keep(block, nulls, |b, p| views_equal((build, b), (probe, p))),
            // Sides with other types are refused before.
            _ => block.1,
        }
    }
}

impl Data {
    /// Returns the values of a column of a type for which [`Values::has`] is true.
    pub(crate) fn from_column(column: &ArrayRef) -> Self {
        match column.data_type() {
            DataType::Utf8 => Self::Bytes(column.as_string::<i32>().clone().into()),
            DataType::Binary => Self::Bytes(column.as_binary().clone()),
            DataType::LargeUtf8 => Self::LargeBytes(column.as_string::<i64>().clone().into()),
            DataType::LargeBinary => Self::LargeBytes(column.as_binary().clone()),
            DataType::Utf8View => Self::Views(column.as_string_view().clone().to_binary_view()),
            DataType::BinaryView => Self::Views(column.as_binary_view().clone()),
            data_type => match data_type.primitive_width() {
                Some(1) => Self::B1(bits(column)),
                Some(2) => Self::B2(bits(column)),
                Some(4) => Self::B4(bits(column)),
                Some(8) => Self::B8(bits(column)),
                _ => Self::B16(bits(column)),
            },
        }
    }

    /// Brings texts of these rows into the cache, so that their comparison does not wait for one after
    /// the other. A comparison of numbers is short enough for the processor to begin the next ones.
    fn fetch(&self, rows: &[u32]) {
        match self {
            Self::Bytes(values) => fetch_texts(values, rows),
            Self::LargeBytes(values) => fetch_texts(values, rows),
            Self::Views(values) => {
                let views = values.views();
                rows.iter().for_each(|&row| prefetch(&raw const views[row as usize]));
                for &row in rows {
                    let view = ByteView::from(views[row as usize]);
                    if view.length > INLINE
                        && let Some(buffer) = values.data_buffers().get(view.buffer_index as usize)
                    {
                        prefetch(buffer.as_ptr().wrapping_add(view.offset as usize));
                    }
                }
            }
            _ => {}
        }
    }
}

fn fetch_texts<O: OffsetSizeTrait>(values: &GenericBinaryArray<O>, rows: &[u32]) {
    let (offsets, bytes) = (values.value_offsets(), values.values());
    rows.iter().for_each(|&row| prefetch(&raw const offsets[row as usize]));
    for &row in rows {
        prefetch(bytes.as_ptr().wrapping_add(offsets[row as usize].as_usize()));
    }
}

/// Adds the values of a column to the hashes of their rows.
fn each(hashes: &mut [u64], nulls: Option<&NullBuffer>, value: impl Fn(usize) -> u64) {
    let add = |hash: &mut u64, value: u64| {
        let mixed = (hash.rotate_left(29) ^ value).wrapping_mul(FACTOR);
        *hash = mixed ^ mixed >> 32;
    };
    let rows = hashes.iter_mut().enumerate();
    match nulls {
        None => rows.for_each(|(row, hash)| add(hash, value(row))),
        Some(nulls) => rows.for_each(|(row, hash)| add(hash, if nulls.is_null(row) { NULL } else { value(row) })),
    }
}

/// All pairs, the place for the next one that is kept, and those to look at.
type Block<'a> = ((&'a mut [u32], &'a mut [u32]), usize, Range<usize>);

/// Keeps the pairs of which both rows are null, or neither is and their values are equal.
fn keep(
    block: Block<'_>,
    nulls: (Option<&NullBuffer>, Option<&NullBuffer>),
    equal: impl Fn(usize, usize) -> bool,
) -> usize {
    if nulls == (None, None) {
        return keep_if(block, equal);
    }
    let is_null = |nulls: Option<&NullBuffer>, row| nulls.is_some_and(|nulls| nulls.is_null(row));
    keep_if(block, |b, p| match (is_null(nulls.0, b), is_null(nulls.1, p)) {
        (false, false) => equal(b, p),
        (build, probe) => build && probe,
    })
}

fn keep_if((pairs, mut kept, block): Block<'_>, is_kept: impl Fn(usize, usize) -> bool) -> usize {
    for pair in block {
        let (b, p) = (pairs.0[pair], pairs.1[pair]);
        (pairs.0[kept], pairs.1[kept]) = (b, p);
        kept += usize::from(is_kept(b as usize, p as usize));
    }
    kept
}

/// The length of a text whose view has all its bytes.
const INLINE: u32 = 12;

/// Returns a hash of the bytes behind a view. Those within the view cost two products at most.
#[inline(always)]
fn view_hash(values: &BinaryViewArray, row: usize) -> u64 {
    let view = values.views()[row];
    if view as u32 > INLINE {
        return xxh3_64(values.value(row));
    }
    let (lower, upper) = (view as u64, (view >> 64) as u64);
    // Both halves of a product of 128 bits (Wang Yi 2019).
    let product = u128::from(lower ^ FACTOR) * u128::from(upper ^ NULL);
    product as u64 ^ (product >> 64) as u64
}

/// Returns whether the bytes behind two views are equal.
#[inline(always)]
fn views_equal((build, b): (&BinaryViewArray, usize), (probe, p): (&BinaryViewArray, usize)) -> bool {
    let (one, other) = (build.views()[b], probe.views()[p]);
    // The lengths and the first four bytes.
    if one as u64 != other as u64 {
        return false;
    }
    if one as u32 <= INLINE { one == other } else { build.value(b) == probe.value(p) }
}

/// Returns hashes of the rows of these columns, of which nulls may be equal.
pub(super) fn hashes(columns: &[ArrayRef], rows: usize, nulls_equal: bool) -> Vec<u64> {
    let mut hashes = vec![0; rows];
    columns.iter().for_each(|column| Values::from_column(column, nulls_equal).hash(&mut hashes));
    hashes
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, StringArray, StringViewArray};

    use super::*;

    #[test]
    fn nulls_are_equal_to_nulls_alone_if_they_are_equal_at_all() {
        let numbers = [Some(0), Some(1), None, None];
        let texts = [Some(""), Some("a"), None, None];
        let columns: [ArrayRef; 3] = [
            Arc::new(Int32Array::from(numbers.to_vec())),
            Arc::new(StringArray::from(texts.to_vec())),
            Arc::new(StringViewArray::from(texts.to_vec())),
        ];
        for column in columns {
            let (values, valid) = (Values::from_column(&column, true), Values::from_column(&column.slice(0, 2), true));
            let all = |rows: u32| (0..4).flat_map(|build| (0..rows).map(move |probe| (build, probe))).unzip();
            for (probe, rows, expected) in
                [(&values, 4, vec![(0, 0), (1, 1), (2, 2), (2, 3), (3, 2), (3, 3)]), (&valid, 2, vec![(0, 0), (1, 1)])]
            {
                let (mut build, mut other): (Vec<u32>, Vec<u32>) = all(rows);
                let kept = values.keep_equal(probe, (&mut build, &mut other), 0);
                let found: Vec<_> = build.into_iter().zip(other).take(kept).collect();
                assert_eq!(found, expected, "{:?}", column.data_type());
            }
            let hashes = hashes(std::slice::from_ref(&column), 4, true);
            assert!(hashes[2] == hashes[3] && !hashes[..2].contains(&hashes[2]), "{hashes:?}");
        }
    }
}
