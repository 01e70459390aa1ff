//! A table for keys that differ and lie too far apart for a place each: a bit for each number
//! between the least key and the greatest, and the rows in the order of the bits. A key's row is
//! found by the number of bits before its own (Jacobson 1989).
//!
//! ```text
//! keys 0, 130, 66   words  ...0001 | ...0100 | ...0100     bits 0, 66 and 130
//!                   before       0 |       1 |       2
//!                   rows   0 2 1
//! ```

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{
    build::HashConfig,
    dense::{Chunk, UniqueTable, shared},
    memory::Block,
};
use crate::{
    error::JoinError,
    fetch::{CACHE_BYTES, prefetch},
    key::Key,
    parallel,
};

/// The most numbers for each key. Words of bits, counts and rows take up to 19 bytes for a key then.
/// Entries and buckets of a hash table take 12 to 20.
pub(super) const MOST_NUMBERS: u64 = 80;

/// The table.
#[derive(Debug)]
pub(super) struct RankedTable {
    /// The least key.
    first: u64,
    numbers: Numbers,
    /// The row of each key in their order.
    rows: Block<u32>,
}

/// A set of numbers, which knows how many of them are less than another.
#[derive(Debug)]
struct Numbers {
    words: Vec<u64>,
    /// The number of bits before each word.
    before: Vec<u32>,
}

impl RankedTable {
    /// Builds the table of at most `rows` rows, whose keys are `numbers` at most from the first one on.
    /// O(rows + numbers). Returns `None` if a key is there twice.
    pub(super) fn build(
        chunks: &[Chunk<'_>],
        (first, numbers): (u64, usize),
        rows: usize,
        config: &HashConfig,
    ) -> Result<Option<Self>, JoinError> {
        let words: Vec<AtomicU64> = (0..numbers.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let add = |chunk: &Chunk<'_>| {
            let mut is_twice = false;
            chunk.for_each(|_, key| {
                let (word, mask) = place(key.wrapping_sub(first));
                is_twice |= words[word].fetch_or(mask, Relaxed) & mask != 0;
            });
            is_twice
        };
        if parallel::map(config.threads, chunks.iter().collect(), add).contains(&true) {
            return Ok(None);
        }
        let numbers = Numbers::new(words.into_iter().map(AtomicU64::into_inner).collect());
        let mut places = Block::new(rows, config.keeps_memory)?;
        let shared = shared(places.as_mut_slice());
        // Each row has a place of its own.
        let put = |chunk: &Chunk<'_>| {
            chunk.for_each(|row, key| shared[numbers.rank(key.wrapping_sub(first)).0].store(row, Relaxed));
        };
        parallel::map(config.threads, chunks.iter().collect(), put);
        Ok(Some(Self { first, numbers, rows: places }))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let Numbers { words, before } = &self.numbers;
        size_of_val(&words[..]) + size_of_val(&before[..]) + size_of_val(self.rows.as_slice())
    }

    /// Returns the least key, and words with a bit for it and each of the following numbers.
    pub(super) fn members(&self) -> (u64, &[u64]) {
        (self.first, &self.numbers.words)
    }
}

impl Numbers {
    fn new(words: Vec<u64>) -> Self {
        let count = |bits: &mut u32, word: &u64| {
            let before = *bits;
            *bits += word.count_ones();
            Some(before)
        };
        let before = words.iter().scan(0, count).collect();
        Self { words, before }
    }

    /// Returns how many numbers are less than this one, and whether it is there. Beyond the end,
    /// the former means nothing.
    #[inline(always)]
    fn rank(&self, number: u64) -> (usize, bool) {
        let (at, mask) = place(number);
        let word = self.words.get(at).copied().unwrap_or(0);
        let before = self.before.get(at).copied().unwrap_or(0);
        ((before + (word & (mask - 1)).count_ones()) as usize, word & mask != 0)
    }
}

impl UniqueTable for RankedTable {
    #[inline(always)]
    fn row_after(&self, key: impl Key) -> u32 {
        let (rank, is_there) = self.numbers.rank(key.wide().wrapping_sub(self.first));
        // Read in any case, kept if the key is there: no branch to mispredict.
        let row = self.rows.as_slice().get(rank).copied().unwrap_or(0);
        row.wrapping_add(1) & u32::from(is_there).wrapping_neg()
    }

    fn misses_caches(&self) -> bool {
        self.memory_bytes() > CACHE_BYTES
    }

    #[inline(always)]
    fn prefetch(&self, key: impl Key) {
        let word = place(key.wide().wrapping_sub(self.first)).0;
        prefetch(self.numbers.words.as_ptr().wrapping_add(word));
        prefetch(self.numbers.before.as_ptr().wrapping_add(word));
    }
}

/// Returns the word of a number, and its bit there.
#[inline(always)]
fn place(number: u64) -> (usize, u64) {
    ((number >> 6) as usize, 1 << (number & 63))
}
