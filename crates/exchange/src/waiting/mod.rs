//! Waiting handles: their wake-up, their counters, and blocking a thread.

mod order;
mod parked;

use std::{
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Instant,
};

pub(crate) use parked::Parked;

use crate::stats::ExchangeStats;

/// The counters of a handle.
#[derive(Debug, Default)]
pub(crate) struct Local {
    pub(crate) stats: ExchangeStats,
    waiting_since: Option<Instant>,
}

impl Local {
    /// Counts a wait: the call returns without a result.
    pub(crate) fn waits(&mut self) {
        if self.waiting_since.is_none() {
            self.waiting_since = Some(Instant::now());
            self.stats.waits += 1;
        }
    }

    /// Ends a wait: the handle got its result.
    pub(crate) fn served(&mut self) {
        if let Some(since) = self.waiting_since.take() {
            let waited = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.stats.wait_ns = self.stats.wait_ns.saturating_add(waited);
        }
    }
}

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

fn unpark_this_thread() -> Waker {
    thread_local!(static UNPARK: Waker = Waker::from(std::sync::Arc::new(Unpark(thread::current()))));
    // In a thread that is ending, the thread-local may be gone already.
    UNPARK.try_with(Waker::clone).unwrap_or_else(|_| Waker::from(std::sync::Arc::new(Unpark(thread::current()))))
}

/// Calls `poll` until it is ready, and parks the thread in between.
pub(crate) fn block_on<R>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<R>) -> R {
    let waker = unpark_this_thread();
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(result) = poll(&mut cx) {
            return result;
        }
        thread::park();
    }
}
