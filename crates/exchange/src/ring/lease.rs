//! The right to read on a consumer's behalf and to move its cursor.

use std::fmt;

use super::shared::RingCore;
use crate::{error::ExchangeError, waiting::HandleStats, wake::AllCalls};

/// A consumer's lease while it is held, by the consumer or by a producer that relieves it. It is
/// never held across the return of a public method. Dropping it stores the cursor and gives the
/// lease back, even if the reader's code panics.
#[derive(Debug)]
pub(super) struct Lease<'a, T> {
    shared: &'a RingCore<T>,
    stats: &'a mut HandleStats,
    consumer: usize,
    cursor: u64,
    stored: u64,
}

impl<'a, T> Lease<'a, T> {
    /// Wraps a lease that was just taken with the consumer's cursor at `cursor`.
    pub(super) fn new(shared: &'a RingCore<T>, stats: &'a mut HandleStats, consumer: usize, cursor: u64) -> Self {
        Self { shared, stats, consumer, cursor, stored: cursor }
    }

    /// Returns the next ticket to read.
    pub(super) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Calls `visit` with the next value. Returns `None` if it is not published yet.
    pub(super) fn read<R>(&mut self, visit: impl FnOnce(&T) -> R) -> Option<R> {
        let slot = self.shared.slot(self.cursor);
        if !slot.is_published(self.cursor) {
            return None;
        }
        // SAFETY: the value is published, as just seen. We hold the consumer's lease, and its cursor is not
        // past this ticket.
        unsafe { slot.read(visit) }
    }

    /// Moves the cursor past the value just read. At the end of a group, the cursor is stored at
    /// once. Rule 4.
    pub(super) fn advance(&mut self) {
        self.cursor += 1;
        if self.cursor.is_multiple_of(self.shared.group) {
            self.store();
            self.shared.passed(self.consumer, self.stats);
        }
    }

    fn store(&mut self) {
        self.shared.state.set_cursor(self.consumer, self.cursor);
        self.stored = self.cursor;
    }
}

impl<T> Drop for Lease<'_, T> {
    fn drop(&mut self) {
        let moved = self.stored != self.cursor;
        if moved {
            self.store();
        }
        let given = self.shared.state.give_lease(self.consumer, &mut self.stats.counts);
        if given.closed {
            self.shared.state.retire(self.consumer);
        }
        let mut calls = AllCalls::default();
        if moved || given.closed {
            calls.call(|| self.shared.passed(self.consumer, self.stats));
        }
        if given.wanted_back {
            // All consumers are woken, because the list cannot wake a single one. They starve, and
            // a value will be published soon.
            calls.call(|| self.shared.tell(&self.shared.consumers, self.stats));
        }
        if given.wanted {
            calls.call(|| self.shared.tell(&self.shared.producers, self.stats));
        }
        calls.finish();
    }
}

/// The values of the oldest group that a consumer has not read, for the caller of
/// [`RingProducer::poll_ready`](super::RingProducer::poll_ready) to take.
pub struct HandOver<'a, T> {
    lease: Lease<'a, T>,
    /// The first ticket after the group.
    end: u64,
    moved: bool,
    /// The error with which the ring stops. Until the caller has returned, it is the error for a
    /// panic of the caller.
    failure: Option<ExchangeError>,
}

impl<'a, T> HandOver<'a, T> {
    /// Starts a hand-over by `producer`. If the producer's code panics, the ring stops as if it was
    /// lost.
    pub(super) fn new(lease: Lease<'a, T>, end: u64, producer: usize) -> Self {
        Self { lease, end, moved: false, failure: Some(ExchangeError::ProducerLost { producer }) }
    }

    /// Returns whether there is a value to take.
    pub(super) fn has_some(&mut self) -> bool {
        self.lease.cursor() < self.end && self.lease.read(|_| ()).is_some()
    }

    /// Ends the hand-over after the caller has returned `outcome`. Returns whether anything was
    /// taken.
    pub(super) fn finish(mut self, outcome: Result<(), ExchangeError>) -> Result<bool, ExchangeError> {
        self.failure = outcome.as_ref().err().cloned();
        outcome.map(|()| self.moved)
    }

    /// Calls `take` with each value in ticket order. A value for which it fails or panics counts as
    /// not taken. If the hand-over then fails, the ring stops, so that no handle sees the value
    /// again.
    ///
    /// # Errors
    /// The first error of `take`.
    pub fn try_for_each<E>(&mut self, mut take: impl FnMut(&T) -> Result<(), E>) -> Result<(), E> {
        while self.lease.cursor() < self.end
            && let Some(taken) = self.lease.read(&mut take)
        {
            taken?;
            self.lease.advance();
            self.moved = true;
        }
        Ok(())
    }
}

impl<T> Drop for HandOver<'_, T> {
    fn drop(&mut self) {
        // Before the lease is given back: part of the value at the cursor may have been taken. Rule 10.
        if let Some(failure) = self.failure.take() {
            self.lease.shared.stop(failure, self.lease.stats);
        }
    }
}

impl<T> fmt::Debug for HandOver<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandOver").field("end", &self.end).finish_non_exhaustive()
    }
}
