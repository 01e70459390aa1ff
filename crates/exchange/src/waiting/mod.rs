//! Waiting handles: their wake-up, their counters, and blocking a thread.

#[cfg(all(test, loom))]
#[path = "../../tests/bell/mod.rs"]
pub(crate) mod bell;
#[cfg(all(test, loom))]
mod loom_models;
mod order;
mod parked;
mod relay;
#[cfg(all(test, not(loom)))]
mod tests;

use std::{
    sync::{Arc, LazyLock},
    task::{Context, Poll, Waker},
    thread::available_parallelism,
    time::Instant,
};

use annulus_sync::yield_now;

pub(crate) use parked::Parked;

use self::relay::Blocking;
use crate::{error::ExchangeError, ring::Admission, stats::ExchangeStats};

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

    /// Counts a call that gives its result, or waits for it.
    pub(crate) fn returns(&mut self, result: bool) {
        if result { self.served() } else { self.waits() }
    }

    /// Ends a wait: the handle got its result.
    pub(crate) fn served(&mut self) {
        if let Some(since) = self.waiting_since.take() {
            let waited = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.stats.wait_ns = self.stats.wait_ns.saturating_add(waited);
        }
    }
}

/// The number of times that a producer yields when it finds no room and no consumer reads. Once is
/// not enough: a runtime that checks its timers at that moment resumes the producer at once. Models
/// have no such runtime.
const YIELDS: u32 = if cfg!(loom) { 1 } else { 2 };
/// The same if each handle may have a core of its own. Then consumers are reading, and to wake a
/// thread takes longer than they need.
const YIELDS_ALONE: u32 = if cfg!(loom) { 1 } else { 16 };
/// The cores that the process may use.
static CORES: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, usize::from));

/// The patience of a producer that finds no room: consumers that were woken may not have run yet,
/// and handing their values over would cost more than to let them.
#[derive(Debug)]
pub(crate) struct Patience {
    /// The number of times that it yields while no consumer reads.
    yields: u32,
    /// The consumers' progress when the producer last found no room. `None` if it has found room
    /// since then.
    progress: Option<u64>,
    /// The number of times that it still yields before it relieves or waits.
    left: u32,
}

impl Patience {
    /// Returns the patience of a producer, of an exchange with this many producers and consumers.
    pub(crate) fn of(handles: usize) -> Self {
        Self { yields: if handles <= *CORES { YIELDS_ALONE } else { YIELDS }, progress: None, left: 0 }
    }

    /// Returns whether the producer yields. `progress` is a number that changes when a consumer
    /// reads.
    pub(crate) fn yields(&mut self, progress: u64) -> bool {
        if self.progress != Some(progress) {
            (self.progress, self.left) = (Some(progress), self.yields);
        }
        let yields = self.left > 0;
        self.left = self.left.saturating_sub(1);
        yields
    }

    /// Begins anew after the producer has found room.
    pub(crate) fn renew(&mut self) {
        self.progress = None;
    }
}

/// Calls `poll` until it is ready, and blocks the thread in between.
pub(crate) fn block_on<R>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<R>) -> R {
    let blocking = Blocking::begin();
    let waker = Waker::from(Arc::clone(&blocking.relay));
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(result) = poll(&mut cx) {
            return result;
        }
        blocking.relay.sleep();
    }
}

/// Asks `poll_ready` until it grants room, and blocks the thread in between.
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
