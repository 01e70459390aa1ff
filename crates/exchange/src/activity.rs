//! The number of producers that have not ended, and of those that have nothing ready.

use annulus_sync::atomic::{AtomicUsize, Ordering};

/// The counts of live and of idle producers.
///
/// A producer turns idle (or ends), then checks whether a consumer waits. A consumer starts to
/// wait, then checks whether the producers are idle. One of the two must see the other, so each
/// side has a fence between its two steps. The counters are SeqCst as well, for callers whose own
/// fence comes after they read the counters.
#[derive(Debug)]
pub(crate) struct Activity {
    live: AtomicUsize,
    idle: AtomicUsize,
}

impl Activity {
    pub(crate) fn new(producers: usize) -> Self {
        Self { live: AtomicUsize::new(producers), idle: AtomicUsize::new(0) }
    }

    /// Counts a producer as idle: its input has nothing ready.
    pub(crate) fn idle(&self) {
        self.idle.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a producer as no longer idle: its input has rows again, or it ends.
    pub(crate) fn resume(&self) {
        self.idle.fetch_sub(1, Ordering::SeqCst);
    }

    /// Counts a producer as ended: it sends nothing more.
    pub(crate) fn finish(&self) {
        self.live.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns whether all live producers are idle. A hint: producers may resume at any time.
    pub(crate) fn all_idle(&self) -> bool {
        // In this order: a producer that ends leaves `idle` before `live`. So the idle ones never
        // seem to be more than the live ones.
        let live = self.live.load(Ordering::SeqCst);
        live > 0 && self.idle.load(Ordering::SeqCst) >= live
    }
}
