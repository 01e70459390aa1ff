//! The state that the handles share, and the steps of the protocol that need more than one word.
//! Numbers in comments are the access rules of PROTOCOL.md.

use crossbeam_utils::CachePadded;

use super::{
    lease::{HandOver, Lease},
    order,
    slot::Slot,
    state::{State, Survey, Sweep},
};
use crate::{
    error::ExchangeError,
    lease::{LeaseAttempt, LeaseCloser, Taker},
    waiting::{HandleStats, WakerList},
    wake::AllCalls,
};

/// The ring itself.
#[derive(Debug)]
pub(super) struct RingCore<T> {
    pub(super) state: State,
    slots: Box<[CachePadded<Slot<T>>]>,
    pub(super) producers: WakerList,
    pub(super) consumers: WakerList,
    /// The slots of a group, G.
    pub(super) group: u64,
    /// The number of values at which the ring is full, R * G.
    pub(super) bound: u64,
}

/// Whether the hand-over of laggards' values may have freed slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Relief {
    Moved,
    /// The laggards are in calls of their own, or there is nothing to move yet.
    Nothing,
}

impl<T> RingCore<T> {
    /// Creates a ring of R `groups` of G `slots`. None of the four numbers is 0.
    pub(super) fn new(producers: usize, consumers: usize, groups: usize, slots: usize) -> Self {
        let bound = groups * slots;
        let slot = |_| CachePadded::new(Slot::new());
        Self {
            state: State::new(producers, consumers),
            // Racing producers exceed the bound by at most one ticket each, and the first ticket is
            // within it.
            slots: (0..bound + producers - 1).map(slot).collect(),
            producers: WakerList::new(producers),
            consumers: WakerList::new(consumers),
            group: slots as u64,
            bound: bound as u64,
        }
    }

    pub(super) fn slot(&self, ticket: u64) -> &Slot<T> {
        // The remainder is below the length, so it fits into a `usize`.
        &self.slots[(ticket % self.slots.len() as u64) as usize]
    }

    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Returns the first ticket after the group of `ticket`.
    pub(super) fn group_end(&self, ticket: u64) -> u64 {
        (ticket / self.group + 1) * self.group
    }

    /// Returns the reason why no more values are passed on, if there is one.
    pub(super) fn error(&self) -> Option<ExchangeError> {
        self.state.stop_reason().error()
    }

    /// Stops all handles with `error`, unless the ring was stopped before or its consumers are
    /// gone. Rule 8.
    pub(super) fn stop(&self, error: ExchangeError, stats: &mut HandleStats) {
        self.state.stop_reason().stop(error, stats);
        let mut calls = AllCalls::default();
        calls.call(|| self.tell(&self.consumers, stats));
        calls.call(|| self.tell(&self.producers, stats));
        calls.finish();
    }

    /// Wakes all handles of one side after a rare event was stored. Rule 8.
    pub(super) fn tell(&self, side: &WakerList, stats: &mut HandleStats) {
        order::fence_tell();
        side.wake_all(stats);
    }

    /// Wakes the consumers that wait, after a value was published. Rule 7.
    pub(super) fn flush(&self, stats: &mut HandleStats) {
        order::fence_flush();
        self.consumers.wake_all(stats);
    }

    /// Returns whether a live consumer waits and has seen everything that was published.
    fn someone_starves(&self) -> bool {
        let caught_up =
            |consumer| self.state.cursor_hint(consumer).is_some_and(|cursor| !self.slot(cursor).is_published(cursor));
        self.consumers.any()
            && (0..self.state.consumers()).any(|consumer| self.consumers.waits(consumer) && caught_up(consumer))
    }

    /// Hands the values of the oldest group over to `overflow` for each consumer that lags behind
    /// there, if a consumer starves. A failure stops the ring. Rule 10.
    pub(super) fn relieve(
        &self,
        producer: usize,
        stats: &mut HandleStats,
        mut overflow: impl FnMut(usize, &mut HandOver<'_, T>) -> Result<(), ExchangeError>,
    ) -> Result<Relief, ExchangeError> {
        if !self.someone_starves() {
            // Consumers that wait nevertheless have something to read. When the list is empty, the
            // next one that waits is the first, and wakes the producers that wait for a free slot.
            self.consumers.wake_all(stats);
            return Ok(Relief::Nothing);
        }
        let end = self.group_end(self.state.released_hint());
        let unread = |cursor| cursor < end && self.slot(cursor).is_published(cursor);
        let lags = |consumer: &usize| self.state.cursor_hint(*consumer).is_some_and(unread);
        let laggards = || (0..self.state.consumers()).filter(lags);
        if laggards().any(|consumer| self.state.want_lease(consumer, &mut stats.counts)) {
            // One of them is reading: it frees slots, or wakes this producer when its call ends.
            return Ok(Relief::Nothing);
        }
        let mut relief = Relief::Nothing;
        for consumer in laggards() {
            let LeaseAttempt::Taken(cursor) = self.state.take_lease(consumer, Taker::Producer, &mut stats.counts)
            else {
                continue;
            };
            let lease = Lease::new(self, stats, consumer, cursor);
            if let Some(error) = self.error() {
                return Err(error);
            }
            let mut values = HandOver::new(lease, end, producer);
            // The consumer may have read on before its lease was taken.
            let has_some = values.has_some();
            let outcome = overflow(consumer, &mut values);
            if values.finish(outcome)? {
                relief = Relief::Moved;
            } else if has_some {
                // The caller waits for the consumer, which reads on. It would wait for the others, too.
                break;
            }
        }
        Ok(relief)
    }

    /// Frees the slots that every consumer has passed, if the sweep waited for the cursor that has
    /// moved. Rule 6.
    pub(super) fn passed(&self, consumer: usize, stats: &mut HandleStats) {
        if self.state.passed(consumer, &mut stats.counts) == Sweep::Taken {
            Sweeper { shared: self, stats, from: consumer, holds: true, in_use: u64::MAX }.sweep();
        }
    }

    /// Drops the values below `cursor`, which every consumer has passed, and releases their slots
    /// to the producers. Returns the number of slots in use, if any was freed. Only the sweeper
    /// may call it.
    fn free(&self, cursor: u64) -> Option<u64> {
        let released = self.state.released_hint();
        if released == cursor {
            return None;
        }
        for ticket in released..cursor {
            // SAFETY: we hold the sweep, and the survey saw every cursor at `cursor` or beyond.
            drop(unsafe { self.slot(ticket).clear() });
        }
        Some(self.state.free(cursor))
    }

    /// Clears the ring after the last consumer has gone. The sweep is kept for good, since no
    /// consumer is left to hand it to.
    fn all_gone(&self, stats: &mut HandleStats) {
        self.state.stop_reason().consumers_gone(stats);
        let mut ticket = self.state.released_hint();
        while self.slot(ticket).is_published(ticket) {
            // SAFETY: we hold the sweep, every consumer is gone, and the slot is never written again since
            // `released` stays where it is.
            drop(unsafe { self.slot(ticket).clear() });
            ticket += 1;
        }
        self.tell(&self.producers, stats);
    }

    /// Removes a consumer that is dropped: nothing waits for it from now on.
    pub(super) fn leave(&self, consumer: usize, stats: &mut HandleStats) {
        if self.state.close_lease(consumer, &mut stats.counts) == LeaseCloser::Caller {
            self.state.retire(consumer);
            self.passed(consumer, stats);
        }
        self.consumers.forget(consumer);
    }
}

/// The sweep while it is held.
///
/// Wakers are called after it was handed on, so a waker that panics does not keep it. If the drop
/// of a value panics, the sweep continues during the unwinding. Values that were taken out are not
/// put back, so nothing is dropped twice. If another drop panics then, the process aborts, as it
/// does for a vector of such values.
struct Sweeper<'a, T> {
    shared: &'a RingCore<T>,
    stats: &'a mut HandleStats,
    /// The consumer whose cursor moved.
    from: usize,
    holds: bool,
    /// The smallest number of slots that were in use after some had been freed.
    in_use: u64,
}

impl<T> Sweeper<'_, T> {
    fn sweep(&mut self) {
        let shared = self.shared;
        while let Survey::Slowest { consumer: slowest, cursor } = shared.state.survey(self.from) {
            self.in_use = self.in_use.min(shared.free(cursor).unwrap_or(u64::MAX));
            if shared.state.hand_on(slowest, cursor, &mut self.stats.counts) == Sweep::NotOurs {
                self.holds = false;
                return;
            }
            self.from = slowest;
        }
        self.in_use = u64::MAX;
        shared.all_gone(self.stats);
        self.holds = false;
    }
}

impl<T> Drop for Sweeper<'_, T> {
    fn drop(&mut self) {
        if self.holds {
            self.sweep();
        }
        // Producers are woken when the ring is half empty (rule 7), or for any free slot while a
        // consumer waits. The fence of `hand_on` stands between freeing the slots and these checks.
        let RingCore { bound, consumers, .. } = self.shared;
        if self.in_use != u64::MAX && (self.in_use <= bound / 2 || consumers.any()) {
            self.shared.producers.wake_all(self.stats);
        }
    }
}
