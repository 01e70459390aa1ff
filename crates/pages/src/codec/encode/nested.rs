//! The cells of nested columns, which are rows of rows.

use arrow::{
    array::{Array, ArrayRef, AsArray, OffsetSizeTrait, RunArray, downcast_run_array},
    datatypes::{DataType, RunEndIndexType},
};

use super::{EncodedRows, Rows, encode, rows::ABSENT};
use crate::codec::{CodecError, layout::RowLayout};

/// Returns the values of a dictionary, and for each row the index of its value.
pub(super) fn dictionary_values<'a>(array: &'a ArrayRef, rows: &Rows<'_>) -> (&'a ArrayRef, Rows<'static>) {
    let array = array.as_any_dictionary();
    if array.values().is_empty() {
        return (array.values(), rows.map(|_| ABSENT));
    }
    let keys = array.normalized_keys();
    let nulls = array.nulls();
    let key = |row: usize| if nulls.is_some_and(|nulls| nulls.is_null(row)) { ABSENT } else { keys[row] as u32 };
    (array.values(), rows.map(key))
}

pub(super) fn struct_cells(layout: &RowLayout, array: &ArrayRef, rows: &Rows<'_>) -> Result<EncodedRows, CodecError> {
    let array = array.as_struct();
    let mut cells = EncodedRows::default();
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => encode(layout, array.columns(), rows, &mut cells)?,
        Some(nulls) => {
            let rows = rows.map(|row| if nulls.is_valid(row) { row as u32 } else { ABSENT });
            encode(layout, array.columns(), &rows, &mut cells)?;
        }
    }
    Ok(cells)
}

pub(super) fn run_cells(layout: &RowLayout, array: &ArrayRef, rows: &Rows<'_>) -> Result<EncodedRows, CodecError> {
    fn run_rows<R: RunEndIndexType>(array: &RunArray<R>, rows: &Rows<'_>) -> Rows<'static> {
        rows.map(|row| array.get_physical_index(row) as u32)
    }
    let array = array.as_ref();
    let (rows, values) = downcast_run_array!(
        array => (run_rows(array, rows), array.values().clone()),
        _ => unreachable!("a run array")
    );
    let mut cells = EncodedRows::default();
    encode(layout, &[values], &rows, &mut cells)?;
    Ok(cells)
}

/// Encodes lists of all kinds: the place of each list's elements, and the elements.
pub(super) fn list_cells(
    layout: &RowLayout,
    array: &ArrayRef,
    rows: &Rows<'_>,
    name: &str,
) -> Result<EncodedRows, CodecError> {
    fn windows<O: OffsetSizeTrait>(offsets: &[O], row: usize) -> (usize, usize) {
        (offsets[row].as_usize(), (offsets[row + 1] - offsets[row]).as_usize())
    }
    fn views<O: OffsetSizeTrait>(offsets: &[O], sizes: &[O], row: usize) -> (usize, usize) {
        (offsets[row].as_usize(), sizes[row].as_usize())
    }
    let nulls = array.nulls();
    let gather = |values: &ArrayRef, list: &dyn Fn(usize) -> (usize, usize)| {
        let mut elements = Elements::new(name, values)?;
        let mut fits = Ok(());
        rows.for_each(|row| {
            let valid = row.filter(|&row| nulls.is_none_or(|nulls| nulls.is_valid(row)));
            let (start, len) = valid.map_or((0, 0), list);
            fits = fits.clone().and_then(|()| elements.push(start..start + len));
        });
        fits?;
        elements.encode(layout, values)
    };
    match array.data_type() {
        DataType::List(_) => {
            let array = array.as_list::<i32>();
            gather(array.values(), &|row| windows(array.offsets(), row))
        }
        DataType::LargeList(_) => {
            let array = array.as_list::<i64>();
            gather(array.values(), &|row| windows(array.offsets(), row))
        }
        DataType::ListView(_) => {
            let array = array.as_list_view::<i32>();
            gather(array.values(), &|row| views(array.offsets(), array.sizes(), row))
        }
        DataType::LargeListView(_) => {
            let array = array.as_list_view::<i64>();
            gather(array.values(), &|row| views(array.offsets(), array.sizes(), row))
        }
        _ => {
            let array = array.as_map();
            let entries: ArrayRef = std::sync::Arc::new(array.entries().clone());
            gather(&entries, &|row| windows(array.offsets(), row))
        }
    }
}

/// Encodes lists of one size. A null list has this number of absent elements.
pub(super) fn fixed_size_list_cells(
    layout: &RowLayout,
    size: usize,
    array: &ArrayRef,
    rows: &Rows<'_>,
    name: &str,
) -> Result<EncodedRows, CodecError> {
    let array = array.as_fixed_size_list();
    let nulls = array.nulls();
    let mut elements = Elements::new(name, array.values())?;
    let mut fits = Ok(());
    rows.for_each(|row| {
        let valid = row.filter(|&row| nulls.is_none_or(|nulls| nulls.is_valid(row)));
        fits = fits.clone().and_then(|()| match valid {
            Some(row) => {
                let start = array.value_offset(row) as usize;
                elements.push(start..start + size)
            }
            None => elements.push_absent(size),
        });
    });
    fits?;
    elements.encode_sized(layout, array.values(), size)
}

pub(super) fn union_cells(
    layouts: &[(i8, RowLayout)],
    array: &ArrayRef,
    rows: &Rows<'_>,
    name: &str,
) -> Result<EncodedRows, CodecError> {
    let array = array.as_union();
    let first = layouts[0].0;
    let mut types = Vec::with_capacity(rows.len());
    rows.for_each(|row| {
        types.push(row.map_or((first, ABSENT), |row| (array.type_id(row), array.value_offset(row) as u32)))
    });
    let mut children = Vec::with_capacity(layouts.len());
    for (id, layout) in layouts {
        let chosen = types.iter().filter(|(of, _)| of == id).map(|&(_, row)| row).collect();
        let mut cells = EncodedRows::default();
        encode(layout, &[array.child(*id).clone()], &Rows::Masked(chosen), &mut cells)?;
        children.push((*id, layout.row_bytes(), cells, 0_usize));
    }
    let mut cells = CellWriter::new(name, types.len());
    for (id, _) in types {
        let found = children.iter_mut().find(|(of, ..)| *of == id);
        let Some((_, width, child, next)) = found else {
            return Err(CodecError::Invalid {
                column: name.to_owned(),
                what: format!("{id} is not a type of the union"),
            });
        };
        cells.out.bytes.push(id as u8);
        cells.out.bytes.extend_from_slice(child.row(*next, *width));
        *next += 1;
        cells.end()?;
    }
    Ok(cells.out)
}

impl EncodedRows {
    fn row(&self, row: usize, width: Option<usize>) -> &[u8] {
        match width {
            Some(width) => &self.bytes[row * width..(row + 1) * width],
            None => &self.bytes[self.offsets[row] as usize..self.offsets[row + 1] as usize],
        }
    }
}

/// Cells of varying length, written one after the other.
struct CellWriter<'a> {
    out: EncodedRows,
    name: &'a str,
}

impl<'a> CellWriter<'a> {
    fn new(name: &'a str, cells: usize) -> Self {
        let mut offsets = Vec::with_capacity(cells + 1);
        offsets.push(0);
        Self { out: EncodedRows { bytes: Vec::new(), offsets }, name }
    }

    /// Ends the cell here.
    fn end(&mut self) -> Result<(), CodecError> {
        let end = u32::try_from(self.out.bytes.len()).map_err(|_| too_large(self.name))?;
        self.out.offsets.push(end);
        Ok(())
    }
}

/// The elements of lists.
struct Elements<'a> {
    name: &'a str,
    rows: Vec<u32>,
    /// The end of each list in `rows`, after a first 0.
    ends: Vec<usize>,
}

impl<'a> Elements<'a> {
    fn new(name: &'a str, values: &ArrayRef) -> Result<Self, CodecError> {
        // With more values, a row number would not fit.
        if values.len() >= u32::MAX as usize {
            return Err(too_large(name));
        }
        Ok(Self { name, rows: Vec::new(), ends: vec![0] })
    }

    fn push(&mut self, rows: std::ops::Range<usize>) -> Result<(), CodecError> {
        self.room(rows.len())?;
        self.rows.extend(rows.start as u32..rows.end as u32);
        self.ends.push(self.rows.len());
        Ok(())
    }

    fn push_absent(&mut self, count: usize) -> Result<(), CodecError> {
        self.room(count)?;
        self.rows.resize(self.rows.len() + count, ABSENT);
        self.ends.push(self.rows.len());
        Ok(())
    }

    fn room(&self, more: usize) -> Result<(), CodecError> {
        let fits = self.rows.len().checked_add(more).is_some_and(|count| count < u32::MAX as usize);
        if fits { Ok(()) } else { Err(too_large(self.name)) }
    }

    fn encode_all(self, layout: &RowLayout, values: &ArrayRef) -> Result<(EncodedRows, Vec<usize>), CodecError> {
        let mut cells = EncodedRows::default();
        let count = self.rows.len();
        encode(layout, &[ArrayRef::clone(values)], &Rows::Masked(self.rows.into()), &mut cells)?;
        if layout.row_bytes() == Some(0) {
            cells.bytes = vec![0; count];
        }
        Ok((cells, self.ends))
    }

    /// Encodes cells that each have all elements of a list. If these vary in length, their number
    /// and lengths come first.
    fn encode(self, layout: &RowLayout, values: &ArrayRef) -> Result<EncodedRows, CodecError> {
        let name = self.name;
        let (elements, ends) = self.encode_all(layout, values)?;
        match layout.element_bytes() {
            Some(width) => {
                let offset = |&end: &usize| u32::try_from(end * width).map_err(|_| too_large(name));
                let offsets = ends.iter().map(offset).collect::<Result<_, _>>()?;
                Ok(EncodedRows { bytes: elements.bytes, offsets })
            }
            None => with_lengths(&elements, &ends, name, true),
        }
    }

    /// Encodes like [`encode`](Self::encode), with a known number of elements.
    fn encode_sized(self, layout: &RowLayout, values: &ArrayRef, size: usize) -> Result<EncodedRows, CodecError> {
        let name = self.name;
        let (elements, ends) = self.encode_all(layout, values)?;
        match layout.element_bytes() {
            Some(_) => Ok(elements),
            None if size == 0 => Ok(EncodedRows { bytes: Vec::new(), offsets: vec![0; ends.len()] }),
            None => with_lengths(&elements, &ends, name, false),
        }
    }
}

fn with_lengths(elements: &EncodedRows, ends: &[usize], name: &str, counted: bool) -> Result<EncodedRows, CodecError> {
    let mut cells = CellWriter::new(name, ends.len());
    for list in ends.windows(2) {
        let offsets = &elements.offsets[list[0]..=list[1]];
        let bytes = &mut cells.out.bytes;
        if list[0] != list[1] {
            if counted {
                bytes.extend_from_slice(&((list[1] - list[0]) as u32).to_le_bytes());
            }
            offsets.windows(2).for_each(|pair| bytes.extend_from_slice(&(pair[1] - pair[0]).to_le_bytes()));
            bytes.extend_from_slice(&elements.bytes[offsets[0] as usize..offsets[offsets.len() - 1] as usize]);
        }
        cells.end()?;
    }
    Ok(cells.out)
}

fn too_large(name: &str) -> CodecError {
    CodecError::TooLarge { column: name.to_owned() }
}
