//! The writer of one thread for tuples of one size. They collect in a small buffer for each
//! partition. Full buffers are copied to the part of a page that this writer has claimed.

mod blocks;
mod few;
mod straight;

use std::sync::Arc;

use self::blocks::Blocks;
use super::{
    buffers::Buffers,
    open::{Claims, OpenClaim},
    shared::{PageSink, Shared},
};
use crate::{error::PagesError, simd::has_avx512};

pub(super) struct FixedWriter<S: PageSink> {
    claims: Claims<S>,
    /// Whether the machine has AVX-512.
    wide: bool,
    buffers: Buffers,
    /// The memory for large batches, from the first one on.
    blocks: Option<Blocks>,
}

// SAFETY: the pointers lead to parts of pages that belong to this writer alone, and the shared
// state keeps the memory.
unsafe impl<S: PageSink> Send for FixedWriter<S> {}

impl<S: PageSink> FixedWriter<S> {
    /// Creates a writer for payloads of `size` bytes, the size of the shape.
    pub(super) fn new(shared: Arc<Shared<S>>, size: u32) -> Self {
        let partitions = shared.partition_count();
        Self {
            wide: has_avx512(),
            buffers: Buffers::new(partitions, size as usize),
            blocks: None,
            claims: Claims::new(shared, size),
        }
    }

    /// Places tuple `i` in partition `partition_of(i, key)`. `bytes` has a payload for each key.
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        keys: &[u32],
        bytes: &[u8],
        partition_of: impl Fn(usize, u32) -> usize,
    ) -> Result<(), PagesError> {
        debug_assert_eq!(keys.len() * self.claims.size, bytes.len());
        match self.claims.size {
            0 => self.write_sized::<0>(keys, bytes, partition_of),
            12 => self.write_sized::<12>(keys, bytes, partition_of),
            96 => self.write_sized::<96>(keys, bytes, partition_of),
            _ => self.write_sized::<{ usize::MAX }>(keys, bytes, partition_of),
        }
    }

    /// Places the tuples by blocks or one by one, with the vector instructions of the machine.
    #[inline(always)]
    fn write_sized<const SIZE: usize>(
        &mut self,
        keys: &[u32],
        bytes: &[u8],
        partition_of: impl Fn(usize, u32) -> usize,
    ) -> Result<(), PagesError> {
        let blocks = self.prefers_blocks(keys.len());
        let few = self.prefers_few();
        #[cfg(target_arch = "x86_64")]
        if self.wide {
            // SAFETY: the machine has the features.
            return unsafe {
                if blocks {
                    wide::blocks::<SIZE, S>(self, keys, bytes, partition_of)
                } else if few {
                    wide::few::<SIZE, S>(self, keys, bytes, partition_of)
                } else {
                    wide::scatter::<SIZE, S>(self, keys, bytes, partition_of)
                }
            };
        }
        if blocks {
            self.blocks_body::<SIZE, false>(keys, bytes, partition_of)
        } else if few {
            self.few_body::<SIZE, false>(keys, bytes, partition_of)
        } else {
            self.scatter_body::<SIZE, false>(keys, bytes, partition_of)
        }
    }

    /// Collects the tuples in the partitions' buffers.
    #[inline(always)]
    fn scatter_body<const SIZE: usize, const WIDE: bool>(
        &mut self,
        keys: &[u32],
        bytes: &[u8],
        partition_of: impl Fn(usize, u32) -> usize,
    ) -> Result<(), PagesError> {
        let size = if SIZE == usize::MAX { self.claims.size } else { SIZE };
        let mask = self.buffers.room as u32 - 1;
        let (to_keys, to_data) = (self.buffers.keys.start().cast::<u32>(), self.buffers.data.start());
        let fill = self.buffers.fill.start();
        let mut from = bytes.as_ptr();
        for (index, &key) in keys.iter().enumerate() {
            let partition = partition_of(index, key);
            debug_assert!(partition < self.claims.open.len());
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

    /// Copies the first `count` tuples of a partition's buffer to its pages, and drops them there.
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
        // Payloads that are ahead are part of the first claim, so its part of the buffer has them.
        let mut ahead = std::mem::take(&mut self.claims.open[partition].ahead);
        let mut done = 0;
        while done < count {
            if self.claims.open[partition].left == 0 {
                self.claim(partition)?;
            }
            let Self { claims: Claims { shared, open, size, .. }, buffers, .. } = self;
            let (open, size) = (&mut open[partition], *size);
            let some = open.left.min(count - done);
            let copied = some - std::mem::take(&mut ahead);
            // SAFETY: the tuples are in the partition's buffer, and there is room for them in the claimed part.
            unsafe {
                open.write_slots(shared, buffers.keys_of(partition).add(done as usize), some as usize, size);
                let data = buffers.payload(partition, (done + some) as usize - 1, size);
                shared.store.copy(data, open.data.sub(some as usize * size), copied as usize * size);
            }
            open.advance(shared, partition, some, size);
            done += some;
        }
        self.buffers.drop_first(partition, count as usize, self.claims.size);
        Ok(())
    }

    /// Places the buffered tuples.
    pub(super) fn flush_all(&mut self) -> Result<(), PagesError> {
        (0..self.claims.open.len()).try_for_each(|partition| {
            let count = self.buffers.len(partition);
            self.flush::<false>(partition, count as u32)
        })
    }

    /// Claims the next part for a partition, whose last claim is full.
    fn claim(&mut self, partition: usize) -> Result<(), PagesError> {
        let Self { claims, buffers, .. } = self;
        let size = claims.size;
        claims.claim(partition, |shared, open| finish_ahead(shared, open, buffers, size))
    }

    /// Gives back the unwritten parts of claims, as [`Claims::release_all`].
    pub(super) fn release_all(&mut self, settled: bool) {
        self.claims.release_all(settled);
    }
}

/// Writes the slots of all tuples whose payloads are ahead of them. The rest of each buffer moves
/// to its start.
fn finish_ahead<S: PageSink>(shared: &Shared<S>, open: &mut [OpenClaim], buffers: &mut Buffers, size: usize) {
    for (partition, open) in open.iter_mut().enumerate().filter(|(_, open)| open.ahead > 0) {
        let ahead = std::mem::take(&mut open.ahead);
        // SAFETY: the buffer has the keys, and the claim has room for the slots.
        unsafe { open.write_slots(shared, buffers.keys_of(partition), ahead as usize, size) };
        open.advance(shared, partition, ahead, size);
        buffers.drop_first(partition, ahead as usize, size);
    }
}

/// The hot loops compiled for AVX-512.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{FixedWriter, PageSink, PagesError};

    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,popcnt")]
    pub(super) fn scatter<const SIZE: usize, S: PageSink>(
        writer: &mut FixedWriter<S>,
        keys: &[u32],
        bytes: &[u8],
        partition_of: impl Fn(usize, u32) -> usize,
    ) -> Result<(), PagesError> {
        writer.scatter_body::<SIZE, true>(keys, bytes, partition_of)
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,popcnt,bmi1,bmi2")]
    pub(super) fn few<const SIZE: usize, S: PageSink>(
        writer: &mut FixedWriter<S>,
        keys: &[u32],
        bytes: &[u8],
        partition_of: impl Fn(usize, u32) -> usize,
    ) -> Result<(), PagesError> {
        writer.few_body::<SIZE, true>(keys, bytes, partition_of)
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,popcnt")]
    pub(super) fn blocks<const SIZE: usize, S: PageSink>(
        writer: &mut FixedWriter<S>,
        keys: &[u32],
        bytes: &[u8],
        partition_of: impl Fn(usize, u32) -> usize,
    ) -> Result<(), PagesError> {
        writer.blocks_body::<SIZE, true>(keys, bytes, partition_of)
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,popcnt")]
    #[inline(never)]
    pub(super) fn flush<S: PageSink>(
        writer: &mut FixedWriter<S>,
        partition: usize,
        count: u32,
    ) -> Result<(), PagesError> {
        writer.flush_body(partition, count)
    }
}
