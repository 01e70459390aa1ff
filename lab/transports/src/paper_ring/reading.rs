//! ReaderLease the groups on a consumer's behalf, under its lease.

use std::ops::ControlFlow;

use annulus_exchange::{
    ExchangeError,
    plug::{AllCalls, HandleStats, LeaseGuard},
    transport::{Parcel, Unread},
};
use annulus_sync::atomic::Ordering::Relaxed;

use super::{
    news::News,
    shared::{PaperCore, Position},
};

/// A consumer's position while its lease is held. Dropping it gives the lease back and wakes whom
/// that concerns, even if the reader's code panics.
pub(super) struct ReaderLease<'a, T: Parcel> {
    shared: &'a PaperCore<T>,
    consumer: usize,
    /// `None` only while it is dropped.
    held: Option<LeaseGuard<'a, Position>>,
    stats: &'a mut HandleStats,
    /// The group at which this reading ends, as in a hand-over.
    end: u64,
    /// The number of values read.
    pub(super) visited: usize,
    /// The error with which the ring stops, if a hand-over has failed. While the caller's code
    /// runs, it is the error for a panic there.
    pub(super) failure: Option<ExchangeError>,
}

impl<'a, T: Parcel> ReaderLease<'a, T> {
    pub(super) fn new(
        shared: &'a PaperCore<T>,
        consumer: usize,
        held: LeaseGuard<'a, Position>,
        end: u64,
        stats: &'a mut HandleStats,
    ) -> Self {
        Self { shared, consumer, held: Some(held), stats, end, visited: 0, failure: None }
    }

    pub(super) fn with<R>(&mut self, f: impl FnOnce(&mut Position) -> R) -> R {
        self.held.as_mut().expect("it is held until it is dropped").with(f)
    }

    /// Calls `visit` with the next published value.
    pub(super) fn next<R>(&mut self, visit: impl FnOnce(&T) -> R) -> Option<R> {
        let shared = self.shared;
        let mut visit = Some(visit);
        loop {
            let (group, slot) = self.with(|at| {
                // The cached number first, then the shared one: two of the paper's three tiers.
                if at.group == at.published {
                    at.published = shared.published();
                }
                (at.group, (at.group < at.published).then_some(at.slot))
            });
            let slot = slot.filter(|_| group < self.end)?;
            // SAFETY: the group is published, as just seen or before, and this consumer has not left it.
            let found = unsafe {
                shared.entry(group).with(|group| {
                    let visit = |value: &T| visit.take().map(|visit| visit(value));
                    (group.read(slot, visit).flatten(), slot + 1 == group.slots())
                })
            };
            let (found, ends) = found?;
            self.with(|at| at.slot += 1);
            if ends {
                self.pass();
            }
            if let Some(result) = found {
                self.visited += 1;
                return Some(result);
            }
        }
    }

    /// Leaves the group at the position, whose slots were all read.
    fn pass(&mut self) {
        let group = self.with(|at| {
            at.slot = 0;
            at.group += 1;
            at.group - 1
        });
        self.shared.readers[self.consumer].at.store(group + 1, Relaxed);
        self.shared.pass(group, self.stats);
    }

    /// Visits published values, at most `most`, until `visit` breaks.
    pub(super) fn read(&mut self, most: usize, visit: &mut dyn FnMut(&T) -> ControlFlow<()>) {
        while self.visited < most
            && let Some(flow) = self.next(&mut *visit)
        {
            if flow.is_break() {
                break;
            }
        }
    }
}

impl<T: Parcel> Unread<T> for ReaderLease<'_, T> {
    fn try_for_each(&mut self, take: &mut dyn FnMut(&T) -> Result<(), ExchangeError>) -> Result<(), ExchangeError> {
        while let Some(outcome) = self.next(&mut *take) {
            outcome?;
        }
        Ok(())
    }
}

impl<T: Parcel> Drop for ReaderLease<'_, T> {
    fn drop(&mut self) {
        let Self { shared, consumer, stats, .. } = self;
        let mut calls = AllCalls::default();
        // Before the lease is given back: part of a value may have been taken.
        if let Some(failure) = self.failure.take() {
            calls.call(|| shared.stop(failure, stats));
        }
        let Some(held) = self.held.take() else { return };
        let mut left = None;
        let given = held.give(&mut stats.counts, |position| left = Some(std::mem::take(position)));
        if let Some(position) = left {
            shared.readers[*consumer].at.store(u64::MAX, Relaxed);
            calls.call(|| shared.retire(&position, stats));
        }
        // All consumers are woken: the list cannot wake a single one.
        let news = News { consumers: given.wanted_back, producers: given.wanted };
        calls.call(|| shared.tell(news, stats));
        calls.finish();
    }
}
