//! Where values lie. Beside `parked.rs`, the ring's only unsafe code.

use annulus_sync::UnsafeCell;

use super::state::Sequence;

/// One place of the ring. It is written by the producer whose ticket leads here, then read by every
/// consumer, then cleared by the sweeper; PROTOCOL.md shows that these never overlap.
#[derive(Debug)]
pub(super) struct Slot<T> {
    sequence: Sequence,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: consumers on several threads hold `&T` at once (hence `Sync`), and the value is dropped
// on another thread than the one that made it (hence `Send`). Access to the cell is ordered by the
// callers' contracts below.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

impl<T> Slot<T> {
    pub(super) fn new() -> Self {
        Self { sequence: Sequence::new(), value: UnsafeCell::new(None) }
    }

    /// Write `value` and show it. Neither panics nor waits.
    ///
    /// # Safety
    /// The caller took `ticket`, which leads to this slot, and publishes it once; and its admission
    /// happened after the slot's former value was cleared.
    pub(super) unsafe fn publish(&self, ticket: u64, value: T) {
        // SAFETY: nobody reads the cell before the sequence number says so, tickets are unique, and the
        // former value's clearing happened before (the caller's promise).
        self.value.with_mut(|cell| unsafe { *cell = Some(value) });
        self.sequence.publish(ticket);
    }

    /// Whether `ticket`, or a later one of this slot, was published.
    pub(super) fn is_published(&self, ticket: u64) -> bool {
        self.sequence.is_published(ticket)
    }

    /// Call `visit` with the value; `None` if there is none.
    ///
    /// # Safety
    /// The ticket was seen published by this thread, and the caller holds the lease of a consumer
    /// whose cursor has not passed it, all through the call.
    pub(super) unsafe fn read<R>(&self, visit: impl FnOnce(&T) -> R) -> Option<R> {
        // SAFETY: the value was written before its sequence number, which the caller saw; and it is cleared
        // only after every cursor has passed it, which the caller's lease prevents.
        self.value.with(|cell| unsafe { (*cell).as_ref() }.map(visit))
    }

    /// Take the value out, for the caller to drop.
    ///
    /// # Safety
    /// The caller is the sweeper, and every consumer's cursor was seen past the ticket.
    pub(super) unsafe fn clear(&self) -> Option<T> {
        // SAFETY: no consumer reads a slot that its cursor has passed, only one sweeps at a time, and no
        // producer writes the slot before the sweeper releases it.
        self.value.with_mut(|cell| unsafe { (*cell).take() })
    }
}
