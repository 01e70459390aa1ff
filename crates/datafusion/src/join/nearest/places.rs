//! The places of rows of the right side, in what is gathered of the blocks.

use arrow::array::UInt32Array;

use super::blocks::Blocks;

/// Where rows are, by their numbers.
pub(super) struct Places {
    /// The number of the first row of each block.
    firsts: Vec<u32>,
    /// The rows that are gathered of all blocks, ascending, and the first of each block among them. None if blocks
    /// are used whole.
    gathered: Option<(Vec<u32>, Vec<usize>)>,
}

impl Places {
    /// Returns the places of these rows. Of blocks on disk only they are gathered.
    pub(super) fn new(blocks: &Blocks, rows: &[Option<u32>]) -> Self {
        let firsts = blocks.firsts();
        if let Blocks::Memory { .. } = blocks {
            return Self { firsts, gathered: None };
        }
        let mut gathered: Vec<u32> = rows.iter().flatten().copied().collect();
        gathered.sort_unstable();
        gathered.dedup();
        let starts = firsts.iter().map(|&first| gathered.partition_point(|&row| row < first)).collect();
        Self { firsts, gathered: Some((gathered, starts)) }
    }

    /// Returns the rows to gather of a block, by their places in it.
    pub(super) fn rows(&self, block: usize) -> UInt32Array {
        let Some((gathered, starts)) = &self.gathered else { return UInt32Array::new_null(0) };
        let end = starts.get(block + 1).copied().unwrap_or(gathered.len());
        gathered[starts[block]..end].iter().map(|row| row - self.firsts[block]).collect::<Vec<_>>().into()
    }

    /// Returns the block of a row, and its place in what is gathered of the block.
    pub(super) fn place(&self, row: u32) -> (usize, usize) {
        let block = self.firsts.partition_point(|&first| first <= row).saturating_sub(1);
        match &self.gathered {
            None => (block, (row - self.firsts[block]) as usize),
            Some((gathered, starts)) => (block, gathered.partition_point(|&other| other < row) - starts[block]),
        }
    }
}
