//! The state that the handles share. Numbers in comments are the rules of PROTOCOL.md.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use annulus_sync::atomic::AtomicUsize;
use crossbeam_utils::CachePadded;

use super::{
    super::{
        Parcel, Relieve, Unread, VALUES_AT_ONCE,
        lease_cell::{LeaseCell, LeaseGuard},
        order,
    },
    kind::{Kind, PopEnd},
};
use crate::{
    error::ExchangeError,
    lease::{LeaseAttempt, Taker},
    stop::StopReason,
    waiting::{HandleStats, WakerList},
    wake::AllCalls,
};

pub(super) struct QueueCore<T: Parcel, K: Kind> {
    pub(super) stop_reason: StopReason,
    /// The number of producers that have not ended.
    pub(super) open_producers: CachePadded<AtomicUsize>,
    /// The producers that wait for a free slot.
    pub(super) producers: WakerList,
    pub(super) consumers: Box<[CachePadded<PerConsumer<T, K>>]>,
}

pub(super) struct PerConsumer<T: Parcel, K: Kind> {
    /// The consumer, while it waits for a value.
    pub(super) waiting: WakerList,
    /// The number of values taken from this consumer's queue. Stored under the lease. A hint that
    /// no protocol relies on, so models do not see it.
    taken: AtomicU64,
    pub(super) reader: LeaseCell<Reader<K::Pop<T>>>,
}

/// A consumer's end of its queue.
pub(super) struct Reader<P> {
    pop: P,
    /// Whether a producer has taken values since the consumer's last call. Rule 3.
    relieved: bool,
}

/// Whether relieving laggards may have freed slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Relief {
    Moved,
    /// Nobody starves, the laggards are in calls of their own, or nothing was taken from them.
    Nothing,
}

/// What a consumer found.
pub(super) enum QueueOutcome {
    Relieved,
    Visited(usize),
}

impl<T: Parcel, K: Kind> QueueCore<T, K> {
    pub(super) fn new(producers: usize, pops: Vec<K::Pop<T>>) -> Self {
        let per_consumer = |pop| {
            let reader = LeaseCell::new(Reader { pop, relieved: false });
            CachePadded::new(PerConsumer { waiting: WakerList::new(1), taken: AtomicU64::new(0), reader })
        };
        Self {
            stop_reason: StopReason::new(pops.len()),
            open_producers: CachePadded::new(AtomicUsize::new(producers)),
            producers: WakerList::new(producers),
            consumers: pops.into_iter().map(per_consumer).collect(),
        }
    }

    /// Returns a number that changes when a consumer takes a value.
    pub(super) fn progress(&self) -> u64 {
        self.consumers.iter().fold(0, |sum: u64, consumer| sum.wrapping_add(consumer.taken.load(Relaxed)))
    }

    /// Returns whether a consumer waits, and was not woken since. A value for it would have woken
    /// it.
    pub(super) fn someone_starves(&self) -> bool {
        self.consumers.iter().any(|consumer| consumer.waiting.any() && !consumer.reader.is_closed())
    }

    /// Wakes those of `consumers` that wait, after values were pushed. Rule 4.
    pub(super) fn wake_consumers(&self, consumers: impl Iterator<Item = usize>, stats: &mut HandleStats) {
        let mut calls = AllCalls::default();
        for consumer in consumers {
            calls.call(|| self.consumers[consumer].waiting.wake_all(stats));
        }
        calls.finish();
    }

    /// Wakes all consumers after a rare event was stored.
    pub(super) fn tell_consumers(&self, stats: &mut HandleStats) {
        order::fence_event();
        self.wake_consumers(0..self.consumers.len(), stats);
    }

    /// Wakes all producers after a rare event was stored.
    pub(super) fn tell_producers(&self, stats: &mut HandleStats) {
        order::fence_event();
        self.producers.wake_all(stats);
    }

    /// Stops all handles with `error`, unless they were stopped before.
    pub(super) fn stop(&self, error: ExchangeError, stats: &mut HandleStats) {
        self.stop_reason.stop(error, stats);
        let mut calls = AllCalls::default();
        calls.call(|| self.tell_consumers(stats));
        calls.call(|| self.tell_producers(stats));
        calls.finish();
    }

    /// Visits the values in the queue of `consumer`. `None` if a producer holds the lease: it wakes
    /// the consumer.
    pub(super) fn read(
        &self,
        consumer: usize,
        stats: &mut HandleStats,
        visit: &mut dyn FnMut(&T) -> ControlFlow<()>,
    ) -> Option<Result<QueueOutcome, ExchangeError>> {
        let LeaseAttempt::Taken(held) = self.consumers[consumer].reader.take(Taker::Consumer, &mut stats.counts) else {
            return None;
        };
        let mut reading = QueueLease::new(self, consumer, held, stats);
        // Checked again: a hand-over that failed may have taken part of a value. Rule 3.
        if let Some(error) = self.stop_reason.error() {
            return Some(Err(error));
        }
        if reading.with(|reader| std::mem::take(&mut reader.relieved)) {
            return Some(Ok(QueueOutcome::Relieved));
        }
        while let Some(flow) = reading.next(&mut *visit) {
            if flow.is_break() {
                break;
            }
        }
        Some(Ok(QueueOutcome::Visited(reading.taken as usize)))
    }

    /// Gives the values of the full queues to `relieve`, if a consumer starves. A failure stops the
    /// transport. Rule 3.
    pub(super) fn relieve(
        &self,
        producer: usize,
        full: impl Fn(usize) -> bool,
        stats: &mut HandleStats,
        relieve: &mut Relieve<'_, T>,
    ) -> Result<Relief, ExchangeError> {
        if !self.someone_starves() {
            return Ok(Relief::Nothing);
        }
        let laggards = || (0..self.consumers.len()).filter(|consumer| full(*consumer));
        if laggards().any(|consumer| self.consumers[consumer].reader.want(&mut stats.counts)) {
            // One of them is reading: it frees slots, or wakes this producer when its call ends.
            return Ok(Relief::Nothing);
        }
        // Slots that laggards have freed themselves meanwhile count as well: they wake no one for it.
        let mut relief = Relief::Moved;
        for consumer in laggards() {
            let held = match self.consumers[consumer].reader.take(Taker::Producer, &mut stats.counts) {
                LeaseAttempt::Taken(held) => held,
                LeaseAttempt::Busy => {
                    relief = Relief::Nothing;
                    continue;
                }
                LeaseAttempt::Closed => continue,
            };
            let mut reading = QueueLease::new(self, consumer, held, stats);
            if let Some(error) = self.stop_reason.error() {
                return Err(error);
            }
            reading.most = reading.with(|reader| reader.pop.values()) as u64;
            reading.failure = Some(ExchangeError::ProducerLost { producer });
            let outcome = relieve(consumer, 0, &mut reading);
            reading.failure = outcome.as_ref().err().cloned();
            if reading.taken > 0 {
                reading.with(|reader| reader.relieved = true);
            } else if reading.most > 0 {
                // The caller waits for the consumer, which reads on, and wakes this producer for the slot. It
                // would wait for the others, too.
                drop(reading);
                outcome?;
                return Ok(Relief::Nothing);
            } else if full(consumer) {
                // It had emptied its queue, which others have filled since.
                relief = Relief::Nothing;
            }
            drop(reading);
            outcome?;
        }
        Ok(relief)
    }
}

/// A consumer's queue while its lease is held. Dropping it gives the lease back and wakes whom that
/// concerns, even if the reader's code panics.
struct QueueLease<'a, T: Parcel, K: Kind> {
    shared: &'a QueueCore<T, K>,
    consumer: usize,
    /// `None` only while it is dropped.
    held: Option<LeaseGuard<'a, Reader<K::Pop<T>>>>,
    stats: &'a mut HandleStats,
    /// The number of values taken.
    taken: u64,
    /// The number of values that may be taken. Without a limit, a fast producer could make a call
    /// last for ever.
    most: u64,
    /// The error with which the transport stops, if a hand-over has failed. While the caller's code
    /// runs, it is the error for a panic there.
    failure: Option<ExchangeError>,
}

impl<'a, T: Parcel, K: Kind> QueueLease<'a, T, K> {
    fn new(
        shared: &'a QueueCore<T, K>,
        consumer: usize,
        held: LeaseGuard<'a, Reader<K::Pop<T>>>,
        stats: &'a mut HandleStats,
    ) -> Self {
        Self { shared, consumer, held: Some(held), stats, taken: 0, most: VALUES_AT_ONCE as u64, failure: None }
    }

    fn with<R>(&mut self, f: impl FnOnce(&mut Reader<K::Pop<T>>) -> R) -> R {
        self.held.as_mut().expect("it is held until it is dropped").with(f)
    }

    /// Takes the next value, if it may take one more, and calls `visit` with it.
    fn next<R>(&mut self, visit: impl FnOnce(&T) -> R) -> Option<R> {
        let Self { held, stats, .. } = self;
        if self.taken == self.most {
            return None;
        }
        let value = held.as_mut()?.with(|reader| reader.pop.pop(&mut stats.counts))?;
        self.taken += 1;
        Some(visit(&value))
    }
}

impl<T: Parcel, K: Kind> Unread<T> for QueueLease<'_, T, K> {
    fn try_for_each(&mut self, take: &mut dyn FnMut(&T) -> Result<(), ExchangeError>) -> Result<(), ExchangeError> {
        while let Some(outcome) = self.next(&mut *take) {
            outcome?;
        }
        Ok(())
    }
}

impl<T: Parcel, K: Kind> Drop for QueueLease<'_, T, K> {
    fn drop(&mut self) {
        let Self { shared, consumer, stats, .. } = self;
        let per_consumer = &shared.consumers[*consumer];
        let mut calls = AllCalls::default();
        // Before the lease is given back: part of a value may have been taken.
        if let Some(failure) = self.failure.take() {
            calls.call(|| shared.stop(failure, stats));
        }
        let Some(mut held) = self.held.take() else { return };
        let low = held.with(|reader| reader.pop.is_low());
        per_consumer.taken.store(per_consumer.taken.load(Relaxed).wrapping_add(self.taken), Relaxed);
        let given = held.give(&mut stats.counts, empty);
        if given.wanted_back {
            calls.call(|| {
                order::fence_event();
                per_consumer.waiting.wake_all(stats);
            });
        }
        // Producers are woken at half the bound, so that each can send several values. Rule 4.
        if given.wanted || given.closed || (low && self.taken > 0) {
            calls.call(|| {
                order::fence_event();
                shared.producers.wake_all(stats);
            });
        }
        calls.finish();
    }
}

/// Drops the values in the queue of a consumer that is gone.
pub(super) fn empty<T: Parcel>(reader: &mut Reader<impl PopEnd<T>>) {
    while reader.pop.pop(&mut crate::stats::ExchangeStats::default()).is_some() {}
}
