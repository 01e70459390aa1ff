//! The buffers of rings that have ended, for the next ones.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
            fence,
        },
    },
};

use parking_lot::{Mutex, MutexGuard};

#[cfg(feature = "ofi")]
use crate::libfabric::{FabricDevice, RegisteredArena};
use crate::{
    arena::{Arena, Buffer},
    config::RingConfig,
    error::RoundaboutError,
};

/// Buffers that outlive their rings: a ring borrows those that an earlier one has given back, if they
/// are as many and as large, and else makes new ones. With libfabric they stay registered, which
/// costs too much to be done for each run (the cyclo-join paper, section III-C).
///
/// Buffers that hosts hand over in shared memory are shared again only if all of them had come back when
/// their ring ended: a host that failed may still write to those that it has. Others are given back when
/// the next ring starts. Clones are the same. By default nothing is kept.
#[derive(Clone, Debug, Default)]
pub struct BufferCache(Arc<Store>);

#[derive(Debug, Default)]
struct Store {
    most_bytes: usize,
    arenas: Mutex<Vec<CachedArena>>,
}

#[derive(Debug)]
enum CachedArena {
    Private(Arc<Arena>),
    Shared(Arc<SharedArena>),
    #[cfg(feature = "ofi")]
    Registered(Arc<RegisteredArena>),
}

impl CachedArena {
    fn arena(&self) -> &Arc<Arena> {
        match self {
            Self::Private(arena) => arena,
            Self::Shared(shared) => &shared.arena,
            #[cfg(feature = "ofi")]
            Self::Registered(registered) => registered.arena(),
        }
    }

    /// Returns whether no ring has it. Under the lock of the store, none can get it meanwhile.
    fn is_idle(&self) -> bool {
        let is_known_here = match self {
            Self::Private(_) => true,
            Self::Shared(shared) => Arc::strong_count(shared) == 1,
            #[cfg(feature = "ofi")]
            Self::Registered(registered) => Arc::strong_count(registered) == 1,
        };
        let is_idle = is_known_here && Arc::strong_count(self.arena()) == 1;
        // After what those did that had it: counts are read without order.
        fence(Acquire);
        is_idle
    }

    /// Returns whether no other process may use it.
    fn is_back(&self) -> bool {
        match self {
            Self::Shared(shared) => shared.is_back.load(Acquire),
            _ => true,
        }
    }
}

/// Buffers in memory that the other hosts of a ring map.
#[derive(Debug)]
pub(crate) struct SharedArena {
    pub(crate) arena: Arc<Arena>,
    pub(crate) memory: OwnedFd,
    is_back: AtomicBool,
}

impl SharedArena {
    /// Notes whether all buffers are here at the end of their ring. Call it while the host has them. Those of
    /// fragments that the host gave up count as away.
    pub(crate) fn end(&self) {
        if self.arena.are_all_taken() {
            self.is_back.store(true, Release);
        }
    }
}

impl BufferCache {
    /// Keeps at most this many bytes, those in use included.
    pub fn new(most_bytes: usize) -> Self {
        Self(Arc::new(Store { most_bytes, arenas: Mutex::default() }))
    }

    /// Returns the bytes that are kept, those in use included.
    pub fn bytes(&self) -> usize {
        bytes(&self.lock())
    }

    /// Returns `buffers` private buffers for one fragment each, cached or new.
    ///
    /// # Errors
    /// If memory is short.
    pub(crate) fn allocate(&self, config: &RingConfig, buffers: u32) -> Result<Vec<Buffer>, RoundaboutError> {
        let bytes = config.fragment_bytes as usize;
        let arena = self.private(buffers, bytes);
        Ok(arena.map_err(|source| RoundaboutError::Memory { buffers, bytes, source })?.take_all())
    }

    /// Returns private memory for `buffers` buffers of fragments up to `fragment_bytes`.
    ///
    /// # Errors
    /// If memory is short.
    pub(crate) fn private(&self, buffers: u32, fragment_bytes: usize) -> io::Result<Arc<Arena>> {
        let of_private = |cached: &CachedArena| match cached {
            CachedArena::Private(arena) if arena.is_of(buffers, fragment_bytes) => Some(Arc::clone(arena)),
            _ => None,
        };
        self.idle_or(of_private, CachedArena::Private, || Arena::private(buffers, fragment_bytes))
    }

    /// Returns such memory that other processes can map.
    ///
    /// # Errors
    /// If memory is short.
    pub(crate) fn shared(&self, buffers: u32, fragment_bytes: usize) -> io::Result<Arc<SharedArena>> {
        let of_shared = |cached: &CachedArena| match cached {
            CachedArena::Shared(shared) if shared.arena.is_of(buffers, fragment_bytes) => {
                shared.is_back.store(false, Release);
                Some(Arc::clone(shared))
            }
            _ => None,
        };
        self.idle_or(of_shared, CachedArena::Shared, || {
            let (arena, memory) = Arena::shared(buffers, fragment_bytes)?;
            Ok(Arc::new(SharedArena { arena, memory, is_back: AtomicBool::new(false) }))
        })
    }

    /// Returns such memory that is registered with a provider of libfabric, or what `open` returns.
    ///
    /// # Errors
    /// That of `open`.
    #[cfg(feature = "ofi")]
    pub(crate) fn registered<E>(
        &self,
        device: FabricDevice<'_>,
        buffers: u32,
        fragment_bytes: usize,
        open: impl FnOnce() -> Result<RegisteredArena, E>,
    ) -> Result<Arc<RegisteredArena>, E> {
        let of_provider = |cached: &CachedArena| match cached {
            CachedArena::Registered(registered)
                if registered.is_on(device) && registered.arena().is_of(buffers, fragment_bytes) =>
            {
                Some(Arc::clone(registered))
            }
            _ => None,
        };
        self.idle_or(of_provider, CachedArena::Registered, || open().map(Arc::new))
    }

    /// Returns idle memory that `of` finds, or what `make` makes, which is kept.
    fn idle_or<T, E>(
        &self,
        of: impl Fn(&CachedArena) -> Option<Arc<T>>,
        cached: impl FnOnce(Arc<T>) -> CachedArena,
        make: impl FnOnce() -> Result<Arc<T>, E>,
    ) -> Result<Arc<T>, E> {
        if let Some(idle) = self.idle(of) {
            return Ok(idle);
        }
        let new = make()?;
        self.add(cached(Arc::clone(&new)));
        Ok(new)
    }

    fn idle<T>(&self, of: impl Fn(&CachedArena) -> Option<T>) -> Option<T> {
        let mut arenas = self.lock();
        let lost: Vec<_> = arenas.extract_if(.., |cached| cached.is_idle() && !cached.is_back()).collect();
        let found = arenas.iter().filter(|cached| cached.is_idle()).find_map(of);
        drop(arenas);
        // Given back to the system without the lock.
        drop(lost);
        found
    }

    /// Keeps new memory, in the place of idle memory if there is too much.
    fn add(&self, new: CachedArena) {
        let mut dropped = Vec::new();
        let mut arenas = self.lock();
        while bytes(&arenas).saturating_add(new.arena().bytes()) > self.0.most_bytes {
            let Some(idle) = arenas.iter().position(CachedArena::is_idle) else { return };
            dropped.push(arenas.remove(idle));
        }
        arenas.push(new);
        // Given back to the system without the lock.
        drop(arenas);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<CachedArena>> {
        self.0.arenas.lock()
    }
}

fn bytes(arenas: &[CachedArena]) -> usize {
    arenas.iter().map(|cached| cached.arena().bytes()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 4096;

    #[test]
    fn the_next_ring_gets_the_same_memory() {
        let cache = BufferCache::new(1 << 20);
        let first = |arena: &Arc<Arena>| arena.take(0).unwrap().as_ptr().addr();
        let (one, other) = (cache.private(4, BYTES).unwrap(), cache.private(4, BYTES).unwrap());
        assert_ne!(first(&one), first(&other), "two rings at a time");
        let at = first(&one);
        let away = one.take(2).unwrap();
        drop(one);
        assert_ne!(first(&cache.private(4, BYTES).unwrap()), at, "a buffer is still away");
        drop((away, other));
        assert_ne!(first(&cache.private(3, BYTES).unwrap()), at, "others have fewer buffers");
        let found: Vec<_> = (0..3).map(|_| cache.private(4, BYTES).unwrap()).collect();
        assert!(found.iter().any(|arena| first(arena) == at));
    }

    #[test]
    fn buffers_that_did_not_come_back_are_not_lent_again() {
        let cache = BufferCache::new(1 << 20);
        let shared = cache.shared(2, BYTES).unwrap();
        let bytes = cache.bytes();
        let [mut here, mut away] = shared.arena.take_all().try_into().unwrap();
        (here[0], away[0]) = (1, 2);
        shared.end();
        drop((here, away, shared));
        let shared = cache.shared(2, BYTES).unwrap();
        assert_eq!(shared.arena.take(1).unwrap()[0], 2, "the same memory");
        let here = shared.arena.take(0);
        // The other one has gone to another host.
        shared.end();
        drop((here, shared));
        let shared = cache.shared(2, BYTES).unwrap();
        assert_eq!(shared.arena.take(1).unwrap()[0], 0, "new memory");
        drop(shared);
        drop(cache.private(1, BYTES).unwrap());
        assert!(cache.bytes() < bytes, "a ring that has not ended");
    }

    #[test]
    fn no_more_is_kept_than_allowed() {
        let one = Arena::private(4, BYTES).unwrap().bytes();
        let cache = BufferCache::new(2 * one);
        let rings: Vec<_> = (0..5).map(|_| cache.private(4, BYTES).unwrap()).collect();
        assert_eq!(cache.bytes(), 2 * one);
        drop(rings);
        drop(cache.private(7, BYTES).unwrap());
        assert!(cache.bytes() <= 2 * one);
        let none = BufferCache::default();
        drop(none.private(4, BYTES).unwrap());
        assert_eq!(none.bytes(), 0);
    }
}
