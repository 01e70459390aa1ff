//! The atomics of the lock-free page manager: a list of pages, of which the last one is open.
//! PROTOCOL.md states the protocol.

use std::ptr::null_mut;

use annulus_pages::page::write::Extent;
use annulus_sync::{
    UnsafeCell,
    atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed},
    yield_now,
};
use crossbeam_utils::CachePadded;

use super::order;

/// The pages of a partition, of which the last one is open.
pub(super) struct Chain<P: Send + Sync> {
    open: AtomicPtr<Node<P>>,
    /// Set if no page will be added any more.
    failed: AtomicBool,
}

/// A place for a page in a chain, which does not move while the chain lives.
pub(super) struct Node<P> {
    /// The page, until it is whole.
    page: UnsafeCell<Option<P>>,
    /// A [`Word`]: the extent of the taken places, and whether the page is closed.
    taken: CachePadded<AtomicU64>,
    /// The number of written tuples, and [`CLOSED`] after the claim that closed the page was
    /// completed.
    completed: CachePadded<AtomicU32>,
    previous: *mut Node<P>,
}

/// A claim on places of a page, which its thread may write.
#[must_use = "places that are not written keep their page from being complete"]
pub(super) struct Claim<'c, P: Send + Sync> {
    pub(super) node: &'c Node<P>,
    pub(super) at: Extent,
    pub(super) room: Extent,
    /// Set if the claim closed the page, and must add another one to the chain.
    pub(super) closer: Option<Closer<'c, P>>,
}

/// The duty to add a page to the chain. Dropping it fails the chain.
pub(super) struct Closer<'c, P: Send + Sync> {
    chain: &'c Chain<P>,
}

/// A page that was not whole when its chain ended.
pub(super) struct IncompletePage<P> {
    pub(super) page: P,
    pub(super) taken: Extent,
    /// The number of written tuples.
    pub(super) completed: usize,
}

/// The bit in `taken` and `completed` that marks a page on which no more places will be taken.
const CLOSED: u32 = 1 << 31;

/// The value of `taken`: tuples (31 bits), closed (1 bit), bytes of data (32 bits).
#[derive(Clone, Copy)]
struct Word(u64);

impl Word {
    fn new(taken: Extent, closed: bool) -> Self {
        let closed = if closed { CLOSED } else { 0 };
        Self((taken.bytes as u64) << 32 | u64::from(taken.tuples as u32 | closed))
    }

    fn closed(self) -> bool {
        self.0 as u32 & CLOSED != 0
    }

    fn taken(self) -> Extent {
        Extent { tuples: (self.0 as u32 & !CLOSED) as usize, bytes: (self.0 >> 32) as usize }
    }
}

impl<P: Send + Sync> Chain<P> {
    /// Creates a chain of one page.
    pub(super) fn new(page: P) -> Self {
        Self { open: AtomicPtr::new(Node::boxed(page, null_mut())), failed: AtomicBool::new(false) }
    }

    /// Takes a place on the open page. `fitting` returns the extent that fits after the taken
    /// places, and whether that closes the page. It may be called several times. Returns `None` if
    /// the chain has failed. Waits while another thread adds a page.
    #[inline(always)]
    pub(super) fn claim(&self, fitting: impl Fn(Extent) -> (Extent, bool)) -> Option<Claim<'_, P>> {
        loop {
            // SAFETY: nodes live as long as the chain, and the Acquire shows everything that was
            // written before this node was installed.
            let node = unsafe { &*self.open.load(order::look()) };
            let mut word = Word(node.taken.load(Relaxed));
            while !word.closed() {
                let at = word.taken();
                let (room, closes) = fitting(at);
                match node.taken.compare_exchange_weak(word.0, Word::new(at + room, closes).0, Relaxed, Relaxed) {
                    Ok(_) => {
                        let closer = closes.then(|| Closer { chain: self });
                        return Some(Claim { node, at, room, closer });
                    }
                    Err(now) => word = Word(now),
                }
            }
            if self.failed.load(order::give_up()) {
                return None;
            }
            yield_now();
        }
    }

    /// Returns the pages that are not whole, in order: the open one, and after an error others.
    pub(super) fn into_pages(mut self) -> Vec<IncompletePage<P>> {
        self.take_pages()
    }

    fn take_pages(&mut self) -> Vec<IncompletePage<P>> {
        let mut pages = Vec::new();
        let mut node = self.open.load(order::look());
        self.open.store(null_mut(), Relaxed);
        while !node.is_null() {
            // SAFETY: nodes come from boxes, and no other thread has the chain.
            let Node { page, taken, completed, previous } = *unsafe { Box::from_raw(node) };
            // The owner acquired the writes when it got the chain back from its writers.
            let completed = (completed.load(Relaxed) & !CLOSED) as usize;
            let taken = Word(taken.load(Relaxed)).taken();
            // SAFETY: no other thread has the node.
            let page = page.with_mut(|page| unsafe { (*page).take() });
            pages.extend(page.map(|page| IncompletePage { page, taken, completed }));
            node = previous;
        }
        pages.reverse();
        pages
    }
}

impl<P: Send + Sync> Drop for Chain<P> {
    fn drop(&mut self) {
        drop(self.take_pages());
    }
}

impl<P> Node<P> {
    fn boxed(page: P, previous: *mut Self) -> *mut Self {
        let (taken, completed) = (AtomicU64::new(0), AtomicU32::new(0));
        let page = UnsafeCell::new(Some(page));
        let node = Self { page, taken: CachePadded::new(taken), completed: CachePadded::new(completed), previous };
        Box::into_raw(Box::new(node))
    }

    /// Returns the page, to write the places of a claim.
    ///
    /// # Safety
    /// The caller has a claim on the page that is not completed, and keeps the reference no longer
    /// than the claim.
    #[inline(always)]
    pub(super) unsafe fn page(&self) -> &P {
        // SAFETY: the page is only taken out when all claims on it are completed.
        let page = self.page.with(|page| unsafe { &*page });
        page.as_ref().expect("a page with an open claim is there")
    }

    /// Completes a claim of `tuples` tuples, which are all written. `closed` says whether it closed
    /// the page. Returns the page and its extent for one claim only: then the page is closed, all
    /// taken places are written, and the page belongs to the caller.
    ///
    /// # Safety
    /// The caller has such a claim, and completes it once.
    #[inline]
    pub(super) unsafe fn complete(&self, tuples: usize, closed: bool) -> Option<(P, Extent)> {
        let more = tuples as u32 + if closed { CLOSED } else { 0 };
        let completed = self.completed.fetch_add(more, order::complete()).wrapping_add(more);
        if completed & CLOSED == 0 {
            return None;
        }
        // When CLOSED is visible here, the last value of `taken` is, too.
        let taken = Word(self.taken.load(Relaxed));
        if completed != taken.0 as u32 {
            return None;
        }
        // SAFETY: all claims are completed and none follows, so no other thread uses the page.
        let page = self.page.with_mut(|page| unsafe { (*page).take() });
        Some((page.expect("a page is whole once"), taken.taken()))
    }
}

impl<P: Send + Sync> Closer<'_, P> {
    /// Adds an empty page and opens it.
    pub(super) fn install(self, page: P) {
        // Only the thread that closed the open page stores here.
        let previous = self.chain.open.load(Relaxed);
        self.chain.open.store(Node::boxed(page, previous), order::install());
        std::mem::forget(self);
    }
}

impl<P: Send + Sync> Drop for Closer<'_, P> {
    fn drop(&mut self) {
        self.chain.failed.store(true, order::fail());
    }
}
