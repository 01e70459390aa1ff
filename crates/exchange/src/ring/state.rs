//! Every atomic word of the ring and its transitions. Numbers in comments are the access rules of
//! PROTOCOL.md.

use annulus_sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use crossbeam_utils::CachePadded;

use super::order;
use crate::{
    lease::{LeaseAttempt, LeaseCloser, LeaseEvents, LeaseWord, Taker},
    stats::ExchangeStats,
    stop::StopReason,
};

/// The cursor of a consumer that is gone: past every ticket.
const RETIRED: u64 = u64::MAX;
/// The sweep word while a thread sweeps.
const SWEEPING: usize = usize::MAX;

/// A slot's sequence number: the ticket of its value + 1, or 0 before the first one. Rule 2.
#[derive(Debug)]
pub(super) struct Sequence(AtomicU64);

impl Sequence {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Publishes the value of `ticket` to the consumers, with a plain store.
    pub(super) fn publish(&self, ticket: u64) {
        self.0.store(ticket + 1, order::publish());
    }

    /// Returns whether `ticket`, or a later one of the same slot, was published.
    pub(super) fn is_published(&self, ticket: u64) -> bool {
        self.0.load(order::observe()) > ticket
    }
}

/// The ring's two ends as a producer last saw them. Both may be stale; PROTOCOL.md says why that is
/// safe.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    /// A ticket that had not been taken yet.
    pub(super) tail: u64,
    /// The slots below this ticket were free.
    pub(super) released: u64,
}

impl Window {
    pub(super) fn used(self) -> u64 {
        self.tail.saturating_sub(self.released)
    }
}

/// The outcome of asking for the sweep: whether the caller must sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Sweep {
    Taken,
    NotOurs,
}

/// The outcome of the sweeper's look at the cursors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Survey {
    /// No cursor is behind this one, the consumer's.
    Slowest {
        consumer: usize,
        cursor: u64,
    },
    AllGone,
}

/// The words of a consumer, on a cache line of their own.
#[derive(Debug)]
struct Reader {
    cursor: AtomicU64,
    lease: LeaseWord,
}

/// The words that hardly ever change, and are read in every call.
#[derive(Debug)]
struct Ends {
    stop_reason: StopReason,
    open_producers: AtomicUsize,
}

/// The ring's shared words.
#[derive(Debug)]
pub(super) struct State {
    tail: CachePadded<AtomicU64>,
    released: CachePadded<AtomicU64>,
    sweep: CachePadded<AtomicUsize>,
    ends: CachePadded<Ends>,
    readers: Box<[CachePadded<Reader>]>,
}

impl State {
    pub(super) fn new(producers: usize, consumers: usize) -> Self {
        let reader = |_| CachePadded::new(Reader { cursor: AtomicU64::new(0), lease: LeaseWord::new() });
        let ends = Ends { stop_reason: StopReason::new(consumers), open_producers: AtomicUsize::new(producers) };
        Self {
            tail: CachePadded::new(AtomicU64::new(0)),
            released: CachePadded::new(AtomicU64::new(0)),
            sweep: CachePadded::new(AtomicUsize::new(0)),
            ends: CachePadded::new(ends),
            readers: (0..consumers).map(reader).collect(),
        }
    }

    pub(super) fn consumers(&self) -> usize {
        self.readers.len()
    }

    /// Takes a ticket: the only read-modify-write of a publish. Rule 1.
    pub(super) fn claim(&self, stats: &mut ExchangeStats) -> u64 {
        stats.shared_ops += 1;
        self.tail.fetch_add(1, order::claim())
    }

    /// Returns both ends of the ring as they are now.
    pub(super) fn window(&self) -> Window {
        let released = self.released.load(order::admit());
        Window { tail: self.tail.load(Relaxed), released }
    }

    /// Returns the reason why no more values are passed on, if there is one.
    pub(super) fn stop_reason(&self) -> &StopReason {
        &self.ends.stop_reason
    }

    /// Ends one producer. Returns whether it was the last one.
    #[must_use]
    pub(super) fn producer_finished(&self, stats: &mut ExchangeStats) -> bool {
        stats.shared_ops += 1;
        self.ends.open_producers.fetch_sub(1, order::finish()) == 1
    }

    /// Returns whether every producer has finished. Call it before checking a slot: a value that is
    /// still missing afterwards never comes.
    pub(super) fn all_finished(&self) -> bool {
        self.ends.open_producers.load(order::end()) == 0
    }

    /// Returns a consumer's cursor without its lease, so it may be stale. `None` if the consumer is
    /// gone.
    pub(super) fn cursor_hint(&self, consumer: usize) -> Option<u64> {
        let cursor = self.readers[consumer].cursor.load(Relaxed);
        (cursor != RETIRED).then_some(cursor)
    }

    /// Returns a number that changes when a consumer reads on or goes away.
    pub(super) fn progress(&self) -> u64 {
        self.readers.iter().fold(0, |sum: u64, reader| sum.wrapping_add(reader.cursor.load(Relaxed)))
    }

    /// Moves a consumer's cursor. Only under its lease. Rule 4.
    pub(super) fn set_cursor(&self, consumer: usize, cursor: u64) {
        self.readers[consumer].cursor.store(cursor, order::pass());
    }

    /// Retires the cursor of a consumer that is gone and whose lease is free.
    pub(super) fn retire(&self, consumer: usize) {
        self.set_cursor(consumer, RETIRED);
    }

    /// Takes the lease, or sets a flag for its holder. `Taken` has the consumer's cursor. Rule 5.
    pub(super) fn take_lease(&self, consumer: usize, taker: Taker, stats: &mut ExchangeStats) -> LeaseAttempt<u64> {
        let reader = &self.readers[consumer];
        match reader.lease.take(taker, stats) {
            LeaseAttempt::Taken(()) => LeaseAttempt::Taken(reader.cursor.load(Relaxed)),
            LeaseAttempt::Busy => LeaseAttempt::Busy,
            LeaseAttempt::Closed => LeaseAttempt::Closed,
        }
    }

    /// Returns whether the lease is held. If it is, sets a flag that a producer wants it. Rule 5.
    pub(super) fn want_lease(&self, consumer: usize, stats: &mut ExchangeStats) -> bool {
        self.readers[consumer].lease.want(stats)
    }

    /// Gives the lease back, and returns the events on it meanwhile.
    pub(super) fn give_lease(&self, consumer: usize, stats: &mut ExchangeStats) -> LeaseEvents {
        self.readers[consumer].lease.give(stats)
    }

    /// Closes the lease of a consumer that is dropped: no thread takes it from now on.
    pub(super) fn close_lease(&self, consumer: usize, stats: &mut ExchangeStats) -> LeaseCloser {
        self.readers[consumer].lease.close(stats)
    }

    /// Takes the sweep after a cursor has moved, if it waits for this consumer. Rule 6.
    pub(super) fn passed(&self, consumer: usize, stats: &mut ExchangeStats) -> Sweep {
        order::fence_passed();
        if self.sweep.load(Relaxed) == consumer { self.take_sweep(consumer, stats) } else { Sweep::NotOurs }
    }

    fn take_sweep(&self, from: usize, stats: &mut ExchangeStats) -> Sweep {
        stats.shared_ops += 1;
        match self.sweep.compare_exchange(from, SWEEPING, order::sweep_take(), Relaxed) {
            Ok(_) => Sweep::Taken,
            Err(_) => Sweep::NotOurs,
        }
    }

    /// Finds the slowest consumer, starting at `from`. Stops at the first one that holds back all
    /// others. Only the sweeper may call it.
    pub(super) fn survey(&self, from: usize) -> Survey {
        let released = self.released.load(Relaxed);
        let (mut slowest, mut lowest) = (from, RETIRED);
        for consumer in (from..self.readers.len()).chain(0..from) {
            let cursor = self.readers[consumer].cursor.load(order::survey());
            if cursor < lowest {
                (slowest, lowest) = (consumer, cursor);
            }
            if cursor == released {
                break;
            }
        }
        if lowest == RETIRED { Survey::AllGone } else { Survey::Slowest { consumer: slowest, cursor: lowest } }
    }

    /// Returns the end of the free slots. Exact for the sweeper; it may be stale for others.
    pub(super) fn released_hint(&self) -> u64 {
        self.released.load(Relaxed)
    }

    /// Releases the slots below `released`, which have been cleared, and returns the number of
    /// slots in use. Only the sweeper may call it.
    pub(super) fn free(&self, released: u64) -> u64 {
        self.released.store(released, order::free());
        Window { tail: self.tail.load(Relaxed), released }.used()
    }

    /// Gives the sweep to `consumer`, whose cursor was last seen at `cursor`. Takes it back if the
    /// cursor has moved since.
    pub(super) fn hand_on(&self, consumer: usize, cursor: u64, stats: &mut ExchangeStats) -> Sweep {
        self.sweep.store(consumer, order::sweep_give());
        order::fence_handed_on();
        let moved = self.readers[consumer].cursor.load(Relaxed) != cursor;
        if moved { self.take_sweep(consumer, stats) } else { Sweep::NotOurs }
    }
}
