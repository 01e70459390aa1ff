//! Tables of the build side, one for each partition. A table has the keys and numbers of its rows
//! in the order of their buckets, and a directory with the start of each bucket. The rows of a
//! bucket are neighbours, even if a key is very frequent.

use std::{mem::take, ops::Range};

use super::{
    memory::{Plain, Zeroed},
    radix::{PARTITION_BYTES, Radix},
};
use crate::{error::JoinError, key::Key, parallel};

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

/// The tables of all partitions.
#[derive(Debug)]
pub(super) struct Tables<K: Copy> {
    /// The entries of all partitions; those of a partition are at the indices of its rows.
    entries: Zeroed<Entry<K>>,
    /// The starts of the buckets' entries, and after those of each partition their end.
    directory: Zeroed<u32>,
    /// The start of each partition's part of the directory, then the directory's length.
    directories: Vec<usize>,
    bits: u32,
}

/// The table of one partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'a, K: Copy> {
    entries: &'a [Entry<K>],
    directory: &'a [u32],
    radix: Radix,
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
    /// to `starts[p + 1]`; there are 2^`bits` partitions. O(rows), or O(rows * log(rows)) if almost
    /// all keys are in one bucket.
    pub(super) fn new(keys: &[K], starts: &[u32], bits: u32, threads: usize) -> Result<Self, JoinError> {
        let mut directories = Vec::with_capacity(starts.len());
        let mut length = 0;
        for bounds in starts.windows(2) {
            directories.push(length);
            length += (1 << bucket_bits((bounds[1] - bounds[0]) as usize)) + 1;
        }
        directories.push(length);
        let (mut entries, mut directory) = (Zeroed::new(keys.len())?, Zeroed::new(length)?);
        let (mut free_entries, mut free_directory) = (entries.as_mut_slice(), directory.as_mut_slice());
        let mut tasks = Vec::with_capacity(starts.len());
        for (bounds, directories) in starts.windows(2).zip(directories.windows(2)) {
            let rows = bounds[0] as usize..bounds[1] as usize;
            let (entries, rest) = take(&mut free_entries).split_at_mut(rows.len());
            free_entries = rest;
            let (directory, rest) = take(&mut free_directory).split_at_mut(directories[1] - directories[0]);
            free_directory = rest;
            tasks.push(Task { rows, entries, directory });
        }
        parallel::map(threads, tasks, |task| {
            let radix = Radix::new(bits, bucket_bits(task.rows.len()));
            fill(&keys[task.rows.clone()], task.rows.start as u32, radix, task.entries, task.directory);
        });
        Ok(Self { entries, directory, directories, bits })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let (entries, directory) = (self.entries.as_slice(), self.directory.as_slice());
        size_of_val(entries) + size_of_val(directory) + size_of_val(&self.directories[..])
    }

    /// Returns the table of a partition.
    #[inline]
    pub(super) fn partition(&self, partition: usize) -> Table<'_, K> {
        let directory = &self.directory.as_slice()[self.directories[partition]..self.directories[partition + 1]];
        let bits = (directory.len() - 1).ilog2();
        Table { entries: self.entries.as_slice(), directory, radix: Radix::new(self.bits, bits) }
    }
}

impl<K: Key> Table<'_, K> {
    /// Brings the table into the cache, if it fits and there are enough lookups to need most of it.
    /// Reading it front to back is much faster than missing its lines one by one.
    pub(super) fn fetch(&self, lookups: usize) {
        let [first, .., last] = self.directory else { return };
        let entries = &self.entries[*first as usize..*last as usize];
        if entries.len() <= lookups.saturating_mul(4) && size_of_val(entries) <= PARTITION_BYTES {
            fetch(self.directory);
            fetch(entries);
        }
    }

    /// Returns the entries of a key's bucket.
    #[inline(always)]
    pub(super) fn bucket(&self, key: K) -> Range<u32> {
        let bucket = self.radix.of(key.hash());
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
    pub(super) fn equal(&self, key: K) -> &[Entry<K>] {
        let bucket = self.bucket(key);
        let bucket = &self.entries[bucket.start as usize..bucket.end as usize];
        let start = bucket.partition_point(|entry| { entry.key } < key);
        let len = bucket[start..].partition_point(|entry| { entry.key } == key);
        &bucket[start..start + len]
    }
}

/// Returns the number of bits for as many buckets as rows, or up to twice as many.
fn bucket_bits(rows: usize) -> u32 {
    rows.max(1).next_power_of_two().ilog2()
}

/// Fills a table with a counting sort by bucket. The directory first counts, then points after the
/// buckets, and at last to their starts.
fn fill<K: Key>(keys: &[K], first_row: u32, radix: Radix, entries: &mut [Entry<K>], directory: &mut [u32]) {
    // The memory is zero already: this brings it into the cache.
    if size_of_val(entries) <= PARTITION_BYTES {
        directory.fill(0);
        entries.fill(Entry { key: K::default(), row: 0 });
    }
    for key in keys {
        directory[radix.of(key.hash())] += 1;
    }
    let (mut end, mut longest) = (first_row, 0);
    for bucket in &mut *directory {
        longest = longest.max(*bucket);
        end += *bucket;
        *bucket = end;
    }
    for (row, &key) in keys.iter().enumerate().rev() {
        let place = &mut directory[radix.of(key.hash())];
        *place -= 1;
        entries[(*place - first_row) as usize] = Entry { key, row: first_row + row as u32 };
    }
    if longest as usize > LONG_BUCKET {
        for bucket in directory.windows(2).filter(|bucket| (bucket[1] - bucket[0]) as usize > LONG_BUCKET) {
            let bucket = (bucket[0] - first_row) as usize..(bucket[1] - first_row) as usize;
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
