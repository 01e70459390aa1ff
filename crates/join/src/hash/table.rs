//! The table of the build side: the keys and numbers of its rows in the order of their buckets, and
//! a directory with the start of each bucket. The rows of a bucket are neighbours, even if a key is
//! very frequent. Partitions come one after the other, and so do their buckets. So each is built by
//! itself, and the whole is looked up without a word about partitions.

use std::{mem::take, ops::Range};

use super::{
    build::HashConfig,
    memory::{Block, Plain},
    radix::{PARTITION_BYTES, Radix},
};
use crate::{
    error::JoinError,
    fetch::{CACHE_BYTES, prefetch},
    key::Key,
    parallel,
};

/// Buckets of more entries are sorted by key, so that the entries of one key are found by binary
/// search.
pub(super) const LONG_BUCKET: usize = 16;

/// The bytes of a cache line.
const LINE: usize = 64;

/// A row in a table.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
pub(super) struct Entry<K: Copy> {
    pub(super) key: K,
    pub(super) row: u32,
}

// SAFETY: two numbers without padding, aligned to 4.
unsafe impl Plain for Entry<u32> {}
// SAFETY: as above.
unsafe impl Plain for Entry<u64> {}

/// The table, with its memory.
#[derive(Debug)]
pub(super) struct Tables<K: Copy> {
    /// The entries; those of a partition are at the indices of its rows.
    entries: Block<Entry<K>>,
    /// The starts of the buckets' entries, and the end of the last.
    directory: Block<u32>,
    /// From a hash to its bucket: the bits of the partition, then those of the bucket in it.
    radix: Radix,
    /// The bits of the bucket in its partition.
    bucket_bits: u32,
}

/// The table, to look up keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'a, K: Copy> {
    entries: &'a [Entry<K>],
    directory: &'a [u32],
    radix: Radix,
    bucket_bits: u32,
}

/// The part of the tables that one thread fills at a time.
struct Task<'a, K: Copy> {
    rows: Range<usize>,
    entries: &'a mut [Entry<K>],
    directory: &'a mut [u32],
}

impl<K: Key> Tables<K>
where
    Entry<K>: Plain,
{
    /// Builds the tables for the keys of clustered rows. Partition p has the rows from `starts[p]`
    /// to `starts[p + 1]`. O(rows), or O(rows * log(rows)) if almost
    /// all keys are in one bucket.
    pub(super) fn new(keys: &[K], starts: &[u32], config: &HashConfig) -> Result<Self, JoinError> {
        let (bits, is_kept) = (config.partitions.bits(), config.keeps_memory);
        let bucket_bits = bucket_bits(keys.len().div_ceil(1 << bits));
        let radix = Radix::new(0, bits + bucket_bits);
        let (mut entries, mut directory) = (Block::new(keys.len(), is_kept)?, Block::new(radix.count() + 1, is_kept)?);
        let mut free_entries = entries.as_mut_slice();
        let directories = directory.as_mut_slice().chunks_mut(1 << bucket_bits);
        let mut tasks = Vec::with_capacity(starts.len());
        for (bounds, directory) in starts.windows(2).zip(directories) {
            let rows = bounds[0] as usize..bounds[1] as usize;
            let (entries, rest) = take(&mut free_entries).split_at_mut(rows.len());
            free_entries = rest;
            tasks.push(Task { rows, entries, directory });
        }
        parallel::map(config.threads, tasks, |task| {
            let radix = Radix::new(bits, bucket_bits);
            fill(&keys[task.rows.clone()], task.rows.start as u32, radix, task.entries, task.directory);
        });
        directory.as_mut_slice()[radix.count()] = keys.len() as u32;
        Ok(Self { entries, directory, radix, bucket_bits })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let (entries, directory) = (self.entries.as_slice(), self.directory.as_slice());
        size_of_val(entries) + size_of_val(directory)
    }

    /// Returns all entries.
    pub(super) fn entries(&self) -> &[Entry<K>] {
        self.entries.as_slice()
    }

    /// Returns the table, to look up keys.
    #[inline]
    pub(super) fn table(&self) -> Table<'_, K> {
        let (entries, directory) = (self.entries.as_slice(), self.directory.as_slice());
        Table { entries, directory, radix: self.radix, bucket_bits: self.bucket_bits }
    }
}

impl<K: Key> Table<'_, K> {
    /// Brings a partition of the table into the cache, if it fits and there are enough lookups to
    /// need most of it. Reading it front to back is much faster than missing its lines one by one.
    pub(super) fn fetch(&self, partition: usize, lookups: usize) {
        let directory = &self.directory[partition << self.bucket_bits..=(partition + 1) << self.bucket_bits];
        let [first, .., last] = directory else { return };
        let entries = &self.entries[*first as usize..*last as usize];
        if entries.len() <= lookups.saturating_mul(4) && size_of_val(entries) <= PARTITION_BYTES {
            fetch(directory);
            fetch(entries);
        }
    }

    /// Returns whether most look-ups of random keys miss a core's caches.
    pub(super) fn misses_caches(&self) -> bool {
        size_of_val(self.directory) + size_of_val(self.entries) > CACHE_BYTES
    }

    /// Brings the directory's places of these keys into the cache, many at once.
    #[inline]
    pub(super) fn prefetch_buckets(&self, keys: &[K]) {
        let places = self.directory.as_ptr();
        keys.iter().for_each(|&key| prefetch(places.wrapping_add(self.radix.number(key.hash()))));
    }

    /// Brings these entries into the cache, many at once.
    #[inline]
    pub(super) fn prefetch_entries(&self, entries: &[u32]) {
        let all = self.entries.as_ptr();
        entries.iter().for_each(|&at| prefetch(all.wrapping_add(at as usize)));
    }

    /// Returns the entries of a key's bucket.
    #[inline(always)]
    pub(super) fn bucket(&self, key: K) -> Range<u32> {
        let bucket = self.radix.number(key.hash());
        // SAFETY: the directory has one place more than this radix has buckets.
        unsafe { *self.directory.get_unchecked(bucket)..*self.directory.get_unchecked(bucket + 1) }
    }

    /// Returns the entry at this index.
    ///
    /// # Safety
    /// The index comes from [`bucket`](Self::bucket).
    #[inline(always)]
    pub(super) unsafe fn entry(&self, at: u32) -> Entry<K> {
        // SAFETY: the caller's promise.
        unsafe { *self.entries.get_unchecked(at as usize) }
    }

    /// Returns the entries of a key whose bucket is long.
    pub(super) fn equal(&self, key: K) -> Range<u32> {
        let bounds = self.bucket(key);
        let bucket = self.entries(bounds.clone());
        let start = bucket.partition_point(|entry| { entry.key } < key);
        let len = bucket[start..].partition_point(|entry| { entry.key } == key);
        let start = bounds.start + start as u32;
        start..start + len as u32
    }

    /// Returns a range of entries.
    pub(super) fn entries(&self, entries: Range<u32>) -> &[Entry<K>] {
        &self.entries[entries.start as usize..entries.end as usize]
    }
}

/// Returns the number of bits for as many buckets as rows, or up to twice as many.
fn bucket_bits(rows: usize) -> u32 {
    rows.max(1).next_power_of_two().ilog2()
}

/// Fills a table with a counting sort by bucket. The directory first counts, then points after the
/// buckets, and at last to their starts.
fn fill<K: Key>(keys: &[K], first_row: u32, radix: Radix, entries: &mut [Entry<K>], directory: &mut [u32]) {
    directory.fill(0);
    // All are written below: this brings them into the cache.
    if size_of_val(entries) <= PARTITION_BYTES {
        entries.fill(Entry { key: K::default(), row: 0 });
    }
    for key in keys {
        directory[radix.number(key.hash())] += 1;
    }
    let (mut end, mut longest) = (first_row, 0);
    for bucket in &mut *directory {
        longest = longest.max(*bucket);
        end += *bucket;
        *bucket = end;
    }
    for (row, &key) in keys.iter().enumerate().rev() {
        let place = &mut directory[radix.number(key.hash())];
        *place -= 1;
        entries[(*place - first_row) as usize] = Entry { key, row: first_row + row as u32 };
    }
    if longest as usize > LONG_BUCKET {
        let ends = directory.iter().skip(1).copied().chain([end]);
        for (start, end) in
            directory.iter().copied().zip(ends).filter(|(start, end)| (end - start) as usize > LONG_BUCKET)
        {
            let bucket = (start - first_row) as usize..(end - first_row) as usize;
            entries[bucket].sort_unstable_by_key(|entry| (entry.key, entry.row));
        }
    }
}

/// Brings memory into the cache. Prefetches would do, but the processor drops many of them.
fn fetch<T>(values: &[T]) {
    for line in values.chunks((LINE / size_of::<T>()).max(1)) {
        // SAFETY: a value is at least a byte, and initialised.
        unsafe { line.as_ptr().cast::<u8>().read_volatile() };
    }
}
