//! Tuples of few partitions collect in the buffers while a register counts them. A counter in memory
//! would make most rows wait for the one before, which has just changed it.

use super::{FixedWriter, PageSink, PagesError};
use crate::page::GROUP;

/// The largest number of partitions: a register has a byte for each.
const FEW: usize = size_of::<u64>();
/// The number of tuples that are counted in a register: at most as many as a byte holds.
const CHUNK: usize = 112;
/// The room in a buffer for a chunk, and for the bytes that precede a payload.
const ROOM: usize = CHUNK + 1;

impl<S: PageSink> FixedWriter<S> {
    /// Returns whether a register can count the tuples, and the buffers have room for a chunk
    /// beside an incomplete group.
    pub(super) fn prefers_few(&self) -> bool {
        self.claims.open.len() <= FEW && self.buffers.room >= ROOM + GROUP
    }

    /// Places tuple `i` in partition `partition_of(i, key)`.
    #[inline(always)]
    pub(super) fn few_body<const SIZE: usize, const WIDE: bool>(
        &mut self,
        keys: &[u32],
        bytes: &[u8],
        partition_of: impl Fn(usize, u32) -> usize,
    ) -> Result<(), PagesError> {
        for (keys, first) in keys.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
            self.make_room::<WIDE>()?;
            let target = |row: usize, key: u32| partition_of(first + row, key);
            // The payloads before those of the first chunk do not exist.
            if first == 0 {
                self.collect::<SIZE, false>(keys, bytes.as_ptr(), target);
            } else {
                self.collect::<SIZE, true>(keys, bytes[first * self.claims.size..].as_ptr(), target);
            }
        }
        Ok(())
    }

    /// Places the whole groups of buffers that have no room for a chunk.
    #[inline(always)]
    fn make_room<const WIDE: bool>(&mut self) -> Result<(), PagesError> {
        for partition in 0..self.claims.open.len() {
            let len = self.buffers.len(partition);
            if len > self.buffers.room - ROOM {
                self.flush::<WIDE>(partition, (len / GROUP * GROUP) as u32)?;
            }
        }
        Ok(())
    }

    /// Appends a chunk, with payloads from `from` on, to the buffers, which have room for it.
    /// `PRECEDED` says that there are readable bytes before `from`.
    #[inline(always)]
    fn collect<const SIZE: usize, const PRECEDED: bool>(
        &mut self,
        keys: &[u32],
        mut from: *const u8,
        partition_of: impl Fn(usize, u32) -> usize,
    ) {
        let size = if SIZE == usize::MAX { self.claims.size } else { SIZE };
        let mask = self.buffers.room as u32 - 1;
        let (to_keys, to_data) = (self.buffers.keys.start().cast::<u32>(), self.buffers.data.start());
        // SAFETY: a table has at least a cache line.
        let fill = unsafe { self.buffers.fill.start().cast::<[u32; FEW]>().as_mut_unchecked() };
        let starts = *fill;
        let mut counts = 0_u64;
        for (row, &key) in keys.iter().enumerate() {
            let partition = partition_of(row, key);
            debug_assert!(partition < self.claims.open.len());
            let shift = 8 * partition;
            // SAFETY: the caller's partitions exist, and each buffer has room for a chunk. `from` advances
            // by one payload for each key. Payloads grow downwards, and the buffer has room for another
            // one: the bytes that are written before this one are its bytes, or will be.
            unsafe {
                let at = starts.get_unchecked(partition) + u32::from((counts >> shift) as u8);
                counts += 1 << shift;
                to_keys.add(at as usize).write(key);
                let to = to_data.add((at ^ mask) as usize * size);
                if PRECEDED && SIZE == 12 {
                    let payload = from.sub(4).cast::<[u8; 16]>().read();
                    to.sub(4).cast::<[u8; 16]>().write(payload);
                } else {
                    to.copy_from_nonoverlapping(from, size);
                }
                from = from.add(size);
            }
        }
        for (fill, count) in fill.iter_mut().zip(counts.to_le_bytes()) {
            *fill += u32::from(count);
        }
    }
}
