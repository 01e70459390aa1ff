//! How a transport stops that counts its consumers.

use annulus_sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::{error::ExchangeError, halt, waiting::Local};

/// The reason why a transport passes nothing on any more, if there is one, and the number of live
/// consumers.
#[derive(Debug)]
pub(super) struct Halt {
    reason: halt::Halt,
    live_consumers: AtomicUsize,
}

impl Halt {
    pub(super) fn new(consumers: usize) -> Self {
        Self { reason: halt::Halt::new(), live_consumers: AtomicUsize::new(consumers) }
    }

    /// Returns the reason, if there is one.
    pub(super) fn error(&self) -> Option<ExchangeError> {
        self.reason.error()
    }

    /// Keeps `error` if it is the first. The caller wakes all handles.
    pub(super) fn stop(&self, error: ExchangeError, local: &mut Local) {
        self.reason.stop(error, local);
    }

    /// Counts a consumer as gone. The caller wakes the producers.
    pub(super) fn consumer_gone(&self, local: &mut Local) {
        local.stats.shared_ops += 1;
        if self.live_consumers.fetch_sub(1, Relaxed) == 1 {
            self.reason.consumers_gone(local);
        }
    }
}
