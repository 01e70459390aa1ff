//! Lists of the rows of a block, one for each partition.

use super::buffers::{Lines, Table};

/// The largest number of rows of a block.
pub(super) const BLOCK: usize = 4096;
/// The largest number of partitions whose lists are packed from vectors.
pub(super) const FEW: usize = 8;
/// The number of entries of a vector.
const LANES: usize = 16;
/// The room of a list, compared to its share of a block if keys are even.
const SHARES: usize = 4;
/// The room of a list that is packed, which has all rows of a block in the worst case.
const PACKED: usize = BLOCK / 2;

/// The entries of a block by partition, each list in the order of rows.
#[derive(Debug)]
pub(super) struct Lists {
    entries: Lines,
    /// The number of entries from one list to the next. It is not a power of two, so that lists
    /// that grow alike do not compete for the same cache lines.
    stride: usize,
    len: Table<u32>,
}

/// The entry of a listed row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The key.
    Key,
    /// The position in the block.
    Row,
}

impl Lists {
    pub(super) fn new(partitions: usize) -> Self {
        let room = if partitions <= FEW { PACKED } else { (SHARES * BLOCK / partitions).max(LANES) };
        let stride = room.next_multiple_of(LANES) + LANES;
        let entries = Lines::new(partitions * stride * size_of::<u32>());
        Self { entries, stride, len: Table::new(partitions, |_| 0) }
    }

    /// Returns the number of rows that should be listed at once.
    pub(super) fn block(&self) -> usize {
        if self.len.len() <= FEW { PACKED } else { BLOCK }
    }

    /// Returns the list of a partition.
    pub(super) fn rows(&self, partition: usize) -> &[u32] {
        let len = self.len[partition] as usize;
        debug_assert!(len < self.stride);
        // SAFETY: the first entries of the list were written.
        unsafe {
            let first = self.entries.start().cast::<u32>().add(partition * self.stride);
            std::slice::from_raw_parts(first, len)
        }
    }

    /// Lists the first rows of a block with these keys, row `i` in partition `target(i, key)`.
    /// Replaces the lists. Returns the number of rows, which are all if keys are nearly even:
    /// otherwise a list is full.
    #[inline(always)]
    pub(super) fn fill(&mut self, keys: &[u32], entry: Entry, target: impl Fn(usize, u32) -> usize) -> usize {
        self.len.fill(0);
        self.fill_from(0, keys, entry, target)
    }

    #[inline(always)]
    fn fill_from(&mut self, first: usize, keys: &[u32], entry: Entry, target: impl Fn(usize, u32) -> usize) -> usize {
        let (stride, partitions) = (self.stride, self.len.len());
        let (entries, lens) = (self.entries.start().cast::<u32>(), self.len.as_mut_ptr());
        for (row, &key) in keys.iter().enumerate().skip(first) {
            let partition = target(row, key);
            debug_assert!(partition < partitions);
            // SAFETY: the caller's partitions exist, and the list is not full.
            unsafe {
                let len = lens.add(partition);
                let at = *len as usize;
                entries.add(partition * stride + at).write(if entry == Entry::Key { key } else { row as u32 });
                *len = at as u32 + 1;
                if at + 1 == stride - LANES {
                    return row + 1;
                }
            }
        }
        keys.len()
    }

    /// Does the same as [`fill`](Self::fill), with the entries of each partition packed in a
    /// register, without a branch for each row.
    ///
    /// # Safety
    /// The processor has AVX-512, and there are at most [`FEW`] partitions.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,popcnt")]
    #[inline]
    pub(super) unsafe fn pack(&mut self, keys: &[u32], entry: Entry, target: impl Fn(usize, u32) -> usize) -> usize {
        let keys = &keys[..keys.len().min(PACKED)];
        // SAFETY: the caller's promises.
        let packed = unsafe {
            match self.len.len() {
                0..=2 => self.pack_most::<2>(keys, entry, &target),
                3..=4 => self.pack_most::<4>(keys, entry, &target),
                _ => self.pack_most::<FEW>(keys, entry, &target),
            }
        };
        self.fill_from(packed, keys, entry, target)
    }

    /// Lists whole vectors of rows. Returns the number of rows.
    ///
    /// # Safety
    /// As [`pack`](Self::pack), for up to `MOST` partitions and [`PACKED`] keys.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,popcnt")]
    #[inline]
    unsafe fn pack_most<const MOST: usize>(
        &mut self,
        keys: &[u32],
        entry: Entry,
        target: &impl Fn(usize, u32) -> usize,
    ) -> usize {
        use std::arch::x86_64::*;
        let (stride, partitions) = (self.stride, self.len.len());
        let entries = self.entries.start().cast::<u32>();
        let (vectors, _) = keys.as_chunks::<LANES>();
        let mut lens = [0_usize; MOST];
        let mut rows = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        for (vector, first) in vectors.iter().zip((0..).step_by(LANES)) {
            let targets: [u32; LANES] = std::array::from_fn(|lane| target(first + lane, vector[lane]) as u32);
            // SAFETY: arrays have the size of a vector. Each list has room for all rows and a vector.
            unsafe {
                let targets = _mm512_loadu_si512(targets.as_ptr().cast());
                let values = if entry == Entry::Key { _mm512_loadu_si512(vector.as_ptr().cast()) } else { rows };
                for (partition, len) in lens.iter_mut().enumerate().take(partitions) {
                    let here = _mm512_cmpeq_epi32_mask(targets, _mm512_set1_epi32(partition as i32));
                    let to = entries.add(partition * stride + *len);
                    _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi32(here, values));
                    *len += here.count_ones() as usize;
                }
            }
            rows = _mm512_add_epi32(rows, _mm512_set1_epi32(LANES as i32));
        }
        self.len.iter_mut().zip(lens).for_each(|(to, len)| *to = len as u32);
        vectors.len() * LANES
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::simd::has_avx512;

    proptest! {
        #[test]
        fn lists_are_those_of_a_plain_loop(
            partitions in 1..40usize,
            keys in prop::collection::vec(any::<u32>(), 0..5000),
            skewed in any::<bool>(),
            entry in prop::sample::select(vec![Entry::Key, Entry::Row]),
        ) {
            let target = |_: usize, key: u32| if skewed { 0 } else { key as usize % partitions };
            let check = |lists: &Lists, listed: usize| {
                for partition in 0..partitions {
                    let here = (0..listed).filter(|&row| target(row, keys[row]) == partition);
                    let expected = here.map(|row| if entry == Entry::Key { keys[row] } else { row as u32 });
                    prop_assert!(expected.eq(lists.rows(partition).iter().copied()), "partition {}", partition);
                }
                Ok(())
            };
            let mut lists = Lists::new(partitions);
            let block = &keys[..keys.len().min(lists.block())];
            for _ in 0..2 {
                let listed = lists.fill(block, entry, target);
                prop_assert!(listed == block.len() || (0..partitions).any(|of| lists.is_full(of)));
                check(&lists, listed)?;
                #[cfg(target_arch = "x86_64")]
                if partitions <= FEW && has_avx512() {
                    // SAFETY: the machine has the features, and there are few partitions.
                    let listed = unsafe { lists.pack(block, entry, target) };
                    prop_assert_eq!(listed, block.len());
                    check(&lists, listed)?;
                }
            }
        }
    }

    impl Lists {
        fn is_full(&self, partition: usize) -> bool {
            self.rows(partition).len() + LANES == self.stride
        }
    }
}
