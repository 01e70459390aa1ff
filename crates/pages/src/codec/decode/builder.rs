//! The builder of a column while it is being decoded.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayData, ArrayRef, BinaryViewArray, BooleanArray, BooleanBufferBuilder, GenericByteArray, NullArray,
        OffsetSizeTrait, StringViewArray, make_array,
    },
    buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer},
    datatypes::{BinaryType, ByteArrayType, DataType, LargeBinaryType, LargeUtf8Type, Utf8Type, i256},
    error::ArrowError,
};

use super::{dictionary, nested};
use crate::codec::{
    CodecError,
    layout::{Column, Kind},
};

/// The values of a column, as far as they have been read.
pub(super) enum Builder<'a> {
    Null(usize),
    Boolean(BooleanBufferBuilder),
    One(Vec<u8>),
    Pair(Vec<u16>),
    Four(Vec<u32>),
    Eight(Vec<u64>),
    Sixteen(Vec<i128>),
    ThirtyTwo(Vec<i256>),
    /// Values of any other width, and their number.
    Wide(Vec<u8>, usize),
    /// Values of any length, and their ends.
    Bytes(Vec<u8>, Vec<usize>),
    /// Cells of nested columns.
    Cells(Vec<&'a [u8]>),
}

impl<'a> Builder<'a> {
    /// Creates a builder with room for `rows` values.
    pub fn new(kind: &Kind, data_type: &DataType, rows: usize) -> Self {
        match (kind, data_type.primitive_width()) {
            (Kind::Null, _) => Self::Null(0),
            (Kind::Boolean, _) => Self::Boolean(BooleanBufferBuilder::new(rows)),
            (Kind::Fixed, Some(1)) => Self::One(Vec::with_capacity(rows)),
            (Kind::Fixed, Some(2)) => Self::Pair(Vec::with_capacity(rows)),
            (Kind::Fixed, Some(4)) => Self::Four(Vec::with_capacity(rows)),
            (Kind::Fixed, Some(8)) => Self::Eight(Vec::with_capacity(rows)),
            (Kind::Fixed, Some(16)) => Self::Sixteen(Vec::with_capacity(rows)),
            (Kind::Fixed, Some(32)) => Self::ThirtyTwo(Vec::with_capacity(rows)),
            (Kind::Fixed, _) => Self::Wide(Vec::new(), 0),
            (Kind::Bytes, _) => Self::Bytes(Vec::new(), Vec::with_capacity(rows)),
            _ => Self::Cells(Vec::with_capacity(rows)),
        }
    }

    /// Reads `width` bytes at offset `at` of every row. All rows are long enough.
    pub fn append_fixed(&mut self, rows: &[&'a [u8]], at: usize, width: usize) {
        match self {
            Self::Null(count) => *count += rows.len(),
            Self::Boolean(bits) => rows.iter().for_each(|row| bits.append(row[at] != 0)),
            Self::One(values) => values.extend(rows.iter().map(|row| row[at])),
            Self::Pair(values) => values.extend(rows.iter().map(|row| u16::from_le_bytes(read(row, at)))),
            Self::Four(values) => values.extend(rows.iter().map(|row| u32::from_le_bytes(read(row, at)))),
            Self::Eight(values) => values.extend(rows.iter().map(|row| u64::from_le_bytes(read(row, at)))),
            Self::Sixteen(values) => values.extend(rows.iter().map(|row| i128::from_le_bytes(read(row, at)))),
            Self::ThirtyTwo(values) => values.extend(rows.iter().map(|row| i256::from_le_bytes(read(row, at)))),
            Self::Wide(values, count) => {
                rows.iter().for_each(|row| values.extend_from_slice(&row[at..at + width]));
                *count += rows.len();
            }
            Self::Bytes(..) => unreachable!("values of any length have no fixed place"),
            Self::Cells(cells) => cells.extend(rows.iter().map(|row| &row[at..at + width])),
        }
    }

    /// Reads cells of varying length.
    pub fn append_cells(&mut self, cells: &[&'a [u8]]) {
        match self {
            Self::Bytes(values, ends) => {
                values.reserve(cells.iter().map(|cell| cell.len()).sum());
                for cell in cells {
                    values.extend_from_slice(cell);
                    ends.push(values.len());
                }
            }
            Self::Cells(all) => all.extend_from_slice(cells),
            _ => unreachable!("values of fixed width do not vary"),
        }
    }

    /// Returns the column.
    pub fn finish(self, column: &Column, nulls: Option<NullBuffer>) -> Result<ArrayRef, CodecError> {
        self.finish_as(&column.kind, &column.data_type, &column.name, nulls)
    }

    /// Returns the column as another type. For a dictionary it is the type of its values.
    pub fn finish_as(
        self,
        kind: &Kind,
        data_type: &DataType,
        name: &str,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, CodecError> {
        let invalid = |error: ArrowError| CodecError::Invalid { column: name.to_owned(), what: error.to_string() };
        let fixed = |values: Buffer, len: usize, nulls| {
            let data = ArrayData::builder(data_type.clone()).len(len).nulls(nulls).add_buffer(values);
            data.build().map(make_array).map_err(invalid)
        };
        match self {
            Self::Null(count) => Ok(Arc::new(NullArray::new(count))),
            Self::Boolean(mut bits) => Ok(Arc::new(BooleanArray::new(bits.finish(), nulls))),
            Self::One(values) => fixed(Buffer::from_slice_ref(&values), values.len(), nulls),
            Self::Pair(values) => {
                let len = values.len();
                fixed(Buffer::from_vec(values), len, nulls)
            }
            Self::Four(values) => {
                let len = values.len();
                fixed(Buffer::from_vec(values), len, nulls)
            }
            Self::Eight(values) => {
                let len = values.len();
                fixed(Buffer::from_vec(values), len, nulls)
            }
            Self::Sixteen(values) => {
                let len = values.len();
                fixed(Buffer::from_vec(values), len, nulls)
            }
            Self::ThirtyTwo(values) => {
                let len = values.len();
                fixed(Buffer::from_vec(values), len, nulls)
            }
            Self::Wide(values, count) => fixed(Buffer::from_vec(values), count, nulls),
            Self::Bytes(values, ends) => bytes(data_type, values, &ends, nulls, name),
            Self::Cells(cells) => match kind {
                Kind::Struct(layout) => nested::structs(layout, data_type, &cells, nulls, name),
                Kind::List(layout) => nested::lists(layout, data_type, &cells, nulls, name),
                Kind::FixedSizeList(layout, size) => {
                    nested::fixed_size_lists(layout, *size, data_type, &cells, nulls, name)
                }
                Kind::Union(layouts, mode) => nested::unions(layouts, *mode, data_type, &cells, name),
                Kind::Run(layout) => nested::runs(layout, data_type, &cells, name),
                Kind::Dictionary(kind, values) => dictionary::dictionary(kind, values, data_type, &cells, nulls, name),
                Kind::Null | Kind::Boolean | Kind::Fixed | Kind::Bytes => unreachable!("these kinds have no cells"),
            },
        }
    }
}

#[inline(always)]
fn read<const W: usize>(row: &[u8], at: usize) -> [u8; W] {
    let mut value = [0; W];
    value.copy_from_slice(&row[at..at + W]);
    value
}

/// Returns the offsets of values with these ends.
///
/// # Errors
/// [`CodecError::TooLarge`] if one does not fit its type.
pub(super) fn offsets<O: OffsetSizeTrait>(ends: &[usize], name: &str) -> Result<OffsetBuffer<O>, CodecError> {
    if ends.last().is_some_and(|&end| end > O::MAX_OFFSET) {
        return Err(CodecError::TooLarge { column: name.to_owned() });
    }
    let mut offsets = Vec::with_capacity(ends.len() + 1);
    offsets.push(O::usize_as(0));
    offsets.extend(ends.iter().map(|&end| O::usize_as(end)));
    Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
}

fn bytes(
    data_type: &DataType,
    values: Vec<u8>,
    ends: &[usize],
    nulls: Option<NullBuffer>,
    name: &str,
) -> Result<ArrayRef, CodecError> {
    fn array<T: ByteArrayType>(
        values: Vec<u8>,
        ends: &[usize],
        nulls: Option<NullBuffer>,
        name: &str,
    ) -> Result<GenericByteArray<T>, CodecError> {
        GenericByteArray::try_new(offsets(ends, name)?, Buffer::from_vec(values), nulls)
            .map_err(|error| CodecError::Invalid { column: name.to_owned(), what: error.to_string() })
    }
    Ok(match data_type {
        DataType::Utf8 => Arc::new(array::<Utf8Type>(values, ends, nulls, name)?),
        DataType::LargeUtf8 => Arc::new(array::<LargeUtf8Type>(values, ends, nulls, name)?),
        DataType::Binary => Arc::new(array::<BinaryType>(values, ends, nulls, name)?),
        DataType::LargeBinary => Arc::new(array::<LargeBinaryType>(values, ends, nulls, name)?),
        // The views point into the values.
        DataType::Utf8View => Arc::new(StringViewArray::from(&array::<Utf8Type>(values, ends, nulls, name)?)),
        _ => Arc::new(BinaryViewArray::from(&array::<BinaryType>(values, ends, nulls, name)?)),
    })
}
