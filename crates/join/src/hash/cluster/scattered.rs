//! Scattered columns as Arrow arrays. Their validity is gathered by the rows' original numbers.

use arrow::{
    array::{Array, ArrayData, ArrayRef, BooleanBufferBuilder, make_array},
    buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer},
    datatypes::Schema,
};

use super::{input::Layout, views::ViewColumn};
use crate::{error::JoinError, key::KeyedBatch, parallel};

/// The number of rows whose validity a thread gathers at a time; a multiple of 64.
const PART_ROWS: usize = 1 << 16;

/// Returns the columns in `buffers`. Row numbers follow them if any column has nulls.
pub(super) fn columns(
    schema: &Schema,
    pieces: &[KeyedBatch],
    layout: &Layout,
    mut buffers: Vec<Buffer>,
    threads: usize,
) -> Result<Vec<ArrayRef>, JoinError> {
    let numbers = buffers.drain(layout.fixed.len()..).next();
    let numbers: ScalarBuffer<u32> = numbers.map(ScalarBuffer::from).unwrap_or_default();
    let rows = pieces.iter().map(KeyedBatch::rows).sum();
    let column = |((&(column, _), views), values): ((&(usize, usize), &Option<ViewColumn>), Buffer)| {
        let data_type = schema.field(column).data_type().clone();
        let nulls = validity(pieces, column).map(|before| validity_of(&before, &numbers, threads));
        let data = ArrayData::builder(data_type).len(rows).add_buffer(values).nulls(nulls);
        Ok(make_array(match views {
            None => data.build()?,
            // SAFETY: these are the views of the pieces' arrays, each once, and the blocks that they point into.
            Some(views) => unsafe { data.add_buffers(views.blocks.iter().cloned()).build_unchecked() },
        }))
    };
    layout.fixed.iter().zip(&layout.views).zip(buffers).map(column).collect()
}

/// Returns the validity of a column of the pieces, one after the other, if it has nulls.
pub(in crate::hash) fn validity(pieces: &[KeyedBatch], column: usize) -> Option<BooleanBuffer> {
    if pieces.iter().all(|piece| piece.columns[column].null_count() == 0) {
        return None;
    }
    let mut all = BooleanBufferBuilder::new(pieces.iter().map(KeyedBatch::rows).sum());
    for piece in pieces {
        match piece.columns[column].nulls() {
            Some(nulls) => all.append_buffer(nulls.inner()),
            None => all.append_n(piece.rows(), true),
        }
    }
    Some(all.finish())
}

/// Returns the validity of these rows.
fn validity_of(before: &BooleanBuffer, numbers: &[u32], threads: usize) -> NullBuffer {
    let bit = |word: u64, &row: &u32| word << 1 | u64::from(before.value(row as usize));
    let words = parallel::map(threads, numbers.chunks(PART_ROWS).collect(), |part| {
        part.chunks(u64::BITS as usize).map(|rows| rows.iter().rev().fold(0, bit)).collect::<Vec<u64>>()
    });
    NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(words.concat()), 0, numbers.len()))
}
