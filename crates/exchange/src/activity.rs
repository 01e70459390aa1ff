//! How many producers are still at it, and how many of those have nothing ready.

use annulus_sync::atomic::{AtomicUsize, Ordering};

/// Counts of producers.
///
/// A producer turns idle (or ends), then looks who waits; a consumer begins to wait, then looks who
/// is idle; one of the two must see the other. So each side has a fence between the two steps. The
/// counters are SeqCst besides, for the callers whose own fence comes later than the look at the
/// counters.
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

    /// A producer will send nothing more.
    pub(crate) fn finish(&self) {
        self.live.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether nothing will come for now. A hint: producers may resume at any time.
    pub(crate) fn all_idle(&self) -> bool {
        // In this order: a producer that ends leaves `idle` before `live`, so that neither is counted too
        // often.
        let live = self.live.load(Ordering::SeqCst);
        live > 0 && self.idle.load(Ordering::SeqCst) >= live
    }
}
