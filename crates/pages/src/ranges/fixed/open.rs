//! The claims that a writer is filling.

use super::FixedWriter;
use crate::{
    error::PagesError,
    page::{GROUP, HEADER_BYTES},
    ranges::{
        PageOrder,
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
/// A claim is at most 1/`PARTS` of a page, so that writers share the page.
const PARTS: u32 = 8;

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
    };
}

/// Returns the number of tuples of the first claims of each of `writers` writers.
pub(super) fn least(writers: usize) -> u32 {
    ((FIRST_CLAIMED / writers) as u32).max(LEAST_CLAIMED)
}

impl<S: PageSink> FixedWriter<S> {
    /// Counts the next `some` tuples of a partition's claim as written. The claim has as many left.
    #[inline(always)]
    pub(super) fn advance(&mut self, partition: usize, some: u32) {
        let open = &mut self.open[partition];
        let bytes = some as usize * self.size;
        // SAFETY: both stay within the claim, or at its end.
        unsafe {
            open.slot = open.slot.add(some as usize * self.shared.shape.slot_bytes());
            open.data = open.data.sub(bytes);
        }
        open.offset -= bytes as u32;
        open.left -= some;
        if open.left == 0 {
            let (page, claimed) = (open.page, std::mem::take(&mut open.claimed));
            self.shared.complete(partition, page, claimed);
        }
    }

    /// Claims the next part for a partition, whose last claim is full.
    pub(super) fn claim(&mut self, partition: usize) -> Result<(), PagesError> {
        let Self { shared, open, size, least, .. } = self;
        let shape = &shared.shape;
        let (capacity, size) = (shape.capacity() as u32, *size as u32);
        let wanted =
            (open[partition].placed / SHARE).clamp(*least, MOST_CLAIMED).min((capacity / PARTS).max(GROUP as u32));
        let settle = || {
            if shared.order == PageOrder::Written {
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
