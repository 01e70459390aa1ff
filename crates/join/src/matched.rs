//! Which rows of a side have a match.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow::{
    array::BooleanArray,
    buffer::{BooleanBuffer, Buffer},
};

const WORD: usize = u64::BITS as usize;

/// One bit a row, set by any thread. 1 bit of memory a row.
#[derive(Debug)]
pub struct Matched {
    words: Box<[AtomicU64]>,
    rows: usize,
}

impl Matched {
    /// For `rows` rows, none of which has a match yet.
    pub fn new(rows: usize) -> Self {
        Self { words: (0..rows.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect(), rows }
    }

    /// Rows in all.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The row has a match.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn set(&self, row: u32) {
        let (word, bit) = (&self.words[row as usize / WORD], 1 << (row as usize % WORD));
        // Most rows that match often match again: reading leaves the line shared.
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
    }

    /// Whether the row has a match.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn get(&self, row: u32) -> bool {
        self.words[row as usize / WORD].load(Relaxed) & (1 << (row as usize % WORD)) != 0
    }

    /// A true for each row that has a match, after the threads that set them are done.
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
        let matched = Matched::new(130);
        [0, 63, 64, 129, 63].iter().for_each(|&row| matched.set(row));
        let set: Vec<usize> = matched.to_array().values().set_indices().collect();
        assert_eq!(set, [0, 63, 64, 129]);
        assert!(matched.get(129) && !matched.get(128));
        assert_eq!(matched.to_array().len(), 130);
        assert_eq!(Matched::new(0).to_array().len(), 0);
    }
}
