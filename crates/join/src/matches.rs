//! A bit for each row of a side: whether it has a match.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow::{
    array::BooleanArray,
    buffer::{BooleanBuffer, Buffer},
};

const WORD: usize = u64::BITS as usize;

/// The rows of a side that have a match. Any thread may set them. Takes one bit of memory per row.
#[derive(Debug)]
pub struct MatchBits {
    words: Box<[AtomicU64]>,
    rows: usize,
}

impl MatchBits {
    /// Returns the bits of `rows` rows without a match.
    pub fn new(rows: usize) -> Self {
        Self { words: (0..rows.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect(), rows }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Notes that a row has a match.
    ///
    /// # Panics
    /// If `row` is out of range.
    pub fn set(&self, row: u32) {
        let (word, bit) = (&self.words[row as usize / WORD], 1 << (row as usize % WORD));
        // Most rows that match often match again: reading leaves the line shared.
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
    }

    /// Returns whether the row has a match.
    ///
    /// # Panics
    /// If `row` is out of range.
    pub fn get(&self, row: u32) -> bool {
        self.words[row as usize / WORD].load(Relaxed) & (1 << (row as usize % WORD)) != 0
    }

    /// Returns the bits as an array, true for rows with a match. Bits that another thread sets
    /// meanwhile may be missing.
    pub fn to_array(&self) -> BooleanArray {
        let words: Vec<u64> = self.words.iter().map(|word| word.load(Relaxed).to_le()).collect();
        BooleanArray::new(BooleanBuffer::new(Buffer::from_vec(words), 0, self.rows), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_were_set() {
        let matched = MatchBits::new(130);
        [0, 63, 64, 129, 63].iter().for_each(|&row| matched.set(row));
        let set: Vec<usize> = matched.to_array().values().set_indices().collect();
        assert_eq!(set, [0, 63, 64, 129]);
        assert!(matched.get(129) && !matched.get(128));
        assert_eq!(matched.to_array().len(), 130);
        assert_eq!(MatchBits::new(0).to_array().len(), 0);
    }
}
