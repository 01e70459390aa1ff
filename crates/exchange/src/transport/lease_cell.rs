//! A consumer's end of a transport, which the consumer and relieving producers use in turn. The
//! transports' unsafe code is here.

use annulus_sync::UnsafeCell;

use crate::{
    lease::{LeaseAttempt, LeaseCloser, LeaseEvents, LeaseWord, Taker},
    stats::ExchangeStats,
};

/// A value that only the holder of its lease uses.
#[derive(Debug)]
pub struct LeaseCell<R> {
    word: LeaseWord,
    cell: UnsafeCell<R>,
}

// SAFETY: the value is used by one thread at a time, the holder of the lease, and may be dropped on
// any.
unsafe impl<R: Send> Sync for LeaseCell<R> {}

impl<R> LeaseCell<R> {
    /// Creates a free lease of `value`.
    pub fn new(value: R) -> Self {
        Self { word: LeaseWord::new(), cell: UnsafeCell::new(value) }
    }

    /// Takes the lease, or sets a flag for its holder.
    pub fn take(&self, taker: Taker, stats: &mut ExchangeStats) -> LeaseAttempt<LeaseGuard<'_, R>> {
        match self.word.take(taker, stats) {
            LeaseAttempt::Taken(()) => LeaseAttempt::Taken(LeaseGuard { cell: self }),
            LeaseAttempt::Busy => LeaseAttempt::Busy,
            LeaseAttempt::Closed => LeaseAttempt::Closed,
        }
    }

    /// Returns whether the lease is held. If it is, sets a flag that a producer wants it.
    pub fn want(&self, stats: &mut ExchangeStats) -> bool {
        self.word.want(stats)
    }

    /// Closes the lease of a consumer that is dropped, and calls `end` with the value, unless a
    /// producer holds the lease: then the producer does that when it gives the lease back.
    pub fn close(&self, stats: &mut ExchangeStats, end: impl FnOnce(&mut R)) {
        if self.word.close(stats) == LeaseCloser::Caller {
            // SAFETY: the lease was free when it was closed, so no thread holds it or takes it again.
            self.cell.with_mut(|value| end(unsafe { &mut *value }));
        }
    }

    /// Returns whether the consumer is gone. A hint.
    pub fn is_closed(&self) -> bool {
        self.word.is_closed()
    }
}

/// The lease while it is held.
#[must_use = "the lease is held until it is given back"]
pub struct LeaseGuard<'a, R> {
    cell: &'a LeaseCell<R>,
}

impl<R> LeaseGuard<'_, R> {
    /// Calls `f` with the value.
    pub fn with<O>(&mut self, f: impl FnOnce(&mut R) -> O) -> O {
        // SAFETY: this thread holds the lease.
        self.cell.cell.with_mut(|value| f(unsafe { &mut *value }))
    }

    /// Gives the lease back, and returns the events on it meanwhile. If the consumer went away,
    /// calls `end` with the value.
    pub fn give(self, stats: &mut ExchangeStats, end: impl FnOnce(&mut R)) -> LeaseEvents {
        let given = self.cell.word.give(stats);
        if given.closed {
            // SAFETY: the lease is closed, so no thread takes it again, and this thread was its last holder.
            self.cell.cell.with_mut(|value| end(unsafe { &mut *value }));
        }
        given
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_consumer_happens_once() {
        let (stats, mut ends) = (&mut ExchangeStats::default(), 0);
        let cell = LeaseCell::new(());
        for _ in 0..2 {
            cell.close(stats, |()| ends += 1);
        }
        assert_eq!(ends, 1);

        let cell = LeaseCell::new(());
        let LeaseAttempt::Taken(guard) = cell.take(Taker::Producer, stats) else { panic!("the lease is free") };
        for _ in 0..2 {
            cell.close(stats, |()| panic!("a producer holds the lease"));
        }
        let mut ends = 0;
        assert!(guard.give(stats, |()| ends += 1).closed);
        cell.close(stats, |()| panic!("it was closed before"));
        assert_eq!(ends, 1);
    }
}
