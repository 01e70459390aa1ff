//! The claims that a writer is filling.

use std::sync::Arc;

use super::{
    PageOrder,
    shared::{Hole, PageSink, Shared},
    state::{ClaimWord, PageId, Part},
};
use crate::{
    error::PagesError,
    page::{GROUP, HEADER_BYTES, PageLayout},
};

/// The number of tuples that all writers together claim in a partition at first. A small claim
/// costs more than its operations, because each waits for the earlier stores past the cache.
const FIRST_CLAIMED: usize = 1024;
/// The smallest number of tuples of a claim.
const LEAST_CLAIMED: u32 = 64;
/// The largest number of tuples of a claim.
const MOST_CLAIMED: u32 = 8192;
/// Between these limits, a claim is 1/`SHARE` of the tuples that the writer has placed in the
/// partition. In the end 1/16 of a partition is unwritten and has to be filled.
const SHARE: u32 = 8;
/// A claim is at most one of as many parts of a page as there are writers, up to this number. Few
/// large claims are faster, since each waits for the earlier stores past the cache.
const MOST_PARTS: usize = 8;
/// The least number of parts where a writer that waits for memory gives its claims back: a page of
/// which all is claimed would have to go on nearly empty.
const LEAST_WRITTEN_PARTS: usize = 2;

/// A claimed part of a page that is being written. It has its own cache line, which no other writer
/// uses.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct OpenClaim {
    /// The address of the next slot.
    pub(super) slot: *mut u8,
    /// The address of the last payload.
    pub(super) data: *mut u8,
    /// The bytes from the page's start to `data`.
    pub(super) offset: u32,
    /// The number of free slots.
    pub(super) left: u32,
    /// The number of tuples of the claim.
    claimed: u32,
    /// The first slot after the part.
    pub(super) end: u32,
    page: PageId,
    /// The number of tuples of all claims in this partition.
    placed: u32,
    /// The number of tuples after `slot` whose payloads are on the page already, of a writer with
    /// buffers. Their keys are the first ones of the partition's buffer. Less than `left`, or both
    /// are 0.
    pub(super) ahead: u32,
}

impl OpenClaim {
    pub(super) const NONE: Self = Self {
        slot: std::ptr::null_mut(),
        data: std::ptr::null_mut(),
        offset: 0,
        left: 0,
        claimed: 0,
        end: 0,
        page: 0,
        placed: 0,
        ahead: 0,
    };

    /// Returns the place on the page of the next slot.
    pub(super) fn next(&self) -> u32 {
        self.end - self.left
    }

    /// Writes the next `count` slots, which the claim has left, for payloads of `size` bytes.
    ///
    /// # Safety
    /// `keys` is readable for `count` numbers.
    #[inline(always)]
    pub(super) unsafe fn write_slots<S>(&self, shared: &Shared<S>, keys: *const u32, count: usize, size: usize) {
        // SAFETY: the caller's promise, and the claim belongs to this writer alone.
        unsafe {
            match shared.shape.layout() {
                PageLayout::Slotted => shared.store.slots(keys, count, self.offset, size as u32, self.slot),
                PageLayout::Compact => shared.store.copy(keys.cast(), self.slot, count * size_of::<u32>()),
            }
        }
    }

    /// Counts the next `some` tuples of the claim as written. It has as many left.
    #[inline(always)]
    pub(super) fn advance<S: PageSink>(&mut self, shared: &Shared<S>, partition: usize, some: u32, size: usize) {
        let bytes = some as usize * size;
        // SAFETY: both stay within the claim, or at its end.
        unsafe {
            self.slot = self.slot.add(some as usize * shared.shape.slot_bytes());
            self.data = self.data.sub(bytes);
        }
        self.offset -= bytes as u32;
        self.left -= some;
        if self.left == 0 {
            shared.complete(partition, self.page, std::mem::take(&mut self.claimed));
        }
    }
}

/// The claims of a writer of tuples of one size.
pub(super) struct Claims<S: PageSink> {
    pub(super) shared: Arc<Shared<S>>,
    /// The bytes of a payload.
    pub(super) size: usize,
    /// The number of tuples of the first claims.
    least: u32,
    /// The number of parts of a page, of which a claim takes at most one.
    parts: u32,
    /// The last claim in each partition.
    pub(super) open: Vec<OpenClaim>,
}

impl<S: PageSink> Claims<S> {
    /// Creates the state of a writer that has claimed nothing.
    pub(super) fn new(shared: Arc<Shared<S>>, size: u32) -> Self {
        let writers = shared.writers_in_all;
        let least_parts = if shared.order == PageOrder::Written { LEAST_WRITTEN_PARTS } else { 1 };
        Self {
            size: size as usize,
            least: ((FIRST_CLAIMED / writers) as u32).max(LEAST_CLAIMED),
            parts: writers.clamp(least_parts, MOST_PARTS) as u32,
            open: vec![OpenClaim::NONE; shared.partition_count()],
            shared,
        }
    }

    /// Claims the next part for a partition, whose last claim is full. `finish` writes the slots of
    /// all tuples whose payloads are on pages. It is called before the other claims are given back,
    /// if memory runs out and pages wait for claims before them.
    pub(super) fn claim(
        &mut self,
        partition: usize,
        mut finish: impl FnMut(&Shared<S>, &mut [OpenClaim]),
    ) -> Result<(), PagesError> {
        let Self { shared, size, least, parts, open } = self;
        let shape = &shared.shape;
        let (capacity, size) = (shape.capacity() as u32, *size as u32);
        let most = (capacity / *parts).max(GROUP as u32);
        let wanted = (open[partition].placed / SHARE).clamp(*least, MOST_CLAIMED).min(most);
        let settle = || {
            if shared.order == PageOrder::Written {
                finish(shared, open);
                release_all(shared, open, size, true);
            }
        };
        let claim = shared.claim(partition, |before| whole_groups(before, capacity, wanted, size), settle)?;
        let open = &mut open[partition];
        open.placed = open.placed.saturating_add(claim.tuples);
        let start = shared.address(claim.page).as_ptr();
        let first = claim.before.tuples();
        open.offset = shape.page_bytes() as u32 - claim.before.bytes();
        // SAFETY: the claimed part is on the page.
        unsafe {
            open.slot = start.add(HEADER_BYTES + first as usize * shape.slot_bytes());
            open.data = start.add(open.offset as usize);
        }
        (open.left, open.claimed) = (claim.tuples, claim.tuples);
        (open.page, open.end) = (claim.page, first + claim.tuples);
        Ok(())
    }

    /// Gives back the unwritten parts of claims. They are filled when the last writer leaves. If
    /// they are `settled`, the pages are handed on with their holes closed.
    pub(super) fn release_all(&mut self, settled: bool) {
        release_all(&self.shared, &mut self.open, self.size as u32, settled);
    }
}

fn release_all<S: PageSink>(shared: &Shared<S>, open: &mut [OpenClaim], size: u32, settled: bool) {
    for (partition, open) in open.iter_mut().enumerate().filter(|(_, open)| open.left > 0) {
        let hole = Hole { page: open.page, start: open.next(), tuples: open.left };
        let (left, claimed) = (std::mem::take(&mut open.left), std::mem::take(&mut open.claimed));
        shared.leave_hole(partition, hole, left * size, claimed - left, settled);
    }
}

/// Returns a part of up to `wanted` tuples of `size` payload bytes after the claimed ones. It ends
/// at the end of a group if it reaches one.
fn whole_groups(before: ClaimWord, capacity: u32, wanted: u32, size: u32) -> Part {
    let end = before.tuples() + wanted;
    let whole = end / GROUP as u32 * GROUP as u32;
    let end = if whole > before.tuples() { whole } else { end }.min(capacity);
    let tuples = end - before.tuples();
    Part { tuples, bytes: tuples * size, closes: end == capacity }
}
