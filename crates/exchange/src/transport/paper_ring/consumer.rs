//! The receiving handle.

use std::{
    ops::ControlFlow,
    task::{Context, Poll},
};

use annulus_sync::{Arc, atomic::Ordering::Relaxed};

use super::{
    super::{AT_ONCE, Parcel, Receiver, order as transport_order},
    reading::Reading,
    shared::Shared,
};
use crate::{
    error::{ExchangeError, StopError},
    lease::{LeaseAttempt, Taker},
    ring::Next,
    stats::ExchangeStats,
    waiting::Local,
    wake::AllCalls,
};

pub(super) struct PaperReceiver<T: Parcel> {
    shared: Arc<Shared<T>>,
    index: usize,
    finished: bool,
    local: Local,
}

impl<T: Parcel> PaperReceiver<T> {
    pub(super) fn new(shared: Arc<Shared<T>>, index: usize) -> Self {
        Self { shared, index, finished: false, local: Local::default() }
    }

    /// Visits the values that are published now, without waiting.
    fn advance(&mut self, visit: &mut dyn FnMut(&T) -> ControlFlow<()>) -> Poll<Result<Next, ExchangeError>> {
        if self.finished {
            return Poll::Ready(Ok(Next::Finished));
        }
        if let Some(error) = self.shared.halt.error() {
            return Poll::Ready(Err(error));
        }
        // Before the groups are read: after the end, a missing group never comes.
        let closed = self.shared.is_closed();
        let taken = self.shared.readers[self.index].position.take(Taker::Consumer, &mut self.local.stats);
        let LeaseAttempt::Taken(held) = taken else { return Poll::Pending };
        let mut reading = Reading::new(&self.shared, self.index, held, u64::MAX, &mut self.local);
        // Checked again: a hand-over that failed may have taken part of a value.
        if let Some(error) = self.shared.halt.error() {
            return Poll::Ready(Err(error));
        }
        if reading.with(|at| std::mem::take(&mut at.relieved)) {
            return Poll::Ready(Ok(Next::Relieved));
        }
        reading.read(AT_ONCE, visit);
        let visited = reading.visited;
        drop(reading);
        self.local.stats.batches += visited as u64;
        match visited {
            0 if closed => {
                self.finished = true;
                Poll::Ready(Ok(Next::Finished))
            }
            0 => Poll::Pending,
            _ => Poll::Ready(Ok(Next::Visited(visited))),
        }
    }
}

impl<T: Parcel> Receiver<T> for PaperReceiver<T> {
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
            self.shared.consumers.register(self.index, cx.waker(), &mut self.local);
            transport_order::fence_wait_value();
            // Producers that wait for room while this consumer starves must relieve the slow ones. Also if
            // others are registered: they may be slow themselves.
            self.shared.producers.wake_all(&mut self.local);
            outcome = self.advance(visit);
        }
        self.local.returns(outcome.is_ready());
        outcome
    }

    fn stop(&mut self, error: StopError) {
        self.shared.stop(ExchangeError::Stopped(error), &mut self.local);
    }

    fn stats(&self) -> ExchangeStats {
        self.local.stats
    }
}

impl<T: Parcel> Drop for PaperReceiver<T> {
    fn drop(&mut self) {
        let Self { shared, index, local, .. } = self;
        let mut calls = AllCalls::default();
        let mut left = None;
        shared.readers[*index].position.close(&mut local.stats, |position| left = Some(std::mem::take(position)));
        if let Some(position) = left {
            shared.readers[*index].at.store(u64::MAX, Relaxed);
            calls.call(|| shared.retire(&position, local));
        }
        calls.call(|| shared.halt.consumer_gone(local));
        calls.call(|| shared.tell_all(local));
        shared.consumers.forget(*index);
        calls.finish();
    }
}
