//! Tables of the build side, one for each partition: its rows' keys and numbers in the order of
//! their buckets, and a directory of where each bucket begins. Rows of a bucket are neighbours,
//! also where a key comes very often.

use std::{mem::take, ops::Range};

use super::{
    memory::{Plain, Zeroed},
    radix::{PARTITION_BYTES, Radix},
};
use crate::{error::JoinError, key::Key, parallel};

/// Buckets of more entries are sorted by key, so that those of one key are found by bisection.
pub(super) const LONG_BUCKET: usize = 16;

/// Bytes of a cache line.
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
    /// Those of partition p are at the numbers of its rows.
    entries: Zeroed<Entry<K>>,
    /// Where the buckets' entries begin, and for each partition at last where they end.
    directory: Zeroed<u32>,
    /// Where each partition's directory begins, and at last the directory's length.
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

/// What one thread fills at a time.
struct Task<'a, K: Copy> {
    rows: Range<usize>,
    entries: &'a mut [Entry<K>],
    directory: &'a mut [u32],
}

impl<K: Key> Tables<K>
where
    Entry<K>: Plain,
{
    /// Makes the tables for the keys of clustered rows. Partition p has those from `starts[p]` to
    /// `starts[p + 1]`; there are 2^`bits` partitions. O(rows * log(rows)) at worst, with almost
    /// all keys in one bucket; else O(rows).
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

    /// The table of a partition.
    #[inline]
    pub(super) fn partition(&self, partition: usize) -> Table<'_, K> {
        let directory = &self.directory.as_slice()[self.directories[partition]..self.directories[partition + 1]];
        let bits = (directory.len() - 1).ilog2();
        Table { entries: self.entries.as_slice(), directory, radix: Radix::new(self.bits, bits) }
    }
}

impl<K: Key> Table<'_, K> {
    /// Brings the table into the cache, where it fits and so many rows are to be looked up that
    /// most of it is needed: to read it front to back is much faster than to miss its lines one
    /// by one.
    pub(super) fn fetch(&self, lookups: usize) {
        let [first, .., last] = self.directory else { return };
        let entries = &self.entries[*first as usize..*last as usize];
        if entries.len() <= lookups.saturating_mul(4) && size_of_val(entries) <= PARTITION_BYTES {
            fetch(self.directory);
            fetch(entries);
        }
    }

    /// The entries of a key's bucket.
    #[inline(always)]
    pub(super) fn bucket(&self, key: K) -> Range<u32> {
        let bucket = self.radix.of(key.hash());
        // SAFETY: the directory has a place more than there are buckets by this radix.
        unsafe { *self.directory.get_unchecked(bucket)..*self.directory.get_unchecked(bucket + 1) }
    }

    /// The entry at this place.
    ///
    /// # Safety
    /// A bucket gave it.
    #[inline(always)]
    pub(super) unsafe fn entry(&self, at: u32) -> Entry<K> {
        // SAFETY: the caller's promise.
        unsafe { *self.entries.get_unchecked(at as usize) }
    }

    /// The entries of a key, which is in a long bucket.
    pub(super) fn equal(&self, key: K) -> &[Entry<K>] {
        let bucket = self.bucket(key);
        let bucket = &self.entries[bucket.start as usize..bucket.end as usize];
        let start = bucket.partition_point(|entry| { entry.key } < key);
        let len = bucket[start..].partition_point(|entry| { entry.key } == key);
        &bucket[start..start + len]
    }
}

/// As many buckets as rows, or up to twice as many.
fn bucket_bits(rows: usize) -> u32 {
    rows.max(1).next_power_of_two().ilog2()
}

/// A counting sort by bucket; the directory counts, then points behind the buckets, then to where
/// they begin.
fn fill<K: Key>(keys: &[K], first_row: u32, radix: Radix, entries: &mut [Entry<K>], directory: &mut [u32]) {
    // Zeros are there already: this is to have them in the cache.
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
