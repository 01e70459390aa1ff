//! The decoder: turns rows into columns, column by column, over a few rows at a time that stay in
//! the first-level cache. The rows may hold any bytes.

mod builder;
mod dictionary;
mod nested;

use arrow::{
    array::ArrayRef,
    buffer::{BooleanBuffer, NullBuffer},
};

use builder::Builder;

use super::{
    CodecError,
    layout::{CellPosition, Column, RowLayout},
};

/// The number of rows that are read together.
const TILE_ROWS: usize = 256;

/// Returns the columns of `rows`.
pub(super) fn decode(layout: &RowLayout, rows: &[&[u8]]) -> Result<Vec<ArrayRef>, CodecError> {
    check_lengths(layout, rows)?;
    let mut builders: Vec<Builder<'_>> =
        layout.columns.iter().map(|column| Builder::new(&column.kind, &column.data_type, rows.len())).collect();
    let mut cells = Vec::new();
    for (number, tile) in rows.chunks(TILE_ROWS).enumerate() {
        let mut starts = vec![layout.head_bytes; tile.len()];
        for (column, builder) in layout.columns.iter().zip(&mut builders) {
            match column.place {
                CellPosition::Fixed { at, width } => builder.append_fixed(tile, at, width),
                CellPosition::Varying(value) => {
                    cut_cells(layout, value, tile, &mut starts, &mut cells)
                        .map_err(|row| damaged(column, number * TILE_ROWS + row, "a value ends beyond its row"))?;
                    builder.append_cells(&cells);
                }
            }
        }
    }
    let nulls = validity(layout, rows);
    let columns = layout.columns.iter().zip(builders).zip(nulls);
    columns.map(|((column, builder), nulls)| builder.finish(column, nulls)).collect()
}

fn damaged(column: &Column, row: usize, what: &'static str) -> CodecError {
    CodecError::Damaged { row, column: column.name.clone(), what }
}

/// Checks that every row has its head, and nothing after it if no value varies in length.
fn check_lengths(layout: &RowLayout, rows: &[&[u8]]) -> Result<(), CodecError> {
    let head = layout.head_bytes;
    let wrong = match layout.row_bytes() {
        Some(bytes) => rows.iter().position(|row| row.len() != bytes),
        None => rows.iter().position(|row| row.len() < head),
    };
    match (wrong, layout.columns.first()) {
        (None, _) => Ok(()),
        (Some(row), Some(column)) => Err(damaged(column, row, "its length is not that of its columns")),
        (Some(row), None) => {
            Err(CodecError::Damaged { row, column: String::new(), what: "it has bytes, but there are no columns" })
        }
    }
}

/// Cuts the cells of varying value `number` out of their rows. They begin at `starts`, which are
/// moved to their ends.
///
/// # Errors
/// The number of the first row that does not contain its cell.
fn cut_cells<'a>(
    layout: &RowLayout,
    number: usize,
    rows: &[&'a [u8]],
    starts: &mut [usize],
    cells: &mut Vec<&'a [u8]>,
) -> Result<(), usize> {
    cells.clear();
    if number + 1 == layout.varying {
        cells.extend(rows.iter().zip(starts).map(|(row, &mut start)| &row[start..]));
        return Ok(());
    }
    let at = layout.end_at(number);
    let mut wrong = None;
    cells.extend(rows.iter().zip(starts).enumerate().map(|(i, (row, start))| {
        let end = u32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]]) as usize;
        let cell = row.get(*start..end);
        if cell.is_none() && wrong.is_none() {
            wrong = Some(i);
        }
        *start = end;
        cell.unwrap_or_default()
    }));
    wrong.map_or(Ok(()), Err)
}

/// Returns the nulls of the columns.
fn validity(layout: &RowLayout, rows: &[&[u8]]) -> Vec<Option<NullBuffer>> {
    let all_of = |byte: usize| rows.iter().fold(u8::MAX, |all, row| all & row[byte]);
    let all: Vec<u8> = (0..layout.validity_bytes).map(all_of).collect();
    let nulls = |column: &Column| {
        let bit = column.bit?;
        let (byte, bit) = (bit / 8, bit % 8);
        if all[byte] >> bit & 1 == 1 {
            return None;
        }
        Some(NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), |row| rows[row][byte] >> bit & 1 == 1)))
    };
    layout.columns.iter().map(nulls).collect()
}
