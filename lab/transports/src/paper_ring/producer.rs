//! The sending handle.

use std::task::{Context, Poll};

use annulus_exchange::{
    Admission, ExchangeError, ExchangeStats, SendError, StopError,
    plug::{HandleStats, LeaseAttempt, Patience, Seat, Taker},
    ring::TrySendError,
    transport::{Parcel, Relieve, Sender},
};
use annulus_sync::{Arc, atomic::Ordering::Relaxed};

use super::{group::Group, order, reading::ReaderLease, shared::PaperCore};
use crate::order as rival_order;

pub(super) struct PaperSender<T: Parcel> {
    // Dropped before the list that it belongs to.
    seat: Seat,
    shared: Arc<PaperCore<T>>,
    index: usize,
    /// The group that this producer fills, as its reference said when it last looked.
    group: Arc<Group<T>>,
    /// Whether this producer has found no slot in the group.
    exhausted: bool,
    /// The group to donate when this producer completes one.
    replacement: Option<Arc<Group<T>>>,
    /// Whether a value of this producer may be in a group that is not published.
    unpublished: bool,
    patience: Patience,
    /// Whether the next value was admitted. Others may have taken the slot since.
    granted: bool,
    ended: bool,
    stats: HandleStats,
}

impl<T: Parcel> PaperSender<T> {
    pub(super) fn new(seat: Seat, shared: Arc<PaperCore<T>>, index: usize) -> Self {
        // Counts for no one: the handle is not in use yet.
        let mut stats = HandleStats::default();
        let patience = Patience::new(shared.producers.handles() + shared.consumers.handles());
        let (group, replacement) = (shared.reference(index, &mut stats), Some(shared.fresh()));
        Self {
            seat,
            shared,
            index,
            group,
            exhausted: false,
            replacement,
            unpublished: false,
            patience,
            granted: false,
            ended: false,
            stats: HandleStats::default(),
        }
    }

    /// Returns whether the group has a slot left. The reference is looked up only when it has none.
    fn has_free_slot(&mut self) -> bool {
        if !self.exhausted && !self.group.is_full() {
            return true;
        }
        let group = self.shared.reference(self.index, &mut self.stats);
        if Arc::ptr_eq(&group, &self.group) {
            return false;
        }
        self.group = group;
        // What was left over is in the new group.
        self.unpublished = std::mem::take(&mut self.exhausted);
        !self.group.is_full()
    }

    fn donate(&mut self) {
        let replacement = self.replacement.take().unwrap_or_else(|| self.shared.fresh());
        self.shared.publish(Arc::clone(&self.group), replacement, &mut self.stats);
        // Allocated after the mutex was released.
        self.replacement = Some(self.shared.fresh());
    }

    /// Completes the group that is being filled though it has empty slots, if this producer has a
    /// value in it.
    fn flush(&mut self) {
        // A value that is left over must not wait for others to fill its group.
        let reachable = |producer: &mut Self| {
            producer.has_free_slot()
                || (producer.exhausted
                    && !producer.shared.hurry(producer.index, &producer.group, &mut producer.stats)
                    && producer.has_free_slot())
        };
        if !self.unpublished || !reachable(self) || !std::mem::take(&mut self.unpublished) {
            return;
        }
        let rest = self.group.close(&mut self.stats.counts);
        if rest > 0 && self.group.complete(rest, &mut self.stats.counts) {
            self.donate();
        }
    }

    fn progress(&self) -> u64 {
        self.shared.readers.iter().fold(0, |sum: u64, reader| sum.wrapping_add(reader.at.load(Relaxed)))
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
            if self.patience.yields(self.progress()) {
                return Poll::Ready(Ok(Admission::Yield));
            }
            match self.relieve(relieve) {
                Ok(false) => return Poll::Pending,
                Ok(true) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Returns whether a consumer waits and has read everything that was published.
    fn someone_starves(&self) -> bool {
        let shared = &self.shared;
        let caught_up = |reader: usize| shared.readers[reader].at.load(Relaxed) == shared.published();
        shared.consumers.any()
            && (0..shared.readers.len()).any(|reader| shared.consumers.waits(reader) && caught_up(reader))
    }

    /// Gives the oldest group of the laggards to `relieve`, if the ring is full and a consumer
    /// starves. Returns whether that may have freed slots. A failure stops the ring.
    fn relieve(&mut self, relieve: &mut Relieve<'_, T>) -> Result<bool, ExchangeError> {
        if !self.someone_starves() {
            return Ok(false);
        }
        let Some(oldest) = self.shared.oldest_if_full(&mut self.stats) else { return Ok(false) };
        let Self { shared, stats, index, .. } = self;
        let laggards = || (0..shared.readers.len()).filter(|reader| shared.readers[*reader].at.load(Relaxed) <= oldest);
        if laggards().any(|reader| shared.readers[reader].position.want(&mut stats.counts)) {
            // One of them is reading: it frees slots, or wakes this producer when its call ends.
            return Ok(false);
        }
        // Slots that laggards have freed themselves meanwhile count as well: they wake no one for it.
        let mut moved = true;
        for consumer in laggards() {
            let held = match shared.readers[consumer].position.take(Taker::Producer, &mut stats.counts) {
                LeaseAttempt::Taken(held) => held,
                LeaseAttempt::Busy => {
                    moved = false;
                    continue;
                }
                LeaseAttempt::Closed => continue,
            };
            let mut reading = ReaderLease::new(shared, consumer, held, oldest + 1, stats);
            if let Some(error) = shared.stop_reason.error() {
                return Err(error);
            }
            reading.failure = Some(ExchangeError::ProducerLost { producer: *index });
            let outcome = relieve(consumer, 0, &mut reading);
            reading.failure = outcome.as_ref().err().cloned();
            if reading.visited > 0 {
                reading.with(|at| at.relieved = true);
            } else if reading.with(|at| at.group <= oldest) {
                // The caller waits for the consumer, which reads on, and would wait for the others. The last
                // one to leave the group wakes this producer.
                drop(reading);
                outcome?;
                return Ok(false);
            }
            drop(reading);
            outcome?;
        }
        Ok(moved)
    }
}

impl<T: Parcel> Sender<T> for PaperSender<T> {
    fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        relieve: &mut Relieve<'_, T>,
    ) -> Poll<Result<Admission, ExchangeError>> {
        let mut outcome = self.admission(relieve);
        if outcome.is_pending() {
            self.seat.register(cx.waker(), &mut self.stats);
            rival_order::fence_rival_slot();
            outcome = self.admission(relieve);
        }
        self.granted = matches!(outcome, Poll::Ready(Ok(Admission::Granted)));
        self.stats.returns(!matches!(outcome, Poll::Pending | Poll::Ready(Ok(Admission::Yield))));
        outcome
    }

    fn error(&self) -> Option<ExchangeError> {
        self.shared.stop_reason.error()
    }

    fn try_send(&mut self, mut value: T) -> Result<(), TrySendError<T>> {
        if let Some(error) = self.shared.stop_reason.error() {
            return Err(TrySendError::Closed(SendError { value, error }));
        }
        if !self.has_free_slot() && !std::mem::take(&mut self.granted) {
            return Err(TrySendError::Full(value));
        }
        self.granted = false;
        self.stats.counts.batches += 1;
        self.unpublished = true;
        loop {
            if let Some(slot) = self.group.claim(&mut self.stats.counts) {
                // SAFETY: the slot was just claimed.
                unsafe { self.group.write(slot, value) };
                if self.group.complete(1, &mut self.stats.counts) {
                    self.donate();
                }
                return Ok(());
            }
            // Another producer has claimed the last slot since this one was admitted. Rule 4.
            match self.shared.leave_over(self.index, &self.group, value, &mut self.stats) {
                None => {
                    self.exhausted = true;
                    return Ok(());
                }
                Some(back) => {
                    value = back;
                    self.group = self.shared.reference(self.index, &mut self.stats);
                }
            }
        }
    }

    fn idle(&mut self) {
        self.flush();
    }

    fn wake_consumers(&mut self) {
        self.shared.tell_consumers(&mut self.stats);
    }

    fn end(&mut self) -> ExchangeStats {
        self.ended = true;
        self.flush();
        self.stats.counts.shared_ops += 1;
        if self.shared.open_producers.fetch_sub(1, order::end()) == 1 {
            self.shared.end(&mut self.stats);
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

impl<T: Parcel> Drop for PaperSender<T> {
    fn drop(&mut self) {
        if !self.ended {
            self.lost();
        }
    }
}
