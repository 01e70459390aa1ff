//! The receiver of the pairs that a join finds.

use crate::{error::JoinError, sides::Side};

/// The largest number of pairs that a join hands on at once.
pub const MOST_PAIRS: usize = 8192;

/// The largest number of a fragment's rows that a thread joins between two looks at its
/// [`CancelToken`](crate::CancelToken), if none of them gives a pair.
pub const MOST_UNCHECKED_ROWS: u32 = 1 << 19;

/// Receives the pairs that a join finds. Each thread of a join has a sink of its own.
pub trait PairSink {
    /// Receives pairs: row `build[i]` of the build side and row `probe[i]` of the fragment satisfy
    /// the join's own part of the condition. Both slices have the same length, from 1 to
    /// [`MOST_PAIRS`].
    ///
    /// # Errors
    /// Any error ends the join.
    fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError>;

    /// Returns whether a row needs no more pairs. The left side is the build side.
    fn is_done(&self, _side: Side, _row: u32) -> bool {
        false
    }

    /// Returns an error if the join is to end. Called now and then by a join that may find no pairs
    /// for long.
    ///
    /// # Errors
    /// [`JoinError::Cancelled`] if the join shall end.
    fn check(&self) -> Result<(), JoinError> {
        Ok(())
    }
}
