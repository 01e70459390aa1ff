//! The atomics of the lock-free page manager: a list of pages, of which the last one is open.
//! PROTOCOL.md states the protocol.

use std::ptr::null_mut;

use annulus_pages::page::write::Extent;
use annulus_sync::{
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

/// A page in a chain, which does not move while the chain lives.
pub(super) struct Node<P> {
    pub(super) page: P,
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

/// A page that was taken out of its chain.
pub(super) struct Done<P> {
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

    /// Returns all pages, in order.
    pub(super) fn into_pages(mut self) -> Vec<Done<P>> {
        self.take_pages()
    }

    fn take_pages(&mut self) -> Vec<Done<P>> {
        let mut pages = Vec::new();
        let mut node = self.open.load(order::look());
        self.open.store(null_mut(), Relaxed);
        while !node.is_null() {
            // SAFETY: nodes come from boxes, and no other thread has the chain.
            let Node { page, taken, completed, previous } = *unsafe { Box::from_raw(node) };
            // The owner acquired the writes when it got the chain back from its writers.
            let completed = (completed.load(Relaxed) & !CLOSED) as usize;
            pages.push(Done { page, taken: Word(taken.load(Relaxed)).taken(), completed });
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
        let node = Self { page, taken: CachePadded::new(taken), completed: CachePadded::new(completed), previous };
        Box::into_raw(Box::new(node))
    }

    /// Completes a claim of `tuples` tuples, which are all written. `closed` says whether it closed
    /// the page. Returns true for one claim only: then the page is closed, and all taken places are
    /// written and can be read.
    #[inline]
    pub(super) fn complete(&self, tuples: usize, closed: bool) -> bool {
        let more = tuples as u32 + if closed { CLOSED } else { 0 };
        let completed = self.completed.fetch_add(more, order::complete()).wrapping_add(more);
        // When CLOSED is visible here, the last value of `taken` is, too.
        completed & CLOSED != 0 && completed == self.taken.load(Relaxed) as u32
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
