//! The claims that a writer is filling.

use std::ops::RangeInclusive;

use super::FixedWriter;
use crate::{
    error::PagesError,
    page::{GROUP, HEADER_BYTES, PageLayout},
    ranges::{
        PageOrder,
        buffers::Buffers,
        shared::{Hole, PageSink, Shared},
        state::{Claimed, PageId, Part},
    },
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
/// A claim is at most one of this number of parts of a page. Few writers share a page in few parts,
/// since each claim waits for the earlier stores past the cache.
const PARTS: RangeInclusive<usize> = 2..=8;

/// A claimed part of a page that is being written. It has its own cache line, which no other writer
/// uses.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Open {
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
    end: u32,
    page: PageId,
    /// The number of tuples of all claims in this partition.
    placed: u32,
    /// The number of tuples after `slot` whose payloads are on the page already. Their keys are the
    /// first ones of the partition's buffer. Less than `left`, or both are 0.
    pub(super) ahead: u32,
}

impl Open {
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

/// Returns the number of parts of a page that as many writers share.
pub(super) fn parts(writers: usize) -> u32 {
    writers.clamp(*PARTS.start(), *PARTS.end()) as u32
}

/// Returns the number of tuples of the first claims of each of `writers` writers.
pub(super) fn least(writers: usize) -> u32 {
    ((FIRST_CLAIMED / writers) as u32).max(LEAST_CLAIMED)
}

impl<S: PageSink> FixedWriter<S> {
    /// Claims the next part for a partition, whose last claim is full.
    pub(super) fn claim(&mut self, partition: usize) -> Result<(), PagesError> {
        let Self { shared, open, buffers, size, least, parts, .. } = self;
        let shape = &shared.shape;
        let (capacity, size) = (shape.capacity() as u32, *size as u32);
        let most = (capacity / *parts).max(GROUP as u32);
        let wanted = (open[partition].placed / SHARE).clamp(*least, MOST_CLAIMED).min(most);
        let settle = || {
            if shared.order == PageOrder::Written {
                finish_ahead(shared, open, buffers, size as usize);
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
    pub(in crate::ranges) fn release_all(&mut self, settled: bool) {
        release_all(&self.shared, &mut self.open, self.size as u32, settled);
    }
}

/// Writes the slots of all tuples whose payloads are ahead of them. The rest of each buffer moves
/// to its start.
fn finish_ahead<S: PageSink>(shared: &Shared<S>, open: &mut [Open], buffers: &mut Buffers, size: usize) {
    for (partition, open) in open.iter_mut().enumerate().filter(|(_, open)| open.ahead > 0) {
        let ahead = std::mem::take(&mut open.ahead);
        // SAFETY: the buffer has the keys, and the claim has room for the slots.
        unsafe { open.write_slots(shared, buffers.keys_of(partition), ahead as usize, size) };
        open.advance(shared, partition, ahead, size);
        buffers.drop_first(partition, ahead as usize, size);
    }
}

fn release_all<S: PageSink>(shared: &Shared<S>, open: &mut [Open], size: u32, settled: bool) {
    for (partition, open) in open.iter_mut().enumerate().filter(|(_, open)| open.left > 0) {
        let hole = Hole { page: open.page, start: open.end - open.left, tuples: open.left };
        let (left, claimed) = (std::mem::take(&mut open.left), std::mem::take(&mut open.claimed));
        shared.leave_hole(partition, hole, left * size, claimed - left, settled);
    }
}

/// Returns a part of up to `wanted` tuples of `size` payload bytes after the claimed ones. It ends
/// at the end of a group if it reaches one.
fn whole_groups(before: Claimed, capacity: u32, wanted: u32, size: u32) -> Part {
    let end = before.tuples() + wanted;
    let whole = end / GROUP as u32 * GROUP as u32;
    let end = if whole > before.tuples() { whole } else { end }.min(capacity);
    let tuples = end - before.tuples();
    Part { tuples, bytes: tuples * size, closes: end == capacity }
}
