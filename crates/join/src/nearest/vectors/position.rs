//! The progress of a search for pairs.

use std::ops::Range;

/// The pair at which [`vector_pairs`](super::vector_pairs) goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorPosition {
    /// The first row of the group of left rows.
    pub(super) group: usize,
    /// The left row after the last one.
    pub(super) end: usize,
    /// The step of the group: a tile of right rows, the special right rows, or the special left rows.
    pub(super) step: usize,
    /// The left row within the step.
    pub(super) place: usize,
    /// The number of pairs of this left row in this step that are found.
    pub(super) found: usize,
}

impl VectorPosition {
    /// Returns the position before the first pair of some left rows.
    pub fn before_rows(rows: Range<usize>) -> Self {
        Self { group: rows.start, end: rows.end, step: 0, place: 0, found: 0 }
    }

    /// Returns whether all pairs are found.
    pub fn is_end(&self) -> bool {
        self.group >= self.end
    }
}
