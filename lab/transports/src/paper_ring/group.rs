//! Groups of slots, and their entries in the ring: the unsafe code of the paper's ring.

use annulus_exchange::ExchangeStats;
use annulus_sync::{
    Arc, UnsafeCell,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};
use crossbeam_utils::CachePadded;

use super::order;

/// A group of G slots. Producers claim a slot each, write it and complete it. When all are
/// completed, the group is published, and consumers read it. Rule 1.
pub(super) struct Group<T> {
    started: CachePadded<AtomicUsize>,
    completed: CachePadded<AtomicUsize>,
    full: AtomicBool,
    slots: Box<[UnsafeCell<Option<T>>]>,
}

// SAFETY: a slot is written by the thread that has claimed it, then read by several (hence `Sync`),
// and its value may be dropped by another (hence `Send`). The callers' contracts below order that.
unsafe impl<T: Send + Sync> Sync for Group<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Group<T> {}

impl<T> Group<T> {
    pub(super) fn new(slots: usize) -> Self {
        let counter = || CachePadded::new(AtomicUsize::new(0));
        let slots = (0..slots).map(|_| UnsafeCell::new(None)).collect();
        Self { started: counter(), completed: counter(), full: AtomicBool::new(false), slots }
    }

    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Claims a slot. `None` if all are claimed.
    pub(super) fn claim(&self, stats: &mut ExchangeStats) -> Option<usize> {
        stats.shared_ops += 1;
        let slot = self.started.fetch_add(1, Relaxed);
        (slot < self.slots.len()).then_some(slot)
    }

    /// Claims all remaining slots, and returns their number. They stay empty.
    pub(super) fn close(&self, stats: &mut ExchangeStats) -> usize {
        stats.shared_ops += 1;
        let slots = self.slots.len();
        slots.saturating_sub(self.started.fetch_add(slots, Relaxed))
    }

    /// Writes a value.
    ///
    /// # Safety
    /// The caller has claimed this slot, and writes it once.
    pub(super) unsafe fn write(&self, slot: usize, value: T) {
        // SAFETY: claims are unique, and nobody reads a slot before the group is published, which its
        // completion precedes.
        self.slots[slot].with_mut(|cell| unsafe { *cell = Some(value) });
    }

    /// Completes claims, and returns whether they were the last ones: the caller publishes the
    /// group.
    pub(super) fn complete(&self, claims: usize, stats: &mut ExchangeStats) -> bool {
        stats.shared_ops += 1;
        self.completed.fetch_add(claims, order::complete()) + claims == self.slots.len()
    }

    /// Tells producers that no slot is left.
    pub(super) fn set_full(&self) {
        self.full.store(true, Relaxed);
    }

    /// Returns whether no slot is left. It may be stale; a claim fails then.
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    /// Calls `visit` with the value of a slot. `None` if it is empty.
    ///
    /// # Safety
    /// The caller has seen the group published, and reads it for a consumer that has not left it.
    pub(super) unsafe fn read<R>(&self, slot: usize, visit: impl FnOnce(&T) -> R) -> Option<R> {
        // SAFETY: the slot was written before the group was published, and is cleared after every consumer
        // has left.
        self.slots[slot].with(|cell| unsafe { (*cell).as_ref() }.map(visit))
    }

    /// Drops the values.
    ///
    /// # Safety
    /// Every consumer has left the group, and the caller was the last one.
    pub(super) unsafe fn clear(&self) {
        for slot in &self.slots {
            // SAFETY: nobody reads the group any more, and producers that still refer to it find it full.
            drop(slot.with_mut(|cell| unsafe { (*cell).take() }));
        }
    }
}

/// An entry in the ring, and the number of consumers that have not left the group there. The number
/// is not the group's, which another thread may free as soon as the last consumer has left.
pub(super) struct RingEntry<T> {
    group: UnsafeCell<Option<Arc<Group<T>>>>,
    left: CachePadded<AtomicUsize>,
}

// SAFETY: the group is written under the mutex, and read by consumers between its publication and
// their leaving it. The callers' contracts below say so.
unsafe impl<T: Send + Sync> Sync for RingEntry<T> {}

impl<T> RingEntry<T> {
    pub(super) fn new() -> Self {
        Self { group: UnsafeCell::new(None), left: CachePadded::new(AtomicUsize::new(0)) }
    }

    /// Leaves the group on behalf of a consumer that has not left it. Returns whether it was the
    /// last one.
    pub(super) fn leave(&self, stats: &mut ExchangeStats) -> bool {
        stats.shared_ops += 1;
        self.left.fetch_sub(1, order::leave()) == 1
    }

    /// Puts a group here that this number of consumers will read.
    ///
    /// # Panics
    /// If the entry has a group.
    ///
    /// # Safety
    /// The caller holds the mutex.
    pub(super) unsafe fn put(&self, group: Arc<Group<T>>, readers: usize) {
        // SAFETY: writers hold the mutex. Nobody reads an empty entry: the group after the former one is
        // not published yet.
        self.group.with_mut(|cell| unsafe {
            assert!((*cell).is_none(), "a group of the ring would be overwritten");
            *cell = Some(group);
        });
        self.left.store(readers, Relaxed);
    }

    /// Takes the group out.
    ///
    /// # Safety
    /// The caller holds the mutex, and every consumer has left the group.
    pub(super) unsafe fn take(&self) -> Option<Arc<Group<T>>> {
        // SAFETY: as the caller promises, nobody reads the entry.
        self.group.with_mut(|cell| unsafe { (*cell).take() })
    }

    /// Calls `read` with the group.
    ///
    /// # Safety
    /// The caller has seen the group published, and reads it for a consumer that has not left it.
    pub(super) unsafe fn with<R>(&self, read: impl FnOnce(&Group<T>) -> R) -> Option<R> {
        // SAFETY: the entry is written again only after every consumer has left its group.
        self.group.with(|cell| unsafe { (*cell).as_ref() }.map(|group| read(group)))
    }
}
