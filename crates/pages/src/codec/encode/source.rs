//! The sources of a column's cells.

use arrow::{
    array::{Array, ArrayRef, AsArray},
    buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer},
    datatypes::DataType,
};

use super::{EncodedRows, Rows, nested};
use crate::codec::{
    CodecError,
    layout::{Column, Kind},
};

/// A column that is ready to be written row by row.
pub(super) struct Source<'a> {
    pub cells: Cells,
    /// The rows of `cells` and `nulls`.
    pub rows: Rows<'a>,
    pub nulls: Option<NullBuffer>,
}

/// The values of a column.
pub(super) enum Cells {
    /// No bytes.
    Empty,
    /// Booleans.
    Bits(BooleanBuffer),
    /// Values of the column's width.
    Fixed(Buffer),
    /// Bytes with offsets.
    Bytes32(OffsetBuffer<i32>, Buffer),
    /// Bytes with offsets.
    Bytes64(OffsetBuffer<i64>, Buffer),
    /// Views of bytes.
    Views(ScalarBuffer<u128>, Vec<Buffer>),
    /// The encoded cells of nested columns, by position instead of row.
    Ready(EncodedRows),
}

impl<'a> Source<'a> {
    pub fn new(column: &Column, array: &ArrayRef, rows: &Rows<'a>) -> Result<Self, CodecError> {
        Self::for_kind(&column.kind, &column.data_type, &column.name, array, rows)
    }

    pub fn for_kind(
        kind: &Kind,
        data_type: &DataType,
        name: &str,
        array: &ArrayRef,
        rows: &Rows<'a>,
    ) -> Result<Self, CodecError> {
        if array.len() >= u32::MAX as usize {
            return Err(CodecError::TooLarge { column: name.to_owned() });
        }
        if let Kind::Dictionary(kind, values) = kind {
            let (array, rows) = nested::dictionary_values(array, rows);
            return Source::for_kind(kind, values, name, array, &rows);
        }
        let cells = match kind {
            Kind::Null => Cells::Empty,
            Kind::Boolean => Cells::Bits(array.as_boolean().values().clone()),
            Kind::Fixed => fixed_values(array),
            Kind::Bytes => byte_values(array, data_type),
            Kind::Struct(layout) => Cells::Ready(nested::struct_cells(layout, array, rows)?),
            Kind::List(layout) => Cells::Ready(nested::list_cells(layout, array, rows, name)?),
            Kind::FixedSizeList(layout, size) => {
                Cells::Ready(nested::fixed_size_list_cells(layout, *size, array, rows, name)?)
            }
            Kind::Union(layouts, _) => Cells::Ready(nested::union_cells(layouts, array, rows, name)?),
            Kind::Run(layout) => Cells::Ready(nested::run_cells(layout, array, rows)?),
            Kind::Dictionary(..) => unreachable!("its values were taken above"),
        };
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        Ok(Self { cells, rows: rows.clone(), nulls })
    }
}

fn fixed_values(array: &ArrayRef) -> Cells {
    let data = array.to_data();
    let width = match data.data_type() {
        DataType::FixedSizeBinary(width) => *width as usize,
        data_type => data_type.primitive_width().unwrap_or(0),
    };
    Cells::Fixed(data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width))
}

fn byte_values(array: &ArrayRef, data_type: &DataType) -> Cells {
    match data_type {
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            Cells::Bytes32(array.offsets().clone(), array.values().clone())
        }
        DataType::LargeUtf8 => {
            let array = array.as_string::<i64>();
            Cells::Bytes64(array.offsets().clone(), array.values().clone())
        }
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            Cells::Bytes32(array.offsets().clone(), array.values().clone())
        }
        DataType::LargeBinary => {
            let array = array.as_binary::<i64>();
            Cells::Bytes64(array.offsets().clone(), array.values().clone())
        }
        DataType::Utf8View => {
            let array = array.as_string_view();
            Cells::Views(array.views().clone(), array.data_buffers().to_vec())
        }
        _ => {
            let array = array.as_binary_view();
            Cells::Views(array.views().clone(), array.data_buffers().to_vec())
        }
    }
}
