//! The right to read on a consumer's behalf, which the consumer and relieving producers take in
//! turn.

mod order;

use annulus_sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::stats::ExchangeStats;

// The bits of a lease word. No bit is set while the lease is free.
const IDLE: u8 = 0;
const HELD: u8 = 1;
/// Wanted by its consumer, which found a producer holding it.
const WANTED_BACK: u8 = 2;
/// Wanted by a producer.
const WANTED: u8 = 4;
const CLOSED: u8 = 8;

/// The outcome of asking for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum LeaseAttempt<R> {
    /// The caller holds it now, with what it protects.
    Taken(R),
    /// Another thread holds it, and wakes the caller when it gives the lease back.
    Busy,
    /// The consumer is gone.
    Closed,
}

/// The kind of handle that asks for a consumer's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taker {
    /// The consumer itself.
    Consumer,
    /// A producer that relieves the consumer.
    Producer,
}

/// The events on a lease while it was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct LeaseEvents {
    /// Its consumer has asked for it.
    pub wanted_back: bool,
    /// A producer has asked for it.
    pub wanted: bool,
    /// The consumer is gone, so the caller must do what its end requires.
    pub closed: bool,
}

/// The thread that does what the end of a dropped consumer requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum LeaseCloser {
    Caller,
    /// The producer that holds the lease, when it gives it back, or the caller that has closed it
    /// before.
    Holder,
}

/// The lease of one consumer.
#[derive(Debug)]
pub(crate) struct LeaseWord(AtomicU8);

impl LeaseWord {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(IDLE))
    }

    /// Takes the lease, or sets a flag for its holder.
    pub(crate) fn take(&self, taker: Taker, stats: &mut ExchangeStats) -> LeaseAttempt<()> {
        let note = if taker == Taker::Consumer { WANTED_BACK } else { WANTED };
        loop {
            stats.shared_ops += 1;
            let held = match self.0.compare_exchange(IDLE, HELD, order::lease_take(), Relaxed) {
                Ok(_) => return LeaseAttempt::Taken(()),
                Err(word) if word & CLOSED != 0 => return LeaseAttempt::Closed,
                Err(word) if word & note != 0 => return LeaseAttempt::Busy,
                Err(word) => word,
            };
            stats.shared_ops += 1;
            if self.0.compare_exchange(held, held | note, Relaxed, Relaxed).is_ok() {
                return LeaseAttempt::Busy;
            }
        }
    }

    /// Returns whether the lease is held. If it is, sets a flag that a producer wants it.
    pub(crate) fn want(&self, stats: &mut ExchangeStats) -> bool {
        let mut word = self.0.load(Relaxed);
        while word & HELD != 0 && word & WANTED == 0 {
            stats.shared_ops += 1;
            match self.0.compare_exchange_weak(word, word | WANTED, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        word & HELD != 0
    }

    /// Gives the lease back, and returns the events on it meanwhile.
    pub(crate) fn give(&self, stats: &mut ExchangeStats) -> LeaseEvents {
        stats.shared_ops += 1;
        let word = self.0.fetch_and(CLOSED, order::lease_give());
        LeaseEvents { wanted_back: word & WANTED_BACK != 0, wanted: word & WANTED != 0, closed: word & CLOSED != 0 }
    }

    /// Closes the lease of a consumer that is dropped: no thread takes it from now on.
    pub(crate) fn close(&self, stats: &mut ExchangeStats) -> LeaseCloser {
        stats.shared_ops += 1;
        let word = self.0.fetch_or(CLOSED, order::lease_take());
        if word == IDLE { LeaseCloser::Caller } else { LeaseCloser::Holder }
    }

    /// Returns whether the lease was closed. A hint.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Relaxed) & CLOSED != 0
    }
}
