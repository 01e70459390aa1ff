//! Listed tuples whose payloads fill whole cache lines, alone or in pairs. They go straight from the
//! batch to the page, also where their slots do not fill whole lines yet: the keys wait in the
//! partition's buffer.

use super::{
    FixedWriter, PageSink, PagesError,
    blocks::{Batch, Blocks},
};
use crate::{
    page::GROUP,
    partition::{
        buffers::Buffers,
        lists::BLOCK,
        open::{Claims, OpenClaim},
        store::{HALF_LINE, LINE, Store},
    },
};

/// The least number of rows of a partition in a batch, on average, for which listing is worthwhile.
pub(super) const STRAIGHT_ROWS: usize = 8;
/// The number of rows of a partition in a block, on average. The stores of the lists wait behind
/// those past the cache, and a small block's lists are finished while those drain. But a short list
/// ends with a branch that the processor cannot predict.
const BLOCK_ROWS: usize = 64;
/// The smallest number of rows of a block.
const LEAST_BLOCK: usize = 256;

/// Returns whether payloads of this size go straight from the batch to the page.
pub(super) fn is_straight(size: usize) -> bool {
    size > 0 && size.is_multiple_of(HALF_LINE)
}

/// Returns the number of rows of a block.
pub(super) fn straight_block(partitions: usize) -> usize {
    (partitions * BLOCK_ROWS).clamp(LEAST_BLOCK, BLOCK)
}

impl<S: PageSink> FixedWriter<S> {
    /// Places the listed tuples of a partition. The keys of the last, incomplete group stay in its
    /// buffer, and so does the last payload if it would be half a line.
    #[inline(always)]
    pub(super) fn place_straight<const SIZE: usize, const WIDE: bool>(
        &mut self,
        partition: usize,
        blocks: &Blocks,
        batch: Batch<'_>,
    ) -> Result<(), PagesError> {
        let mut list = blocks.lists.rows(partition);
        let waiting = self.buffers.len(partition);
        // Small batches have filled the buffer.
        if waiting >= GROUP || waiting > self.claims.open[partition].ahead as usize + 1 {
            list = self.complete_group::<SIZE, WIDE>(partition, list, batch)?;
        }
        while !list.is_empty() {
            if self.claims.open[partition].left == 0 {
                self.claim(partition)?;
            }
            let room = self.claims.open[partition].left as usize - self.buffers.len(partition);
            let (now, later) = list.split_at(room.min(list.len()));
            self.place_part::<SIZE, WIDE>(partition, now, blocks, batch);
            list = later;
        }
        Ok(())
    }

    /// Places listed tuples for which the claim has room, and the buffered ones before them.
    #[inline(always)]
    fn place_part<const SIZE: usize, const WIDE: bool>(
        &mut self,
        partition: usize,
        list: &[u32],
        blocks: &Blocks,
        batch: Batch<'_>,
    ) {
        let size = if SIZE == usize::MAX { self.claims.size } else { SIZE };
        let Self { claims: Claims { shared, open, .. }, buffers, .. } = self;
        let open = &mut open[partition];
        let waiting = buffers.len(partition);
        let all = waiting + list.len();
        let ends = all == open.left as usize;
        let keys = blocks.keys.start().cast::<u32>();
        // SAFETY: fewer keys than a group wait. Listed rows are in the batch. There is room for the
        // keys of a block, and for a group on both sides of them.
        unsafe { collect_keys::<WIDE>(buffers.keys_of(partition), waiting, list, batch.keys, keys) };
        // SAFETY: the claim has room for all these tuples, and listed rows are in the batch.
        let kept = unsafe { place_payloads::<SIZE>(shared.store, partition, list, (open, buffers), batch, size, ends) };
        let slots = if ends { all } else { all / GROUP * GROUP };
        // SAFETY: these keys were collected. Buffers have room for a group of keys and for a payload.
        unsafe {
            open.write_slots(shared, keys, slots, size);
            let rest = all - slots;
            buffers.keys_of(partition).copy_from_nonoverlapping(keys.add(slots / GROUP * GROUP), GROUP);
            if let Some(row) = kept {
                let from = batch.bytes.as_ptr().add(row as usize * size);
                buffers.payload(partition, rest - 1, size).copy_from_nonoverlapping(from, size);
            }
            buffers.fill[partition] = (partition * buffers.room + rest) as u32;
            open.ahead = (rest - usize::from(kept.is_some())) as u32;
        }
        open.advance(shared, partition, slots as u32, size);
    }
}

/// Copies the payloads of listed tuples to the claim, after that of a buffered tuple which is not
/// there yet. Returns the last row if its payload must wait for another one.
///
/// # Safety
/// The claim has room for the tuples, and listed rows are in the batch.
#[inline(always)]
unsafe fn place_payloads<const SIZE: usize>(
    store: Store,
    partition: usize,
    mut list: &[u32],
    (open, buffers): (&OpenClaim, &Buffers),
    batch: Batch<'_>,
    size: usize,
    ends: bool,
) -> Option<u32> {
    let (waiting, ahead) = (buffers.len(partition), open.ahead as usize);
    let from = batch.bytes.as_ptr();
    let mut to = open.data.wrapping_sub(ahead * size);
    let mut kept = None;
    // SAFETY: the caller's promises.
    unsafe {
        if waiting > ahead {
            let buffered = buffers.payload(partition, waiting - 1, size);
            match list {
                [row, rest @ ..] if to.addr().is_multiple_of(LINE) => {
                    to = to.sub(2 * size);
                    store.two(from.add(*row as usize * size), buffered, size, to);
                    list = rest;
                }
                _ => {
                    to = to.sub(size);
                    store.one(buffered, size, to);
                }
            }
        }
        let in_pairs = store != Store::Cached && !size.is_multiple_of(LINE);
        if in_pairs
            && !to.addr().is_multiple_of(LINE)
            && let [row, rest @ ..] = list
        {
            to = to.sub(size);
            store.one(from.add(*row as usize * size), size, to);
            list = rest;
        }
        // A group of slots has an even number of payloads if it begins at a line.
        if in_pairs && !ends && open.data.addr().is_multiple_of(LINE) && !list.len().is_multiple_of(2) {
            (kept, list) = (list.last().copied(), &list[..list.len() - 1]);
        }
        store.rows::<SIZE>(from, list, size, to);
    }
    kept
}

/// Writes the `waiting` keys of a buffer and the keys of listed rows to `to`, one after the other.
///
/// # Safety
/// `waiting` is below [`GROUP`], and `buffered` is readable for a group. Listed rows have keys.
/// `to` has room for the keys and two groups, and is aligned to a line. `WIDE` is chosen only if
/// the processor has AVX-512.
#[inline(always)]
unsafe fn collect_keys<const WIDE: bool>(
    buffered: *const u32,
    waiting: usize,
    list: &[u32],
    keys: &[u32],
    to: *mut u32,
) {
    // SAFETY: the caller's promises.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if WIDE {
            return collect_keys_wide(buffered, waiting, list, keys, to);
        }
        to.copy_from_nonoverlapping(buffered, waiting);
        for (index, &row) in list.iter().enumerate() {
            to.add(waiting + index).write(*keys.get_unchecked(row as usize));
        }
    }
}

/// Does the same in registers. Each group of keys is stored at once and aligned, so that it can be
/// loaded before the store has left the processor's store queue.
///
/// # Safety
/// As [`collect_keys`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,popcnt")]
#[inline]
unsafe fn collect_keys_wide(buffered: *const u32, waiting: usize, list: &[u32], keys: &[u32], mut to: *mut u32) {
    use std::arch::x86_64::*;
    debug_assert!(waiting < GROUP);
    let before = (1 << waiting) - 1;
    // SAFETY: the caller's promises. Lanes without a row are masked.
    unsafe {
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        // Permutations read the lowest four bits: lane `waiting` takes lane 0.
        let turned = _mm512_sub_epi32(lanes, _mm512_set1_epi32(waiting as i32));
        let mut group = _mm512_loadu_si512(buffered.cast());
        for rows in list.chunks(GROUP) {
            let mask = (u16::MAX as u32 >> (GROUP - rows.len())) as __mmask16;
            let rows_here = _mm512_maskz_loadu_epi32(mask, rows.as_ptr().cast());
            let here = _mm512_mask_i32gather_epi32::<4>(_mm512_setzero_si512(), mask, rows_here, keys.as_ptr().cast());
            let here = _mm512_permutexvar_epi32(turned, here);
            group = _mm512_mask_mov_epi32(here, before, group);
            if waiting + rows.len() >= GROUP {
                _mm512_storeu_si512(to.cast(), group);
                (to, group) = (to.add(GROUP), here);
            }
        }
        _mm512_storeu_si512(to.cast(), group);
    }
}
