//! Every atomic of the protocol (`PROTOCOL.md`): which writer may write which slots and bytes of
//! which page, and when a page is complete. It does not depend on tuples or memory: pages are
//! numbers.

use annulus_sync::{
    atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed},
    hint,
};
use crossbeam_utils::CachePadded;

use super::order;

/// The number of a page in its pool.
pub(super) type PageId = u32;

/// The source from which the protocol takes pages.
pub(super) trait Supply {
    /// Returns a guard. It is held from before a page is taken until a partition has the page, or
    /// the page was given back.
    fn turning(&self) -> impl Sized;
    /// Takes an unused page, if there is one.
    fn take(&self) -> Option<PageId>;
    /// Gives back a page that was taken and not used.
    fn give_back(&self, page: PageId);
}

/// The claims on a page in one word: generation (13 bits), closed (1), tuples (24), payload bytes
/// (26).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClaimWord(u64);

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

impl ClaimWord {
    fn generation(self) -> u64 {
        self.0 >> GENERATION_SHIFT
    }
    fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }
    /// Returns the number of tuples that have a place.
    pub(super) fn tuples(self) -> u32 {
        (self.0 >> BYTES_BITS) as u32 & ((1 << TUPLES_BITS) - 1)
    }
    /// Returns their payload bytes.
    pub(super) fn bytes(self) -> u32 {
        self.0 as u32 & ((1 << BYTES_BITS) - 1)
    }
    fn and(self, part: Part) -> Self {
        let closed = if part.closes { CLOSED } else { 0 };
        Self(self.0 + (u64::from(part.tuples) << BYTES_BITS) + u64::from(part.bytes) + closed)
    }
}

/// The part of a page that a writer wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The number of tuples that fit: 0 only if the part closes the page.
    pub(super) tuples: u32,
    /// The payload bytes of these tuples.
    pub(super) bytes: u32,
    /// Whether nothing else fits, so that the page accepts no further claims.
    pub(super) closes: bool,
}

/// A claimed part of a page. It belongs to its writer alone until it is
/// [completed](State::complete).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) page: PageId,
    /// The claims before it, which determine the first slot and the bytes in use at the page's end.
    pub(super) before: ClaimWord,
    pub(super) tuples: u32,
}

/// The state of a page after it was closed or tuples were completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Outcome {
    /// Other threads still write to it, or it is open.
    Pending,
    /// It is closed and all its tuples are written. Only the caller takes it out.
    Complete,
}

/// The current page of a partition in one word: the number of its turns (19 bits), and the page's
/// generation (13) and number (32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Current(u64);

const PAGE_BITS: u32 = 32;
const TURN_SHIFT: u32 = PAGE_BITS + u64::BITS - GENERATION_SHIFT;
/// The number for a missing page.
const NONE: u64 = (1 << PAGE_BITS) - 1;
const TURN_MASK: u64 = u64::MAX >> TURN_SHIFT;
/// The number of turns after which a partition's count starts again.
pub(super) const TURNS: usize = 1 << (u64::BITS - TURN_SHIFT);

impl Current {
    /// The word of a partition that was never turned.
    const FIRST: Self = Self(NONE);

    /// Returns the word of the next turn.
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

/// Returns the turn after `turn`: turns are counted in 19 bits.
pub(super) fn turn_after(turn: u32) -> u32 {
    (turn + 1) & TURN_MASK as u32
}

/// The atomics of one page, on a cache line of their own: the current pages of two partitions are
/// often neighbours. They are reused with the page; the generation in `claimed` counts the uses.
#[derive(Debug)]
#[repr(align(64))]
struct PageState {
    claimed: AtomicU64,
    /// `OPEN` minus the written tuples. Closing turns `OPEN` into the number of claimed tuples.
    left: AtomicI64,
    /// The turn of its partition that made it current. Written before the page is published.
    turn: AtomicU32,
}

/// A number that exceeds the number of tuples of any page.
const OPEN: i64 = 1 << 40;

/// The state of all partitions and pages.
#[derive(Debug)]
pub(super) struct State {
    /// Each partition's current page.
    partitions: Box<[CachePadded<AtomicU64>]>,
    pages: Box<[PageState]>,
}

impl State {
    /// Creates the state of `partitions` partitions without pages, and of pages numbered below
    /// `pages`.
    pub(super) fn new(partitions: usize, pages: usize) -> Self {
        let state = || PageState { claimed: AtomicU64::new(0), left: AtomicI64::new(0), turn: AtomicU32::new(0) };
        Self {
            partitions: (0..partitions).map(|_| CachePadded::new(AtomicU64::new(Current::FIRST.0))).collect(),
            pages: (0..pages).map(|_| state()).collect(),
        }
    }

    /// Claims the part of the partition's current page that `plan` asks for, given the claims on
    /// it. Takes a new page if there is none. `plan` may be called several times. Closing a page
    /// may also complete it, if nothing is claimed. Returns `None` if no page is left.
    pub(super) fn claim(
        &self,
        partition: usize,
        supply: &impl Supply,
        mut plan: impl FnMut(ClaimWord) -> Part,
    ) -> Option<(Claim, Outcome)> {
        loop {
            let current = Current(self.partitions[partition].load(order::current()));
            let Some(page) = current.page() else {
                self.turn(partition, current, supply)?;
                continue;
            };
            let state = &self.pages[page as usize];
            let before = ClaimWord(state.claimed.load(Relaxed));
            // Another generation: the page was completed and is used again, so the partition
            // already has another one.
            if before.generation() != current.generation() {
                hint::spin_loop();
                continue;
            }
            if before.is_closed() {
                self.turn(partition, current, supply)?;
                continue;
            }
            let part = plan(before);
            if state.claimed.compare_exchange_weak(before.0, before.and(part).0, Relaxed, Relaxed).is_ok() {
                let outcome = if part.closes { self.close(partition, current, page) } else { Outcome::Pending };
                return Some((Claim { page, before, tuples: part.tuples }, outcome));
            }
        }
    }

    /// Counts `tuples` tuples of the caller's claims on `page` as written.
    pub(super) fn complete(&self, page: PageId, tuples: u32) -> Outcome {
        self.count_down(page, i64::from(tuples))
    }

    /// Takes back the end of the caller's claim on `page`, if nothing was claimed after it. These
    /// are `tuples` tuples of `bytes` bytes together, which end before tuple `end` of the page.
    /// Returns whether it took them back.
    pub(super) fn retract(&self, page: PageId, end: u32, tuples: u32, bytes: u32) -> bool {
        let state = &self.pages[page as usize];
        let mut now = ClaimWord(state.claimed.load(Relaxed));
        loop {
            // The claim is open, so the page is still of the claim's generation.
            if now.is_closed() || now.tuples() != end {
                return false;
            }
            let less = ClaimWord(now.0 - (u64::from(tuples) << BYTES_BITS) - u64::from(bytes));
            match state.claimed.compare_exchange_weak(now.0, less.0, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(other) => now = ClaimWord(other),
            }
        }
    }

    /// Returns the partition's current page and the claims on it, if it is open. Call it only after
    /// the last claim.
    pub(super) fn last(&self, partition: usize) -> Option<(PageId, ClaimWord)> {
        let current = Current(self.partitions[partition].load(order::current()));
        let page = current.page()?;
        let claimed = self.claimed(page);
        (claimed.generation() == current.generation() && !claimed.is_closed()).then_some((page, claimed))
    }

    /// Returns the claims on a page, for the thread that took it out.
    pub(super) fn claimed(&self, page: PageId) -> ClaimWord {
        ClaimWord(self.pages[page as usize].claimed.load(Relaxed))
    }

    /// Returns the turn of its partition that made the page current, for the thread that took it
    /// out. The first turn is 1; the largest number of 19 bits is followed by 0.
    pub(super) fn turn_of(&self, page: PageId) -> u32 {
        self.pages[page as usize].turn.load(Relaxed)
    }

    /// Closes the partition's current page as it is. The next claim finds the partition without
    /// one.
    pub(super) fn shut(&self, partition: usize) -> Option<(PageId, Outcome)> {
        loop {
            let current = Current(self.partitions[partition].load(order::current()));
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
                return Some((page, self.close(partition, current, page)));
            }
        }
    }

    /// Finishes the closing of a page. The partition gives the page up before it can be complete: a
    /// partition whose current page is used elsewhere would never be turned.
    fn close(&self, partition: usize, current: Current, page: PageId) -> Outcome {
        // If this fails, another thread has turned the partition.
        let _ =
            self.partitions[partition].compare_exchange(current.0, current.without_page().0, order::publish(), Relaxed);
        let claimed = self.claimed(page).tuples();
        self.count_down(page, OPEN - i64::from(claimed))
    }

    fn count_down(&self, page: PageId, by: i64) -> Outcome {
        let left = self.pages[page as usize].left.fetch_sub(by, order::complete()) - by;
        debug_assert!(left >= 0);
        if left == 0 { Outcome::Complete } else { Outcome::Pending }
    }

    /// Replaces `old` by a new page, or finds that another thread did. Returns `None` if no page is
    /// left.
    fn turn(&self, partition: usize, old: Current, supply: &impl Supply) -> Option<()> {
        let _turning = supply.turning();
        let Some(page) = supply.take() else {
            // Another thread may have turned the partition and taken the last page for it.
            return (self.partitions[partition].load(order::current()) != old.0).then_some(());
        };
        let state = &self.pages[page as usize];
        // The page belongs to this thread alone until it is published. A thread that still has it
        // as a partition's current page finds it closed, or of another generation.
        let generation = (ClaimWord(state.claimed.load(Relaxed)).generation() + 1) & GENERATION_MASK;
        state.left.store(OPEN, Relaxed);
        state.claimed.store(generation << GENERATION_SHIFT, Relaxed);
        let new = old.next(generation, page);
        state.turn.store(new.turn(), Relaxed);
        if self.partitions[partition].compare_exchange(old.0, new.0, order::publish(), Relaxed).is_err() {
            supply.give_back(page);
        }
        Some(())
    }
}
