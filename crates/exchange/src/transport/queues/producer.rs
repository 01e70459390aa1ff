//! The sending handle.

use std::{
    sync::Arc as StdArc,
    task::{Context, Poll},
};

use annulus_sync::{Arc, atomic::Ordering::Relaxed};

use super::{
    super::{Parcel, Relieve, Sender, order},
    kind::{Kind, PushEnd},
    shared::{QueueCore, Relief},
};
use crate::{
    error::{ExchangeError, SendError, StopError},
    ring::{Admission, TrySendError},
    stats::ExchangeStats,
    waiting::{HandleStats, Patience},
};

pub(super) struct QueueSender<T: Parcel, K: Kind> {
    shared: Arc<QueueCore<T, K>>,
    index: usize,
    push: K::Push<T>,
    /// The consumers that got the value being sent. Kept for its memory.
    pushed: Vec<usize>,
    patience: Patience,
    /// Whether the next value was admitted. Others may have taken the slot since.
    granted: bool,
    ended: bool,
    stats: HandleStats,
}

impl<T: Parcel, K: Kind> QueueSender<T, K> {
    pub(super) fn new(shared: Arc<QueueCore<T, K>>, index: usize, push: K::Push<T>) -> Self {
        let patience = Patience::new(shared.producers.handles() + shared.consumers.len());
        Self {
            shared,
            index,
            push,
            pushed: Vec::new(),
            patience,
            granted: false,
            ended: false,
            stats: HandleStats::default(),
        }
    }

    fn is_full(push: &K::Push<T>, shared: &QueueCore<T, K>, consumer: usize) -> bool {
        !push.has_free_slot(consumer) && !shared.consumers[consumer].reader.is_closed()
    }

    /// Returns whether every queue to a live consumer has a free slot.
    fn has_free_slot(&self) -> bool {
        !(0..self.shared.consumers.len()).any(|consumer| Self::is_full(&self.push, &self.shared, consumer))
    }

    /// Checks for a free slot, and frees some by relieving laggards.
    fn admission(&mut self, relieve: &mut Relieve<'_, T>) -> Poll<Result<Admission, ExchangeError>> {
        if let Some(error) = self.shared.stop_reason.error() {
            return Poll::Ready(Err(error));
        }
        loop {
            if self.has_free_slot() {
                self.patience.renew();
                return Poll::Ready(Ok(Admission::Granted));
            }
            if self.patience.yields(self.shared.progress()) {
                return Poll::Ready(Ok(Admission::Yield));
            }
            let Self { shared, push, index, stats, .. } = self;
            let full = |consumer| Self::is_full(push, shared, consumer);
            match shared.relieve(*index, full, stats, relieve) {
                Ok(Relief::Nothing) => return Poll::Pending,
                Ok(Relief::Moved) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl<T: Parcel, K: Kind> Sender<T> for QueueSender<T, K> {
    fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        relieve: &mut Relieve<'_, T>,
    ) -> Poll<Result<Admission, ExchangeError>> {
        let mut outcome = self.admission(relieve);
        if outcome.is_pending() {
            self.shared.producers.register(self.index, cx.waker(), &mut self.stats);
            order::fence_wait_space();
            outcome = self.admission(relieve);
        }
        self.granted = matches!(outcome, Poll::Ready(Ok(Admission::Granted)));
        self.stats.returns(!matches!(outcome, Poll::Pending | Poll::Ready(Ok(Admission::Yield))));
        outcome
    }

    fn error(&self) -> Option<ExchangeError> {
        self.shared.stop_reason.error()
    }

    fn try_send(&mut self, value: T) -> Result<(), TrySendError<T>> {
        if let Some(error) = self.shared.stop_reason.error() {
            return Err(TrySendError::Closed(SendError { value, error }));
        }
        if !std::mem::take(&mut self.granted) && !self.has_free_slot() {
            return Err(TrySendError::Full(value));
        }
        let value = StdArc::new(value);
        self.pushed.clear();
        for (index, consumer) in self.shared.consumers.iter().enumerate() {
            if value.concerns(index) && !consumer.reader.is_closed() {
                self.push.push(index, StdArc::clone(&value), &mut self.stats.counts);
                self.pushed.push(index);
            }
        }
        drop(value);
        self.stats.counts.batches += 1;
        order::fence_sent();
        self.shared.wake_consumers(self.pushed.iter().copied(), &mut self.stats);
        Ok(())
    }

    /// Does nothing: consumers are woken whenever something is sent.
    fn idle(&mut self) {}

    fn wake_consumers(&mut self) {
        self.shared.tell_consumers(&mut self.stats);
    }

    fn end(&mut self) -> ExchangeStats {
        self.ended = true;
        self.stats.counts.shared_ops += 1;
        if self.shared.open_producers.fetch_sub(1, Relaxed) == 1 {
            self.shared.tell_consumers(&mut self.stats);
        }
        self.stats.counts
    }

    fn stop(&mut self, error: StopError) {
        self.shared.stop(ExchangeError::Stopped(error), &mut self.stats);
    }

    fn lost(&mut self) {
        self.shared.stop(ExchangeError::ProducerLost { producer: self.index }, &mut self.stats);
    }

    fn stats(&self) -> ExchangeStats {
        self.stats.counts
    }
}

impl<T: Parcel, K: Kind> Drop for QueueSender<T, K> {
    fn drop(&mut self) {
        if !self.ended {
            self.lost();
        }
        self.shared.producers.forget(self.index);
    }
}
