//! What the writers of a shuffle share.

use std::{
    ptr::NonNull,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicU32, AtomicUsize,
            Ordering::{AcqRel, Relaxed},
        },
    },
};

use annulus_exchange::partition::Modulo;

use super::{
    close,
    state::{Claim, Claimed, Outcome, PageId, Part, State, Supply},
    store::Store,
};
use crate::{
    error::PagesError,
    memory::Pool,
    page::{Header, Page, PageShape},
};

/// Takes complete pages.
pub trait PageSink: Send + Sync {
    /// A complete page of `partition`, from the writer that completed it. Pages of a partition are numbered in the order in
    /// which they became complete, but two writers may bring theirs at the same time.
    fn take(&self, partition: usize, page: Page);

    /// Waits until pages that the sink took have gone back to their pool; false if none will, and the shuffle fails.
    fn wait_for_memory(&self) -> bool {
        false
    }
}

/// A part of a page that was claimed and not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    pub(super) page: PageId,
    pub(super) start: u32,
    pub(super) tuples: u32,
}

pub(super) struct Shared<S> {
    pub(super) partitions: Modulo,
    pub(super) shape: PageShape,
    pub(super) state: State,
    pub(super) pool: Pool,
    pub(super) sink: S,
    pub(super) store: Store,
    /// What finished writers left, by lane.
    holes: Box<[Mutex<Vec<Hole>>]>,
    /// Pages handed on, by lane.
    handed: Box<[AtomicU32]>,
    /// Writers that have not left.
    writers: AtomicUsize,
    /// Tuples are missing.
    failed: AtomicBool,
}

impl Supply for Pool {
    fn take(&self) -> Option<PageId> {
        self.take_number()
    }
    fn give_back(&self, page: PageId) {
        self.give_back_number(page);
    }
}

impl<S: PageSink> Shared<S> {
    pub(super) fn new(partitions: Modulo, shape: PageShape, pool: Pool, sink: S, store: Store, writers: usize) -> Self {
        let lanes = partitions.consumers();
        Self {
            partitions,
            shape,
            state: State::new(lanes, pool.limit()),
            pool,
            sink,
            store,
            holes: (0..lanes).map(|_| Mutex::default()).collect(),
            handed: (0..lanes).map(|_| AtomicU32::new(0)).collect(),
            writers: AtomicUsize::new(writers),
            failed: AtomicBool::new(false),
        }
    }

    pub(super) fn lanes(&self) -> usize {
        self.holes.len()
    }

    /// Claims a part of the lane's current page, as `plan` wants it.
    ///
    /// # Errors
    /// If there is no page, and none will come back.
    pub(super) fn claim(&self, lane: usize, plan: impl Fn(Claimed) -> Part) -> Result<Claim, PagesError> {
        loop {
            let Some((claim, outcome)) = self.state.claim(lane, &self.pool, &plan) else {
                if !self.sink.wait_for_memory() {
                    return Err(PagesError::Exhausted {
                        pages: self.pool.limit(),
                        page_bytes: self.shape.page_bytes(),
                    });
                }
                continue;
            };
            if outcome == Outcome::Complete {
                self.hand_on(lane, claim.page, self.state.claimed(claim.page));
            }
            if claim.tuples > 0 {
                return Ok(claim);
            }
        }
    }

    /// Says that `tuples` tuples on `page` are written, and hands the page on if it is complete.
    pub(super) fn complete(&self, lane: usize, page: PageId, tuples: u32) {
        self.store.fence();
        if self.state.complete(page, tuples) == Outcome::Complete {
            self.hand_on(lane, page, self.state.claimed(page));
        }
    }

    /// Hands on a page that is the caller's alone.
    pub(super) fn hand_on(&self, lane: usize, page: PageId, claimed: Claimed) {
        self.hand_on_counted(lane, page, claimed.tuples(), claimed.bytes());
    }

    /// Hands on a page that is the caller's alone, and has this many tuples and payload bytes.
    pub(super) fn hand_on_counted(&self, lane: usize, page: PageId, tuples: u32, bytes: u32) {
        let sequence = self.handed[lane].fetch_add(1, Relaxed);
        let header = Header::complete(&self.shape, lane as u32, sequence, tuples, bytes);
        self.sink.take(lane, Page::complete(self.pool.block(page), &header));
    }

    /// Gives back what a writer claimed and has not written; `bytes` is its payloads' size. `written` tuples of the same claim
    /// are.
    pub(super) fn leave_hole(&self, lane: usize, hole: Hole, bytes: u32, written: u32) {
        if !self.state.retract(hole.page, hole.start + hole.tuples, hole.tuples, bytes) {
            self.holes(lane).push(hole);
        }
        // The hole keeps the page from being complete.
        self.complete(lane, hole.page, written);
    }

    pub(super) fn holes(&self, lane: usize) -> MutexGuard<'_, Vec<Hole>> {
        // Nothing panics while the list is locked.
        self.holes[lane].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a page begins.
    pub(super) fn address(&self, page: PageId) -> NonNull<u8> {
        self.pool.address(page)
    }

    /// A writer leaves, after giving back its claims. The last one hands on what is not full, unless one failed.
    pub(super) fn leave(&self) {
        // What the others did before they left is visible to the last one.
        if self.writers.fetch_sub(1, AcqRel) == 1 {
            let failed = self.has_failed();
            (0..self.lanes())
                .for_each(|lane| if failed { close::discard(self, lane) } else { close::close(self, lane) });
        }
    }

    /// Tuples are missing: no writer goes on, and the last one gives back what is not complete.
    pub(super) fn fail(&self) {
        self.failed.store(true, Relaxed);
    }

    /// Whether tuples are missing.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }
}
