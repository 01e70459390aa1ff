//! The right to read on a consumer's behalf and to move its cursor.

use std::fmt;

use super::{shared::Shared, wait::Local};

/// A consumer's lease while it is held, by the consumer or by a producer that relieves it; never across a return of a
/// public method. Dropping it stores the cursor and gives the lease back, on a panic of the reader's code too.
#[derive(Debug)]
pub(super) struct Lease<'a, T> {
    shared: &'a Shared<T>,
    local: &'a mut Local,
    consumer: usize,
    cursor: u64,
    stored: u64,
}

impl<'a, T> Lease<'a, T> {
    /// The lease that was just taken with the consumer's cursor at `cursor`.
    pub(super) fn new(shared: &'a Shared<T>, local: &'a mut Local, consumer: usize, cursor: u64) -> Self {
        Self { shared, local, consumer, cursor, stored: cursor }
    }

    /// The next ticket to read.
    pub(super) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Show the next value to `visit`; `None` if it is not published yet.
    pub(super) fn read<R>(&mut self, visit: impl FnOnce(&T) -> R) -> Option<R> {
        let slot = self.shared.slot(self.cursor);
        if !slot.is_published(self.cursor) {
            return None;
        }
        // SAFETY: published, as just seen; we hold the consumer's lease, and its cursor is not past this ticket.
        unsafe { slot.read(visit) }
    }

    /// Be done with the value just read. At the end of a group the others learn of it at once. Rule 4.
    pub(super) fn advance(&mut self) {
        self.cursor += 1;
        if self.cursor.is_multiple_of(self.shared.group) {
            self.store();
            self.shared.passed(self.consumer, self.local);
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
        let given = self.shared.state.give_lease(self.consumer, &mut self.local.stats);
        if given.closed {
            self.shared.state.retire(self.consumer);
        }
        if moved || given.closed {
            self.shared.passed(self.consumer, self.local);
        }
        if given.wanted_back {
            // With all others, for the list knows no single one. They starve, and something will be published soon.
            self.shared.tell(&self.shared.consumers, self.local);
        }
        if given.wanted {
            self.shared.tell(&self.shared.producers, self.local);
        }
    }
}

/// What a consumer has not read of the oldest group, for the caller of
/// [`RingProducer::poll_ready`](super::RingProducer::poll_ready) to take.
pub struct HandOver<'a, T> {
    lease: Lease<'a, T>,
    /// The first ticket after the group.
    end: u64,
    moved: bool,
}

impl<'a, T> HandOver<'a, T> {
    pub(super) fn new(lease: Lease<'a, T>, end: u64) -> Self {
        Self { lease, end, moved: false }
    }

    /// Call `take` with each value in ticket order. One for which it fails or panics counts as not taken.
    ///
    /// # Errors
    /// The first of `take`.
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

    /// Whether anything was taken.
    pub(super) fn moved(&self) -> bool {
        self.moved
    }
}

impl<T> fmt::Debug for HandOver<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandOver").field("end", &self.end).finish_non_exhaustive()
    }
}
