//! Asking a run to stop.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// Given to a run and kept by whoever may want to end it; clones are the same token.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that asks for nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the run to stop: it does so before the next batch.
    pub fn cancel(&self) {
        self.0.store(true, Relaxed);
    }

    /// Whether somebody has asked.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Relaxed)
    }
}
