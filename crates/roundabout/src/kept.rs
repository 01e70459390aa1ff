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

use crate::arena::Arena;
#[cfg(feature = "ofi")]
use crate::link::fabric::Registered;

/// Buffers that outlive their rings: a ring borrows those that an earlier one has given back, if they
/// are as many and as large, and else makes new ones. With libfabric they stay registered, which
/// costs too much to be done for each run (the cyclo-join paper, section III-C).
///
/// Buffers that hosts hand over in shared memory are lent again only if all of them had come back when
/// their ring ended: a host that failed may still write to those that it has. Others are given back when
/// the next ring starts. Clones are the same. By default nothing is kept.
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
    Lent(Arc<Lent>),
    #[cfg(feature = "ofi")]
    Registered(Arc<Registered>),
}

impl Kept {
    fn arena(&self) -> &Arc<Arena> {
        match self {
            Self::Private(arena) => arena,
            Self::Lent(lent) => &lent.arena,
            #[cfg(feature = "ofi")]
            Self::Registered(registered) => registered.arena(),
        }
    }

    /// Returns whether no ring has it. Under the lock of the store, none can get it meanwhile.
    fn is_idle(&self) -> bool {
        let is_known_here = match self {
            Self::Private(_) => true,
            Self::Lent(lent) => Arc::strong_count(lent) == 1,
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
            Self::Lent(lent) => lent.is_back.load(Acquire),
            _ => true,
        }
    }
}

/// Buffers in memory that the other hosts of a ring map.
#[derive(Debug)]
pub(crate) struct Lent {
    pub(crate) arena: Arc<Arena>,
    pub(crate) memory: OwnedFd,
    is_back: AtomicBool,
}

impl Lent {
    /// Notes whether all buffers are here at the end of their ring. Call it while the host has them. Those of
    /// fragments that the host gave up count as away.
    pub(crate) fn end(&self) {
        if self.arena.are_all_taken() {
            self.is_back.store(true, Release);
        }
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
        self.idle_or(of_private, Kept::Private, || Arena::private(buffers, fragment_bytes))
    }

    /// Returns such memory that other processes can map.
    ///
    /// # Errors
    /// If memory is short.
    pub(crate) fn lent(&self, buffers: u32, fragment_bytes: usize) -> io::Result<Arc<Lent>> {
        let of_lent = |kept: &Kept| match kept {
            Kept::Lent(lent) if lent.arena.is_of(buffers, fragment_bytes) => {
                lent.is_back.store(false, Release);
                Some(Arc::clone(lent))
            }
            _ => None,
        };
        self.idle_or(of_lent, Kept::Lent, || {
            let (arena, memory) = Arena::shared(buffers, fragment_bytes)?;
            Ok(Arc::new(Lent { arena, memory, is_back: AtomicBool::new(false) }))
        })
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
        self.idle_or(of_provider, Kept::Registered, || open().map(Arc::new))
    }

    /// Returns idle memory that `of` finds, or what `make` makes, which is kept.
    fn idle_or<T, E>(
        &self,
        of: impl Fn(&Kept) -> Option<Arc<T>>,
        kept: impl FnOnce(Arc<T>) -> Kept,
        make: impl FnOnce() -> Result<Arc<T>, E>,
    ) -> Result<Arc<T>, E> {
        if let Some(idle) = self.idle(of) {
            return Ok(idle);
        }
        let new = make()?;
        self.keep(kept(Arc::clone(&new)));
        Ok(new)
    }

    fn idle<T>(&self, of: impl Fn(&Kept) -> Option<T>) -> Option<T> {
        let mut kept = self.lock();
        let lost: Vec<_> = kept.extract_if(.., |kept| kept.is_idle() && !kept.is_back()).collect();
        let found = kept.iter().filter(|kept| kept.is_idle()).find_map(of);
        drop(kept);
        // Given back to the system without the lock.
        drop(lost);
        found
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
        self.0.kept.lock()
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
    fn buffers_that_did_not_come_back_are_not_lent_again() {
        let kept = KeptBuffers::new(1 << 20);
        let lent = kept.lent(2, BYTES).unwrap();
        let bytes = kept.bytes();
        let [mut here, mut away] = lent.arena.take_all().try_into().unwrap();
        (here[0], away[0]) = (1, 2);
        lent.end();
        drop((here, away, lent));
        let lent = kept.lent(2, BYTES).unwrap();
        assert_eq!(lent.arena.take(1).unwrap()[0], 2, "the same memory");
        let here = lent.arena.take(0);
        // The other one has gone to another host.
        lent.end();
        drop((here, lent));
        let lent = kept.lent(2, BYTES).unwrap();
        assert_eq!(lent.arena.take(1).unwrap()[0], 0, "new memory");
        drop(lent);
        drop(kept.private(1, BYTES).unwrap());
        assert!(kept.bytes() < bytes, "a ring that has not ended");
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
