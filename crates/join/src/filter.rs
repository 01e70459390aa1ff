//! The part of a join's condition that the join itself does not understand.

use arrow::array::{BooleanArray, RecordBatch};

use crate::{error::JoinError, types::Side};

/// A column that a condition looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FilterColumn {
    /// Whose.
    pub side: Side,
    /// Which column of that side, from 0.
    pub index: usize,
}

/// Says which pairs of rows satisfy the rest of a join's condition. Used by several threads at
/// once.
pub trait PairFilter: Send + Sync {
    /// The columns it looks at, in the order in which [`keep`](Self::keep) gets them.
    fn columns(&self) -> &[FilterColumn];

    /// One answer for each row of `candidates`, of which there are
    /// [`MOST_PAIRS`](crate::sink::MOST_PAIRS) at most: the columns asked for, of pairs that
    /// satisfy the join's own part of the condition. Null is no.
    ///
    /// # Errors
    /// [`JoinError::Outside`] with whatever kept it from answering; it ends the join.
    fn keep(&self, candidates: &RecordBatch) -> Result<BooleanArray, JoinError>;
}
