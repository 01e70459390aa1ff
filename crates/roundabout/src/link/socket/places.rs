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
    Copied { own: Slot, free: Mutex<Free<Buffer>> },
    /// In the buffers of their origins, which this machine's hosts share; only the slots' numbers are this host's.
    Handed { free: Mutex<Free<Slot>>, arenas: Vec<Arc<Arena>> },
}

/// Places that nobody uses.
pub(super) struct Free<T> {
    places: Vec<T>,
    credits: Credits,
}

impl<T> Free<T> {
    fn new(places: Vec<T>) -> Mutex<Self> {
        Mutex::new(Self { credits: Credits::new(places.len() as u32), places })
    }

    fn give(&mut self, place: T) -> u32 {
        self.places.push(place);
        self.credits.give(self.places.len() as u32)
    }
}

impl Places {
    pub(super) fn copied(own: Slot, free: Vec<Buffer>) -> Self {
        Self::Copied { own, free: Free::new(free) }
    }

    pub(super) fn handed(own: Slot, places: u32, arenas: Vec<Arc<Arena>>) -> Self {
        Self::Handed { free: Free::new((own..own + places).collect()), arenas }
    }

    /// For a fragment whose bytes follow.
    pub(super) fn take(&self) -> Option<(Slot, Buffer)> {
        let Self::Copied { own, free } = self else { return None };
        let buffer = lock(free).places.pop()?;
        Some((own + buffer.number(), buffer))
    }

    /// For a fragment in a buffer of its origin.
    pub(super) fn take_handed(&self, origin: HostId, number: u32) -> Option<(Slot, Buffer)> {
        let Self::Handed { free, arenas } = self else { return None };
        let buffer = arenas.get(origin.index())?.take(number)?;
        Some((lock(free).places.pop()?, buffer))
    }

    /// One of this host's own buffers that is back.
    pub(super) fn take_home(&self, me: HostId, number: u32) -> Option<Buffer> {
        let Self::Handed { arenas, .. } = self else { return None };
        arenas.get(me.index())?.take(number)
    }

    /// The place of a fragment that is not here any more. The credits to be sent to the predecessor.
    pub(super) fn give(&self, slot: Slot, buffer: Buffer) -> u32 {
        match self {
            Self::Copied { free, .. } => lock(free).give(buffer),
            Self::Handed { free, .. } => lock(free).give(slot),
        }
    }

    pub(super) fn are_shared(&self) -> bool {
        matches!(self, Self::Handed { .. })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
