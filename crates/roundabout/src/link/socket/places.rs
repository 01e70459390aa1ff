//! Where fragments lie that come from the predecessor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{
    arena::{Arena, Buffer},
    ring::HostId,
    rotation::{Credits, Slot},
};

/// Room for so many frames as the predecessor has credits, those that are kept back or on their way included. Slots have numbers from
/// that of the last own one on.
pub(super) enum Places {
    /// In buffers of this host.
    Copied { own: Slot, free: Mutex<Free> },
    /// In the buffers of their origins, which this machine's hosts share; only the slots' numbers are this host's.
    Handed { free: Mutex<Vec<Slot>>, arenas: Vec<Arc<Arena>> },
}

/// Buffers that nobody uses.
pub(super) struct Free {
    buffers: Vec<Buffer>,
    credits: Credits,
}

impl Places {
    pub(super) fn copied(own: Slot, free: Vec<Buffer>) -> Self {
        let credits = Credits::new(free.len() as u32);
        Self::Copied { own, free: Mutex::new(Free { buffers: free, credits }) }
    }

    pub(super) fn handed(own: Slot, places: u32, arenas: Vec<Arc<Arena>>) -> Self {
        Self::Handed { free: Mutex::new((own..own + places).collect()), arenas }
    }

    /// For a fragment whose bytes follow.
    pub(super) fn take(&self) -> Option<(Slot, Buffer)> {
        let Self::Copied { own, free } = self else { return None };
        let buffer = lock(free).buffers.pop()?;
        Some((own + buffer.number(), buffer))
    }

    /// For a fragment in a buffer of its origin.
    pub(super) fn take_handed(&self, origin: HostId, number: u32) -> Option<(Slot, Buffer)> {
        let Self::Handed { free, arenas } = self else { return None };
        let buffer = arenas.get(origin.index())?.take(number)?;
        Some((lock(free).pop()?, buffer))
    }

    /// One of this host's own buffers that is back.
    pub(super) fn take_home(&self, me: HostId, number: u32) -> Option<Buffer> {
        let Self::Handed { arenas, .. } = self else { return None };
        arenas.get(me.index())?.take(number)
    }

    /// The place of a fragment that is not here any more. The credits to be sent to the predecessor.
    pub(super) fn give(&self, slot: Slot, buffer: Buffer) -> u32 {
        match self {
            Self::Copied { free, .. } => {
                let mut free = lock(free);
                free.buffers.push(buffer);
                let count = free.buffers.len() as u32;
                free.credits.give(count)
            }
            // A message of a machine's own costs little, and a place no memory.
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
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
