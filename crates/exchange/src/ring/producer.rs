//! The sending handle.

use std::{
    cell::Cell,
    fmt,
    marker::PhantomData,
    task::{Context, Poll},
};

use annulus_sync::Arc;

use super::{
    lease::HandOver,
    shared::{Relief, RingCore},
    state::Window,
};
use crate::{
    admission::Admission,
    error::{ExchangeError, SendError, StopError},
    stats::ExchangeStats,
    waiting::{HandleStats, Patience, block_until_admitted},
};

/// The reason why [`RingProducer::try_send`] did not send, with the value.
#[derive(Debug)]
pub enum TrySendError<T> {
    /// No slot is free: wait for [`RingProducer::poll_ready`].
    Full(T),
    /// The ring was stopped, or every consumer is gone.
    Closed(SendError<T>),
}

/// The sending handle of one thread or task.
///
/// Dropping it without [`finish`](Self::finish) stops the ring with
/// [`ExchangeError::ProducerLost`].
pub struct RingProducer<T> {
    shared: Arc<RingCore<T>>,
    index: usize,
    /// The number by which errors name this producer.
    number: usize,
    window: Window,
    patience: Patience,
    /// Whether a value was published since the consumers were last woken.
    unannounced: bool,
    finished: bool,
    stats: HandleStats,
    one_thread: PhantomData<Cell<()>>,
}

impl<T> RingProducer<T> {
    pub(super) fn new(shared: Arc<RingCore<T>>, index: usize) -> Self {
        let (window, stats) = (Window::default(), HandleStats::default());
        let patience = Patience::new(shared.producers.handles() + shared.consumers.handles());
        Self {
            shared,
            index,
            number: index,
            window,
            patience,
            unannounced: false,
            finished: false,
            stats,
            one_thread: PhantomData,
        }
    }

    /// Waits for a free slot, and returns [`Admission::Granted`] when the next
    /// [`try_send`](Self::try_send) will find a free slot. It reserves nothing, so the caller need
    /// not send. Returns [`Admission::Yield`] if the ring is full and its consumers may only need
    /// to run: the caller lets other tasks run, then calls again. This repeats as long as a
    /// consumer reads in between.
    ///
    /// If the ring is full while a consumer starves and none has read, `overflow(consumer, values)`
    /// is called for each consumer that lags behind in the oldest group. It takes the values of
    /// that group that the consumer has not read. The caller must then deliver them;
    /// [`RingConsumer::poll_next`](super::RingConsumer::poll_next) says how they stay in order.
    ///
    /// `overflow` runs on this thread and may take a long time. Other producers may call theirs
    /// at the same time, but only one producer at a time for one consumer. Values that it does not
    /// take count as not handed over. If it takes none of a consumer that still lags behind, it is
    /// not called for the others, and this producer waits until they have read on. If it fails or
    /// panics, the ring stops, and that consumer sees no value afterwards: part of one may have
    /// been taken.
    ///
    /// # Errors
    /// The first error with which the ring was stopped, [`ExchangeError::ConsumersGone`], or the
    /// error of `overflow`, which also stops the ring. A panic of `overflow` stops it with
    /// [`ExchangeError::ProducerLost`].
    pub fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        mut overflow: impl FnMut(usize, &mut HandOver<'_, T>) -> Result<(), ExchangeError>,
    ) -> Poll<Result<Admission, ExchangeError>> {
        let mut outcome = self.admission(&mut overflow);
        if outcome.is_pending() {
            self.shared.producers.register(self.index, cx.waker(), &mut self.stats);
            super::order::fence_wait_slot();
            outcome = self.admission(&mut overflow);
        }
        self.stats.returns(!matches!(outcome, Poll::Pending | Poll::Ready(Ok(Admission::Yield))));
        outcome
    }

    /// Sends `value` if a slot is free: one `fetch_add` and one store. Once per group, it
    /// wakes the waiting consumers. It never waits, and hands nothing over.
    ///
    /// # Errors
    /// The error returns the value if the ring is full, was stopped, or has no consumers left.
    pub fn try_send(&mut self, value: T) -> Result<(), TrySendError<T>> {
        if let Some(error) = self.shared.error() {
            return Err(TrySendError::Closed(SendError { value, error }));
        }
        if !self.has_free_slot() {
            return Err(TrySendError::Full(value));
        }
        // Between the claim and the publish nothing may wait, fail or panic: it would leave a hole.
        // Rule 1.
        let ticket = self.shared.state.claim(&mut self.stats.counts);
        // SAFETY: the ticket is ours, and its slot is free because this producer was admitted (PROTOCOL.md,
        // "Admission, and why a slot is free").
        unsafe { self.shared.slot(ticket).publish(ticket, value) };
        self.window.tail = ticket + 1;
        self.stats.counts.handoffs += 1;
        self.stats.counts.batches += 1;
        self.unannounced = true;
        if self.window.tail.is_multiple_of(self.shared.group) {
            self.idle();
        }
        Ok(())
    }

    /// Returns the reason why nothing more can be sent, if there is one.
    pub(crate) fn error(&self) -> Option<ExchangeError> {
        self.shared.error()
    }

    /// Sends `value`, and blocks this thread while no slot is free. `overflow` is used as in
    /// [`poll_ready`](Self::poll_ready).
    ///
    /// # Errors
    /// Those of [`poll_ready`](Self::poll_ready), with the value.
    pub fn send(
        &mut self,
        mut value: T,
        mut overflow: impl FnMut(usize, &mut HandOver<'_, T>) -> Result<(), ExchangeError>,
    ) -> Result<(), SendError<T>> {
        loop {
            if let Err(error) = block_until_admitted(|cx| self.poll_ready(cx, &mut overflow)) {
                return Err(SendError { value, error });
            }
            match self.try_send(value) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(error)) => return Err(error),
                Err(TrySendError::Full(back)) => value = back,
            }
        }
    }

    /// Announces that nothing will be sent for a while. It wakes the consumers that wait for values
    /// sent since the last full group. Call it whenever the input has nothing ready. It is cheap if
    /// nothing was sent since the last call.
    pub fn idle(&mut self) {
        if std::mem::take(&mut self.unannounced) {
            self.shared.flush(&mut self.stats);
        }
    }

    /// Wakes every waiting consumer, even if there is nothing for it to read.
    pub(crate) fn wake_consumers(&mut self) {
        self.shared.tell(&self.shared.consumers, &mut self.stats);
    }

    /// Ends this producer's input, and returns its counters. After the last producer's end the
    /// consumers see the end of the stream.
    pub fn finish(mut self) -> ExchangeStats {
        self.end()
    }

    /// Does the work of [`finish`](Self::finish) for an owner that cannot move the handle. Nothing
    /// may be sent afterwards.
    pub(crate) fn end(&mut self) -> ExchangeStats {
        self.finished = true;
        if self.shared.state.producer_finished(&mut self.stats.counts) {
            self.shared.tell(&self.shared.consumers, &mut self.stats);
        } else {
            self.idle();
        }
        self.stats.counts
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

    /// Returns the number of this producer, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    fn has_free_slot(&mut self) -> bool {
        if self.window.used() >= self.shared.bound {
            self.window = self.shared.state.window();
        }
        self.window.used() < self.shared.bound
    }

    /// Makes errors name this producer by another number than its own in this ring.
    pub(crate) fn numbered(self, number: usize) -> Self {
        // No struct update: the handle has a `Drop`.
        let mut producer = self;
        producer.number = number;
        producer
    }

    /// Returns the error for the loss of this producer.
    pub(crate) fn loss(&self) -> ExchangeError {
        ExchangeError::ProducerLost { producer: self.number }
    }

    /// Stops the ring because this producer is lost.
    pub(crate) fn lost(&mut self) {
        self.shared.stop(self.loss(), &mut self.stats);
    }

    /// Checks for a free slot, and frees some by relieving laggards.
    fn admission(
        &mut self,
        mut overflow: impl FnMut(usize, &mut HandOver<'_, T>) -> Result<(), ExchangeError>,
    ) -> Poll<Result<Admission, ExchangeError>> {
        if let Some(error) = self.shared.error() {
            return Poll::Ready(Err(error));
        }
        loop {
            if self.has_free_slot() {
                self.patience.renew();
                return Poll::Ready(Ok(Admission::Granted));
            }
            if self.patience.yields(self.shared.state.progress()) {
                self.idle();
                return Poll::Ready(Ok(Admission::Yield));
            }
            match self.shared.relieve(self.number, &mut self.stats, &mut overflow) {
                // Another thread may still be sweeping. If so, it wakes this producer when it is done.
                Ok(Relief::Nothing) => return Poll::Pending,
                Ok(Relief::Moved) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl<T> Drop for RingProducer<T> {
    fn drop(&mut self) {
        if !self.finished {
            self.lost();
        }
        self.shared.producers.forget(self.index);
    }
}

impl<T> fmt::Debug for RingProducer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingProducer").field("index", &self.index).finish_non_exhaustive()
    }
}
