//! Keys of several columns, of strings, or with nulls that are equal: hashed column by column, and
//! compared in place.

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, LargeBinaryArray},
    buffer::{NullBuffer, ScalarBuffer},
    datatypes::DataType,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::bits::bits;

/// An odd factor (2^64 divided by the golden ratio).
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// The hash of a null, which counts if nulls are equal.
const NULL: u64 = 0xD6E8_FEB8_6659_FD93;

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
            Data::Views(values) => each(hashes, values.nulls(), |row| xxh3_64(values.value(row))),
        }
    }

    /// Keeps the pairs whose values are equal, of those from `from` on, and returns the number of
    /// all that remain.
    pub(crate) fn keep_equal(&self, probe: &Self, pairs: (&mut [u32], &mut [u32]), from: usize) -> usize {
        let nulls = (self.nulls.as_ref(), probe.nulls.as_ref());
        match (&self.data, &probe.data) {
            (Data::B1(build), Data::B1(probe)) => keep(pairs, from, nulls, |b, p| build[b] == probe[p]),
            (Data::B2(build), Data::B2(probe)) => keep(pairs, from, nulls, |b, p| build[b] == probe[p]),
            (Data::B4(build), Data::B4(probe)) => keep(pairs, from, nulls, |b, p| build[b] == probe[p]),
            (Data::B8(build), Data::B8(probe)) => keep(pairs, from, nulls, |b, p| build[b] == probe[p]),
            (Data::B16(build), Data::B16(probe)) => keep(pairs, from, nulls, |b, p| build[b] == probe[p]),
            (Data::Bytes(build), Data::Bytes(probe)) => {
                keep(pairs, from, nulls, |b, p| build.value(b) == probe.value(p))
            }
            (Data::LargeBytes(build), Data::LargeBytes(probe)) => {
                keep(pairs, from, nulls, |b, p| build.value(b) == probe.value(p))
            }
            (Data::Views(build), Data::Views(probe)) => {
                keep(pairs, from, nulls, |b, p| build.value(b) == probe.value(p))
            }
            // Sides with other types are refused before.
            _ => from,
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

/// Keeps the pairs of which both rows are null, or neither is and their values are equal.
fn keep(
    pairs: (&mut [u32], &mut [u32]),
    from: usize,
    nulls: (Option<&NullBuffer>, Option<&NullBuffer>),
    equal: impl Fn(usize, usize) -> bool,
) -> usize {
    if nulls == (None, None) {
        return keep_if(pairs, from, equal);
    }
    let is_null = |nulls: Option<&NullBuffer>, row| nulls.is_some_and(|nulls| nulls.is_null(row));
    keep_if(pairs, from, |b, p| match (is_null(nulls.0, b), is_null(nulls.1, p)) {
        (false, false) => equal(b, p),
        (build, probe) => build && probe,
    })
}

fn keep_if(pairs: (&mut [u32], &mut [u32]), from: usize, is_kept: impl Fn(usize, usize) -> bool) -> usize {
    let mut kept = from;
    for pair in from..pairs.0.len() {
        let (b, p) = (pairs.0[pair], pairs.1[pair]);
        (pairs.0[kept], pairs.1[kept]) = (b, p);
        kept += usize::from(is_kept(b as usize, p as usize));
    }
    kept
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
