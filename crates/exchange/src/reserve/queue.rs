//! The whole chunks of one consumer, in the order in which they became whole.

use std::{
    collections::VecDeque,
    sync::PoisonError,
    task::{Poll, Waker},
};

use annulus_sync::{Mutex, MutexGuard};

use super::{chunk::Chunk, lane::Open};
use crate::{overflow::SpilledBatch, stats::ExchangeStats};

/// What waits for a consumer.
#[derive(Debug)]
pub(crate) enum Item {
    /// A chunk in memory, for which `reserved` bytes are accounted.
    Chunk {
        /// The chunk, whole.
        open: Box<Open<Chunk>>,
        /// Bytes to release when it leaves.
        reserved: usize,
        /// Bytes that it is beyond the bound of the exchange.
        over: usize,
    },
    /// Rows that the embedder has written elsewhere.
    Spilled(SpilledBatch),
}

/// Why an item was not queued.
pub(crate) struct Closed<I>(pub(crate) I);

/// A consumer's queue. Locked once a chunk, not once a batch.
#[derive(Debug)]
pub(crate) struct Queue<I = Item>(Mutex<State<I>>);

#[derive(Debug)]
struct State<I> {
    items: VecDeque<I>,
    /// Set while the consumer waits; it then counts as starving.
    waker: Option<Waker>,
    ended: bool,
    closed: bool,
}

/// What a consumer finds.
#[derive(Debug)]
pub(crate) enum Found<I = Item> {
    /// The next item, and whether the consumer had counted as starving.
    Item(I, bool),
    /// Nothing more will come.
    End(bool),
}

impl<I> State<I> {
    fn pop(&mut self) -> Poll<Found<I>> {
        match self.items.pop_front() {
            Some(item) => Poll::Ready(Found::Item(item, self.waker.take().is_some())),
            None if self.ended => Poll::Ready(Found::End(self.waker.take().is_some())),
            None => Poll::Pending,
        }
    }
}

impl<I> Queue<I> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State { items: VecDeque::new(), waker: None, ended: false, closed: false }))
    }

    fn lock(&self, stats: &mut ExchangeStats) -> MutexGuard<'_, State<I>> {
        stats.locks += 1;
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an item; returns the waker of a consumer that starved, which the caller counts as
    /// fed and wakes.
    pub(crate) fn push(&self, item: I, stats: &mut ExchangeStats) -> Result<Option<Waker>, Closed<I>> {
        let mut state = self.lock(stats);
        if state.closed {
            return Err(Closed(item));
        }
        state.items.push_back(item);
        Ok(state.waker.take())
    }

    /// No more items will come; returns the waker of a consumer that starved.
    pub(crate) fn end(&self, stats: &mut ExchangeStats) -> Option<Waker> {
        let mut state = self.lock(stats);
        state.ended = true;
        state.waker.take()
    }

    /// Takes the next item, if there is one.
    pub(crate) fn pop(&self, stats: &mut ExchangeStats) -> Poll<Found<I>> {
        self.lock(stats).pop()
    }

    /// Takes the next item, else what `make` finds. Nothing is appended meanwhile: what `make`
    /// takes out of the lane comes before whatever is claimed after it.
    pub(crate) fn pop_or_else(&self, make: impl FnOnce() -> Option<I>, stats: &mut ExchangeStats) -> Poll<Found<I>> {
        let mut state = self.lock(stats);
        if state.items.is_empty() && !state.ended {
            state.items.extend(make());
        }
        state.pop()
    }

    /// Takes the next item or leaves the waker; in the latter case says whether the consumer begins
    /// to starve, after it was counted by `starve` and before anyone can take the waker.
    pub(crate) fn pop_or_wait(
        &self,
        waker: &Waker,
        starve: impl FnOnce(),
        stats: &mut ExchangeStats,
    ) -> Result<Found<I>, bool> {
        let waker = waker.clone();
        let mut state = self.lock(stats);
        if let Poll::Ready(found) = state.pop() {
            return Ok(found);
        }
        let former = state.waker.replace(waker);
        if former.is_none() {
            starve();
        }
        drop(state);
        // `former` is dropped last: that may drop a task, and with it a handle that takes this lock.
        Err(former.is_none())
    }

    /// Whether the consumer waits.
    pub(crate) fn is_awaited(&self, stats: &mut ExchangeStats) -> bool {
        self.lock(stats).waker.is_some()
    }

    /// A waker for the consumer, without an item (the exchange was stopped); it stays counted as
    /// starving until it looks.
    pub(crate) fn waker(&self, stats: &mut ExchangeStats) -> Option<Waker> {
        self.lock(stats).waker.clone()
    }

    /// Refuses further items and returns those that wait, and the waker of a consumer that counted
    /// as starving.
    pub(crate) fn close(&self, stats: &mut ExchangeStats) -> (VecDeque<I>, Option<Waker>) {
        let mut state = self.lock(stats);
        state.closed = true;
        (std::mem::take(&mut state.items), state.waker.take())
    }
}
