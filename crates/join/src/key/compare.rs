//! Keys of several columns, or of strings: hashed column by column, and compared in place.

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, LargeBinaryArray},
    buffer::ScalarBuffer,
    datatypes::{ArrowNativeType, DataType},
};
use xxhash_rust::xxh3::xxh3_64;

/// An odd factor (2^64 divided by the golden ratio).
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// A key column, to be hashed or compared. Values are equal if their bytes are.
#[derive(Debug)]
pub(crate) enum Values {
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

    /// Returns the values of a column of a type for which [`has`](Self::has) is true.
    pub(crate) fn of(column: &ArrayRef) -> Self {
        fn numbers<T: ArrowNativeType>(column: &ArrayRef) -> ScalarBuffer<T> {
            let data = column.to_data();
            ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
        }
        match column.data_type() {
            DataType::Utf8 => Self::Bytes(column.as_string::<i32>().clone().into()),
            DataType::Binary => Self::Bytes(column.as_binary().clone()),
            DataType::LargeUtf8 => Self::LargeBytes(column.as_string::<i64>().clone().into()),
            DataType::LargeBinary => Self::LargeBytes(column.as_binary().clone()),
            DataType::Utf8View => Self::Views(column.as_string_view().clone().to_binary_view()),
            DataType::BinaryView => Self::Views(column.as_binary_view().clone()),
            data_type => match data_type.primitive_width() {
                Some(1) => Self::B1(numbers(column)),
                Some(2) => Self::B2(numbers(column)),
                Some(4) => Self::B4(numbers(column)),
                Some(8) => Self::B8(numbers(column)),
                _ => Self::B16(numbers(column)),
            },
        }
    }

    /// Adds the values to the hashes of their rows.
    fn hash(&self, hashes: &mut [u64]) {
        fn each(hashes: &mut [u64], value: impl Fn(usize) -> u64) {
            for (row, hash) in hashes.iter_mut().enumerate() {
                let mixed = (hash.rotate_left(29) ^ value(row)).wrapping_mul(FACTOR);
                *hash = mixed ^ mixed >> 32;
            }
        }
        match self {
            Self::B1(values) => each(hashes, |row| values[row].into()),
            Self::B2(values) => each(hashes, |row| values[row].into()),
            Self::B4(values) => each(hashes, |row| values[row].into()),
            Self::B8(values) => each(hashes, |row| values[row]),
            Self::B16(values) => {
                each(hashes, |row| values[row] as u64 ^ ((values[row] >> 64) as u64).wrapping_mul(FACTOR));
            }
            // What stands in the place of a null is not looked at.
            Self::Bytes(values) => each(hashes, |row| if values.is_null(row) { 0 } else { xxh3_64(values.value(row)) }),
            Self::LargeBytes(values) => {
                each(hashes, |row| if values.is_null(row) { 0 } else { xxh3_64(values.value(row)) });
            }
            Self::Views(values) => each(hashes, |row| if values.is_null(row) { 0 } else { xxh3_64(values.value(row)) }),
        }
    }

    /// Keeps the pairs whose values are equal, of those from `from` on, and returns the number of
    /// all that remain. The rows are not null.
    pub(crate) fn keep_equal(&self, probe: &Self, pairs: (&mut [u32], &mut [u32]), from: usize) -> usize {
        fn keep(pairs: (&mut [u32], &mut [u32]), from: usize, equal: impl Fn(usize, usize) -> bool) -> usize {
            let mut kept = from;
            for pair in from..pairs.0.len() {
                let (b, p) = (pairs.0[pair], pairs.1[pair]);
                (pairs.0[kept], pairs.1[kept]) = (b, p);
                kept += usize::from(equal(b as usize, p as usize));
            }
            kept
        }
        match (self, probe) {
            (Self::B1(build), Self::B1(probe)) => keep(pairs, from, |b, p| build[b] == probe[p]),
            (Self::B2(build), Self::B2(probe)) => keep(pairs, from, |b, p| build[b] == probe[p]),
            (Self::B4(build), Self::B4(probe)) => keep(pairs, from, |b, p| build[b] == probe[p]),
            (Self::B8(build), Self::B8(probe)) => keep(pairs, from, |b, p| build[b] == probe[p]),
            (Self::B16(build), Self::B16(probe)) => keep(pairs, from, |b, p| build[b] == probe[p]),
            (Self::Bytes(build), Self::Bytes(probe)) => keep(pairs, from, |b, p| build.value(b) == probe.value(p)),
            (Self::LargeBytes(build), Self::LargeBytes(probe)) => {
                keep(pairs, from, |b, p| build.value(b) == probe.value(p))
            }
            (Self::Views(build), Self::Views(probe)) => keep(pairs, from, |b, p| build.value(b) == probe.value(p)),
            // Sides with other types are refused before.
            _ => from,
        }
    }
}

/// Returns hashes of the rows of these columns.
pub(super) fn hashes(columns: &[ArrayRef], rows: usize) -> Vec<u64> {
    let mut hashes = vec![0; rows];
    columns.iter().for_each(|column| Values::of(column).hash(&mut hashes));
    hashes
}
