//! The receiving handle.

use std::{
    cell::Cell,
    fmt,
    marker::PhantomData,
    ops::ControlFlow,
    task::{Context, Poll},
};

use annulus_sync::Arc;

use super::{lease::Lease, order, shared::RingCore};
use crate::{
    error::{ExchangeError, StopError},
    lease::{LeaseAttempt, Taker},
    stats::ExchangeStats,
    waiting::{HandleStats, block_on},
};

/// The outcome of [`RingConsumer::poll_next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This number of values was visited, at least one.
    Visited(usize),
    /// No value was visited. Since the last call, a producer has handed values over to the overflow
    /// of this consumer. They precede the values that the next call visits.
    Relieved,
    /// Every producer has finished, and every value was visited or handed over.
    Finished,
}

/// Stops a ring, or wakes its consumers, from any thread. What that costs counts for no handle.
pub(crate) struct StopHandle<T>(Arc<RingCore<T>>);

impl<T> StopHandle<T> {
    /// Stops the ring, unless it was stopped before.
    pub(crate) fn stop(&self, error: ExchangeError) {
        self.0.stop(error, &mut HandleStats::default());
    }

    /// Wakes every waiting consumer.
    pub(crate) fn wake_consumers(&self) {
        self.0.tell(&self.0.consumers, &mut HandleStats::default());
    }
}

/// The receiving handle of one thread or task. Each consumer sees every value.
///
/// Dropping it releases the values that it has not read.
pub struct RingConsumer<T> {
    shared: Arc<RingCore<T>>,
    index: usize,
    /// The cursor after the last call of this handle. If it has moved since, a producer has
    /// relieved this consumer.
    cursor: u64,
    finished: bool,
    stats: HandleStats,
    one_thread: PhantomData<Cell<()>>,
}

impl<T> RingConsumer<T> {
    pub(super) fn new(shared: Arc<RingCore<T>>, index: usize) -> Self {
        Self { shared, index, cursor: 0, finished: false, stats: HandleStats::default(), one_thread: PhantomData }
    }

    /// Calls `visit` with the next published values, in ticket order. Ends when `visit` breaks, no
    /// further value is published, or one revolution of the ring is done. A value counts as read
    /// when `visit` returns, whatever it returns.
    ///
    /// # Order of values that were handed over
    /// Whenever this returns [`Next::Relieved`], empty the overflow queue of this consumer before
    /// the next call. A hand-over needs the lease that this call holds while it visits, and an
    /// earlier hand-over is reported before anything later is visited. So the queue only ever holds
    /// values that precede the next visit.
    ///
    /// # Errors
    /// The first error with which the ring was stopped. It is returned at once, before values that
    /// are not read yet.
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        mut visit: impl FnMut(&T) -> ControlFlow<()>,
    ) -> Poll<Result<Next, ExchangeError>> {
        let mut outcome = self.advance(&mut visit);
        if outcome.is_pending() {
            let first = self.shared.consumers.register(self.index, cx.waker(), &mut self.stats);
            order::fence_wait_data();
            if first {
                // Producers that wait for a free slot while this consumer starves must relieve the slow
                // ones. They are woken whatever the second look finds: this consumer stays listed,
                // so the next one that starves will not be the first.
                self.shared.producers.wake_all(&mut self.stats);
            }
            outcome = self.advance(&mut visit);
        }
        if outcome.is_ready() {
            self.stats.served();
            return outcome;
        }
        self.stats.waits();
        Poll::Pending
    }

    /// Visits what is published now, as [`poll_next`](Self::poll_next) does, without asking to be
    /// woken.
    pub(crate) fn try_next(
        &mut self,
        mut visit: impl FnMut(&T) -> ControlFlow<()>,
    ) -> Poll<Result<Next, ExchangeError>> {
        let outcome = self.advance(&mut visit);
        if outcome.is_ready() {
            self.stats.served();
        }
        outcome
    }

    /// Returns a handle with which any thread may stop the ring.
    pub(crate) fn stop_handle(&self) -> StopHandle<T> {
        StopHandle(Arc::clone(&self.shared))
    }

    /// Calls [`poll_next`](Self::poll_next), and blocks this thread while there is nothing to
    /// visit.
    ///
    /// # Errors
    /// Those of [`poll_next`](Self::poll_next).
    pub fn next(&mut self, mut visit: impl FnMut(&T) -> ControlFlow<()>) -> Result<Next, ExchangeError> {
        block_on(|cx| self.poll_next(cx, &mut visit))
    }

    /// Stops the ring: from now on every call of every handle returns [`ExchangeError::Stopped`],
    /// unless another error came first.
    pub fn stop(&mut self, error: StopError) {
        self.shared.stop(ExchangeError::Stopped(error), &mut self.stats);
    }

    /// Returns the counters of this handle.
    pub fn stats(&self) -> ExchangeStats {
        self.stats.counts
    }

    /// Returns the number of this consumer, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns whether the next value is not published, without taking the lease: a look that finds
    /// nothing takes no shared operation. Rule 5.
    fn sees_nothing(&self) -> bool {
        let relieved = self.shared.state.cursor_hint(self.index) != Some(self.cursor);
        !relieved && !self.shared.slot(self.cursor).is_published(self.cursor)
    }

    /// Visits the values that are published now, without waiting.
    fn advance(&mut self, mut visit: impl FnMut(&T) -> ControlFlow<()>) -> Poll<Result<Next, ExchangeError>> {
        if self.finished {
            return Poll::Ready(Ok(Next::Finished));
        }
        if let Some(error) = self.shared.error() {
            return Poll::Ready(Err(error));
        }
        // Before the slots are read: after all producers have finished, a missing value never
        // comes.
        let ended = self.shared.state.all_finished();
        if !ended && self.sees_nothing() {
            return Poll::Pending;
        }
        let attempt = self.shared.state.take_lease(self.index, Taker::Consumer, &mut self.stats.counts);
        let LeaseAttempt::Taken(cursor) = attempt else { return Poll::Pending };
        let relieved = std::mem::replace(&mut self.cursor, cursor) != cursor;
        let mut lease = Lease::new(&self.shared, &mut self.stats, self.index, cursor);
        // Checked again: if a hand-over failed, the value at the cursor may have been taken in part. Rule
        // 10.
        if let Some(error) = self.shared.error() {
            return Poll::Ready(Err(error));
        }
        if relieved {
            return Poll::Ready(Ok(Next::Relieved));
        }
        let mut visited = 0;
        while visited < self.shared.slots()
            && let Some(flow) = lease.read(&mut visit)
        {
            lease.advance();
            visited += 1;
            if flow.is_break() {
                break;
            }
        }
        self.cursor = lease.cursor();
        drop(lease);
        self.stats.counts.batches += visited as u64;
        match visited {
            0 if ended => {
                self.finished = true;
                Poll::Ready(Ok(Next::Finished))
            }
            0 => Poll::Pending,
            _ => Poll::Ready(Ok(Next::Visited(visited))),
        }
    }
}

impl<T> Drop for RingConsumer<T> {
    fn drop(&mut self) {
        self.shared.leave(self.index, &mut self.stats);
    }
}

impl<T> fmt::Debug for RingConsumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingConsumer").field("index", &self.index).finish_non_exhaustive()
    }
}
