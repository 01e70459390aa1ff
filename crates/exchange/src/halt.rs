//! How a transport, or the ring alone, stops: with the first error that a handle reports, or when no
//! consumer is left.

use std::sync::PoisonError;

use annulus_sync::{
    Mutex,
    atomic::{AtomicU8, Ordering::Relaxed},
};

use crate::{error::ExchangeError, waiting::Local};

const RUNNING: u8 = 0;
const STOPPED: u8 = 1;
const CONSUMERS_GONE: u8 = 2;

/// The reason why nothing is passed on any more, if there is one. The word is Relaxed: the error is
/// behind a lock, and the handles that wait are woken after a fence.
#[derive(Debug)]
pub(crate) struct Halt {
    word: AtomicU8,
    error: Mutex<Option<ExchangeError>>,
}

impl Halt {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU8::new(RUNNING), error: Mutex::new(None) }
    }

    /// Returns the reason, if there is one. Costs a read of memory that hardly ever changes.
    pub(crate) fn error(&self) -> Option<ExchangeError> {
        match self.word.load(Relaxed) {
            RUNNING => None,
            CONSUMERS_GONE => Some(ExchangeError::ConsumersGone),
            _ => self.error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Keeps `error` if it is the first. The caller wakes all handles.
    pub(crate) fn stop(&self, error: ExchangeError, local: &mut Local) {
        local.stats.locks += 1;
        // A refused error is dropped without the lock: it is the embedder's.
        let refused = {
            let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
            if first.is_none() { first.replace(error) } else { Some(error) }
        };
        drop(refused);
        self.leave_running(STOPPED, local);
    }

    /// Says that no consumer is left. The caller wakes the producers.
    pub(crate) fn consumers_gone(&self, local: &mut Local) {
        self.leave_running(CONSUMERS_GONE, local);
    }

    /// Leaves `RUNNING` permanently. The first reason is kept.
    fn leave_running(&self, reason: u8, local: &mut Local) {
        local.stats.shared_ops += 1;
        let _ = self.word.compare_exchange(RUNNING, reason, Relaxed, Relaxed);
    }
}
