//! How a transport stops: with the first error that a handle reports, or when no consumer is left.

use std::sync::PoisonError;

use annulus_sync::{
    Mutex,
    atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed},
};

use crate::{error::ExchangeError, waiting::HandleStats};

const RUNNING: u8 = 0;
const STOPPED: u8 = 1;
const CONSUMERS_GONE: u8 = 2;

/// The reason why a transport passes nothing on any more, if there is one, and the number of its
/// live consumers. The words are Relaxed: the error is behind a lock, and the handles that wait are
/// woken after a fence.
#[derive(Debug)]
pub struct StopReason {
    word: AtomicU8,
    error: Mutex<Option<ExchangeError>>,
    live_consumers: AtomicUsize,
}

impl StopReason {
    /// Creates that of a transport that runs, with this number of consumers.
    pub fn new(consumers: usize) -> Self {
        Self { word: AtomicU8::new(RUNNING), error: Mutex::new(None), live_consumers: AtomicUsize::new(consumers) }
    }

    /// Returns the reason, if there is one. Costs a read of memory that hardly ever changes.
    #[inline]
    pub fn error(&self) -> Option<ExchangeError> {
        match self.word.load(Relaxed) {
            RUNNING => None,
            CONSUMERS_GONE => Some(ExchangeError::ConsumersGone),
            _ => self.error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Keeps `error` if it is the first. The caller wakes all handles.
    pub fn stop(&self, error: ExchangeError, stats: &mut HandleStats) {
        stats.counts.locks += 1;
        // A refused error is dropped without the lock: it is the embedder's.
        let refused = {
            let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
            if first.is_none() { first.replace(error) } else { Some(error) }
        };
        drop(refused);
        self.leave_running(STOPPED, stats);
    }

    /// Counts a consumer as gone. The caller wakes the producers.
    pub fn consumer_gone(&self, stats: &mut HandleStats) {
        stats.counts.shared_ops += 1;
        if self.live_consumers.fetch_sub(1, Relaxed) == 1 {
            self.consumers_gone(stats);
        }
    }

    /// Says that no consumer is left, for a ring, whose sweep finds that out. The caller wakes the
    /// producers.
    pub(crate) fn consumers_gone(&self, stats: &mut HandleStats) {
        self.leave_running(CONSUMERS_GONE, stats);
    }

    /// Leaves `RUNNING` permanently. The first reason is kept.
    fn leave_running(&self, reason: u8, stats: &mut HandleStats) {
        stats.counts.shared_ops += 1;
        let _ = self.word.compare_exchange(RUNNING, reason, Relaxed, Relaxed);
    }
}
