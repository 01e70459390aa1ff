//! What the handles share, and the steps of the protocol that need more than one word. Numbers in
//! comments are the access rules of PROTOCOL.md.

use std::sync::PoisonError;

use annulus_sync::Mutex;
use crossbeam_utils::CachePadded;

use super::{
    lease::{HandOver, Lease},
    order,
    parked::Parked,
    slot::Slot,
    state::{Closing, Halt, LeaseAttempt, State, Survey, Sweep, Taker},
    wait::Local,
};
use crate::{error::ExchangeError, wake::AllCalls};

/// The ring itself.
#[derive(Debug)]
pub(super) struct Shared<T> {
    pub(super) state: State,
    slots: Box<[CachePadded<Slot<T>>]>,
    pub(super) producers: Parked,
    pub(super) consumers: Parked,
    error: Mutex<Option<ExchangeError>>,
    /// Slots of a group, G.
    pub(super) group: u64,
    /// Batches at which the ring is full, K * G.
    pub(super) bound: u64,
}

/// Whether handing laggards' values over can have made room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Relief {
    Moved,
    /// The laggards are in a call of their own, or there is nothing to move yet.
    Nothing,
}

impl<T> Shared<T> {
    /// `slots` is G and `groups` K; none of the four is 0.
    pub(super) fn new(producers: usize, consumers: usize, groups: usize, slots: usize) -> Self {
        let bound = groups * slots;
        let slot = |_| CachePadded::new(Slot::new());
        Self {
            state: State::new(producers, consumers),
            // Racing producers overshoot the bound by at most one ticket each, of which the first is within it.
            slots: (0..bound + producers - 1).map(slot).collect(),
            producers: Parked::new(producers),
            consumers: Parked::new(consumers),
            error: Mutex::new(None),
            group: slots as u64,
            bound: bound as u64,
        }
    }

    pub(super) fn slot(&self, ticket: u64) -> &Slot<T> {
        // The remainder is below the length, so it fits.
        &self.slots[(ticket % self.slots.len() as u64) as usize]
    }

    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The first ticket after the group of `ticket`.
    pub(super) fn group_end(&self, ticket: u64) -> u64 {
        (ticket / self.group + 1) * self.group
    }

    /// Why no more values pass, if so.
    pub(super) fn error(&self) -> Option<ExchangeError> {
        match self.state.halt() {
            Halt::Running => None,
            Halt::ConsumersGone => Some(ExchangeError::ConsumersGone),
            Halt::Stopped => self.error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Stop everybody with `error`, unless the ring stopped before or its consumers are gone. Rule
    /// 8.
    pub(super) fn stop(&self, error: ExchangeError, local: &mut Local) {
        local.stats.locks += 1;
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.state.stop(false, &mut local.stats);
        let mut calls = AllCalls::default();
        calls.call(|| self.tell(&self.consumers, local));
        calls.call(|| self.tell(&self.producers, local));
        calls.finish();
    }

    /// Wake all of one side, now that something rare was stored. Rule 8.
    pub(super) fn tell(&self, side: &Parked, local: &mut Local) {
        order::fence_tell();
        side.wake_all(local);
    }

    /// Wake the consumers that wait, now that something was published. Rule 7.
    pub(super) fn flush(&self, local: &mut Local) {
        order::fence_flush();
        self.consumers.wake_all(local);
    }

    /// Whether a live consumer waits and has seen everything that was published.
    fn someone_starves(&self) -> bool {
        let caught_up =
            |consumer| self.state.cursor_hint(consumer).is_some_and(|cursor| !self.slot(cursor).is_published(cursor));
        self.consumers.any()
            && (0..self.state.consumers()).any(|consumer| self.consumers.waits(consumer) && caught_up(consumer))
    }

    /// If somebody starves, hand the values of the oldest group over to `overflow` for each
    /// consumer that lags there. Where that fails the ring is stopped. Rule 10.
    pub(super) fn relieve(
        &self,
        producer: usize,
        local: &mut Local,
        mut overflow: impl FnMut(usize, &mut HandOver<'_, T>) -> Result<(), ExchangeError>,
    ) -> Result<Relief, ExchangeError> {
        if !self.someone_starves() {
            // Those that wait all the same have something to read: so the next one that comes to wait is the
            // first, and wakes whoever waits for room.
            self.consumers.wake_all(local);
            return Ok(Relief::Nothing);
        }
        let end = self.group_end(self.state.released_hint());
        let unread = |cursor| cursor < end && self.slot(cursor).is_published(cursor);
        let lags = |consumer: &usize| self.state.cursor_hint(*consumer).is_some_and(unread);
        let laggards = || (0..self.state.consumers()).filter(lags);
        if laggards().any(|consumer| self.state.want_lease(consumer, &mut local.stats)) {
            // One of them reads on: it makes room, or wakes us when its call ends.
            return Ok(Relief::Nothing);
        }
        let mut relief = Relief::Nothing;
        for consumer in laggards() {
            let LeaseAttempt::Taken(cursor) = self.state.take_lease(consumer, Taker::Producer, &mut local.stats) else {
                continue;
            };
            let lease = Lease::new(self, local, consumer, cursor);
            if let Some(error) = self.error() {
                return Err(error);
            }
            let mut values = HandOver::new(lease, end, producer);
            let outcome = overflow(consumer, &mut values);
            if values.finish(outcome)? {
                relief = Relief::Moved;
            }
        }
        Ok(relief)
    }

    /// A cursor moved: free what every consumer has passed, if that waited for this one. Rule 6.
    pub(super) fn passed(&self, consumer: usize, local: &mut Local) {
        if self.state.passed(consumer, &mut local.stats) == Sweep::Taken {
            Sweeper { shared: self, local, from: consumer, holds: true, in_use: u64::MAX }.sweep();
        }
    }

    /// Drop the values below `cursor`, which every consumer has passed, and let producers use the
    /// slots. Returns the slots in use, if any was freed. Only the sweeper.
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

    /// The last consumer went away. We keep the sweep for good: nobody is left to hand it to.
    fn all_gone(&self, local: &mut Local) {
        self.state.stop(true, &mut local.stats);
        let mut ticket = self.state.released_hint();
        while self.slot(ticket).is_published(ticket) {
            // SAFETY: we hold the sweep, every consumer is gone, and the slot is never written again since
            // `released` stays where it is.
            drop(unsafe { self.slot(ticket).clear() });
            ticket += 1;
        }
        self.tell(&self.producers, local);
    }

    /// A consumer goes away: nothing waits for it from here on.
    pub(super) fn leave(&self, consumer: usize, local: &mut Local) {
        if self.state.close_lease(consumer, &mut local.stats) == Closing::Caller {
            self.state.retire(consumer);
            self.passed(consumer, local);
        }
        self.consumers.forget(consumer);
    }
}

/// The sweep while it is held. Wakers are called when it has been handed on, so that one that
/// panics does not keep it. If the drop of a value panics, the sweep goes on while that unwinds:
/// values taken out stay out, so nothing is dropped twice. Should another one panic then, the
/// process aborts, as it does for a vector of such values.
struct Sweeper<'a, T> {
    shared: &'a Shared<T>,
    local: &'a mut Local,
    /// The consumer whose cursor moved.
    from: usize,
    holds: bool,
    /// The fewest slots that were in use when some had been freed.
    in_use: u64,
}

impl<T> Sweeper<'_, T> {
    fn sweep(&mut self) {
        let shared = self.shared;
        while let Survey::Slowest { consumer: slowest, cursor } = shared.state.survey(self.from) {
            self.in_use = self.in_use.min(shared.free(cursor).unwrap_or(u64::MAX));
            if shared.state.hand_on(slowest, cursor, &mut self.local.stats) == Sweep::NotOurs {
                self.holds = false;
                return;
            }
            self.from = slowest;
        }
        self.in_use = u64::MAX;
        shared.all_gone(self.local);
        self.holds = false;
    }
}

impl<T> Drop for Sweeper<'_, T> {
    fn drop(&mut self) {
        if self.holds {
            self.sweep();
        }
        // Half empty, as the half-occupancy rule says; or a consumer waits, and then any room will
        // do. The fence of `hand_on` stands between what was freed and these looks.
        let Shared { bound, consumers, .. } = self.shared;
        if self.in_use != u64::MAX && (self.in_use <= bound / 2 || consumers.any()) {
            self.shared.producers.wake_all(self.local);
        }
    }
}
