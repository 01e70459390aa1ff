//! The whole chunks of one consumer, in the order in which they became whole.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    task::{Poll, Waker},
};

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
pub(crate) struct Closed(pub(crate) Item);

/// A consumer's queue. Locked once a chunk, not once a batch.
#[derive(Debug, Default)]
pub(crate) struct Queue(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Item>,
    /// Set while the consumer waits; it then counts as starving.
    waker: Option<Waker>,
    ended: bool,
    closed: bool,
}

/// What a consumer finds.
pub(crate) enum Found {
    /// The next item, and whether the consumer had counted as starving.
    Item(Item, bool),
    /// Nothing more will come.
    End(bool),
}

impl Queue {
    fn lock(&self, stats: &mut ExchangeStats) -> std::sync::MutexGuard<'_, State> {
        stats.locks += 1;
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an item; returns the waker of a consumer that starved, which the caller counts as fed and wakes.
    pub(crate) fn push(&self, item: Item, stats: &mut ExchangeStats) -> Result<Option<Waker>, Closed> {
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
    pub(crate) fn pop(&self, stats: &mut ExchangeStats) -> Poll<Found> {
        let mut state = self.lock(stats);
        match state.items.pop_front() {
            Some(item) => Poll::Ready(Found::Item(item, state.waker.take().is_some())),
            None if state.ended => Poll::Ready(Found::End(state.waker.take().is_some())),
            None => Poll::Pending,
        }
    }

    /// Takes the next item or leaves the waker; in the latter case says whether the consumer begins to starve.
    pub(crate) fn pop_or_wait(&self, waker: &Waker, stats: &mut ExchangeStats) -> Result<Found, bool> {
        let mut state = self.lock(stats);
        match state.items.pop_front() {
            Some(item) => Ok(Found::Item(item, state.waker.take().is_some())),
            None if state.ended => Ok(Found::End(state.waker.take().is_some())),
            None => Err(state.waker.replace(waker.clone()).is_none()),
        }
    }

    /// Whether the consumer waits.
    pub(crate) fn is_awaited(&self, stats: &mut ExchangeStats) -> bool {
        self.lock(stats).waker.is_some()
    }

    /// Wakes the consumer without an item (the exchange was stopped); it stays counted as starving until it looks.
    pub(crate) fn wake(&self, stats: &mut ExchangeStats) -> Option<Waker> {
        self.lock(stats).waker.clone()
    }

    /// Refuses further items and returns those that wait, and whether the consumer had counted as starving.
    pub(crate) fn close(&self, stats: &mut ExchangeStats) -> (VecDeque<Item>, bool) {
        let mut state = self.lock(stats);
        state.closed = true;
        (std::mem::take(&mut state.items), state.waker.take().is_some())
    }
}
