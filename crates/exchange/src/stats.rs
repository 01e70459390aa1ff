//! The counters of an exchange, which are always on.

use std::ops::AddAssign;

/// The counters of one handle, or the sum over several handles.
///
/// A handle owns its counters, so that counting is a plain addition without synchronisation.
///
/// ```
/// use annulus_exchange::ExchangeStats;
///
/// let mut total = ExchangeStats::default();
/// total += ExchangeStats::default();
/// assert_eq!(total.rows, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExchangeStats {
    /// The batches sent (by a producer) or received (by a consumer).
    pub batches: u64,
    /// The rows sent or received.
    pub rows: u64,
    /// The bytes of column data that this handle copied.
    pub bytes_copied: u64,
    /// The read-modify-write operations on atomics that other handles use, too.
    pub shared_ops: u64,
    /// The stores that pass a value, or a group of values, on to another handle. Counted beside the
    /// read-modify-write operations, because queues with one writer need nothing else.
    pub handoffs: u64,
    /// The acquisitions of locks.
    pub locks: u64,
    /// The wakers that this handle called.
    pub wakeups: u64,
    /// The threads that were woken by others which this handle had woken.
    pub relayed: u64,
    /// The rows for slow consumers beyond the bound of the exchange.
    pub overflow_rows: u64,
    /// The bytes of these rows.
    pub overflow_bytes: u64,
    /// The number of times that this handle had to wait.
    pub waits: u64,
    /// The nanoseconds that it waited.
    pub wait_ns: u64,
}

impl AddAssign for ExchangeStats {
    fn add_assign(&mut self, other: Self) {
        self.batches += other.batches;
        self.rows += other.rows;
        self.bytes_copied += other.bytes_copied;
        self.shared_ops += other.shared_ops;
        self.handoffs += other.handoffs;
        self.locks += other.locks;
        self.wakeups += other.wakeups;
        self.relayed += other.relayed;
        self.overflow_rows += other.overflow_rows;
        self.overflow_bytes += other.overflow_bytes;
        self.waits += other.waits;
        self.wait_ns += other.wait_ns;
    }
}
