//! The number of producers that have not ended, and of those that have nothing ready.

#[cfg(all(test, loom))]
mod loom_models;
mod order;

use annulus_sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The counts of live and of idle producers.
///
/// A producer turns idle (or ends), then checks whether all are idle and a consumer waits. A
/// consumer starts to wait, then checks whether all producers are idle. One of the two must see the
/// other, so each side has a fence between its two steps. That of the producers is here. It also
/// stands between two producers that turn idle or end at once: at least one of them sees both.
#[derive(Debug)]
pub(crate) struct Activity {
    live: AtomicUsize,
    idle: AtomicUsize,
}

impl Activity {
    pub(crate) fn new(producers: usize) -> Self {
        Self { live: AtomicUsize::new(producers), idle: AtomicUsize::new(0) }
    }

    /// Counts a producer as idle: its input has nothing ready. Returns whether all live producers
    /// are idle. If so, the caller looks for consumers that wait.
    pub(crate) fn idle(&self) -> bool {
        self.idle.fetch_add(1, Relaxed);
        order::fence_turns_idle();
        self.all_idle()
    }

    /// Counts a producer as no longer idle: its input has rows again, or it ends.
    pub(crate) fn resume(&self) {
        self.idle.fetch_sub(1, Relaxed);
    }

    /// Counts a producer as ended: it sends nothing more. Returns what [`idle`](Self::idle)
    /// returns.
    pub(crate) fn finish(&self) -> bool {
        self.live.fetch_sub(1, order::leave_live());
        order::fence_turns_idle();
        self.all_idle()
    }

    /// Returns whether all live producers are idle. A hint: producers may resume at any time.
    pub(crate) fn all_idle(&self) -> bool {
        // In this order: a producer that ends leaves `idle` before `live`. So the idle ones never
        // seem to be more than the live ones.
        let live = self.live.load(order::survey_live());
        live > 0 && self.idle.load(Relaxed) >= live
    }
}
