//! The number of bytes that rows take as a fragment, without encoding them.

use std::ops::Range;

use arrow::{
    array::{Array, ArrayRef, LargeBinaryArray, OffsetSizeTrait},
    buffer::{OffsetBuffer, ScalarBuffer},
};

use super::{ALIGN, FragmentFormat, Kind, padded};

/// The sizes of all rows of a clustered side.
#[derive(Debug)]
pub(in crate::hash) struct Sizes {
    columns: Vec<Column>,
    buffers: usize,
}

#[derive(Debug)]
struct Column {
    has_nulls: bool,
    /// The bits of each row, and additional bits of the column.
    bits: (usize, usize),
    ends: Ends,
}

/// The bytes that differ from row to row.
#[derive(Debug)]
enum Ends {
    Same,
    Offsets32(OffsetBuffer<i32>),
    Offsets64(OffsetBuffer<i64>),
    /// The bytes before each row, then the bytes of all rows.
    Sums(ScalarBuffer<u64>),
}

impl Sizes {
    pub(in crate::hash) fn new(
        format: &FragmentFormat,
        columns: &[ArrayRef],
        coded: Option<&LargeBinaryArray>,
    ) -> Self {
        let native = format.native.iter().map(|&(column, kind)| Column::new(columns[column].as_ref(), kind));
        let columns = native.chain(coded.map(|coded| Column::new(coded, Kind::Bytes64))).collect();
        Self { columns, buffers: format.buffers() }
    }

    /// Returns the bytes of a fragment with these rows, at least one, of `partitions` partitions.
    /// O(columns).
    pub(in crate::hash) fn bytes(&self, rows: Range<usize>, partitions: usize) -> usize {
        let bitmap = padded(rows.len().div_ceil(8));
        let front =
            ALIGN + bitmap + padded((partitions + 1) * size_of::<u32>()) + padded(self.buffers * 2 * size_of::<u64>());
        let column = |column: &Column| {
            let validity = if column.has_nulls { bitmap } else { 0 };
            let (each, besides) = column.bits;
            validity + padded((each * rows.len() + besides).div_ceil(8)) + padded(column.ends.bytes(rows.clone()))
        };
        front + self.columns.iter().map(column).sum::<usize>()
    }
}

impl Column {
    fn new(array: &dyn Array, kind: Kind) -> Self {
        let (bits, ends) = match kind {
            Kind::Fixed(width) => ((width * 8, 0), Ends::Same),
            Kind::Boolean => ((1, 0), Ends::Same),
            Kind::Bytes32 => ((32, 32), Ends::Offsets32(offsets(array))),
            Kind::Bytes64 => ((64, 64), Ends::Offsets64(offsets(array))),
            Kind::View => ((128, 0), Ends::Sums(view_sums(array))),
        };
        Self { has_nulls: array.null_count() > 0, bits, ends }
    }
}

impl Ends {
    fn bytes(&self, rows: Range<usize>) -> usize {
        match self {
            Self::Same => 0,
            Self::Offsets32(offsets) => (offsets[rows.end] - offsets[rows.start]) as usize,
            Self::Offsets64(offsets) => (offsets[rows.end] - offsets[rows.start]) as usize,
            Self::Sums(sums) => (sums[rows.end] - sums[rows.start]) as usize,
        }
    }
}

fn offsets<O: OffsetSizeTrait>(array: &dyn Array) -> OffsetBuffer<O> {
    let data = array.to_data();
    let offsets = ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len() + 1);
    OffsetBuffer::new(offsets)
}

/// Returns running sums of the bytes of values that are stored outside of their views.
fn view_sums(array: &dyn Array) -> ScalarBuffer<u64> {
    let mut sum = 0;
    let views = view_lengths(array).map(|len| {
        sum += if len > super::MOST_INLINE { u64::from(len) } else { 0 };
        sum
    });
    std::iter::once(0).chain(views).collect::<Vec<u64>>().into()
}

/// Iterates over the length of each value, 0 for nulls.
fn view_lengths(array: &dyn Array) -> impl Iterator<Item = u32> {
    let data = array.to_data();
    let views: ScalarBuffer<u128> = ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len());
    let nulls = array.nulls().cloned();
    (0..views.len()).map(move |row| match &nulls {
        Some(nulls) if nulls.is_null(row) => 0,
        _ => views[row] as u32,
    })
}
