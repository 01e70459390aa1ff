//! Divides the memory limit.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The largest wave. Larger ones leave the last-level cache before they are gathered, and their
/// memory is returned to the system and requested again. With 64 MiB, that took a third more
/// processor time.
const MAX_WAVE_BYTES: usize = 16 << 20;

/// The memory of open files from which on the largest are written out, if each may keep half of its floor. Files that
/// are written out more rarely are hardly smaller, and the system takes longer to give that much memory.
const ENOUGH_WRITERS_BYTES: usize = 112 << 20;

/// The least memory for sorting: with less, the batches of runs have only a few rows.
const MIN_SORT_BYTES: usize = 256 << 10;
/// The most memory for sorting: longer runs are not merged faster.
const MAX_SORT_BYTES: usize = 256 << 20;

/// The shares of a memory limit, in bytes. The rest is for decoded and gathered rows, and for
/// memory that the allocator keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// The decoded rows that each worker may hold.
    pub(crate) wave: usize,
    /// All open files together.
    pub(crate) writers: usize,
    /// The rows that each worker may hold to sort them. Sorting takes about as much again, while
    /// waves are empty.
    pub(crate) sort: usize,
}

impl Shares {
    pub(crate) fn new(limit: usize, workers: usize) -> Self {
        let workers = workers.max(1);
        Self {
            wave: (limit / 5 / workers).clamp(1, MAX_WAVE_BYTES),
            writers: (limit / 4).max(1),
            sort: (limit / 8 / workers).clamp(MIN_SORT_BYTES, MAX_SORT_BYTES),
        }
    }
}

/// The memory of all open files: the last value of each slot, and the sum.
#[derive(Debug)]
pub(crate) struct Ledger {
    limit: AtomicUsize,
    total: AtomicUsize,
    slots: Vec<AtomicUsize>,
}

impl Ledger {
    /// Returns the ledger of `slots` files that may take `limit` bytes together, and `floor` bytes each at least.
    pub(crate) fn new(limit: usize, slots: usize, floor: usize) -> Self {
        let limit = limit.min(ENOUGH_WRITERS_BYTES.max(slots.saturating_mul(floor / 2)));
        let slots = (0..slots).map(|_| AtomicUsize::new(0)).collect();
        Self { limit: AtomicUsize::new(limit), total: AtomicUsize::new(0), slots }
    }

    /// Adds files that share the limit, but are not open together with the others.
    pub(crate) fn with_others(mut self, others: usize) -> Self {
        self.slots.extend((0..others).map(|_| AtomicUsize::new(0)));
        self
    }

    /// Halves the limit.
    pub(crate) fn halve(&self) {
        self.limit.store(self.limit.load(Relaxed) / 2, Relaxed);
    }

    /// Records the bytes that a slot holds. The caller has the slot's lock.
    pub(crate) fn set(&self, slot: usize, bytes: usize) {
        let before = self.slots[slot].swap(bytes, Relaxed);
        self.total.fetch_add(bytes.wrapping_sub(before), Relaxed);
    }

    /// Returns whether a slot holds more than its share of the limit.
    pub(crate) fn exceeds_share(&self, slot: usize) -> bool {
        self.slots[slot].load(Relaxed) > self.limit.load(Relaxed) / self.slots.len()
    }

    /// Returns the slot that holds most, if all together exceed the limit. In that case O(slots).
    pub(crate) fn excess(&self) -> Option<usize> {
        if self.total.load(Relaxed) <= self.limit.load(Relaxed) {
            return None;
        }
        let held = self.slots.iter().map(|slot| slot.load(Relaxed)).enumerate();
        held.max_by_key(|&(_, bytes)| bytes).map(|(slot, _)| slot)
    }
}
