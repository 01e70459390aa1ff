//! Decoding of nested columns from their cells.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray, OffsetSizeTrait,
        PrimitiveArray, RunArray, StructArray, UnionArray,
    },
    buffer::{NullBuffer, ScalarBuffer},
    datatypes::{ArrowNativeType, DataType, FieldRef, Int16Type, Int32Type, Int64Type, RunEndIndexType, UnionMode},
    error::ArrowError,
};

use super::{builder::offsets, decode};
use crate::codec::{CodecError, layout::RowLayout};

fn invalid(name: &str) -> impl Fn(ArrowError) -> CodecError {
    move |error| CodecError::Invalid { column: name.to_owned(), what: error.to_string() }
}

fn damaged(name: &str, row: usize, what: &'static str) -> CodecError {
    CodecError::Damaged { row, column: name.to_owned(), what }
}

pub(super) fn structs(
    layout: &RowLayout,
    data_type: &DataType,
    cells: &[&[u8]],
    nulls: Option<NullBuffer>,
    name: &str,
) -> Result<ArrayRef, CodecError> {
    let DataType::Struct(fields) = data_type else { unreachable!("a struct") };
    let columns = decode(layout, cells)?;
    let array = StructArray::try_new_with_length(fields.clone(), columns, nulls, cells.len()).map_err(invalid(name))?;
    Ok(Arc::new(array))
}

pub(super) fn lists(
    layout: &RowLayout,
    data_type: &DataType,
    cells: &[&[u8]],
    nulls: Option<NullBuffer>,
    name: &str,
) -> Result<ArrayRef, CodecError> {
    let (mut elements, mut ends) = (Vec::new(), Vec::with_capacity(cells.len()));
    for (row, &cell) in cells.iter().enumerate() {
        cut_list(layout, cell, &mut elements).map_err(|what| damaged(name, row, what))?;
        ends.push(elements.len());
    }
    let values = decode_one(layout, &elements)?;
    let invalid = invalid(name);
    Ok(match data_type {
        DataType::List(field) => Arc::new(
            GenericListArray::<i32>::try_new(Arc::clone(field), offsets(&ends, name)?, values, nulls)
                .map_err(invalid)?,
        ),
        DataType::LargeList(field) => Arc::new(
            GenericListArray::<i64>::try_new(Arc::clone(field), offsets(&ends, name)?, values, nulls)
                .map_err(invalid)?,
        ),
        DataType::ListView(field) => list_view::<i32>(field, &ends, values, nulls, name)?,
        DataType::LargeListView(field) => list_view::<i64>(field, &ends, values, nulls, name)?,
        DataType::Map(field, ordered) => {
            let entries = values.as_any().downcast_ref::<StructArray>().expect("a map's entries are structs").clone();
            let array = MapArray::try_new(Arc::clone(field), offsets(&ends, name)?, entries, nulls, *ordered);
            Arc::new(array.map_err(invalid)?)
        }
        _ => unreachable!("a list"),
    })
}

fn list_view<O: OffsetSizeTrait>(
    field: &FieldRef,
    ends: &[usize],
    values: ArrayRef,
    nulls: Option<NullBuffer>,
    name: &str,
) -> Result<ArrayRef, CodecError> {
    let offsets = offsets::<O>(ends, name)?;
    let sizes: ScalarBuffer<O> = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let starts: ScalarBuffer<O> = offsets[..ends.len()].iter().copied().collect();
    let array = GenericListViewArray::try_new(Arc::clone(field), starts, sizes, values, nulls);
    Ok(Arc::new(array.map_err(invalid(name))?))
}

pub(super) fn fixed_size_lists(
    layout: &RowLayout,
    size: usize,
    data_type: &DataType,
    cells: &[&[u8]],
    nulls: Option<NullBuffer>,
    name: &str,
) -> Result<ArrayRef, CodecError> {
    let DataType::FixedSizeList(field, width) = data_type else { unreachable!("a list of fixed size") };
    let mut elements = Vec::new();
    for (row, &cell) in cells.iter().enumerate() {
        let cut = match layout.element_bytes() {
            Some(bytes) => cut_elements(layout, bytes, cell, &mut elements),
            None => cut_lengths(size, cell, &mut elements),
        };
        cut.map_err(|what| damaged(name, row, what))?;
    }
    let values = decode_one(layout, &elements)?;
    let array = FixedSizeListArray::try_new_with_length(Arc::clone(field), *width, values, nulls, cells.len());
    Ok(Arc::new(array.map_err(invalid(name))?))
}

/// Cuts a list into its elements.
fn cut_list<'a>(layout: &RowLayout, cell: &'a [u8], elements: &mut Vec<&'a [u8]>) -> Result<(), &'static str> {
    if let Some(bytes) = layout.element_bytes() {
        return cut_elements(layout, bytes, cell, elements);
    }
    if cell.is_empty() {
        return Ok(());
    }
    let (count, rest) = cell.split_first_chunk().ok_or("a list has no number of elements")?;
    cut_lengths(u32::from_le_bytes(*count) as usize, rest, elements)
}

/// Cuts a cell into elements of one size.
fn cut_elements<'a>(
    layout: &RowLayout,
    bytes: usize,
    cell: &'a [u8],
    elements: &mut Vec<&'a [u8]>,
) -> Result<(), &'static str> {
    if !cell.len().is_multiple_of(bytes) {
        return Err("a list ends within an element");
    }
    elements.extend(cell.chunks_exact(bytes).map(|element| &element[..layout.head_bytes]));
    Ok(())
}

/// Cuts a cell of `count` lengths and then the elements.
fn cut_lengths<'a>(count: usize, cell: &'a [u8], elements: &mut Vec<&'a [u8]>) -> Result<(), &'static str> {
    let (lengths, mut rest) = count
        .checked_mul(4)
        .and_then(|bytes| cell.split_at_checked(bytes))
        .ok_or("a list has more elements than bytes")?;
    elements.reserve(count);
    for &length in lengths.as_chunks::<4>().0 {
        let (element, after) =
            rest.split_at_checked(u32::from_le_bytes(length) as usize).ok_or("an element ends beyond its list")?;
        elements.push(element);
        rest = after;
    }
    if rest.is_empty() { Ok(()) } else { Err("a list has bytes after its elements") }
}

fn decode_one(layout: &RowLayout, rows: &[&[u8]]) -> Result<ArrayRef, CodecError> {
    Ok(decode(layout, rows)?.swap_remove(0))
}

pub(super) fn unions(
    layouts: &[(i8, RowLayout)],
    mode: UnionMode,
    data_type: &DataType,
    cells: &[&[u8]],
    name: &str,
) -> Result<ArrayRef, CodecError> {
    let DataType::Union(fields, _) = data_type else { unreachable!("a union") };
    let absent: Vec<Vec<u8>> = match mode {
        UnionMode::Sparse => layouts.iter().map(|(_, layout)| layout.absent_row()).collect(),
        UnionMode::Dense => vec![Vec::new(); layouts.len()],
    };
    let mut children: Vec<Vec<&[u8]>> = vec![Vec::new(); layouts.len()];
    let (mut ids, mut positions) = (Vec::with_capacity(cells.len()), Vec::new());
    for (row, &cell) in cells.iter().enumerate() {
        let (&id, cell) = cell.split_first().ok_or_else(|| damaged(name, row, "a union has no type"))?;
        let known = layouts.iter().position(|(of, _)| *of as u8 == id);
        let child = known.ok_or_else(|| damaged(name, row, "a union has a type that it does not know"))?;
        ids.push(id as i8);
        match mode {
            UnionMode::Dense => {
                let position = i32::try_from(children[child].len());
                positions.push(position.map_err(|_| CodecError::TooLarge { column: name.to_owned() })?);
                children[child].push(cell);
            }
            UnionMode::Sparse => {
                children.iter_mut().zip(&absent).for_each(|(cells, absent)| cells.push(absent));
                children[child][row] = cell;
            }
        }
    }
    let arrays = layouts.iter().zip(&children).map(|((_, layout), cells)| decode_one(layout, cells));
    let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
    let positions = (mode == UnionMode::Dense).then(|| positions.into());
    let array = UnionArray::try_new(fields.clone(), ids.into(), positions, arrays);
    Ok(Arc::new(array.map_err(invalid(name))?))
}

/// Returns an array of runs. Neighbours that are equal byte by byte become one run.
pub(super) fn runs(
    layout: &RowLayout,
    data_type: &DataType,
    cells: &[&[u8]],
    name: &str,
) -> Result<ArrayRef, CodecError> {
    let DataType::RunEndEncoded(ends_field, _) = data_type else { unreachable!("a run array") };
    let mut values: Vec<&[u8]> = Vec::new();
    let mut ends = Vec::new();
    for (row, &cell) in cells.iter().enumerate() {
        if values.last() == Some(&cell) {
            *ends.last_mut().expect("each value has an end") = row + 1;
        } else {
            values.push(cell);
            ends.push(row + 1);
        }
    }
    let values = decode_one(layout, &values)?;
    match ends_field.data_type() {
        DataType::Int16 => run_array::<Int16Type>(&ends, &values, data_type, name),
        DataType::Int32 => run_array::<Int32Type>(&ends, &values, data_type, name),
        _ => run_array::<Int64Type>(&ends, &values, data_type, name),
    }
}

fn run_array<R: RunEndIndexType>(
    ends: &[usize],
    values: &ArrayRef,
    data_type: &DataType,
    name: &str,
) -> Result<ArrayRef, CodecError> {
    let ends: Option<Vec<R::Native>> = ends.iter().map(|&end| R::Native::from_usize(end)).collect();
    let ends = ends.ok_or_else(|| CodecError::TooLarge { column: name.to_owned() })?;
    let array = RunArray::<R>::try_new(&PrimitiveArray::<R>::new(ends.into(), None), values).map_err(invalid(name))?;
    // The names and metadata of fields are those of the schema.
    let data = arrow::array::Array::to_data(&array).into_builder().data_type(data_type.clone()).build();
    Ok(arrow::array::make_array(data.map_err(invalid(name))?))
}
