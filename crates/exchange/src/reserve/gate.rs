//! When a producer may send: the queues have room, or a consumer starves. Waiting producers are parked here.

use std::{
    sync::{Mutex, PoisonError},
    task::Waker,
};

use crate::{
    stats::ExchangeStats,
    sync::atomic::{AtomicUsize, Ordering},
};

/// The admission of all producers of an exchange (R5, R6).
#[derive(Debug)]
pub(crate) struct Gate {
    /// Chunks in the consumers' queues, in memory.
    queued: AtomicUsize,
    /// Consumers that found their queue empty and wait.
    starving: AtomicUsize,
    /// Producers that are parked, so that nobody takes the lock for nothing.
    parked: AtomicUsize,
    limit: usize,
    wakers: Mutex<Vec<Option<Waker>>>,
}

impl Gate {
    /// Open while fewer than `limit` chunks are queued.
    pub(crate) fn new(limit: usize, producers: usize) -> Self {
        let counter = || AtomicUsize::new(0);
        let wakers = Mutex::new(vec![None; producers]);
        Self { queued: counter(), starving: counter(), parked: counter(), limit, wakers }
    }

    /// Whether a batch may be sent now.
    pub(crate) fn admits(&self) -> bool {
        self.queued.load(Ordering::SeqCst) < self.limit || self.starving.load(Ordering::SeqCst) > 0
    }

    /// Whether one more chunk goes beyond the bound.
    pub(crate) fn is_over(&self) -> bool {
        self.queued.load(Ordering::Relaxed) >= self.limit
    }

    /// A chunk was queued.
    pub(crate) fn queue(&self) {
        self.queued.fetch_add(1, Ordering::SeqCst);
    }

    /// `chunks` chunks left the queues. Producers are woken at half the limit, so that each finds work for a while.
    pub(crate) fn dequeue(&self, chunks: usize, stats: &mut ExchangeStats) {
        let left = self.queued.fetch_sub(chunks, Ordering::SeqCst) - chunks;
        stats.shared_ops += 1;
        if left <= self.limit / 2 {
            self.wake_producers(stats);
        }
    }

    /// A consumer begins to wait: the gate opens.
    pub(crate) fn starve(&self, stats: &mut ExchangeStats) {
        self.starving.fetch_add(1, Ordering::SeqCst);
        stats.shared_ops += 1;
        self.wake_producers(stats);
    }

    /// A consumer that waited has something, or is gone.
    pub(crate) fn feed(&self) {
        self.starving.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether some consumer waits.
    pub(crate) fn anyone_starves(&self) -> bool {
        self.starving.load(Ordering::SeqCst) > 0
    }

    /// Leaves a waker; the caller must look again afterwards, since the gate may have opened in between.
    pub(crate) fn park(&self, producer: usize, waker: &Waker, stats: &mut ExchangeStats) {
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        stats.locks += 1;
        match &mut wakers[producer] {
            Some(old) => old.clone_from(waker),
            empty => {
                *empty = Some(waker.clone());
                // SeqCst before the second look, as `dequeue` and `starve` change their counter before they read this:
                // of a producer that parks and a consumer that opens the gate, one sees the other.
                self.parked.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    /// Wakes every parked producer.
    pub(crate) fn wake_producers(&self, stats: &mut ExchangeStats) {
        if self.parked.load(Ordering::SeqCst) == 0 {
            return;
        }
        let woken: Vec<Waker> = {
            let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
            stats.locks += 1;
            let woken: Vec<Waker> = wakers.iter_mut().filter_map(Option::take).collect();
            self.parked.fetch_sub(woken.len(), Ordering::SeqCst);
            woken
        };
        stats.wakeups += woken.len() as u64;
        woken.into_iter().for_each(Waker::wake);
    }
}
