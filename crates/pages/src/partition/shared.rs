//! The state that the writers of a shuffle share.

use std::{
    collections::BTreeMap,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{AcqRel, Relaxed},
        },
    },
};

use annulus_rows::partition::Modulo;
use parking_lot::{Mutex, MutexGuard, RwLock};

use super::{
    PageOrder, close,
    state::{Claim, ClaimWord, Outcome, PageId, Part, State, Supply, turn_after},
    store::Store,
};
use crate::{
    error::PagesError,
    memory::Pool,
    page::{Block, Header, Page, PageShape},
};

/// A receiver of complete pages.
pub trait PageSink: Send + Sync {
    /// Takes a complete page of `partition` from the writer that completed it. The writer continues
    /// when this returns. Pages of a partition come one after the other, in the order of their
    /// numbers.
    fn take(&self, partition: usize, page: Page);

    /// Returns a number that rises with every event after which a writer may find room. Such an
    /// event is a page that went back to the pool, or the end of another writer's call.
    fn events(&self) -> u64 {
        0
    }

    /// Waits for such an event, if [`events`](Self::events) still returns `since`. Returns false if
    /// none will come; the shuffle then fails unless there is room by now. A writer checks for room
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

/// A part of a page that was claimed but not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    pub(super) page: PageId,
    pub(super) start: u32,
    pub(super) tuples: u32,
}

/// The state of a partition that is rarely needed.
#[derive(Debug, Default)]
pub(super) struct PartitionState {
    /// The holes that writers left.
    pub(super) holes: Vec<Hole>,
    /// The number of pages handed on.
    handed: u32,
    /// The complete pages that wait for earlier ones, by turn.
    parked: BTreeMap<u32, PageId>,
    /// The turn of the last page that was handed on.
    turn: u32,
}

impl PartitionState {
    /// Takes the parked pages, which are never handed on because the shuffle has failed.
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
    partition_states: Box<[Mutex<PartitionState>]>,
    /// Held shared by threads that turn a partition. If a thread holds it exclusively, no other
    /// thread has a page that may still become a partition's, or be given back.
    turns: RwLock<()>,
    /// The number of writers at the start, and of those that have not left.
    pub(super) writers_in_all: usize,
    writers: AtomicUsize,
    /// Whether tuples are missing.
    failed: AtomicBool,
}

/// The supply of pages while other writers run.
impl<S: PageSink> Supply for Shared<S> {
    fn turning(&self) -> impl Sized {
        self.turns.read()
    }
    fn take(&self) -> Option<PageId> {
        self.pool.take_number()
    }
    fn give_back(&self, page: PageId) {
        self.pool.give_back_number(page);
    }
}

/// The supply of pages while no other thread turns a partition.
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
        let count = partitions.consumers();
        Self {
            partitions,
            shape,
            state: State::new(count, pool.limit()),
            pool,
            sink,
            store,
            order,
            partition_states: (0..count).map(|_| Mutex::default()).collect(),
            turns: RwLock::default(),
            writers_in_all: writers.max(1),
            writers: AtomicUsize::new(writers),
            failed: AtomicBool::new(false),
        }
    }

    pub(super) fn partition_count(&self) -> usize {
        self.partition_states.len()
    }

    /// Claims a part of the partition's current page, as `plan` asks for it. Before it waits for
    /// memory, it calls `settle`, which gives up everything that the writer holds back.
    ///
    /// # Errors
    /// If there is no page, and none will come back.
    pub(super) fn claim(
        &self,
        partition: usize,
        plan: impl Fn(ClaimWord) -> Part,
        mut settle: impl FnMut(),
    ) -> Result<Claim, PagesError> {
        let (mut since, mut last) = (None, false);
        loop {
            let claimed = self.state.claim(partition, self, &plan).or_else(|| self.claim_alone(partition, &plan));
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
                self.hand_on(partition, claim.page);
            }
            if claim.tuples > 0 {
                return Ok(claim);
            }
        }
    }

    /// Claims once more after a claim found no page: writers that were turning partitions may have
    /// held the last pages.
    fn claim_alone(&self, partition: usize, plan: impl Fn(ClaimWord) -> Part) -> Option<(Claim, Outcome)> {
        let _alone = self.turns.write();
        self.state.claim(partition, &self.pool, plan)
    }

    /// Counts `tuples` tuples on `page` as written or given up, and hands the page on if it is
    /// complete.
    pub(super) fn complete(&self, partition: usize, page: PageId, tuples: u32) {
        self.store.fence();
        if self.state.complete(page, tuples) == Outcome::Complete {
            self.hand_on(partition, page);
        }
    }

    /// Hands on a complete page, which belongs to the caller alone. Parks it if it has to wait for
    /// earlier ones.
    fn hand_on(&self, partition: usize, page: PageId) {
        let mut partition_state = self.partition(partition);
        if self.order == PageOrder::Completed {
            return self.hand_on_now(partition, &mut partition_state, page);
        }
        partition_state.parked.insert(self.state.turn_of(page), page);
        loop {
            let next = turn_after(partition_state.turn);
            let Some(page) = partition_state.parked.remove(&next) else { return };
            partition_state.turn = next;
            self.hand_on_now(partition, &mut partition_state, page);
        }
    }

    fn hand_on_now(&self, partition: usize, partition_state: &mut PartitionState, page: PageId) {
        let holes: Vec<Hole> = partition_state.holes.extract_if(.., |hole| hole.page == page).collect();
        let claimed = self.state.claimed(page);
        if holes.is_empty() {
            self.number(partition, partition_state, self.pool.block(page), claimed.tuples(), claimed.bytes());
        } else {
            let (tuples, bytes) = close::close_up(self, page, holes);
            self.number(partition, partition_state, self.pool.block(page), tuples, bytes);
        }
    }

    /// Gives a complete page the partition's next number, and passes it to the sink. A page without
    /// tuples goes back to the pool. Pages reach the sink in the order of their numbers, because
    /// the partition is locked.
    pub(super) fn number(
        &self,
        partition: usize,
        partition_state: &mut PartitionState,
        block: Block,
        tuples: u32,
        bytes: u32,
    ) {
        if tuples == 0 {
            return;
        }
        let header = Header::complete(&self.shape, partition as u32, partition_state.handed, tuples, bytes);
        partition_state.handed = partition_state.handed.wrapping_add(1);
        self.sink.take(partition, Page::complete(block, &header));
    }

    /// Gives back the part of a claim that a writer has not written. `bytes` is the size of its
    /// payloads. `written` tuples of the same claim are written. A `settled` hole does not keep the
    /// page from being complete. It is closed then, and the page is not full.
    pub(super) fn leave_hole(&self, partition: usize, hole: Hole, bytes: u32, written: u32, settled: bool) {
        // First, while the hole still keeps the page incomplete. So a writer that leaves hands on
        // no page, and does not call the sink, which may panic.
        self.complete(partition, hole.page, written);
        if self.state.retract(hole.page, hole.start + hole.tuples, hole.tuples, bytes) {
            return;
        }
        self.partition(partition).holes.push(hole);
        if settled {
            self.complete(partition, hole.page, hole.tuples);
        }
    }

    /// Hands on the partition's current page, full or not, as soon as no thread writes to it.
    pub(super) fn shut(&self, partition: usize) {
        if let Some((page, Outcome::Complete)) = self.state.shut(partition) {
            self.hand_on(partition, page);
        }
    }

    pub(super) fn partition(&self, partition: usize) -> MutexGuard<'_, PartitionState> {
        // A sink that panics leaves the partition unchanged.
        self.partition_states[partition].lock()
    }

    /// Returns the address of a page.
    pub(super) fn address(&self, page: PageId) -> NonNull<u8> {
        self.pool.address(page)
    }

    /// Removes a writer that has given back its claims. The last one hands on the pages that are
    /// not full, unless the shuffle has failed.
    pub(super) fn leave(&self) {
        // The last one sees everything that the others did before they left.
        if self.writers.fetch_sub(1, AcqRel) == 1 {
            close::close_all(self);
        }
    }

    /// Fails the shuffle, because tuples are missing: no writer continues, and the last one gives
    /// back the incomplete pages.
    pub(super) fn fail(&self) {
        self.failed.store(true, Relaxed);
    }

    /// Returns whether the shuffle has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }
}
