//! The texts of the build side for an edit distance.

use std::ops::Range;

use super::{
    alphabet::{Alphabet, Codes},
    column::Column,
    entries::Entries,
    index::{Index, Reference, mix},
    scheme::Schemes,
    scratch::Scratch,
    segments::{Scheme, next_hash, start},
};
use crate::{error::JoinError, pace::Pace};

/// Fewer texts with one key are compared one by one: that takes less time than lookups.
pub(super) const SMALL_GROUP: u32 = 256;
/// The entries of a scan between two looks at the sink.
const SCAN_ENTRIES: u32 = 1 << 16;

/// The distinct texts of the build side, with an index of their segments.
///
/// Takes one byte for each character (four if the side has more than 255 different ones), 12 bytes
/// for each text, and 13 bytes for each choice of segments that is indexed: 3 to 10 of them for
/// distances up to 3.
#[derive(Debug)]
pub(super) struct EditTexts {
    most: usize,
    alphabet: Alphabet,
    codes: Codes,
    /// The place in `codes` at which each text begins, and at which the last one ends.
    starts: Vec<u64>,
    sketches: Vec<u32>,
    schemes: Schemes,
    index: Index,
}

impl EditTexts {
    /// Indexes the texts of `entries`, which are ordered by key and length.
    pub(super) fn new(most: u32, column: &Column, entries: &Entries, threads: usize) -> Self {
        let (alphabet, codes, starts) = Alphabet::encode(column, entries, threads);
        let mut texts = Self {
            most: most as usize,
            alphabet,
            codes,
            starts,
            sketches: Vec::new(),
            schemes: Schemes::default(),
            index: Index::default(),
        };
        texts.sketches = (0..entries.len()).map(|entry| texts.with_codes(entry, &mut SketchOf)).collect();
        texts.schemes = Schemes::choose(&texts, entries, texts.most);
        let len = texts.schemes.postings;
        texts.index = Index::new(len, entries.len(), threads, |chunk, add| texts.add_postings(entries, chunk, add));
        texts
    }

    fn add_postings(&self, entries: &Entries, chunk: Range<u32>, add: &mut dyn FnMut(u64, Reference)) {
        let mut hashes = Vec::new();
        let mut group = entries.group_of(chunk.start);
        for entry in chunk {
            while entry >= entries.group(group).end {
                group += 1;
            }
            let Some(scheme) = self.schemes.with_length(self.length(entry)) else { continue };
            if entries.group(group).len() <= SMALL_GROUP as usize {
                continue;
            }
            self.hashes(entry, scheme, entries.key(group), &mut hashes);
            let posting = Reference { entry, note: self.sketches[entry as usize] };
            hashes.iter().for_each(|&hash| add(hash, posting));
        }
    }

    /// Replaces `hashes` with that of each choice of segments of an entry.
    pub(super) fn hashes(&self, entry: u32, scheme: &Scheme, key: u64, hashes: &mut Vec<u64>) {
        let length = self.length(entry);
        let segments = self.with_codes(entry, &mut SegmentsOf { count: scheme.segments });
        let seed = seed(length, key);
        hashes.clear();
        hashes.extend(scheme.choices.iter().enumerate().map(|(number, choice)| {
            let chosen = choice[..scheme.shared].iter();
            chosen.fold(seed.wrapping_add(number as u64), |hash, &segment| mix(hash, segments[segment as usize]))
        }));
    }

    /// Returns the number of characters of an entry.
    #[inline]
    pub(super) fn length(&self, entry: u32) -> usize {
        (self.starts[entry as usize + 1] - self.starts[entry as usize]) as usize
    }

    #[inline]
    fn with_codes<U: WithCodes>(&self, entry: u32, with: &mut U) -> U::Value {
        let range = self.starts[entry as usize] as usize..self.starts[entry as usize + 1] as usize;
        match &self.codes {
            Codes::Narrow(codes) => with.value(&codes[range]),
            Codes::Wide(codes) => with.value(&codes[range]),
        }
    }

    /// Replaces the candidates with the entries that may be within the distance of a text: ascending,
    /// and each once.
    pub(super) fn find(
        &self,
        entries: &Entries,
        (text, key): (&str, u64),
        scratch: &mut Scratch,
        pace: &mut Pace<'_>,
    ) -> Result<(), JoinError> {
        scratch.candidates.clear();
        let codes = text.chars().map(|character| self.alphabet.code(character));
        scratch.pattern.set(codes, self.alphabet.len());
        scratch.group = entries.with_key(key);
        let length = scratch.pattern.codes.len();
        let lengths = length.saturating_sub(self.most)..=length.saturating_add(self.most);
        let sketch = sketch(scratch.pattern.codes.iter().copied());
        if scratch.group.len() <= SMALL_GROUP as usize {
            return self.scan(lengths, sketch, 2 * self.most, scratch, pace);
        }
        scratch.hash_prefixes();
        scratch.hashes.clear();
        scratch.bounds.clear();
        for &(other, scheme) in self.schemes.with_lengths(lengths) {
            let bound = 2 * self.most - other.abs_diff(length);
            match scheme {
                None => self.scan(other..=other, sketch, bound, scratch, pace)?,
                Some(scheme) => self.hash_lookups(other, self.schemes.scheme(scheme), key, scratch),
            }
        }
        if scratch.hashes.is_empty() {
            return Ok(());
        }
        self.index.find(&scratch.hashes, &mut scratch.found);
        let mut postings_read = 4 * scratch.hashes.len();
        for &found in &scratch.found {
            let bound = scratch.bounds[found.number as usize];
            let postings = self.index.postings(found);
            postings_read += 16 + postings.len();
            let near = postings.filter(|posting| (posting.note ^ sketch).count_ones() <= bound);
            scratch.candidates.extend(near.map(|posting| posting.entry));
            if postings_read > SCAN_ENTRIES as usize {
                pace.spend(std::mem::take(&mut postings_read))?;
            }
        }
        scratch.candidates.sort_unstable();
        scratch.candidates.dedup();
        pace.spend(postings_read)
    }

    /// Adds the entries of some lengths that have the key and may be near to the candidates.
    fn scan(
        &self,
        lengths: std::ops::RangeInclusive<usize>,
        sketch: u32,
        bound: usize,
        scratch: &mut Scratch,
        pace: &mut Pace<'_>,
    ) -> Result<(), JoinError> {
        let mut rest = self.part(&scratch.group, |length| length < *lengths.start()).end
            ..self.part(&scratch.group, |length| length <= *lengths.end()).end;
        while !rest.is_empty() {
            let end = rest.end.min(rest.start.saturating_add(SCAN_ENTRIES));
            let sketches = self.sketches[rest.start as usize..end as usize].iter();
            let near = sketches.zip(rest.start..).filter(|&(other, _)| (other ^ sketch).count_ones() as usize <= bound);
            scratch.candidates.extend(near.map(|(_, entry)| entry));
            pace.spend((end - rest.start) as usize)?;
            rest.start = end;
        }
        Ok(())
    }

    /// Returns the first entries of a group, whose lengths are as they should be.
    fn part(&self, group: &Range<u32>, is_part: impl Fn(usize) -> bool) -> Range<u32> {
        let (mut low, mut high) = (group.start, group.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_part(self.length(middle)) { low = middle + 1 } else { high = middle }
        }
        group.start..low
    }

    /// Adds the hash of each lookup among indexed texts of a length.
    fn hash_lookups(&self, indexed: usize, scheme: &Scheme, key: u64, scratch: &mut Scratch) {
        let length = scratch.pattern.codes.len();
        let bound = (2 * self.most - indexed.abs_diff(length)) as u32;
        let seed = seed(indexed, key);
        scratch.starts.clear();
        scratch.starts.extend((0..=scheme.segments).map(|segment| start(indexed, segment, scheme.segments) as i32));
        'lookups: for lookup in &scheme.lookups[length + self.most - indexed] {
            let mut hash = seed.wrapping_add(u64::from(lookup.choice));
            for (&segment, &shift) in lookup.segments.iter().zip(&lookup.shifts).take(scheme.shared) {
                let begin = scratch.starts[segment as usize] + i32::from(shift);
                let end = scratch.starts[segment as usize + 1] + i32::from(shift);
                if begin < 0 || end > length as i32 {
                    continue 'lookups;
                }
                hash = mix(hash, scratch.hash_of(begin as usize, end as usize));
            }
            scratch.hashes.push(hash);
            scratch.bounds.push(bound);
        }
    }

    /// Returns whether an entry has the key of the text of the last [`find`](Self::find) and is within
    /// the distance.
    #[inline]
    pub(super) fn is_match(&self, entry: u32, scratch: &mut Scratch) -> bool {
        scratch.group.contains(&entry) && self.with_codes(entry, &mut IsWithin { scratch, most: self.most })
    }

    /// Returns the work of a comparison.
    #[inline]
    pub(super) fn comparison_work(&self, entry: u32, scratch: &Scratch) -> usize {
        let length = self.length(entry);
        if scratch.pattern.codes.len() <= 64 { 16 + 2 * length } else { 16 + length * self.most.min(length) }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let texts = self.alphabet.memory_bytes() + self.codes.memory_bytes();
        let numbers = 8 * self.starts.capacity() + 4 * self.sketches.capacity();
        texts + numbers + self.schemes.memory_bytes() + self.index.memory_bytes()
    }

    /// Returns the number of postings of the index.
    pub(super) fn postings(&self) -> usize {
        self.index.len()
    }
}

/// A function of codes of either width.
trait WithCodes {
    type Value;
    fn value<C: Copy + Into<u32>>(&mut self, codes: &[C]) -> Self::Value;
}

struct SketchOf;

impl WithCodes for SketchOf {
    type Value = u32;

    fn value<C: Copy + Into<u32>>(&mut self, codes: &[C]) -> u32 {
        sketch(codes.iter().map(|&code| code.into()))
    }
}

/// The hashes of segments.
struct SegmentsOf {
    count: usize,
}

impl WithCodes for SegmentsOf {
    type Value = [u64; 20];

    fn value<C: Copy + Into<u32>>(&mut self, codes: &[C]) -> [u64; 20] {
        let mut hashes = [0; 20];
        for (segment, hash) in hashes.iter_mut().enumerate().take(self.count) {
            let range = start(codes.len(), segment, self.count)..start(codes.len(), segment + 1, self.count);
            *hash = codes[range].iter().fold(0, |hash, &code| next_hash(hash, code.into()));
        }
        hashes
    }
}

struct IsWithin<'a> {
    scratch: &'a mut Scratch,
    most: usize,
}

impl WithCodes for IsWithin<'_> {
    type Value = bool;

    #[inline]
    fn value<C: Copy + Into<u32>>(&mut self, codes: &[C]) -> bool {
        self.scratch.pattern.is_within(codes, self.most)
    }
}

/// Returns one bit for each of 32 classes of characters: whether their number is odd. An insertion
/// or deletion changes one bit, a substitution at most two.
#[inline]
fn sketch(codes: impl Iterator<Item = u32>) -> u32 {
    codes.fold(0, |sketch, code| sketch ^ 1 << (code % 32))
}

fn seed(length: usize, key: u64) -> u64 {
    mix(key, length as u64)
}
