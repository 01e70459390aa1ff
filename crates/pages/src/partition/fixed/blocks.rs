//! Large batches: the rows of a block are listed by partition, and copied from the batch to the
//! pages without passing through the buffers. `straight.rs` does this for payloads that fill cache
//! lines. Short ones are copied in whole groups, and only the rows of incomplete groups go through
//! the buffers.

use super::{
    FixedWriter, PageSink, PagesError,
    straight::{STRAIGHT_ROWS, is_straight, straight_block},
};
use crate::{
    page::GROUP,
    partition::{
        buffers::Lines,
        lists::{BLOCK, Entry, FEW, Lists},
    },
};

/// The least number of groups of a partition in a block for which listing is worthwhile.
const GROUPS: usize = 2;
/// The size of the buffer in which short payloads are put together.
const STAGE_BYTES: usize = 4096;
/// The largest payload that is put together, and for how many partitions. With more partitions,
/// the buffers are as fast.
const SHORT: usize = 16;
const FEW_SHORT: usize = 4;

/// The memory of a writer for blocks.
pub(super) struct Blocks {
    pub(super) lists: Lists,
    /// The keys of a list, after those of the partition's buffer.
    pub(super) keys: Lines,
    stage: Lines,
}

/// The keys and payloads of a block.
#[derive(Clone, Copy)]
pub(super) struct Batch<'a> {
    pub(super) keys: &'a [u32],
    pub(super) bytes: &'a [u8],
}

impl Blocks {
    fn new(partitions: usize) -> Self {
        Self {
            lists: Lists::new(partitions),
            keys: Lines::new((BLOCK + 2 * GROUP) * size_of::<u32>()),
            stage: Lines::new(STAGE_BYTES),
        }
    }
}

impl<S: PageSink> FixedWriter<S> {
    /// Returns whether this number of tuples is faster by blocks. If so, their memory is there.
    pub(super) fn prefers_blocks(&mut self, tuples: usize) -> bool {
        let partitions = self.claims.open.len();
        let least = match self.claims.size {
            size if is_straight(size) => partitions * STRAIGHT_ROWS,
            ..=SHORT if self.wide && partitions <= FEW_SHORT => partitions * GROUPS * GROUP,
            _ => return false,
        };
        if tuples.min(BLOCK) < least {
            return false;
        }
        self.blocks.get_or_insert_with(|| Blocks::new(partitions));
        true
    }

    /// Places tuple `i` in partition `partition_of(i, key)`.
    #[inline(always)]
    pub(super) fn blocks_body<const SIZE: usize, const WIDE: bool>(
        &mut self,
        keys: &[u32],
        bytes: &[u8],
        partition_of: impl Fn(usize, u32) -> usize,
    ) -> Result<(), PagesError> {
        let size = if SIZE == usize::MAX { self.claims.size } else { SIZE };
        let mut blocks = self.blocks.take().unwrap_or_else(|| Blocks::new(self.claims.open.len()));
        let straight = is_straight(size);
        let most = if straight { straight_block(self.claims.open.len()) } else { BLOCK }.min(blocks.lists.block());
        // Blocks of one size, so that even the last one is worthwhile.
        let rows = keys.len().div_ceil(keys.len().div_ceil(most)).next_multiple_of(GROUP);
        let entry = if SIZE == 0 { Entry::Key } else { Entry::Row };
        let mut first = 0;
        while first < keys.len() {
            let block = &keys[first..keys.len().min(first + rows)];
            let target = |row: usize, key: u32| partition_of(first + row, key);
            let listed = match () {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `WIDE` is chosen only if the machine has the features.
                () if WIDE && self.claims.open.len() <= FEW => unsafe { blocks.lists.pack(block, entry, target) },
                () => blocks.lists.fill(block, entry, target),
            };
            let batch = Batch { keys: block, bytes: &bytes[first * size..] };
            for partition in 0..self.claims.open.len() {
                if straight {
                    self.place_straight::<SIZE, WIDE>(partition, &blocks, batch)?;
                } else {
                    self.place_list::<SIZE, WIDE>(partition, &blocks, batch)?;
                }
            }
            first += listed;
        }
        self.blocks = Some(blocks);
        Ok(())
    }

    /// Places the listed tuples of a partition. Those of the last, incomplete group stay in its
    /// buffer.
    #[inline(always)]
    fn place_list<const SIZE: usize, const WIDE: bool>(
        &mut self,
        partition: usize,
        blocks: &Blocks,
        batch: Batch<'_>,
    ) -> Result<(), PagesError> {
        let mut list = blocks.lists.rows(partition);
        if self.buffers.len(partition) > 0 {
            list = self.complete_group::<SIZE, WIDE>(partition, list, batch)?;
        }
        let mut keys = list;
        if SIZE != 0 {
            let of = blocks.keys.start().cast::<u32>();
            for (index, &row) in list.iter().enumerate() {
                // SAFETY: there is room for the keys of a block, and listed rows are in the batch.
                unsafe { of.add(index).write(*batch.keys.get_unchecked(row as usize)) };
            }
            // SAFETY: just written.
            keys = unsafe { std::slice::from_raw_parts(of, list.len()) };
        }
        let groups = list.len() / GROUP * GROUP;
        let mut done = 0;
        while done < groups {
            if self.claims.open[partition].left == 0 {
                self.claim(partition)?;
            }
            let some = (self.claims.open[partition].left as usize).min(groups - done);
            let (now, keys) = (&list[done..done + some], &keys[done..done + some]);
            self.place_groups::<SIZE>(partition, blocks, now, keys, batch);
            self.claims.open[partition].advance(&self.claims.shared, partition, some as u32, self.claims.size);
            done += some;
        }
        self.keep::<SIZE>(partition, &list[groups..], batch);
        Ok(())
    }

    /// Fills the last group of a partition's buffer from a list, and places the whole buffer if the
    /// list is long enough. Returns the rest of the list.
    #[inline(always)]
    pub(super) fn complete_group<'a, const SIZE: usize, const WIDE: bool>(
        &mut self,
        partition: usize,
        list: &'a [u32],
        batch: Batch<'_>,
    ) -> Result<&'a [u32], PagesError> {
        let waiting = self.buffers.len(partition);
        let some = (waiting.next_multiple_of(GROUP) - waiting).min(list.len());
        self.keep::<SIZE>(partition, &list[..some], batch);
        if (waiting + some).is_multiple_of(GROUP) {
            self.flush::<WIDE>(partition, (waiting + some) as u32)?;
        }
        Ok(&list[some..])
    }

    /// Copies listed tuples to the open claim of a partition, which has room for them.
    #[inline(always)]
    fn place_groups<const SIZE: usize>(
        &self,
        partition: usize,
        blocks: &Blocks,
        list: &[u32],
        keys: &[u32],
        batch: Batch<'_>,
    ) {
        let size = if SIZE == usize::MAX { self.claims.size } else { SIZE };
        let (store, open) = (self.claims.shared.store, &self.claims.open[partition]);
        // SAFETY: the claim has room for the tuples, and listed rows are in the batch. The stage has
        // room for the tuples of a chunk.
        unsafe {
            open.write_slots(&self.claims.shared, keys.as_ptr(), keys.len(), size);
            if size == 0 {
                return;
            }
            let (mut data, stage) = (open.data, blocks.stage.start());
            for chunk in list.chunks(STAGE_BYTES / SHORT) {
                let bytes = chunk.len() * size;
                let mut to = stage.add(bytes);
                for &row in chunk {
                    to = to.sub(size);
                    to.copy_from_nonoverlapping(batch.bytes.as_ptr().add(row as usize * size), size);
                }
                data = data.sub(bytes);
                store.copy(stage, data, bytes);
            }
        }
    }

    /// Appends listed tuples to the buffer of a partition, which has room for them.
    #[inline(always)]
    fn keep<const SIZE: usize>(&mut self, partition: usize, list: &[u32], batch: Batch<'_>) {
        let size = if SIZE == usize::MAX { self.claims.size } else { SIZE };
        let mask = self.buffers.room as u32 - 1;
        let (to_keys, to_data) = (self.buffers.keys.start().cast::<u32>(), self.buffers.data.start());
        let fill = &mut self.buffers.fill[partition];
        for &entry in list {
            let at = *fill;
            // SAFETY: the caller promises room, and listed rows are in the batch.
            unsafe {
                if SIZE == 0 {
                    to_keys.add(at as usize).write(entry);
                } else {
                    to_keys.add(at as usize).write(*batch.keys.get_unchecked(entry as usize));
                    let from = batch.bytes.as_ptr().add(entry as usize * size);
                    to_data.add((at ^ mask) as usize * size).copy_from_nonoverlapping(from, size);
                }
            }
            *fill = at + 1;
        }
    }
}
