//! The places for fragments from the predecessor.

use parking_lot::{Mutex, MutexGuard};

use super::handover::Arenas;
use crate::{arena::Buffer, credits::Credits, ring::HostId, rotation::Slot};

/// Room for all frames that the predecessor has credits for, including credits that are kept back
/// or in transit. The slots are numbered after the own ones.
pub(super) enum Places {
    /// Places in buffers of this host.
    Copied { own: Slot, free: Mutex<FreeBuffers> },
    /// Places for fragments in the buffers of their origins, which the hosts of this machine share.
    /// Only the slot numbers belong to this host.
    Handed { free: Mutex<Vec<Slot>>, arenas: Arenas },
}

/// The free buffers, and the credits owed for them.
pub(super) struct FreeBuffers {
    buffers: Vec<Buffer>,
    credits: Credits,
}

impl Places {
    pub(super) fn copied(own: Slot, free: Vec<Buffer>) -> Self {
        let credits = Credits::new(free.len() as u32);
        Self::Copied { own, free: Mutex::new(FreeBuffers { buffers: free, credits }) }
    }

    pub(super) fn handed(own: Slot, places: u32, arenas: Arenas) -> Self {
        Self::Handed { free: Mutex::new((own..own + places).collect()), arenas }
    }

    /// Takes a place for a fragment whose bytes follow. Also returns the credits to send to the
    /// predecessor.
    pub(super) fn take(&self) -> Option<(Slot, Buffer, u32)> {
        let Self::Copied { own, free } = self else { return None };
        let mut free = lock(free);
        let buffer = free.buffers.pop()?;
        let count = free.buffers.len() as u32;
        Some((own + buffer.number(), buffer, free.credits.due(count)))
    }

    /// Takes a place for a fragment in a buffer of its origin.
    pub(super) fn take_handed(&self, origin: HostId, number: u32) -> Option<(Slot, Buffer)> {
        let Self::Handed { free, arenas } = self else { return None };
        let buffer = arenas.all.get(origin.index())?.take(number)?;
        Some((lock(free).pop()?, buffer))
    }

    /// Takes one of this host's own buffers, which came back.
    pub(super) fn take_home(&self, number: u32) -> Option<Buffer> {
        let Self::Handed { arenas, .. } = self else { return None };
        arenas.own.arena.take(number)
    }

    /// Ends the use of the places.
    pub(super) fn end(&self) {
        if let Self::Handed { arenas, .. } = self {
            arenas.own.end();
        }
    }

    /// Frees the place of a fragment that has left. Returns the credits to send to the predecessor.
    pub(super) fn give(&self, slot: Slot, buffer: Buffer) -> u32 {
        match self {
            Self::Copied { free, .. } => {
                let mut free = lock(free);
                free.buffers.push(buffer);
                let count = free.buffers.len() as u32;
                free.credits.give(count)
            }
            // Within a machine a message costs little, and a place needs no memory.
            Self::Handed { free, .. } => {
                lock(free).push(slot);
                1
            }
        }
    }

    pub(super) fn are_shared(&self) -> bool {
        matches!(self, Self::Handed { .. })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
