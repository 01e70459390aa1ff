//! Every atomic of the protocol (`PROTOCOL.md`): who may write which slots and bytes of which page,
//! and when a page is complete. Knows neither tuples nor memory: pages are numbers.

use annulus_sync::{
    atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed},
    hint,
};
use crossbeam_utils::CachePadded;

use super::order;

/// Number of a page in its pool.
pub(super) type PageId = u32;

/// Where the protocol takes pages from.
pub(super) trait Supply {
    /// Held from before a page is taken until it is some lane's, or given back.
    fn turning(&self) -> impl Sized;
    /// A page that nobody uses, if there is one.
    fn take(&self) -> Option<PageId>;
    /// A page that was taken and not used.
    fn give_back(&self, page: PageId);
}

/// What is claimed of a page, in one word: generation (13 bits), closed (1), tuples (24), payload
/// bytes (26).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claimed(u64);

const BYTES_BITS: u32 = 26;
const TUPLES_BITS: u32 = 24;
const CLOSED: u64 = 1 << (BYTES_BITS + TUPLES_BITS);
const GENERATION_SHIFT: u32 = BYTES_BITS + TUPLES_BITS + 1;
const GENERATION_MASK: u64 = u64::MAX >> GENERATION_SHIFT;

const _: () = {
    use crate::page::{HEADER_BYTES, MAX_PAGE_BYTES};
    assert!(MAX_PAGE_BYTES - HEADER_BYTES < 1 << BYTES_BITS);
    assert!((MAX_PAGE_BYTES - HEADER_BYTES) / 4 < 1 << TUPLES_BITS);
};

impl Claimed {
    fn generation(self) -> u64 {
        self.0 >> GENERATION_SHIFT
    }
    fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }
    /// Tuples that have a place.
    pub(super) fn tuples(self) -> u32 {
        (self.0 >> BYTES_BITS) as u32 & ((1 << TUPLES_BITS) - 1)
    }
    /// Their payload bytes.
    pub(super) fn bytes(self) -> u32 {
        self.0 as u32 & ((1 << BYTES_BITS) - 1)
    }
    fn and(self, part: Part) -> Self {
        let closed = if part.closes { CLOSED } else { 0 };
        Self(self.0 + (u64::from(part.tuples) << BYTES_BITS) + u64::from(part.bytes) + closed)
    }
}

/// What a writer wants of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Tuples that fit; 0 only if it closes the page.
    pub(super) tuples: u32,
    /// Their payload bytes.
    pub(super) bytes: u32,
    /// Nothing else fits: the page takes no further claims.
    pub(super) closes: bool,
}

/// A claimed part of a page, its writer's alone until it is [completed](State::complete).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) page: PageId,
    /// What was claimed before: the first slot, and the bytes at the page's end that are taken.
    pub(super) before: Claimed,
    pub(super) tuples: u32,
}

/// What became of a page by closing or completing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Outcome {
    /// Others still write to it, or it is open.
    Pending,
    /// It is closed and all its tuples are written: the caller, and nobody else, takes it out.
    Complete,
}

/// The current page of a lane, in one word: how often the lane was turned (19 bits), the page's
/// generation (13) and number (32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Current(u64);

const PAGE_BITS: u32 = 32;
const TURN_SHIFT: u32 = PAGE_BITS + u64::BITS - GENERATION_SHIFT;
/// The number of no page.
const NONE: u64 = (1 << PAGE_BITS) - 1;
const TURN_MASK: u64 = u64::MAX >> TURN_SHIFT;
/// Turns of a lane before their count begins again.
pub(super) const TURNS: usize = 1 << (u64::BITS - TURN_SHIFT);

impl Current {
    /// A lane that was never turned.
    const FIRST: Self = Self(NONE);

    /// Of the lane's next turn.
    fn next(self, generation: u64, page: PageId) -> Self {
        Self((u64::from(self.turn()) + 1) << TURN_SHIFT | generation << PAGE_BITS | u64::from(page))
    }
    fn without_page(self) -> Self {
        Self(self.0 | NONE)
    }
    fn page(self) -> Option<PageId> {
        (self.0 & NONE != NONE).then_some(self.0 as u32)
    }
    fn generation(self) -> u64 {
        self.0 >> PAGE_BITS & GENERATION_MASK
    }
    fn turn(self) -> u32 {
        (self.0 >> TURN_SHIFT) as u32
    }
}

/// The turn of a lane after another: they are counted in 19 bits.
pub(super) fn turn_after(turn: u32) -> u32 {
    (turn + 1) & TURN_MASK as u32
}

/// One page's atomics, on a cache line of their own: the current pages of two lanes are often
/// neighbours. Used again and again for whatever the page holds; `claimed` counts the times.
#[derive(Debug)]
#[repr(align(64))]
struct PageState {
    claimed: AtomicU64,
    /// `OPEN` less the tuples that are written; closing turns `OPEN` into the tuples that were
    /// claimed.
    left: AtomicI64,
    /// Which turn of its lane made it current; written before it is published.
    turn: AtomicU32,
}

/// More than a page can have tuples.
const OPEN: i64 = 1 << 40;

/// The state of all lanes and pages.
#[derive(Debug)]
pub(super) struct State {
    /// Each lane's current page.
    lanes: Box<[CachePadded<AtomicU64>]>,
    pages: Box<[PageState]>,
}

impl State {
    /// For `lanes` lanes without pages, and pages numbered below `pages`.
    pub(super) fn new(lanes: usize, pages: usize) -> Self {
        let state = || PageState { claimed: AtomicU64::new(0), left: AtomicI64::new(0), turn: AtomicU32::new(0) };
        Self {
            lanes: (0..lanes).map(|_| CachePadded::new(AtomicU64::new(Current::FIRST.0))).collect(),
            pages: (0..pages).map(|_| state()).collect(),
        }
    }

    /// Claims what `plan` wants of the lane's current page, given what is claimed of it already; a
    /// new page where there is none. `plan` may be asked again and again. Closing a page with
    /// nothing claimed may complete it, too. `None`: no page is left.
    pub(super) fn claim(
        &self,
        lane: usize,
        supply: &impl Supply,
        mut plan: impl FnMut(Claimed) -> Part,
    ) -> Option<(Claim, Outcome)> {
        loop {
            let current = Current(self.lanes[lane].load(order::current()));
            let Some(page) = current.page() else {
                self.turn(lane, current, supply)?;
                continue;
            };
            let state = &self.pages[page as usize];
            let before = Claimed(state.claimed.load(Relaxed));
            // Of another generation: the page was completed and is used again, so the lane has another one by
            // now.
            if before.generation() != current.generation() {
                hint::spin_loop();
                continue;
            }
            if before.is_closed() {
                self.turn(lane, current, supply)?;
                continue;
            }
            let part = plan(before);
            if state.claimed.compare_exchange_weak(before.0, before.and(part).0, Relaxed, Relaxed).is_ok() {
                let outcome = if part.closes { self.close(lane, current, page) } else { Outcome::Pending };
                return Some((Claim { page, before, tuples: part.tuples }, outcome));
            }
        }
    }

    /// Says that `tuples` tuples of the caller's claims on `page` are written.
    pub(super) fn complete(&self, page: PageId, tuples: u32) -> Outcome {
        self.count_down(page, i64::from(tuples))
    }

    /// Takes back the end of the caller's claim on `page`, `tuples` tuples of `bytes` bytes
    /// altogether that end before tuple `end` of the page, if nothing was claimed after them.
    pub(super) fn retract(&self, page: PageId, end: u32, tuples: u32, bytes: u32) -> bool {
        let state = &self.pages[page as usize];
        let mut now = Claimed(state.claimed.load(Relaxed));
        loop {
            // The claim is open, so the page is still of the claim's generation.
            if now.is_closed() || now.tuples() != end {
                return false;
            }
            let less = Claimed(now.0 - (u64::from(tuples) << BYTES_BITS) - u64::from(bytes));
            match state.claimed.compare_exchange_weak(now.0, less.0, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(other) => now = Claimed(other),
            }
        }
    }

    /// The lane's current page, and what is claimed of it, if it is open. Only when nobody claims
    /// any more.
    pub(super) fn last(&self, lane: usize) -> Option<(PageId, Claimed)> {
        let current = Current(self.lanes[lane].load(order::current()));
        let page = current.page()?;
        let claimed = self.claimed(page);
        (claimed.generation() == current.generation() && !claimed.is_closed()).then_some((page, claimed))
    }

    /// Tuples claimed of a page, for who took it out.
    pub(super) fn claimed(&self, page: PageId) -> Claimed {
        Claimed(self.pages[page as usize].claimed.load(Relaxed))
    }

    /// Which turn of its lane made the page current, for who took it out. The first is 1, and after
    /// 2^19 of them comes 0.
    pub(super) fn turn_of(&self, page: PageId) -> u32 {
        self.pages[page as usize].turn.load(Relaxed)
    }

    /// Closes the lane's current page as it is; the next claim finds the lane without one.
    pub(super) fn shut(&self, lane: usize) -> Option<(PageId, Outcome)> {
        loop {
            let current = Current(self.lanes[lane].load(order::current()));
            let page = current.page()?;
            let claimed = self.claimed(page);
            if claimed.generation() != current.generation() {
                hint::spin_loop();
                continue;
            }
            if claimed.is_closed() {
                return None;
            }
            let state = &self.pages[page as usize];
            if state.claimed.compare_exchange_weak(claimed.0, claimed.0 | CLOSED, Relaxed, Relaxed).is_ok() {
                return Some((page, self.close(lane, current, page)));
            }
        }
    }

    /// After a page was closed. The lane lets go of it before it can be complete: a lane whose
    /// current page is used elsewhere again would never be turned.
    fn close(&self, lane: usize, current: Current, page: PageId) -> Outcome {
        // If this fails, somebody has turned the lane.
        let _ = self.lanes[lane].compare_exchange(current.0, current.without_page().0, order::publish(), Relaxed);
        let claimed = self.claimed(page).tuples();
        self.count_down(page, OPEN - i64::from(claimed))
    }

    fn count_down(&self, page: PageId, by: i64) -> Outcome {
        let left = self.pages[page as usize].left.fetch_sub(by, order::complete()) - by;
        debug_assert!(left >= 0);
        if left == 0 { Outcome::Complete } else { Outcome::Pending }
    }

    /// Puts a new page in the place of `old`, or finds that somebody did.
    fn turn(&self, lane: usize, old: Current, supply: &impl Supply) -> Option<()> {
        let _turning = supply.turning();
        let Some(page) = supply.take() else {
            // Somebody may have turned the lane and taken the last page for it.
            return (self.lanes[lane].load(order::current()) != old.0).then_some(());
        };
        let state = &self.pages[page as usize];
        // The page is this thread's alone until it is published: who still has it as some lane's current
        // page finds it closed, or of another generation.
        let generation = (Claimed(state.claimed.load(Relaxed)).generation() + 1) & GENERATION_MASK;
        state.left.store(OPEN, Relaxed);
        state.claimed.store(generation << GENERATION_SHIFT, Relaxed);
        let new = old.next(generation, page);
        state.turn.store(new.turn(), Relaxed);
        if self.lanes[lane].compare_exchange(old.0, new.0, order::publish(), Relaxed).is_err() {
            supply.give_back(page);
        }
        Some(())
    }
}
