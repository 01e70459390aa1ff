//! The part of a join's condition that no join algorithm evaluates.

use arrow::array::{BooleanArray, RecordBatch};

use crate::{error::JoinError, sides::Side};

/// A column that a filter reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FilterColumn {
    /// The side that has the column.
    pub side: Side,
    /// The column's index in that side's schema, from 0.
    pub index: usize,
}

/// A filter on pairs of rows: the rest of a join's condition. Several threads use it at once.
pub trait PairFilter: Send + Sync {
    /// Returns the columns that the filter reads, in the order in which [`keep`](Self::keep) gets
    /// them.
    fn columns(&self) -> &[FilterColumn];

    /// Returns whether each pair satisfies the filter; null counts as false. A row of `candidates`
    /// holds the columns of [`columns`](Self::columns) of one pair that satisfies the join's own
    /// part of the condition. There are at most [`MOST_PAIRS`](crate::MOST_PAIRS) rows.
    ///
    /// # Errors
    /// [`JoinError::Outside`] with the filter's own error, which ends the join.
    fn keep(&self, candidates: &RecordBatch) -> Result<BooleanArray, JoinError>;
}
