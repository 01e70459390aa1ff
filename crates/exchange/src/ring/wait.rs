//! Who waits, and waking them: the slow path, the only one with a lock.

use std::{
    sync::PoisonError,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Instant,
};

use super::state::Flag;
use crate::{
    stats::ExchangeStats,
    sync::{Mutex, MutexGuard},
};

/// What a handle brings along: its counters, and room for wakers so that nothing allocates under a lock.
#[derive(Debug, Default)]
pub(super) struct Local {
    pub(super) stats: ExchangeStats,
    waiting_since: Option<Instant>,
    woken: Vec<Waker>,
}

impl Local {
    /// The handle's call returns without what was asked for.
    pub(super) fn waits(&mut self) {
        if self.waiting_since.is_none() {
            self.waiting_since = Some(Instant::now());
            self.stats.waits += 1;
        }
    }

    /// The handle got what it asked for.
    pub(super) fn served(&mut self) {
        if let Some(since) = self.waiting_since.take() {
            let waited = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.stats.wait_ns = self.stats.wait_ns.saturating_add(waited);
        }
    }
}

/// The wakers of one side's handles, by handle index.
#[derive(Debug)]
pub(super) struct Waiters {
    handles: usize,
    waiting: Flag,
    wakers: Mutex<Box<[Option<Waker>]>>,
}

impl Waiters {
    pub(super) fn new(handles: usize) -> Self {
        Self { handles, waiting: Flag::new(), wakers: Mutex::new((0..handles).map(|_| None).collect()) }
    }

    fn lock(&self, stats: &mut ExchangeStats) -> MutexGuard<'_, Box<[Option<Waker>]>> {
        stats.locks += 1;
        // What the lock guards is whole at any moment, so a panic of a waker's code does no harm.
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody may be registered. Exact only after the fence that belongs to the question.
    pub(super) fn any(&self) -> bool {
        self.waiting.is_set()
    }

    /// Whether a registered handle meets `condition`.
    pub(super) fn any_where(&self, stats: &mut ExchangeStats, condition: impl Fn(usize) -> bool) -> bool {
        let wakers = self.lock(stats);
        wakers.iter().enumerate().any(|(handle, waker)| waker.is_some() && condition(handle))
    }

    /// Remember whom to wake. The caller's fence and a second look must follow.
    pub(super) fn register(&self, handle: usize, waker: &Waker, stats: &mut ExchangeStats) {
        let waker = waker.clone();
        let mut wakers = self.lock(stats);
        let former = wakers[handle].replace(waker);
        self.waiting.set(true);
        drop(wakers);
        drop(former);
    }

    /// Forget a handle that went away.
    pub(super) fn forget(&self, handle: usize, stats: &mut ExchangeStats) {
        let former = self.lock(stats)[handle].take();
        drop(former);
    }

    /// Wake one handle, if it is registered.
    pub(super) fn wake(&self, handle: usize, stats: &mut ExchangeStats) {
        let waker = self.lock(stats)[handle].take();
        if let Some(waker) = waker {
            stats.wakeups += 1;
            waker.wake();
        }
    }

    /// Wake every registered handle.
    pub(super) fn wake_all(&self, local: &mut Local) {
        let mut woken = std::mem::take(&mut local.woken);
        woken.reserve(self.handles);
        let mut wakers = self.lock(&mut local.stats);
        woken.extend(wakers.iter_mut().filter_map(Option::take));
        self.waiting.set(false);
        drop(wakers);
        local.stats.wakeups += woken.len() as u64;
        woken.drain(..).for_each(Waker::wake);
        local.woken = woken;
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
    // A thread that is ending may have lost its own already.
    UNPARK.try_with(Waker::clone).unwrap_or_else(|_| Waker::from(std::sync::Arc::new(Unpark(thread::current()))))
}

/// Call `poll` until it is ready, and park the thread in between.
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
