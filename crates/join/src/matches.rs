//! A bit for each row of a side: whether it has a match.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

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
        self.set_bits(row as usize / WORD, 1 << (row as usize % WORD));
    }

    fn set_bits(&self, word: usize, bits: u64) {
        // Most rows that match often match again: reading leaves the line shared.
        if self.words[word].load(Relaxed) & bits != bits {
            self.words[word].fetch_or(bits, Relaxed);
        }
    }

    /// Notes that these rows have a match, with one write for neighbouring ones.
    ///
    /// # Panics
    /// If a row is out of range.
    pub(crate) fn set_all(&self, rows: &[u32]) {
        let Some(&first) = rows.first() else { return };
        let (mut word, mut bits) = (first as usize / WORD, 0);
        for &row in rows {
            let next = row as usize / WORD;
            if next != word {
                self.set_bits(word, bits);
                (word, bits) = (next, 0);
            }
            bits |= 1 << (row as usize % WORD);
        }
        self.set_bits(word, bits);
    }

    /// Returns those rows of a range that have a match, or those that have none. O(rows).
    pub(crate) fn rows_in(&self, range: Range<u32>, matched: bool) -> Vec<u32> {
        let mut found = Vec::new();
        let (start, end) = (range.start as usize, range.end as usize);
        for word in start / WORD..end.div_ceil(WORD) {
            let first = word * WORD;
            let bits = self.words[word].load(Relaxed);
            let mut bits = if matched { bits } else { !bits };
            if first < start {
                bits &= u64::MAX << (start - first);
            }
            if end - first < WORD {
                bits &= !(u64::MAX << (end - first));
            }
            while bits != 0 {
                found.push(first as u32 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
        found
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
    fn ranges_of_rows_that_were_set_or_not() {
        let matched = MatchBits::new(200);
        let rows = [3, 5, 63, 64, 64, 5, 127, 128, 199];
        matched.set_all(&rows);
        matched.set_all(&[]);
        for (start, end) in [(0, 200), (0, 0), (5, 64), (63, 65), (64, 128), (100, 199), (130, 131), (200, 200)] {
            for has_match in [true, false] {
                let expected: Vec<u32> = (start..end).filter(|row| rows.contains(row) == has_match).collect();
                assert_eq!(matched.rows_in(start..end, has_match), expected, "{start}..{end}, {has_match}");
            }
        }
    }

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
