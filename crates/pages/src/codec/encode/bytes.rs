//! Values of varying length, which follow the heads of their rows.

use std::ops::Range;

use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};

use super::{
    Cells, EncodedRows, Source, Tile,
    rows::{Pick, RowsFrom, with_rows},
};
use crate::codec::layout::{CellPosition, RowLayout};

/// The bytes that a copy may write after a value's end: into values and heads that are written
/// later, or after the last row.
pub(super) const SLACK: usize = 16;

/// The length up to which values are copied in chunks of [`SLACK`] bytes. That takes a few
/// instructions instead of a call.
const SHORT: usize = 64;

/// Computes the offsets of the rows, and returns the bytes of all of them. Returns `None` if these
/// do not fit into an offset.
pub(super) fn place_rows(
    layout: &RowLayout,
    sources: &[Source<'_>],
    rows: usize,
    offsets: &mut Vec<u32>,
) -> Option<usize> {
    let head = u32::try_from(layout.head_bytes).ok()?;
    offsets.clear();
    offsets.resize(rows + 1, head);
    offsets[0] = 0;
    let mut total = rows as u64 * u64::from(head);
    for (_, source) in varying(layout, sources) {
        total = total.saturating_add(visit(source, 0..rows, AddLengths { lengths: &mut offsets[1..] }));
    }
    // If the total fits, no sum has overflowed.
    let total = u32::try_from(total).ok()?;
    let mut end = 0;
    for offset in &mut offsets[1..] {
        end += *offset;
        *offset = end;
    }
    Some(total as usize)
}

/// Copies the values of the rows at `positions` to `bytes`. `ends` gets the end of each value in
/// its row, by column, except the last values of rows.
pub(super) fn copy_values(
    layout: &RowLayout,
    sources: &[Source<'_>],
    positions: Range<usize>,
    offsets: &[u32],
    bytes: &mut [u8],
    ends: &mut Vec<u32>,
) {
    let mut cursors = vec![layout.head_bytes as u32; positions.len()];
    ends.clear();
    // The bytes that a copy writes after its value must not be written yet. These are the rest of
    // its row, and the next row's head if that is long enough. With one varying value per row, all
    // following rows are not written yet either.
    let beyond = layout.head_bytes >= SLACK || layout.varying == 1;
    for (number, source) in varying(layout, sources) {
        visit(source, positions.clone(), CopyCells { offsets, cursors: &mut cursors, bytes, beyond });
        if number + 1 < layout.varying {
            ends.extend_from_slice(&cursors);
        }
    }
}

/// Writes the ends that [`copy_values`] computed.
pub(super) fn write_ends(layout: &RowLayout, ends: &[u32], rows: usize, tile: &mut Tile<'_>) {
    for (number, ends) in ends.chunks_exact(rows.max(1)).enumerate() {
        tile.each(rows, layout.end_at(number), 4, |i, cell| cell.copy_from_slice(&ends[i].to_le_bytes()));
    }
}

/// Returns the varying columns, in the order of their values.
fn varying<'s, 'a>(layout: &'s RowLayout, sources: &'s [Source<'a>]) -> impl Iterator<Item = (usize, &'s Source<'a>)> {
    layout.columns.iter().zip(sources).filter_map(|(column, source)| match column.place {
        CellPosition::Varying(number) => Some((number, source)),
        CellPosition::Fixed { .. } => None,
    })
}

/// The bytes of each row of a column.
trait CellBytes: Copy {
    fn len(self, row: usize) -> usize;
    /// Returns a buffer, and the offset of the row's bytes in it.
    fn start(&self, row: usize) -> (&[u8], usize);
}

/// An offset into bytes.
trait Position: Copy {
    fn as_index(self) -> usize;
}

impl Position for i32 {
    #[inline(always)]
    fn as_index(self) -> usize {
        self as usize
    }
}

impl Position for i64 {
    #[inline(always)]
    fn as_index(self) -> usize {
        self as usize
    }
}

impl Position for u32 {
    #[inline(always)]
    fn as_index(self) -> usize {
        self as usize
    }
}

#[derive(Clone, Copy)]
struct Offsets<'a, O>(&'a [O], &'a [u8]);

impl<O: Position> CellBytes for Offsets<'_, O> {
    #[inline(always)]
    fn len(self, row: usize) -> usize {
        self.0[row + 1].as_index() - self.0[row].as_index()
    }

    #[inline(always)]
    fn start(&self, row: usize) -> (&[u8], usize) {
        (self.1, self.0[row].as_index())
    }
}

#[derive(Clone, Copy)]
struct Views<'a>(&'a ScalarBuffer<u128>, &'a [Buffer]);

impl CellBytes for Views<'_> {
    #[inline(always)]
    fn len(self, row: usize) -> usize {
        self.0[row] as u32 as usize
    }

    #[inline(always)]
    fn start(&self, row: usize) -> (&[u8], usize) {
        let view = self.0[row];
        if view as u32 <= 12 {
            // The value is in the view, after its length.
            let views = self.0.inner().as_slice();
            (views, row * 16 + 4)
        } else {
            (&self.1[(view >> 64) as u32 as usize], (view >> 96) as usize)
        }
    }
}

/// An operation on a column's cells.
trait CellVisitor {
    type Output;
    fn visit(self, cells: impl CellBytes, rows: impl Pick, count: usize) -> Self::Output;
}

fn visit<V: CellVisitor>(source: &Source<'_>, positions: Range<usize>, what: V) -> V::Output {
    match &source.cells {
        Cells::Bytes32(offsets, values) => visit_rows(source, positions, Offsets(offsets, values), what),
        Cells::Bytes64(offsets, values) => visit_rows(source, positions, Offsets(offsets, values), what),
        Cells::Views(views, buffers) => visit_rows(source, positions, Views(views, buffers), what),
        Cells::Ready(EncodedRows { bytes, offsets }) => {
            what.visit(Offsets(offsets, bytes), RowsFrom(positions.start), positions.len())
        }
        Cells::Empty | Cells::Bits(_) | Cells::Fixed(_) => unreachable!("a column of fixed width"),
    }
}

fn visit_rows<V: CellVisitor>(
    source: &Source<'_>,
    positions: Range<usize>,
    cells: impl CellBytes,
    what: V,
) -> V::Output {
    let count = positions.len();
    with_rows!(&source.rows, positions, |rows| match &source.nulls {
        None => what.visit(cells, rows, count),
        Some(nulls) => what.visit(cells, Valid(rows, nulls), count),
    })
}

/// The rows among these that are not null.
#[derive(Clone, Copy)]
struct Valid<'a, P>(P, &'a NullBuffer);

impl<P: Pick> Pick for Valid<'_, P> {
    #[inline(always)]
    fn pick(self, position: usize) -> Option<usize> {
        self.0.pick(position).filter(|&row| self.1.is_valid(row))
    }
}

/// Adds the cells' lengths to those of the rows, and returns their sum.
struct AddLengths<'a> {
    lengths: &'a mut [u32],
}

impl CellVisitor for AddLengths<'_> {
    type Output = u64;

    fn visit(self, cells: impl CellBytes, rows: impl Pick, count: usize) -> u64 {
        let mut sum = 0;
        for (i, total) in self.lengths[..count].iter_mut().enumerate() {
            let length = rows.pick(i).map_or(0, |row| cells.len(row));
            sum += length as u64;
            *total = total.wrapping_add(length as u32);
        }
        sum
    }
}

/// Copies the cells to the cursors, which count from the beginnings of rows, and advances these.
struct CopyCells<'a> {
    offsets: &'a [u32],
    cursors: &'a mut [u32],
    bytes: &'a mut [u8],
    beyond: bool,
}

impl CellVisitor for CopyCells<'_> {
    type Output = ();

    fn visit(self, cells: impl CellBytes, rows: impl Pick, count: usize) {
        for (i, (cursor, &offset)) in self.cursors[..count].iter_mut().zip(self.offsets).enumerate() {
            let Some(row) = rows.pick(i) else { continue };
            let length = cells.len(row);
            let (from, start) = cells.start(row);
            copy(&from[start..], length, &mut self.bytes[(offset + *cursor) as usize..], self.beyond);
            *cursor += length as u32;
        }
    }
}

/// Copies `length` bytes. Copies chunks if it may write up to [`SLACK`] bytes `beyond` the end.
#[inline(always)]
fn copy(from: &[u8], length: usize, to: &mut [u8], beyond: bool) {
    let chunked = length.next_multiple_of(SLACK);
    if beyond && length <= SHORT && chunked <= from.len() && chunked <= to.len() {
        let (from, _) = from[..chunked].as_chunks::<SLACK>();
        let (to, _) = to[..chunked].as_chunks_mut::<SLACK>();
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    } else {
        to[..length].copy_from_slice(&from[..length]);
    }
}
