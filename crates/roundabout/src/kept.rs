//! The buffers of rings that have ended, for the next ones.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::arena::Arena;
#[cfg(feature = "ofi")]
use crate::link::fabric::Registered;

/// Buffers that outlive their rings: a ring borrows those that an earlier one has given back, if they
/// are as many and as large, and else makes new ones. With libfabric they stay registered, which
/// costs too much to be done for each run (the cyclo-join paper, section III-C).
///
/// Buffers that hosts hand over in shared memory are made for each ring: a host that failed may
/// still write to them. Clones are the same. By default nothing is kept.
#[derive(Clone, Debug, Default)]
pub struct KeptBuffers(Arc<Store>);

#[derive(Debug, Default)]
struct Store {
    most_bytes: usize,
    kept: Mutex<Vec<Kept>>,
}

#[derive(Debug)]
enum Kept {
    Private(Arc<Arena>),
    #[cfg(feature = "ofi")]
    Registered(Arc<Registered>),
}

impl Kept {
    fn arena(&self) -> &Arc<Arena> {
        match self {
            Self::Private(arena) => arena,
            #[cfg(feature = "ofi")]
            Self::Registered(registered) => registered.arena(),
        }
    }

    /// Returns whether no ring has it. Under the lock of the store, none can get it meanwhile.
    fn is_idle(&self) -> bool {
        let is_known_here = match self {
            Self::Private(_) => true,
            #[cfg(feature = "ofi")]
            Self::Registered(registered) => Arc::strong_count(registered) == 1,
        };
        is_known_here && Arc::strong_count(self.arena()) == 1
    }
}

impl KeptBuffers {
    /// Keeps at most this many bytes, those in use included.
    pub fn new(most_bytes: usize) -> Self {
        Self(Arc::new(Store { most_bytes, kept: Mutex::default() }))
    }

    /// Returns the bytes that are kept, those in use included.
    pub fn bytes(&self) -> usize {
        bytes(&self.lock())
    }

    /// Returns private memory for `buffers` buffers of fragments up to `fragment_bytes`.
    ///
    /// # Errors
    /// If memory is short.
    pub(crate) fn private(&self, buffers: u32, fragment_bytes: usize) -> io::Result<Arc<Arena>> {
        let of_private = |kept: &Kept| match kept {
            Kept::Private(arena) if arena.is_of(buffers, fragment_bytes) => Some(Arc::clone(arena)),
            _ => None,
        };
        if let Some(arena) = self.idle(of_private) {
            return Ok(arena);
        }
        let arena = Arena::private(buffers, fragment_bytes)?;
        self.keep(Kept::Private(Arc::clone(&arena)));
        Ok(arena)
    }

    /// Returns such memory that is registered with a provider of libfabric, or what `open` returns.
    ///
    /// # Errors
    /// That of `open`.
    #[cfg(feature = "ofi")]
    pub(crate) fn registered<E>(
        &self,
        (provider, node): (&str, Option<&str>),
        (buffers, fragment_bytes): (u32, usize),
        open: impl FnOnce() -> Result<Registered, E>,
    ) -> Result<Arc<Registered>, E> {
        let of_provider = |kept: &Kept| match kept {
            Kept::Registered(registered)
                if registered.is_with(provider, node) && registered.arena().is_of(buffers, fragment_bytes) =>
            {
                Some(Arc::clone(registered))
            }
            _ => None,
        };
        if let Some(registered) = self.idle(of_provider) {
            return Ok(registered);
        }
        let registered = Arc::new(open()?);
        self.keep(Kept::Registered(Arc::clone(&registered)));
        Ok(registered)
    }

    fn idle<T>(&self, of: impl Fn(&Kept) -> Option<T>) -> Option<T> {
        self.lock().iter().filter(|kept| kept.is_idle()).find_map(of)
    }

    /// Keeps new memory, in the place of idle memory if there is too much.
    fn keep(&self, new: Kept) {
        let mut dropped = Vec::new();
        let mut kept = self.lock();
        while bytes(&kept).saturating_add(new.arena().bytes()) > self.0.most_bytes {
            let Some(idle) = kept.iter().position(Kept::is_idle) else { return };
            dropped.push(kept.remove(idle));
        }
        kept.push(new);
        // Given back to the system without the lock.
        drop(kept);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes(kept: &[Kept]) -> usize {
    kept.iter().map(|kept| kept.arena().bytes()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 4096;

    #[test]
    fn the_next_ring_gets_the_same_memory() {
        let kept = KeptBuffers::new(1 << 20);
        let first = |arena: &Arc<Arena>| arena.take(0).unwrap().as_ptr().addr();
        let (one, other) = (kept.private(4, BYTES).unwrap(), kept.private(4, BYTES).unwrap());
        assert_ne!(first(&one), first(&other), "two rings at a time");
        let at = first(&one);
        let away = one.take(2).unwrap();
        drop(one);
        assert_ne!(first(&kept.private(4, BYTES).unwrap()), at, "a buffer is still away");
        drop((away, other));
        assert_ne!(first(&kept.private(3, BYTES).unwrap()), at, "others have fewer buffers");
        let found: Vec<_> = (0..3).map(|_| kept.private(4, BYTES).unwrap()).collect();
        assert!(found.iter().any(|arena| first(arena) == at));
    }

    #[test]
    fn no_more_is_kept_than_allowed() {
        let one = Arena::private(4, BYTES).unwrap().bytes();
        let kept = KeptBuffers::new(2 * one);
        let rings: Vec<_> = (0..5).map(|_| kept.private(4, BYTES).unwrap()).collect();
        assert_eq!(kept.bytes(), 2 * one);
        drop(rings);
        drop(kept.private(7, BYTES).unwrap());
        assert!(kept.bytes() <= 2 * one);
        let none = KeptBuffers::default();
        drop(none.private(4, BYTES).unwrap());
        assert_eq!(none.bytes(), 0);
    }
}
