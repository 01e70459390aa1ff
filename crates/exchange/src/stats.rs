//! What an exchange counts about itself, always.

use std::ops::AddAssign;

/// Counters of one handle, or the sum over several handles. A handle owns its counters and writes
/// them without synchronisation; they are plain additions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeStats {
    /// Batches sent (producers) or received (consumers).
    pub batches: u64,
    /// Rows sent or received.
    pub rows: u64,
    /// Bytes of column data that this handle copied.
    pub bytes_copied: u64,
    /// Read-modify-write operations on atomics that other handles use too.
    pub shared_ops: u64,
    /// Lock acquisitions.
    pub locks: u64,
    /// Wakers and threads that this handle woke.
    pub wakeups: u64,
    /// Rows that went beyond the bound of the exchange for a slow consumer.
    pub overflow_rows: u64,
    /// Bytes of those rows.
    pub overflow_bytes: u64,
    /// Times this handle had to wait.
    pub waits: u64,
    /// Nanoseconds it waited.
    pub wait_ns: u64,
}

impl AddAssign for ExchangeStats {
    fn add_assign(&mut self, other: Self) {
        self.batches += other.batches;
        self.rows += other.rows;
        self.bytes_copied += other.bytes_copied;
        self.shared_ops += other.shared_ops;
        self.locks += other.locks;
        self.wakeups += other.wakeups;
        self.overflow_rows += other.overflow_rows;
        self.overflow_bytes += other.overflow_bytes;
        self.waits += other.waits;
        self.wait_ns += other.wait_ns;
    }
}
