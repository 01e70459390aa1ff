//! The memory of a task of a join.

use datafusion::execution::{
    TaskContext,
    memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation},
};

/// The number of fragments whose rows are prepared together: each of them then meets few partitions.
pub(super) const WAVE: usize = 16;
/// The sizes of fragments, from the largest. A task uses the first size at which its fragments take at most
/// this share of the memory limit, or the last one.
const FRAGMENT_BYTES: [usize; 3] = [1 << 20, 1 << 19, 1 << 18];
const MEMORY_SHARE: usize = 8;
/// The most memory of a filter of keys.
const MOST_FILTER_BYTES: usize = 256 << 20;
/// The number of fragments for which a task reserves memory: those in a ring's buffers, and three waves.
const IN_MEMORY: usize = 16 + 3 * WAVE;

/// The memory that a task has reserved from its pool.
pub(super) struct MemoryBudget {
    /// For fragments in transit, as long as the task runs.
    _in_transit: MemoryReservation,
    for_filter: MemoryReservation,
    /// For the preparation of a resident table.
    pub(super) for_preparation: MemoryReservation,
    /// The size of the task's fragments.
    pub(super) fragment_bytes: usize,
}

impl MemoryBudget {
    /// Reserves memory for fragments, and for a filter of keys if the join may have one.
    pub(super) fn reserve(context: &TaskContext, may_filter: bool) -> Self {
        let most = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(limit) => limit / MEMORY_SHARE,
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        let (in_transit, fragment_bytes) = (reservation(context), fragment_bytes(most));
        // A pool that refuses so little does not end the join: it has no other memory to work with.
        in_transit.try_grow(fragment_bytes * IN_MEMORY).ok();
        let for_filter = reservation(context);
        if may_filter {
            // Without memory, there is no filter.
            for_filter.try_grow(most.min(MOST_FILTER_BYTES)).ok();
        }
        Self { _in_transit: in_transit, for_filter, for_preparation: reservation(context), fragment_bytes }
    }

    /// Returns the bytes that a filter of keys may have.
    pub(super) fn filter_bytes(&self) -> u64 {
        self.for_filter.size() as u64
    }

    /// Gives back the memory that a filter of this size does not need.
    pub(super) fn shrink_filter(&self, bytes: usize) {
        self.for_filter.shrink(self.for_filter.size().saturating_sub(bytes));
    }
}

/// The bytes that preparing a row takes beside its columns: its hash and position, or keys to sort by.
const ROW_BYTES: usize = 64;
/// The most memory for a part: rows are gathered in one batch, whose text has offsets of 32 bits.
pub(super) const MOST_PART_BYTES: usize = 3 << 30;

/// Returns the memory that preparing rows takes. They are gathered, so there are two copies for a while.
pub(super) fn prepare_bytes(bytes: usize, rows: usize) -> usize {
    2 * bytes + rows * ROW_BYTES
}

/// Returns an empty reservation.
pub(super) fn reservation(context: &TaskContext) -> MemoryReservation {
    MemoryConsumer::new("CycloJoinExec").register(context.memory_pool())
}

/// Returns the size of the fragments that fit in this much memory.
fn fragment_bytes(memory: usize) -> usize {
    let [.., least] = FRAGMENT_BYTES;
    let fits = |bytes: &usize| bytes * IN_MEMORY <= memory;
    FRAGMENT_BYTES.into_iter().find(fits).unwrap_or(least)
}
