//! Where pairs of rows go that a join has found.

use crate::error::JoinError;

/// Most pairs that a join hands on at once.
pub const MOST_PAIRS: usize = 8192;

/// Takes the pairs that a join finds. One thread's: a join that runs on several has a sink for
/// each.
pub trait PairSink {
    /// Row `build[i]` of the build side and row `probe[i]` of the fragment satisfy the join's own
    /// part of the condition. There are as many of both, from 1 to [`MOST_PAIRS`].
    ///
    /// # Errors
    /// Whatever ends the join.
    fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError>;
}
