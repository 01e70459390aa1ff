//! What the memory limit is divided into.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Larger waves leave the last-level cache before they are gathered, and their memory goes back to
/// the system and comes again: a third more processor time with 64 MiB.
const MAX_WAVE_BYTES: usize = 16 << 20;

/// With less, the batches of runs have a few rows only.
const MIN_SORT_BYTES: usize = 256 << 10;
/// Longer runs are merged no faster.
const MAX_SORT_BYTES: usize = 256 << 20;

/// The shares of a memory limit, in bytes. The rest is for what is decoded and gathered, and for
/// what the allocator keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Decoded rows that each worker may hold.
    pub(crate) wave: usize,
    /// All open files together.
    pub(crate) writers: usize,
    /// Rows that each worker may hold to sort them. It takes about as much again meanwhile; waves
    /// are empty then.
    pub(crate) sort: usize,
}

impl Shares {
    pub(crate) fn of(limit: usize, workers: usize) -> Self {
        let workers = workers.max(1);
        Self {
            wave: (limit / 5 / workers).clamp(1, MAX_WAVE_BYTES),
            writers: (limit / 4).max(1),
            sort: (limit / 8 / workers).clamp(MIN_SORT_BYTES, MAX_SORT_BYTES),
        }
    }
}

/// The memory of all open files: the last word of each, and the sum.
#[derive(Debug)]
pub(crate) struct Ledger {
    limit: usize,
    total: AtomicUsize,
    slots: Vec<AtomicUsize>,
}

impl Ledger {
    pub(crate) fn new(limit: usize, slots: usize) -> Self {
        Self { limit, total: AtomicUsize::new(0), slots: (0..slots).map(|_| AtomicUsize::new(0)).collect() }
    }

    /// Notes what a slot holds now. The caller has the slot's lock.
    pub(crate) fn set(&self, slot: usize, bytes: usize) {
        let before = self.slots[slot].swap(bytes, Relaxed);
        self.total.fetch_add(bytes.wrapping_sub(before), Relaxed);
    }

    /// The slot that holds most, if all together hold more than they may. O(slots) then.
    pub(crate) fn excess(&self) -> Option<usize> {
        if self.total.load(Relaxed) <= self.limit {
            return None;
        }
        let held = self.slots.iter().map(|slot| slot.load(Relaxed)).enumerate();
        held.max_by_key(|&(_, bytes)| bytes).map(|(slot, _)| slot)
    }
}
