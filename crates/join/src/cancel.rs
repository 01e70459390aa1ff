//! Asking a join to stop.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use crate::error::JoinError;

/// Given to a join and kept by whoever may want to end it; clones are the same token.
///
/// # Bound
/// From [`cancel`](Self::cancel) on no thread of the join hands on another batch, and each makes at
/// most [`MOST_PAIRS`](crate::sink::MOST_PAIRS) more pairs. A thread that finds no pairs goes
/// through at most [`MOST_UNCHECKED_ROWS`] more rows. What a caller's own filter or sink is at is
/// not interrupted.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

/// Rows of a fragment that a thread goes through at most before it looks at its token again, if
/// none of them gives a pair.
pub const MOST_UNCHECKED_ROWS: u32 = 1 << 19;

impl CancelToken {
    /// A token that asks for nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the join to stop.
    pub fn cancel(&self) {
        self.0.store(true, Relaxed);
    }

    /// Whether somebody has asked.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Goes on unless somebody has asked. Costs a read of memory that hardly ever changes.
    ///
    /// # Errors
    /// [`JoinError::Cancelled`] if somebody has asked.
    pub fn check(&self) -> Result<(), JoinError> {
        if self.is_cancelled() { Err(JoinError::Cancelled) } else { Ok(()) }
    }
}
