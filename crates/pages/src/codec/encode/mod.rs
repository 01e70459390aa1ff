//! The encoder: turns columns into rows, column by column, over a few rows at a time that stay in
//! the first-level cache.

mod bytes;
mod nested;
mod rows;
mod source;

use arrow::{array::ArrayRef, buffer::NullBuffer};

pub(super) use rows::Rows;
use rows::{Pick, with_rows};
use source::{Cells, Source};

use super::{
    CodecError,
    layout::{CellPosition, RowLayout},
};

/// The number of bytes of the rows that are written together.
const TILE_BYTES: usize = 24 << 10;

/// Rows, one after the other.
#[derive(Debug, Default)]
pub(super) struct EncodedRows {
    pub bytes: Vec<u8>,
    /// The offsets, one more than there are rows. Empty if all rows have one size.
    pub offsets: Vec<u32>,
}

/// Rows that are being written.
pub(super) struct Tile<'a> {
    pub bytes: &'a mut [u8],
    pub place: RowStarts<'a>,
}

/// The beginnings of rows.
#[derive(Clone, Copy)]
pub(super) enum RowStarts<'a> {
    /// Rows are this number of bytes apart.
    Stride(usize),
    /// Rows begin at these offsets. The last offset is the end.
    Offsets(&'a [u32]),
}

/// Writes the rows of `columns`, which have the layout's types, and replaces the content of `out`.
pub(super) fn encode(
    layout: &RowLayout,
    columns: &[ArrayRef],
    rows: &Rows<'_>,
    out: &mut EncodedRows,
) -> Result<(), CodecError> {
    let sources: Result<Vec<Source<'_>>, CodecError> =
        layout.columns.iter().zip(columns).map(|(column, array)| Source::new(column, array, rows)).collect();
    let sources = sources?;
    match layout.row_bytes() {
        Some(row_bytes) => encode_fixed(layout, &sources, rows.len(), row_bytes, out),
        None => encode_varying(layout, &sources, rows.len(), out),
    }
}

fn too_large() -> CodecError {
    CodecError::TooLarge { column: "(all)".to_owned() }
}

fn encode_fixed(
    layout: &RowLayout,
    sources: &[Source<'_>],
    rows: usize,
    row_bytes: usize,
    out: &mut EncodedRows,
) -> Result<(), CodecError> {
    let total = rows.checked_mul(row_bytes).filter(|&total| u32::try_from(total).is_ok()).ok_or_else(too_large)?;
    out.offsets.clear();
    // The content is overwritten, so only growth is zeroed.
    out.bytes.resize(total, 0);
    if row_bytes == 0 {
        return Ok(());
    }
    let tile_rows = (TILE_BYTES / row_bytes).max(16);
    for (number, bytes) in out.bytes.chunks_mut(tile_rows * row_bytes).enumerate() {
        let first = number * tile_rows;
        let positions = first..first + bytes.len() / row_bytes;
        let mut tile = Tile { bytes, place: RowStarts::Stride(row_bytes) };
        write_head(layout, sources, positions, &mut tile);
    }
    Ok(())
}

fn encode_varying(
    layout: &RowLayout,
    sources: &[Source<'_>],
    rows: usize,
    out: &mut EncodedRows,
) -> Result<(), CodecError> {
    let total = bytes::place_rows(layout, sources, rows, &mut out.offsets).ok_or_else(too_large)?;
    // Copies may write after a value's end, into bytes that are written later or after the last
    // row.
    out.bytes.resize(total + bytes::SLACK, 0);
    let tile_rows = (TILE_BYTES * rows / total.max(1)).max(16);
    let mut ends = Vec::new();
    for first in (0..rows).step_by(tile_rows) {
        let positions = first..rows.min(first + tile_rows);
        let offsets = &out.offsets[first..=positions.end];
        bytes::copy_values(layout, sources, positions.clone(), offsets, &mut out.bytes, &mut ends);
        let mut tile = Tile { bytes: &mut out.bytes, place: RowStarts::Offsets(offsets) };
        bytes::write_ends(layout, &ends, positions.len(), &mut tile);
        write_head(layout, sources, positions, &mut tile);
    }
    out.bytes.truncate(total);
    Ok(())
}

/// Writes the validity bits and the values of fixed width.
fn write_head(layout: &RowLayout, sources: &[Source<'_>], positions: std::ops::Range<usize>, tile: &mut Tile<'_>) {
    for byte in 0..layout.validity_bytes {
        write_validity(layout, sources, byte, positions.clone(), tile);
    }
    for (column, source) in layout.columns.iter().zip(sources) {
        let CellPosition::Fixed { at, width } = column.place else { continue };
        match &source.cells {
            Cells::Ready(ready) => {
                let from = &ready.bytes[positions.start * width..positions.end * width];
                let mut cells = from.chunks_exact(width.max(1));
                tile.each(positions.len(), at, width, |_, cell| {
                    cell.copy_from_slice(cells.next().unwrap_or_default());
                });
            }
            Cells::Bits(bits) => with_rows!(&source.rows, positions.clone(), |rows| {
                tile.each(positions.len(), at, 1, |i, cell| {
                    cell[0] = rows.pick(i).is_some_and(|row| bits.value(row)).into();
                });
            }),
            Cells::Fixed(values) => {
                with_rows!(&source.rows, positions.clone(), |rows| match width {
                    0 => {}
                    1 => put::<1>(values, rows, at, positions.len(), tile),
                    2 => put::<2>(values, rows, at, positions.len(), tile),
                    4 => put::<4>(values, rows, at, positions.len(), tile),
                    8 => put::<8>(values, rows, at, positions.len(), tile),
                    16 => put::<16>(values, rows, at, positions.len(), tile),
                    32 => put::<32>(values, rows, at, positions.len(), tile),
                    _ => tile.each(positions.len(), at, width, |i, cell| match rows.pick(i) {
                        Some(row) => cell.copy_from_slice(&values[row * width..(row + 1) * width]),
                        None => cell.fill(0),
                    }),
                });
            }
            Cells::Empty | Cells::Bytes32(..) | Cells::Bytes64(..) | Cells::Views(..) => {}
        }
        if let Some(nulls) = &source.nulls {
            zero_nulls(nulls, source, positions.clone(), at, width, tile);
        }
    }
}

fn put<const W: usize>(values: &[u8], rows: impl Pick, at: usize, count: usize, tile: &mut Tile<'_>) {
    let (values, _) = values.as_chunks::<W>();
    let value = |i| rows.pick(i).map_or([0; W], |row| values[row]);
    tile.each(count, at, W, |i, cell| cell.copy_from_slice(&value(i)));
}

/// Zeroes the cells of nulls: the value of a null may be anything, and must not leak.
fn zero_nulls(
    nulls: &NullBuffer,
    source: &Source<'_>,
    positions: std::ops::Range<usize>,
    at: usize,
    width: usize,
    tile: &mut Tile<'_>,
) {
    with_rows!(&source.rows, positions.clone(), |rows| {
        tile.each(positions.len(), at, width, |i, cell| {
            if rows.pick(i).is_some_and(|row| nulls.is_null(row)) {
                cell.fill(0);
            }
        });
    });
}

/// Writes one byte of validity bits.
fn write_validity(
    layout: &RowLayout,
    sources: &[Source<'_>],
    byte: usize,
    positions: std::ops::Range<usize>,
    tile: &mut Tile<'_>,
) {
    let bits = layout.columns.iter().zip(sources).filter_map(|(column, source)| Some((column.bit?, source)));
    let ours = || bits.clone().filter(|(bit, _)| bit / 8 == byte);
    let certain = |source: &Source<'_>| source.nulls.is_none() && !matches!(source.rows, Rows::Masked(_));
    let valid: u8 = ours().filter(|(_, source)| certain(source)).map(|(bit, _)| 1 << (bit % 8)).sum();
    tile.each(positions.len(), byte, 1, |_, cell| cell[0] = valid);
    for (bit, source) in ours().filter(|(_, source)| !certain(source)) {
        let nulls = source.nulls.as_ref();
        with_rows!(&source.rows, positions.clone(), |rows| {
            tile.each(positions.len(), byte, 1, |i, cell| {
                let valid = rows.pick(i).is_some_and(|row| nulls.is_none_or(|nulls| nulls.is_valid(row)));
                cell[0] |= u8::from(valid) << (bit % 8);
            });
        });
    }
}

impl Tile<'_> {
    /// Calls `write` with each row's number and its `width` bytes at `at`.
    #[inline(always)]
    pub fn each(&mut self, count: usize, at: usize, width: usize, mut write: impl FnMut(usize, &mut [u8])) {
        match self.place {
            RowStarts::Stride(stride) => {
                for (i, row) in self.bytes.chunks_exact_mut(stride).take(count).enumerate() {
                    write(i, &mut row[at..at + width]);
                }
            }
            RowStarts::Offsets(offsets) => {
                for (i, &offset) in offsets[..count].iter().enumerate() {
                    let start = offset as usize + at;
                    write(i, &mut self.bytes[start..start + width]);
                }
            }
        }
    }
}
