//! The writer of one thread for tuples of one size. They collect in a small buffer for each
//! partition. Full buffers are copied to the part of a page that this writer has claimed.

use std::sync::Arc;

use super::{
    PageOrder,
    buffers::Buffers,
    shared::{Hole, PageSink, Shared},
    state::{Claimed, PageId, Part},
};
use crate::{
    error::PagesError,
    page::{GROUP, HEADER_BYTES, PageLayout},
    simd::has_avx512,
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
struct Open {
    /// The address of the next slot.
    slot: *mut u8,
    /// The address of the last payload.
    data: *mut u8,
    /// The bytes from the page's start to `data`.
    offset: u32,
    /// The number of free slots.
    left: u32,
    /// The number of tuples of the claim.
    claimed: u32,
    /// The first slot after the part.
    end: u32,
    page: PageId,
    /// The number of tuples of all claims in this partition.
    placed: u32,
}

pub(super) struct FixedWriter<S: PageSink> {
    shared: Arc<Shared<S>>,
    size: usize,
    /// The number of tuples of the first claims.
    least: u32,
    /// Whether the machine has AVX-512.
    wide: bool,
    buffers: Buffers,
    open: Vec<Open>,
}

// SAFETY: the pointers lead to parts of pages that belong to this writer alone, and the shared
// state keeps the memory.
unsafe impl<S: PageSink> Send for FixedWriter<S> {}

impl<S: PageSink> FixedWriter<S> {
    /// Creates a writer for payloads of `size` bytes, the size of the shape.
    pub(super) fn new(shared: Arc<Shared<S>>, size: u32) -> Self {
        let partitions = shared.partition_count();
        let none = Open {
            slot: std::ptr::null_mut(),
            data: std::ptr::null_mut(),
            offset: 0,
            left: 0,
            claimed: 0,
            end: 0,
            page: 0,
            placed: 0,
        };
        Self {
            size: size as usize,
            least: ((FIRST_CLAIMED / shared.writers_in_all) as u32).max(LEAST_CLAIMED),
            wide: has_avx512(),
            buffers: Buffers::new(partitions, size as usize),
            open: vec![none; partitions],
            shared,
        }
    }

    /// Returns the bytes of each payload.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Places tuple `i` in partition `partition_of(i, key)`. `bytes` has a payload for each key.
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        keys: &[u32],
        bytes: &[u8],
        partition_of: impl Fn(usize, u32) -> usize,
    ) -> Result<(), PagesError> {
        debug_assert_eq!(keys.len() * self.size, bytes.len());
        match self.size {
            0 => self.scatter::<0>(keys, bytes, partition_of),
            12 => self.scatter::<12>(keys, bytes, partition_of),
            96 => self.scatter::<96>(keys, bytes, partition_of),
            _ => self.scatter::<{ usize::MAX }>(keys, bytes, partition_of),
        }
    }

    /// Collects the tuples in the partitions' buffers, with the vector instructions of the machine.
    #[inline(always)]
    fn scatter<const SIZE: usize>(
        &mut self,
        keys: &[u32],
        bytes: &[u8],
        partition_of: impl Fn(usize, u32) -> usize,
    ) -> Result<(), PagesError> {
        #[cfg(target_arch = "x86_64")]
        if self.wide {
            // SAFETY: the machine has the features.
            return unsafe { wide::scatter::<SIZE, S>(self, keys, bytes, partition_of) };
        }
        self.scatter_body::<SIZE, false>(keys, bytes, partition_of)
    }

    #[inline(always)]
    fn scatter_body<const SIZE: usize, const WIDE: bool>(
        &mut self,
        keys: &[u32],
        bytes: &[u8],
        partition_of: impl Fn(usize, u32) -> usize,
    ) -> Result<(), PagesError> {
        let size = if SIZE == usize::MAX { self.size } else { SIZE };
        let mask = self.buffers.room as u32 - 1;
        let (to_keys, to_data) = (self.buffers.keys.start().cast::<u32>(), self.buffers.data.start());
        let fill = self.buffers.fill.as_mut_ptr();
        let mut from = bytes.as_ptr();
        for (index, &key) in keys.iter().enumerate() {
            let partition = partition_of(index, key);
            debug_assert!(partition < self.open.len());
            // SAFETY: the caller's partitions exist. `fill` is within the partition's buffer, as
            // full buffers are flushed at once. `from` advances by one payload for each key.
            unsafe {
                let fill = fill.add(partition);
                let at = *fill;
                to_keys.add(at as usize).write(key);
                to_data.add((at ^ mask) as usize * size).copy_from_nonoverlapping(from, size);
                from = from.add(size);
                *fill = at + 1;
                if (at + 1) & mask == 0 {
                    self.flush::<WIDE>(partition, mask + 1)?;
                }
            }
        }
        Ok(())
    }

    /// Copies the first `count` tuples of a partition's buffer to its pages, and empties it.
    #[inline(always)]
    fn flush<const WIDE: bool>(&mut self, partition: usize, count: u32) -> Result<(), PagesError> {
        #[cfg(target_arch = "x86_64")]
        if WIDE {
            // SAFETY: chosen only if the machine has the features.
            return unsafe { wide::flush(self, partition, count) };
        }
        self.flush_body(partition, count)
    }

    #[inline(always)]
    fn flush_body(&mut self, partition: usize, count: u32) -> Result<(), PagesError> {
        let room = self.buffers.room;
        let mut done = 0;
        while done < count {
            if self.open[partition].left == 0 {
                self.claim(partition)?;
            }
            let open = &mut self.open[partition];
            let some = open.left.min(count - done);
            let bytes = some as usize * self.size;
            // SAFETY: the tuples are in the partition's buffer, and there is room for them in the claimed part.
            unsafe {
                let keys = self.buffers.keys.start().cast::<u32>().add(partition * room + done as usize);
                let data = self.buffers.data.start().add(((partition + 1) * room - (done + some) as usize) * self.size);
                let store = self.shared.store;
                match self.shared.shape.layout() {
                    PageLayout::Slotted => store.slots(keys, some as usize, open.offset, self.size as u32, open.slot),
                    PageLayout::Compact => store.copy(keys.cast(), open.slot, some as usize * 4),
                }
                open.slot = open.slot.add(some as usize * self.shared.shape.slot_bytes());
                open.data = open.data.sub(bytes);
                store.copy(data, open.data, bytes);
            }
            open.offset -= bytes as u32;
            open.left -= some;
            done += some;
            if open.left == 0 {
                let (page, claimed) = (open.page, std::mem::take(&mut open.claimed));
                self.shared.complete(partition, page, claimed);
            }
        }
        self.buffers.fill[partition] = (partition * room) as u32;
        Ok(())
    }

    fn claim(&mut self, partition: usize) -> Result<(), PagesError> {
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

    /// Places the buffered tuples.
    pub(super) fn flush_all(&mut self) -> Result<(), PagesError> {
        (0..self.open.len()).try_for_each(|partition| {
            let count = self.buffers.fill[partition] as usize - partition * self.buffers.room;
            self.flush::<false>(partition, count as u32)
        })
    }

    /// Gives back the unwritten parts of claims. They are filled when the last writer leaves. If
    /// they are `settled`, the pages are handed on with their holes closed.
    pub(super) fn release_all(&mut self, settled: bool) {
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

/// The hot loops compiled for AVX-512.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{FixedWriter, PageSink, PagesError};

    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
    pub(super) fn scatter<const SIZE: usize, S: PageSink>(
        writer: &mut FixedWriter<S>,
        keys: &[u32],
        bytes: &[u8],
        partition_of: impl Fn(usize, u32) -> usize,
    ) -> Result<(), PagesError> {
        writer.scatter_body::<SIZE, true>(keys, bytes, partition_of)
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
    #[inline(never)]
    pub(super) fn flush<S: PageSink>(
        writer: &mut FixedWriter<S>,
        partition: usize,
        count: u32,
    ) -> Result<(), PagesError> {
        writer.flush_body(partition, count)
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
