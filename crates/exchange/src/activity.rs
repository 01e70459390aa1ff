//! How many producers are still at it, and how many of those have nothing ready.

use crate::sync::atomic::{AtomicUsize, Ordering};

/// Counts of producers. SeqCst throughout: a producer that turns idle then looks who waits, a consumer that begins to wait
/// then looks who is idle, and one of the two must see the other.
#[derive(Debug)]
pub(crate) struct Activity {
    live: AtomicUsize,
    idle: AtomicUsize,
}

impl Activity {
    pub(crate) fn new(producers: usize) -> Self {
        Self { live: AtomicUsize::new(producers), idle: AtomicUsize::new(0) }
    }

    /// A producer's input has nothing ready.
    pub(crate) fn idle(&self) {
        self.idle.fetch_add(1, Ordering::SeqCst);
    }

    /// It has something again, or ends.
    pub(crate) fn resume(&self) {
        self.idle.fetch_sub(1, Ordering::SeqCst);
    }

    /// A producer ends; whether it was the last.
    pub(crate) fn finish(&self) -> bool {
        self.live.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// Whether nothing will come for now.
    pub(crate) fn all_idle(&self) -> bool {
        let live = self.live.load(Ordering::SeqCst);
        live > 0 && self.idle.load(Ordering::SeqCst) >= live
    }
}
