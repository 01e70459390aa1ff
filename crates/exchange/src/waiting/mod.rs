//! Waiting handles: their wake-up, their counters, and blocking a thread.

#[cfg(all(test, loom))]
#[path = "../../tests/bell/mod.rs"]
pub(crate) mod bell;
#[cfg(all(test, loom))]
mod loom_models;
mod order;
mod relay;
#[cfg(feature = "transports")]
mod seats;
#[cfg(all(test, not(loom)))]
mod tests;
mod waker_list;

use std::{
    sync::{Arc, LazyLock},
    task::{Context, Poll, Waker},
    thread::available_parallelism,
    time::Instant,
};

use annulus_sync::yield_now;

#[cfg(feature = "transports")]
pub use seats::{Seat, WaitList};
pub(crate) use waker_list::WakerList;

use self::relay::BlockingScope;
use crate::{admission::Admission, error::ExchangeError, stats::ExchangeStats};

/// The counters of a handle, and the time since when it waits.
#[derive(Debug, Default)]
pub struct HandleStats {
    /// The counters.
    pub counts: ExchangeStats,
    waiting_since: Option<Instant>,
}

impl HandleStats {
    /// Counts a wait: the call returns without a result.
    pub(crate) fn waits(&mut self) {
        if self.waiting_since.is_none() {
            self.waiting_since = Some(Instant::now());
            self.counts.waits += 1;
        }
    }

    /// Counts a call that gives its result, or waits for it.
    pub fn returns(&mut self, result: bool) {
        if result { self.served() } else { self.waits() }
    }

    /// Ends a wait: the handle got its result.
    pub(crate) fn served(&mut self) {
        if let Some(since) = self.waiting_since.take() {
            let waited = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.counts.wait_ns = self.counts.wait_ns.saturating_add(waited);
        }
    }
}

/// The number of times that a producer yields when it finds no free slot and no consumer reads. Once is
/// not enough: a runtime that checks its timers at that moment resumes the producer at once. Models
/// have no such runtime.
const YIELDS: u32 = if cfg!(loom) { 1 } else { 2 };
/// The same if each handle may have a core of its own. Then consumers are reading, and to wake a
/// thread takes longer than they need.
const YIELDS_ALONE: u32 = if cfg!(loom) { 1 } else { 16 };
/// The cores that the process may use.
static CORES: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, usize::from));

/// The patience of a producer that finds no free slot: consumers that were woken may not have run yet,
/// and handing their values over would cost more than to let them.
#[derive(Debug)]
pub struct Patience {
    /// The number of times that it yields while no consumer reads.
    yields: u32,
    /// The consumers' progress when the producer last found no free slot. `None` if it has found a free slot
    /// since then.
    progress: Option<u64>,
    /// The number of times that it still yields before it relieves or waits.
    left: u32,
}

impl Patience {
    /// Returns the patience of a producer, of an exchange with this many producers and consumers.
    pub fn new(handles: usize) -> Self {
        Self { yields: if handles <= *CORES { YIELDS_ALONE } else { YIELDS }, progress: None, left: 0 }
    }

    /// Returns whether the producer yields. `progress` is a number that changes when a consumer
    /// reads.
    pub fn yields(&mut self, progress: u64) -> bool {
        if self.progress != Some(progress) {
            (self.progress, self.left) = (Some(progress), self.yields);
        }
        let yields = self.left > 0;
        self.left = self.left.saturating_sub(1);
        yields
    }

    /// Begins anew after the producer has found a free slot.
    pub fn renew(&mut self) {
        self.progress = None;
    }
}

/// Calls `poll` until it is ready, and blocks the thread in between.
pub(crate) fn block_on<R>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<R>) -> R {
    let blocking = BlockingScope::begin();
    let waker = Waker::from(Arc::clone(&blocking.relay));
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(result) = poll(&mut cx) {
            return result;
        }
        blocking.relay.sleep();
    }
}

/// Asks `poll_ready` until it grants admission, and blocks the thread in between.
pub(crate) fn block_until_admitted(
    mut poll_ready: impl FnMut(&mut Context<'_>) -> Poll<Result<Admission, ExchangeError>>,
) -> Result<(), ExchangeError> {
    loop {
        match block_on(&mut poll_ready)? {
            Admission::Granted => return Ok(()),
            // The consumers' threads may have been woken, and wait for a core.
            Admission::Yield => yield_now(),
        }
    }
}
