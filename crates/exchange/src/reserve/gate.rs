//! The gate, which admits producers while the queues are below their bound or a consumer starves.
//! Waiting producers are parked here.

use std::{sync::PoisonError, task::Waker};

use annulus_sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use super::order;
use crate::{stats::ExchangeStats, wake::AllCalls};

/// The admission of all producers of an exchange (R5, R6). Its counters decide only which producers
/// are admitted and woken, so they are Relaxed. The fences beside them ensure that no producer
/// waits for ever.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The number of chunks in the consumers' queues, including spilled ones: space on disk does
    /// not justify reading ahead of the consumers.
    queued: AtomicUsize,
    /// An upper bound on the number of consumers with a waker in their queue: a consumer is counted
    /// before its waker can be seen, and until after the waker was taken.
    starving: AtomicUsize,
    /// The number of parked producers. If it is 0, the lock need not be taken.
    parked: AtomicUsize,
    limit: usize,
    wakers: Mutex<Vec<Option<Waker>>>,
}

impl Gate {
    /// Creates a gate that is open while fewer than `limit` chunks are queued.
    pub(crate) fn new(limit: usize, producers: usize) -> Self {
        let counter = || AtomicUsize::new(0);
        let wakers = Mutex::new(vec![None; producers]);
        Self { queued: counter(), starving: counter(), parked: counter(), limit, wakers }
    }

    /// Returns whether a batch may be sent now.
    pub(crate) fn admits(&self) -> bool {
        self.queued.load(Relaxed) < self.limit || self.anyone_starves()
    }

    /// Returns whether one more chunk would exceed the bound. A hint.
    pub(crate) fn is_over(&self) -> bool {
        self.queued.load(Relaxed) >= self.limit
    }

    /// Counts a chunk as queued, and returns whether it exceeds the bound.
    pub(crate) fn queue(&self) -> bool {
        self.queued.fetch_add(1, Relaxed) >= self.limit
    }

    /// Counts a chunk as no longer queued: it left its queue, or never got there. Producers are
    /// woken at half the limit, so that each can send several batches.
    pub(crate) fn dequeue(&self, stats: &mut ExchangeStats) {
        let left = self.queued.fetch_sub(1, Relaxed) - 1;
        stats.shared_ops += 1;
        if left <= self.limit / 2 {
            self.wake_producers(stats);
        }
    }

    /// Counts a consumer as starving, which opens the gate. Call it before the consumer's waker can
    /// be taken. [`wake_producers`](Self::wake_producers) must follow.
    pub(crate) fn starve(&self) {
        self.starving.fetch_add(1, Relaxed);
    }

    /// Counts a consumer as no longer starving: its waker was taken, since it has rows or is gone.
    pub(crate) fn feed(&self) {
        self.starving.fetch_sub(1, Relaxed);
    }

    /// Returns whether a consumer waits.
    pub(crate) fn anyone_starves(&self) -> bool {
        self.starving.load(Relaxed) > 0
    }

    /// Registers a waker. The caller must check admission once more afterwards, because the gate
    /// may have opened in between.
    pub(crate) fn park(&self, producer: usize, waker: &Waker, stats: &mut ExchangeStats) {
        let waker = waker.clone();
        stats.locks += 1;
        let former = {
            let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
            let former = wakers[producer].replace(waker);
            if former.is_none() {
                self.parked.fetch_add(1, Relaxed);
            }
            former
        };
        // Dropping a waker may drop a task, and with it a handle that takes this lock.
        drop(former);
        order::fence_gate_parks();
    }

    /// Wakes every parked producer, even if a waker panics.
    pub(crate) fn wake_producers(&self, stats: &mut ExchangeStats) {
        order::fence_gate_opens();
        if self.parked.load(Relaxed) == 0 {
            return;
        }
        stats.locks += 1;
        let woken: Vec<Waker> = {
            let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
            let woken: Vec<Waker> = wakers.iter_mut().filter_map(Option::take).collect();
            self.parked.fetch_sub(woken.len(), Relaxed);
            woken
        };
        stats.wakeups += woken.len() as u64;
        let mut calls = AllCalls::default();
        for waker in woken {
            calls.call(|| waker.wake());
        }
        calls.finish();
    }
}
