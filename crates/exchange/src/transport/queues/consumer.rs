//! The receiving handle.

use std::{
    ops::ControlFlow,
    task::{Context, Poll},
};

use annulus_sync::Arc;

use super::{
    super::{Parcel, Receiver, order},
    kind::Kind,
    shared::{QueueCore, QueueOutcome, empty},
};
use crate::{
    error::{ExchangeError, StopError},
    ring::Next,
    stats::ExchangeStats,
    waiting::HandleStats,
    wake::AllCalls,
};

pub(super) struct QueueReceiver<T: Parcel, K: Kind> {
    shared: Arc<QueueCore<T, K>>,
    index: usize,
    finished: bool,
    stats: HandleStats,
}

impl<T: Parcel, K: Kind> QueueReceiver<T, K> {
    pub(super) fn new(shared: Arc<QueueCore<T, K>>, index: usize) -> Self {
        Self { shared, index, finished: false, stats: HandleStats::default() }
    }

    /// Visits the values in the queue, without waiting.
    fn advance(&mut self, visit: &mut dyn FnMut(&T) -> ControlFlow<()>) -> Poll<Result<Next, ExchangeError>> {
        if self.finished {
            return Poll::Ready(Ok(Next::Finished));
        }
        if let Some(error) = self.shared.stop_reason.error() {
            return Poll::Ready(Err(error));
        }
        // Before the queue is read: after all producers have ended, a missing value never comes.
        let ended = self.shared.open_producers.load(order::all_ended()) == 0;
        let found = match self.shared.read(self.index, &mut self.stats, visit) {
            None => return Poll::Pending,
            Some(Err(error)) => return Poll::Ready(Err(error)),
            Some(Ok(found)) => found,
        };
        match found {
            QueueOutcome::Relieved => Poll::Ready(Ok(Next::Relieved)),
            QueueOutcome::Visited(0) if ended => {
                self.finished = true;
                Poll::Ready(Ok(Next::Finished))
            }
            QueueOutcome::Visited(0) => Poll::Pending,
            QueueOutcome::Visited(visited) => {
                self.stats.counts.batches += visited as u64;
                Poll::Ready(Ok(Next::Visited(visited)))
            }
        }
    }
}

impl<T: Parcel, K: Kind> Receiver<T> for QueueReceiver<T, K> {
    fn index(&self) -> usize {
        self.index
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        visit: &mut dyn FnMut(&T) -> ControlFlow<()>,
    ) -> Poll<Result<Next, ExchangeError>> {
        let mut outcome = self.advance(visit);
        if outcome.is_pending() {
            self.shared.consumers[self.index].waiting.register(0, cx.waker(), &mut self.stats);
            order::fence_wait_value();
            // Producers that wait for a free slot while this consumer starves must relieve the slow ones.
            self.shared.producers.wake_all(&mut self.stats);
            outcome = self.advance(visit);
            if outcome.is_ready() {
                // Or producers would take it for one that starves.
                self.shared.consumers[self.index].waiting.withdraw(&mut self.stats);
            }
        }
        self.stats.returns(outcome.is_ready());
        outcome
    }

    fn stop(&mut self, error: StopError) {
        self.shared.stop(ExchangeError::Stopped(error), &mut self.stats);
    }

    fn stats(&self) -> ExchangeStats {
        self.stats.counts
    }
}

impl<T: Parcel, K: Kind> Drop for QueueReceiver<T, K> {
    fn drop(&mut self) {
        let Self { shared, index, stats, .. } = self;
        let consumer = &shared.consumers[*index];
        let mut calls = AllCalls::default();
        calls.call(|| consumer.reader.close(&mut stats.counts, empty));
        calls.call(|| shared.stop_reason.consumer_gone(stats));
        // A queue that no consumer reads holds nobody back.
        calls.call(|| shared.tell_producers(stats));
        consumer.waiting.forget(0);
        calls.finish();
    }
}
