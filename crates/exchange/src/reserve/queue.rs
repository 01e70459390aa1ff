//! The queue of one consumer: its whole chunks, in the order in which they became whole.

use std::{
    collections::VecDeque,
    sync::PoisonError,
    task::{Poll, Waker},
};

use annulus_sync::{Mutex, MutexGuard};

use super::{chunk::Chunk, claim::CountedChunk};
use crate::{overflow::SpilledBatch, stats::ExchangeStats};

/// An item that waits for its consumer.
#[derive(Debug)]
pub(crate) enum Item {
    /// A chunk in memory, for which `reserved` bytes are accounted.
    Chunk {
        /// The chunk, whole.
        open: Box<CountedChunk<Chunk>>,
        /// The bytes to release when it leaves the queue.
        reserved: usize,
        /// The bytes of the chunk that exceed the bound of the exchange.
        over: usize,
    },
    /// Rows that the embedder has spilled.
    Spilled(SpilledBatch),
}

/// An item that was refused because the queue is closed.
pub(crate) struct RefusedItem<I>(pub(crate) I);

/// A consumer's queue. It is locked once for each chunk, not for each batch.
#[derive(Debug)]
pub(crate) struct Queue<I = Item>(Mutex<State<I>>);

#[derive(Debug)]
struct State<I> {
    items: VecDeque<I>,
    /// Set while the consumer waits and is counted as starving.
    waker: Option<Waker>,
    ended: bool,
    closed: bool,
}

/// What a consumer finds in its queue.
#[derive(Debug)]
pub(crate) enum QueueOutcome<I = Item> {
    /// The next item, and whether the consumer was counted as starving.
    Item(I, bool),
    /// No more items come. The flag says whether the consumer was counted as starving.
    End(bool),
}

impl<I> State<I> {
    fn pop(&mut self) -> Poll<QueueOutcome<I>> {
        match self.items.pop_front() {
            Some(item) => Poll::Ready(QueueOutcome::Item(item, self.waker.take().is_some())),
            None if self.ended => Poll::Ready(QueueOutcome::End(self.waker.take().is_some())),
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

    /// Appends an item. Returns the waker of a starving consumer, which the caller must count as
    /// fed and wake.
    pub(crate) fn push(&self, item: I, stats: &mut ExchangeStats) -> Result<Option<Waker>, RefusedItem<I>> {
        let mut state = self.lock(stats);
        if state.closed {
            return Err(RefusedItem(item));
        }
        state.items.push_back(item);
        Ok(state.waker.take())
    }

    /// Ends the queue: no more items come. Returns the waker of a starving consumer.
    pub(crate) fn end(&self, stats: &mut ExchangeStats) -> Option<Waker> {
        let mut state = self.lock(stats);
        state.ended = true;
        state.waker.take()
    }

    /// Takes the next item, if there is one.
    pub(crate) fn pop(&self, stats: &mut ExchangeStats) -> Poll<QueueOutcome<I>> {
        self.lock(stats).pop()
    }

    /// Takes the next item, or else the one that `make` finds. Nothing is appended meanwhile, so
    /// the rows that `make` takes out of the claim word come before all rows claimed later (R9).
    pub(crate) fn pop_or_else(
        &self,
        make: impl FnOnce() -> Option<I>,
        stats: &mut ExchangeStats,
    ) -> Poll<QueueOutcome<I>> {
        let mut state = self.lock(stats);
        if state.items.is_empty() && !state.ended {
            state.items.extend(make());
        }
        state.pop()
    }

    /// Takes the next item, or registers the waker. The error says whether the consumer begins to
    /// starve. If so, `starve` has counted it before any thread could take the waker.
    pub(crate) fn pop_or_wait(
        &self,
        waker: &Waker,
        starve: impl FnOnce(),
        stats: &mut ExchangeStats,
    ) -> Result<QueueOutcome<I>, bool> {
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
        // `former` is dropped after the lock is released: that may drop a task, and with it a
        // handle that takes this lock.
        Err(former.is_none())
    }

    /// Returns whether the consumer waits.
    pub(crate) fn is_awaited(&self, stats: &mut ExchangeStats) -> bool {
        self.lock(stats).waker.is_some()
    }

    /// Returns the waker of the consumer without an item, because the exchange was stopped. The
    /// consumer stays counted as starving until it polls again.
    pub(crate) fn waker(&self, stats: &mut ExchangeStats) -> Option<Waker> {
        self.lock(stats).waker.clone()
    }

    /// Closes the queue to further items. Returns the items in it, and the waker of a starving
    /// consumer.
    pub(crate) fn close(&self, stats: &mut ExchangeStats) -> (VecDeque<I>, Option<Waker>) {
        let mut state = self.lock(stats);
        state.closed = true;
        (std::mem::take(&mut state.items), state.waker.take())
    }
}
