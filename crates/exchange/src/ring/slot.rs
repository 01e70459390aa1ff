//! The slots, which hold the values. This file and `parked.rs` have the ring's only unsafe code.

use annulus_sync::UnsafeCell;

use super::state::Sequence;

/// One slot of the ring. The producer whose ticket belongs to it writes it, then every consumer
/// reads it, then the sweeper clears it. PROTOCOL.md shows that these never overlap.
#[derive(Debug)]
pub(super) struct Slot<T> {
    sequence: Sequence,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: consumers on several threads hold `&T` at once (hence `Sync`), and the value may be
// dropped on another thread than the one that created it (hence `Send`). The callers' contracts
// below order access to the cell.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

impl<T> Slot<T> {
    pub(super) fn new() -> Self {
        Self { sequence: Sequence::new(), value: UnsafeCell::new(None) }
    }

    /// Writes `value` and publishes it. Neither panics nor waits.
    ///
    /// # Safety
    /// The caller has taken `ticket`, which belongs to this slot, and publishes it once. It was
    /// admitted after the slot's former value was cleared.
    pub(super) unsafe fn publish(&self, ticket: u64, value: T) {
        // SAFETY: no thread reads the cell before the sequence number allows it, tickets are unique, and
        // the former value was cleared before (the caller's promise).
        self.value.with_mut(|cell| unsafe { *cell = Some(value) });
        self.sequence.publish(ticket);
    }

    /// Returns whether `ticket`, or a later one of this slot, was published.
    pub(super) fn is_published(&self, ticket: u64) -> bool {
        self.sequence.is_published(ticket)
    }

    /// Calls `visit` with the value. Returns `None` if there is none.
    ///
    /// # Safety
    /// This thread has seen the ticket published. Throughout the call, the caller holds the lease
    /// of a consumer whose cursor has not passed it.
    pub(super) unsafe fn read<R>(&self, visit: impl FnOnce(&T) -> R) -> Option<R> {
        // SAFETY: the value was written before its sequence number, which the caller has seen. It is
        // cleared only after every cursor has passed it, which the caller's lease prevents.
        self.value.with(|cell| unsafe { (*cell).as_ref() }.map(visit))
    }

    /// Takes the value out, for the caller to drop.
    ///
    /// # Safety
    /// The caller is the sweeper, and has seen every consumer's cursor past the ticket.
    pub(super) unsafe fn clear(&self) -> Option<T> {
        // SAFETY: no consumer reads a slot that its cursor has passed, only one thread sweeps at a time,
        // and no producer writes the slot before the sweeper releases it.
        self.value.with_mut(|cell| unsafe { (*cell).take() })
    }
}
