//! The receiving handle.

use std::{
    ops::ControlFlow,
    task::{Context, Poll},
};

use annulus_exchange::{
    ExchangeError, ExchangeStats, StopError,
    plug::{AllCalls, HandleStats, LeaseAttempt, Seat, Taker, VALUES_AT_ONCE},
    ring::Next,
    transport::{Parcel, Receiver},
};
use annulus_sync::{Arc, atomic::Ordering::Relaxed};

use super::{reading::ReaderLease, shared::PaperCore};
use crate::order as rival_order;

pub(super) struct PaperReceiver<T: Parcel> {
    // Dropped before the list that it belongs to.
    seat: Seat,
    shared: Arc<PaperCore<T>>,
    index: usize,
    finished: bool,
    stats: HandleStats,
}

impl<T: Parcel> PaperReceiver<T> {
    pub(super) fn new(seat: Seat, shared: Arc<PaperCore<T>>, index: usize) -> Self {
        Self { seat, shared, index, finished: false, stats: HandleStats::default() }
    }

    /// Visits the values that are published now, without waiting.
    fn advance(&mut self, visit: &mut dyn FnMut(&T) -> ControlFlow<()>) -> Poll<Result<Next, ExchangeError>> {
        if self.finished {
            return Poll::Ready(Ok(Next::Finished));
        }
        if let Some(error) = self.shared.stop_reason.error() {
            return Poll::Ready(Err(error));
        }
        // Before the groups are read: after the end, a missing group never comes.
        let closed = self.shared.is_closed();
        let taken = self.shared.readers[self.index].position.take(Taker::Consumer, &mut self.stats.counts);
        let LeaseAttempt::Taken(held) = taken else { return Poll::Pending };
        let mut reading = ReaderLease::new(&self.shared, self.index, held, u64::MAX, &mut self.stats);
        // Checked again: a hand-over that failed may have taken part of a value.
        if let Some(error) = self.shared.stop_reason.error() {
            return Poll::Ready(Err(error));
        }
        if reading.with(|at| std::mem::take(&mut at.relieved)) {
            return Poll::Ready(Ok(Next::Relieved));
        }
        reading.read(VALUES_AT_ONCE, visit);
        let visited = reading.visited;
        drop(reading);
        self.stats.counts.batches += visited as u64;
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
            self.seat.register(cx.waker(), &mut self.stats);
            rival_order::fence_rival_value();
            // Producers that wait for a free slot while this consumer starves must relieve the slow ones. Also if
            // others are registered: they may be slow themselves.
            self.shared.producers.wake_all(&mut self.stats);
            outcome = self.advance(visit);
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

impl<T: Parcel> Drop for PaperReceiver<T> {
    fn drop(&mut self) {
        let Self { shared, index, stats, .. } = self;
        let mut calls = AllCalls::default();
        let mut left = None;
        shared.readers[*index].position.close(&mut stats.counts, |position| left = Some(std::mem::take(position)));
        if let Some(position) = left {
            shared.readers[*index].at.store(u64::MAX, Relaxed);
            calls.call(|| shared.retire(&position, stats));
        }
        calls.call(|| shared.stop_reason.consumer_gone(stats));
        calls.call(|| shared.tell_all(stats));
        calls.finish();
    }
}
