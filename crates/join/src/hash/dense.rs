//! Tables for keys that differ: the row of each number between the least key and the greatest, if
//! they lie close together, else a bit for each (`ranked`). The build side's rows stay in their
//! order, no hash is computed, and a look-up reads one place, or two.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

use arrow::{
    array::{Array, ArrayData, ArrayRef, make_array},
    buffer::NullBuffer,
    compute::concat,
    datatypes::DataType,
};

use super::{
    build::{HashConfig, KeyTables},
    cluster::validity,
    key_set::range_bits,
    memory::Block,
    ranked::{MOST_NUMBERS, RankedTable},
};
use crate::{
    error::JoinError,
    fetch::{CACHE_BYTES, prefetch},
    key::{Key, KeyValues, KeyedBatch, Keys},
    parallel,
};

/// The most places for each row, of 4 bytes each. Entries and buckets of a hash table take 12 to 20
/// bytes.
const MOST_PLACES: u64 = 5;
/// A table of this many places is worth it for any number of rows.
const FEW_PLACES: u64 = 1 << 12;
/// The number of rows that a thread places at a time.
const CHUNK: usize = 1 << 14;

/// A table in which each key has one row at most.
pub(super) trait UniqueTable {
    /// Returns the row of a key plus one, or zero if there is none.
    fn row_after(&self, key: impl Key) -> u32;

    /// Returns whether most look-ups of random keys miss a core's caches.
    fn misses_caches(&self) -> bool;

    /// Brings what a look-up of this key reads first into the cache.
    fn prefetch(&self, key: impl Key);
}

/// The table of keys that lie close together.
#[derive(Debug)]
pub(super) struct DenseTable {
    /// The least key.
    first: u64,
    /// The row of each key plus one, or zero if no row has it.
    places: Block<u32>,
}

/// Builds a table for the rows of these pieces, one after the other. O(rows). Returns `None` if a key
/// is there twice, or null where that is not allowed, the keys lie too far apart, or they are compared
/// by more than their numbers. Rows with null keys are in no place.
pub(super) fn build(keys: &Keys, pieces: &[KeyedBatch], config: &HashConfig) -> Result<Option<KeyTables>, JoinError> {
    let rows: usize = pieces.iter().map(KeyedBatch::rows).sum();
    let allows_nulls = config.dense_beside_nulls && !keys.null_rows_match();
    let has_nulls = || pieces.iter().any(|piece| piece.nulls.is_some());
    if !keys.are_numbers() || rows >= u32::MAX as usize || !allows_nulls && has_nulls() {
        return Ok(None);
    }
    let chunks = chunks(pieces);
    let Some((first, span)) = bounds(&chunks, config.threads) else { return Ok(None) };
    let is_within = |least: u64, of_each: u64| span < least.max((rows as u64).saturating_mul(of_each));
    if is_within(FEW_PLACES, MOST_PLACES) {
        return Ok(DenseTable::build(&chunks, (first, span as usize + 1), config)?.map(KeyTables::Dense));
    }
    // The bits also are a set of the keys.
    if is_within(0, MOST_NUMBERS.min(range_bits(span))) {
        return Ok(RankedTable::build(&chunks, (first, span as usize + 1), rows, config)?.map(KeyTables::Ranked));
    }
    Ok(None)
}

impl DenseTable {
    fn build(
        chunks: &[Chunk<'_>],
        (first, places): (u64, usize),
        config: &HashConfig,
    ) -> Result<Option<Self>, JoinError> {
        let threads = config.threads;
        let mut table = Self { first, places: Block::new(places, config.keeps_memory)? };
        if !table.places.is_zero() {
            parallel::map(threads, table.places.as_mut_slice().chunks_mut(CHUNK).collect(), |places| places.fill(0));
        }
        let shared = shared(table.places.as_mut_slice());
        let is_twice = AtomicBool::new(false);
        // Which of a key's rows stays is left to chance, so another one does not find itself.
        let finds_all = |chunk: &Chunk<'_>| {
            let mut missing = 0;
            chunk.for_each(|row, key| {
                missing |= shared[key.wrapping_sub(first) as usize].load(Relaxed) ^ (row + 1);
            });
            missing == 0
        };
        let place = |chunk: &Chunk<'_>| {
            if is_twice.load(Relaxed) {
                return;
            }
            chunk.for_each(|row, key| shared[key.wrapping_sub(first) as usize].store(row + 1, Relaxed));
            if !finds_all(chunk) {
                is_twice.store(true, Relaxed);
            }
        };
        parallel::map(threads, chunks.iter().collect(), place);
        // A row of another chunk may have taken the place since.
        let is_unique = !is_twice.load(Relaxed)
            && parallel::map(threads, chunks.iter().collect(), finds_all).into_iter().all(|found| found);
        Ok(is_unique.then_some(table))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(self.places.as_slice())
    }

    /// Returns the least key, and the row plus one of each key from there, or zero.
    pub(super) fn places(&self) -> (u64, &[u32]) {
        (self.first, self.places.as_slice())
    }

    /// Returns the least key, and whether a row has it and each of the following ones.
    pub(super) fn members(&self) -> (u64, impl ExactSizeIterator<Item = bool>) {
        (self.first, self.places.as_slice().iter().map(|&row| row > 0))
    }
}

impl UniqueTable for DenseTable {
    #[inline(always)]
    fn row_after(&self, key: impl Key) -> u32 {
        self.places.as_slice().get(key.wide().wrapping_sub(self.first) as usize).copied().unwrap_or(0)
    }

    fn misses_caches(&self) -> bool {
        self.memory_bytes() > CACHE_BYTES
    }

    #[inline(always)]
    fn prefetch(&self, key: impl Key) {
        prefetch(self.places.as_slice().as_ptr().wrapping_add(key.wide().wrapping_sub(self.first) as usize));
    }
}

/// Returns all columns of the pieces' rows, one piece after the other. Pairs take their values from random
/// places, so those of a fixed width are on huge pages.
pub(super) fn columns(keys: &Keys, pieces: &[KeyedBatch], config: &HashConfig) -> Result<Vec<ArrayRef>, JoinError> {
    let column = |index: usize| -> Result<ArrayRef, JoinError> {
        let data_type = keys.full().field(index).data_type();
        if let Some(width) = data_type.primitive_width() {
            let values = Block::new(pieces.iter().map(KeyedBatch::rows).sum::<usize>() * width, config.keeps_memory)?;
            return fixed_column(data_type, width, (pieces, index), values, config.threads);
        }
        let parts: Vec<&dyn Array> = pieces.iter().map(|piece| piece.columns[index].as_ref()).collect();
        Ok(concat(&parts)?)
    };
    let all = parallel::map(config.threads, (0..keys.full().fields().len()).collect(), column);
    all.into_iter().collect()
}

/// Copies a column of the pieces, of `width` bytes per value, to `values`.
fn fixed_column(
    data_type: &DataType,
    width: usize,
    (pieces, index): (&[KeyedBatch], usize),
    mut values: Block<u8>,
    threads: usize,
) -> Result<ArrayRef, JoinError> {
    let (mut copies, mut rest, mut rows) = (Vec::new(), values.as_mut_slice(), 0);
    for piece in pieces {
        let data = piece.columns[index].to_data();
        let from = data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width);
        let (to, behind) = rest.split_at_mut(from.len());
        copies.push((from, to));
        (rest, rows) = (behind, rows + data.len());
    }
    parallel::map(threads, copies, |(from, to)| to.copy_from_slice(&from));
    let nulls = validity(pieces, index).map(NullBuffer::new);
    let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(values.into_buffer()).nulls(nulls);
    Ok(make_array(data.build()?))
}

/// Some rows of a piece.
pub(super) struct Chunk<'a> {
    keys: &'a KeyValues,
    nulls: Option<&'a NullBuffer>,
    /// The indices of these rows in the piece.
    rows: Range<usize>,
    /// The number of the first one in the build side.
    first_row: u32,
}

impl Chunk<'_> {
    /// Calls `each` with the number and the key of each row whose key is not null.
    #[inline(always)]
    pub(super) fn for_each(&self, mut each: impl FnMut(u32, u64)) {
        if let Some(nulls) = self.nulls {
            let key = |row: usize| match self.keys {
                KeyValues::Narrow(keys) => keys[row].wide(),
                KeyValues::Wide(keys) => keys[row].wide(),
            };
            for (number, row) in (self.first_row..).zip(self.rows.clone()).filter(|&(_, row)| nulls.is_valid(row)) {
                each(number, key(row));
            }
            return;
        }
        match self.keys {
            KeyValues::Narrow(keys) => {
                (self.first_row..).zip(&keys[self.rows.clone()]).for_each(|(row, &key)| each(row, key.wide()));
            }
            KeyValues::Wide(keys) => {
                (self.first_row..).zip(&keys[self.rows.clone()]).for_each(|(row, &key)| each(row, key.wide()));
            }
        }
    }
}

fn chunks(pieces: &[KeyedBatch]) -> Vec<Chunk<'_>> {
    let (mut chunks, mut first_row) = (Vec::new(), 0);
    for piece in pieces {
        for start in (0..piece.rows()).step_by(CHUNK) {
            let rows = start..piece.rows().min(start + CHUNK);
            let next = first_row + rows.len() as u32;
            chunks.push(Chunk { keys: &piece.values, nulls: piece.nulls.as_ref(), rows, first_row });
            first_row = next;
        }
    }
    chunks
}

/// Returns the least key, and how far the greatest one is from it.
fn bounds(chunks: &[Chunk<'_>], threads: usize) -> Option<(u64, u64)> {
    let of_chunk = |chunk: &Chunk<'_>| {
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        chunk.for_each(|_, key| (least, most) = (least.min(key as i64), most.max(key as i64)));
        (least, most)
    };
    let all = parallel::map(threads, chunks.iter().collect(), of_chunk);
    let (least, most) = all.into_iter().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    if least > most {
        // All keys are null.
        return None;
    }
    Some((least as u64, (most as u64).wrapping_sub(least as u64)))
}

/// Returns places that several threads may write.
pub(super) fn shared(places: &mut [u32]) -> &[AtomicU32] {
    // SAFETY: the layout is the same, and the reference is exclusive for as long as the result lives.
    unsafe { &*(std::ptr::from_mut(places) as *const [AtomicU32]) }
}
