//! What the writers of a shuffle share.

use std::{
    collections::BTreeMap,
    ptr::NonNull,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{AcqRel, Relaxed},
        },
    },
};

use annulus_rows::partition::Modulo;

use super::{
    PageOrder, close,
    state::{Claim, Claimed, Outcome, PageId, Part, State, Supply, turn_after},
    store::Store,
};
use crate::{
    error::PagesError,
    memory::Pool,
    page::{Block, Header, Page, PageShape},
};

/// Takes complete pages.
pub trait PageSink: Send + Sync {
    /// A complete page of `partition`, from the writer that completed it; pages of a partition come
    /// one after the other, in the order of their numbers. The writer goes on when this
    /// returns.
    fn take(&self, partition: usize, page: Page);

    /// A number that rises with every event after which a writer may find room: a page went back to
    /// the pool, or another writer did what it was asked.
    fn events(&self) -> u64 {
        0
    }

    /// Waits for such an event, if [`events`](Self::events) still gives `since`; false if none will
    /// come, and the shuffle fails unless there is room meanwhile. A writer tries for room
    /// between the two calls, so it misses no event.
    fn wait_for_memory(&self, since: u64) -> bool {
        let _ = since;
        false
    }
}

impl<S: PageSink + ?Sized> PageSink for Arc<S> {
    fn take(&self, partition: usize, page: Page) {
        (**self).take(partition, page);
    }

    fn events(&self) -> u64 {
        (**self).events()
    }

    fn wait_for_memory(&self, since: u64) -> bool {
        (**self).wait_for_memory(since)
    }
}

/// A part of a page that was claimed and not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    pub(super) page: PageId,
    pub(super) start: u32,
    pub(super) tuples: u32,
}

/// What is rarely needed of a lane.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// What writers left.
    pub(super) holes: Vec<Hole>,
    /// Pages handed on.
    handed: u32,
    /// Complete pages that wait for those before them, by turn, and the turn of the last one that
    /// did not have to.
    parked: BTreeMap<u32, PageId>,
    turn: u32,
}

impl Lane {
    /// The pages that will never be handed on, since the shuffle has failed.
    pub(super) fn take_parked(&mut self) -> impl Iterator<Item = PageId> {
        std::mem::take(&mut self.parked).into_values()
    }
}

pub(super) struct Shared<S> {
    pub(super) partitions: Modulo,
    pub(super) shape: PageShape,
    pub(super) state: State,
    pub(super) pool: Pool,
    pub(super) sink: S,
    pub(super) store: Store,
    pub(super) order: PageOrder,
    lane_states: Box<[Mutex<Lane>]>,
    /// Shared by those who turn a lane; alone, nobody has a page that may yet become a lane's, or
    /// be given back.
    turns: RwLock<()>,
    /// Writers that there were in the beginning, and those that have not left.
    pub(super) writers_in_all: usize,
    writers: AtomicUsize,
    /// Tuples are missing.
    failed: AtomicBool,
}

/// Beside other writers.
impl<S: PageSink> Supply for Shared<S> {
    fn turning(&self) -> impl Sized {
        self.turns.read().unwrap_or_else(PoisonError::into_inner)
    }
    fn take(&self) -> Option<PageId> {
        self.pool.take_number()
    }
    fn give_back(&self, page: PageId) {
        self.pool.give_back_number(page);
    }
}

/// While nobody else turns a lane.
impl Supply for Pool {
    fn turning(&self) -> impl Sized {}
    fn take(&self) -> Option<PageId> {
        self.take_number()
    }
    fn give_back(&self, page: PageId) {
        self.give_back_number(page);
    }
}

impl<S: PageSink> Shared<S> {
    pub(super) fn new(
        partitions: Modulo,
        shape: PageShape,
        pool: Pool,
        sink: S,
        store: Store,
        order: PageOrder,
        writers: usize,
    ) -> Self {
        let lanes = partitions.consumers();
        Self {
            partitions,
            shape,
            state: State::new(lanes, pool.limit()),
            pool,
            sink,
            store,
            order,
            lane_states: (0..lanes).map(|_| Mutex::default()).collect(),
            turns: RwLock::default(),
            writers_in_all: writers.max(1),
            writers: AtomicUsize::new(writers),
            failed: AtomicBool::new(false),
        }
    }

    pub(super) fn lanes(&self) -> usize {
        self.lane_states.len()
    }

    /// Claims a part of the lane's current page, as `plan` wants it. Before it waits for memory,
    /// `settle` gives up what the writer keeps back.
    ///
    /// # Errors
    /// If there is no page, and none will come back.
    pub(super) fn claim(
        &self,
        lane: usize,
        plan: impl Fn(Claimed) -> Part,
        mut settle: impl FnMut(),
    ) -> Result<Claim, PagesError> {
        let (mut since, mut last) = (None, false);
        loop {
            let claimed = self.state.claim(lane, self, &plan).or_else(|| self.claim_alone(lane, &plan));
            let Some((claim, outcome)) = claimed else {
                match since {
                    _ if last => {
                        return Err(PagesError::Exhausted {
                            pages: self.pool.limit(),
                            page_bytes: self.shape.page_bytes(),
                        });
                    }
                    None => settle(),
                    Some(since) => last = !self.sink.wait_for_memory(since),
                }
                since = Some(self.sink.events());
                continue;
            };
            (since, last) = (None, false);
            if outcome == Outcome::Complete {
                self.hand_on(lane, claim.page);
            }
            if claim.tuples > 0 {
                return Ok(claim);
            }
        }
    }

    /// After a claim found no page: the last ones may have been with writers that were turning
    /// lanes.
    fn claim_alone(&self, lane: usize, plan: impl Fn(Claimed) -> Part) -> Option<(Claim, Outcome)> {
        let _alone = self.turns.write().unwrap_or_else(PoisonError::into_inner);
        self.state.claim(lane, &self.pool, plan)
    }

    /// Says that `tuples` tuples on `page` are written, or never will be, and hands the page on if
    /// it is complete.
    pub(super) fn complete(&self, lane: usize, page: PageId, tuples: u32) {
        self.store.fence();
        if self.state.complete(page, tuples) == Outcome::Complete {
            self.hand_on(lane, page);
        }
    }

    /// Hands on a complete page, which is the caller's alone; or parks it, if it has to wait for
    /// those before it.
    fn hand_on(&self, lane: usize, page: PageId) {
        let mut lane_state = self.lane(lane);
        if self.order == PageOrder::Completed {
            return self.hand_on_now(lane, &mut lane_state, page);
        }
        lane_state.parked.insert(self.state.turn_of(page), page);
        loop {
            let next = turn_after(lane_state.turn);
            let Some(page) = lane_state.parked.remove(&next) else { return };
            lane_state.turn = next;
            self.hand_on_now(lane, &mut lane_state, page);
        }
    }

    fn hand_on_now(&self, lane: usize, lane_state: &mut Lane, page: PageId) {
        let holes: Vec<Hole> = lane_state.holes.extract_if(.., |hole| hole.page == page).collect();
        let claimed = self.state.claimed(page);
        if holes.is_empty() {
            self.number(lane, lane_state, self.pool.block(page), claimed.tuples(), claimed.bytes());
        } else {
            let (tuples, bytes) = close::close_up(self, page, holes);
            self.number(lane, lane_state, self.pool.block(page), tuples, bytes);
        }
    }

    /// Gives the lane's next number to a complete page, and the page to the sink; or back to the
    /// pool if it has no tuples. Pages reach the sink in the order of their numbers, as the
    /// lane is locked.
    pub(super) fn number(&self, lane: usize, lane_state: &mut Lane, block: Block, tuples: u32, bytes: u32) {
        if tuples == 0 {
            return;
        }
        let header = Header::complete(&self.shape, lane as u32, lane_state.handed, tuples, bytes);
        lane_state.handed = lane_state.handed.wrapping_add(1);
        self.sink.take(lane, Page::complete(block, &header));
    }

    /// Gives back what a writer claimed and has not written; `bytes` is its payloads' size.
    /// `written` tuples of the same claim are written. A `settled` hole keeps the page from
    /// nothing: it is closed up when the page is complete, which is then not full.
    pub(super) fn leave_hole(&self, lane: usize, hole: Hole, bytes: u32, written: u32, settled: bool) {
        // First, while the hole keeps the page: a writer that leaves hands nothing on, and calls no sink
        // that may panic.
        self.complete(lane, hole.page, written);
        if self.state.retract(hole.page, hole.start + hole.tuples, hole.tuples, bytes) {
            return;
        }
        self.lane(lane).holes.push(hole);
        if settled {
            self.complete(lane, hole.page, hole.tuples);
        }
    }

    /// Hands on the lane's current page, full or not, as soon as nobody writes to it.
    pub(super) fn shut(&self, lane: usize) {
        if let Some((page, Outcome::Complete)) = self.state.shut(lane) {
            self.hand_on(lane, page);
        }
    }

    pub(super) fn lane(&self, lane: usize) -> MutexGuard<'_, Lane> {
        // A sink that panics leaves the lane as it was.
        self.lane_states[lane].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a page begins.
    pub(super) fn address(&self, page: PageId) -> NonNull<u8> {
        self.pool.address(page)
    }

    /// A writer leaves, after giving back its claims. The last one hands on what is not full,
    /// unless one has failed.
    pub(super) fn leave(&self) {
        // What the others did before they left is visible to the last one.
        if self.writers.fetch_sub(1, AcqRel) == 1 {
            close::close_all(self);
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
