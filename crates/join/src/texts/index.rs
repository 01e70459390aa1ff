//! A multimap from hashes to entries.

use std::ops::Range;

use crate::parallel;

/// The postings of a bucket, on average.
const BUCKET_POSTINGS: u64 = 2;
/// The entries that a thread takes at a time.
const CHUNK_ENTRIES: u32 = 1 << 15;
/// The buckets that a thread fills at a time. They stay in its cache meanwhile.
const PART_BUCKETS: u64 = 1 << 14;

/// A multimap from 64-bit hashes to postings. A lookup also finds postings of other hashes.
///
/// Hashes are divided into buckets by their upper bits. A bucket has 16 bits, one of which is set
/// for each posting: most lookups of absent hashes read nothing else. Takes 13 bytes for each
/// posting.
#[derive(Debug, Default)]
pub(super) struct Index {
    bits: Vec<u16>,
    /// The end of each bucket in `postings`.
    ends: Vec<u64>,
    postings: Vec<u64>,
}

/// An entry, and a number beside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    pub(super) entry: u32,
    pub(super) note: u32,
}

/// The postings of a hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct PostingRange {
    /// The number of the hash among those looked up.
    pub(super) number: u32,
    start: usize,
    end: usize,
}

impl Index {
    /// Builds an index of `len` postings. `postings` calls its last argument with the hashes and the
    /// postings of some of the `entries`. Takes 16 bytes for each posting meanwhile.
    pub(super) fn new(
        len: u64,
        entries: u32,
        threads: usize,
        postings: impl Fn(Range<u32>, &mut dyn FnMut(u64, Reference)) + Sync,
    ) -> Self {
        if len == 0 {
            return Self::default();
        }
        let buckets = len.div_ceil(BUCKET_POSTINGS);
        let parts = buckets.div_ceil(PART_BUCKETS) as usize;
        let starts = (0..entries).step_by(CHUNK_ENTRIES as usize);
        let chunks = starts.map(|start| start..entries.min(start.saturating_add(CHUNK_ENTRIES))).collect();
        let chunks: Vec<Chunk> = parallel::map(threads, chunks, |chunk| {
            let mut items = Vec::new();
            postings(chunk, &mut |hash, posting| items.push((hash, posting)));
            Chunk::new(&items, parts, buckets)
        });
        let mut index = Self {
            bits: vec![0; buckets as usize],
            ends: vec![0; buckets as usize],
            postings: vec![0; chunks.iter().map(|chunk| chunk.items.len()).sum()],
        };
        let (mut rest, mut start) = (&mut index.postings[..], 0);
        let mut work = Vec::with_capacity(parts);
        let slots = index.bits.chunks_mut(PART_BUCKETS as usize).zip(index.ends.chunks_mut(PART_BUCKETS as usize));
        for (number, (bits, ends)) in slots.enumerate() {
            let len = chunks.iter().map(|chunk| chunk.part(number).len()).sum();
            let (postings, after) = rest.split_at_mut(len);
            rest = after;
            work.push((number, start, bits, ends, postings));
            start += len as u64;
        }
        parallel::map(threads, work, |(number, start, bits, ends, postings)| {
            fill_part(chunks.iter().flat_map(|chunk| chunk.part(number)), start, bits, ends, postings);
        });
        index
    }

    /// Replaces `found` with the numbers of those hashes that may have postings, with the ranges of
    /// these.
    #[inline]
    pub(super) fn find(&self, hashes: &[u64], found: &mut Vec<PostingRange>) {
        found.clear();
        let buckets = self.bits.len() as u64;
        if buckets == 0 {
            return;
        }
        found.resize(hashes.len(), PostingRange { number: 0, start: 0, end: 0 });
        let mut len = 0;
        for (number, &hash) in hashes.iter().enumerate() {
            let (bucket, bit) = bucket(hash, buckets);
            found[len] = PostingRange { number: number as u32, start: bucket, end: 0 };
            // Without a branch: it would be mispredicted, and the next bits be read later.
            len += usize::from(self.bits[bucket] & bit != 0);
        }
        found.truncate(len);
        // Apart, so that the memory is read at once for many.
        for found in found {
            let bucket = found.start;
            found.start = if bucket == 0 { 0 } else { self.ends[bucket - 1] as usize };
            found.end = self.ends[bucket] as usize;
        }
    }

    /// Returns the postings that [`find`](Self::find) has found.
    #[inline]
    pub(super) fn postings(&self, found: PostingRange) -> impl ExactSizeIterator<Item = Reference> + '_ {
        let postings = &self.postings[found.start..found.end];
        postings.iter().map(|&packed| Reference { entry: packed as u32, note: (packed >> 32) as u32 })
    }

    /// Returns the number of postings.
    pub(super) fn len(&self) -> usize {
        self.postings.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        2 * self.bits.capacity() + 8 * (self.ends.capacity() + self.postings.capacity())
    }
}

/// The postings of some entries, ordered by part.
struct Chunk {
    items: Vec<(u64, u64)>,
    /// The end of each part.
    ends: Vec<usize>,
}

impl Chunk {
    fn new(postings: &[(u64, Reference)], parts: usize, buckets: u64) -> Self {
        let part = |hash: u64| bucket(hash, buckets).0 / PART_BUCKETS as usize;
        let mut ends = vec![0; parts];
        postings.iter().for_each(|&(hash, _)| ends[part(hash)] += 1);
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        let mut items = vec![(0, 0); postings.len()];
        for &(hash, posting) in postings {
            let end = &mut ends[part(hash)];
            let place = place(hash, buckets) % (16 * PART_BUCKETS);
            items[*end] = (place, u64::from(posting.note) << 32 | u64::from(posting.entry));
            *end += 1;
        }
        Self { items, ends }
    }

    fn part(&self, number: usize) -> &[(u64, u64)] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.items[start..self.ends[number]]
    }
}

/// Fills a part of an index, whose postings begin at `start`.
fn fill_part<'a>(
    items: impl Iterator<Item = &'a (u64, u64)> + Clone,
    start: u64,
    bits: &mut [u16],
    ends: &mut [u64],
    postings: &mut [u64],
) {
    for &(place, _) in items.clone() {
        bits[(place / 16) as usize] |= 1 << (place % 16);
        ends[(place / 16) as usize] += 1;
    }
    let mut next = start;
    for end in &mut *ends {
        next += std::mem::replace(end, next);
    }
    for &(place, posting) in items {
        let end = &mut ends[(place / 16) as usize];
        postings[(*end - start) as usize] = posting;
        *end += 1;
    }
}

/// Returns the place of a hash among 16 places for each bucket.
#[inline]
fn place(hash: u64, buckets: u64) -> u64 {
    ((u128::from(hash) * u128::from(16 * buckets)) >> 64) as u64
}

/// Returns the bucket of a hash, and its bit there.
#[inline]
fn bucket(hash: u64, buckets: u64) -> (usize, u16) {
    let place = place(hash, buckets);
    ((place / 16) as usize, 1 << (place % 16))
}

/// Mixes a number into a hash (a step of MurmurHash3).
#[inline]
pub(super) fn mix(hash: u64, number: u64) -> u64 {
    let mixed = (hash.rotate_left(31) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 32).wrapping_mul(0xC4CE_B9FE_1A85_EC53)
}
