//! The texts of the build side as sets of tokens.
//!
//! Sets that have much in common also have one of their rarest tokens in common. So an index of the
//! first tokens of each set, the rarest first, finds all sets that are similar to another one
//! (Bayardo, Ma, Srikant, "Scaling Up All Pairs Similarity Search", WWW 2007). The sizes of sets, and
//! what follows the first common token in both, exclude most others (Xiao, Wang, Lin, Yu, "Efficient
//! Similarity Joins for Near Duplicate Detection", WWW 2008).

use std::{cmp::Reverse, ops::Range};

use super::{
    column::Column,
    condition::TokenSimilarity,
    entries::Entries,
    index::{Index, Reference, mix},
    scratch::{Scratch, TokenSet},
    tokens::{Dictionary, for_each_token},
};
use crate::{error::JoinError, pace::Pace};

/// Fewer sets with one key are compared one by one.
const SMALL_GROUP: usize = 32;
/// Sizes and positions from this one on are not told apart.
const LARGE: u32 = 0xFFFF;
/// The sizes of sets for which a probe computes the least number of common tokens in advance.
const MOST_SIZES: usize = 256;
/// The work between two looks at the sink while candidates are collected.
const WORK: usize = 1 << 16;

/// The distinct texts of the build side as sets of tokens, with an index of their first tokens.
///
/// Takes four bytes for each token of a set and 8 for each set, 13 bytes for each token in the index,
/// and for each different token its bytes and about 30 more.
#[derive(Debug)]
pub(super) struct SetTexts {
    condition: TokenSimilarity,
    dictionary: Dictionary,
    /// The tokens of each set, ascending: the rarest first.
    ids: Vec<u32>,
    starts: Vec<u64>,
    index: Index,
}

impl SetTexts {
    /// Indexes the texts of `entries`, and orders these by key and number of tokens.
    pub(super) fn new(condition: TokenSimilarity, column: &Column, entries: &mut Entries, threads: usize) -> Self {
        let mut dictionary = Dictionary::default();
        let (ids, starts) = numbered_sets(&condition, column, entries, &mut dictionary);
        let size = |entry: u32| starts[entry as usize + 1] - starts[entry as usize];
        let mut order: Vec<u32> = (0..entries.len()).collect();
        for group in (0..entries.groups()).map(|group| entries.group(group)) {
            order[group.start as usize..group.end as usize].sort_by_key(|&entry| size(entry));
        }
        let mut ordered = Vec::with_capacity(ids.len());
        let mut ordered_starts = Vec::with_capacity(starts.len());
        ordered_starts.push(0);
        for &entry in &order {
            ordered.extend_from_slice(&ids[starts[entry as usize] as usize..starts[entry as usize + 1] as usize]);
            ordered_starts.push(ordered.len() as u64);
        }
        drop((ids, starts));
        entries.reorder(&order);
        let mut texts = Self { condition, dictionary, ids: ordered, starts: ordered_starts, index: Index::default() };
        if condition.least > 0.0 && condition.least <= 1.0 {
            let indexed = (0..entries.groups()).map(|group| entries.group(group)).filter(is_large);
            let len = indexed.flatten().map(|entry| texts.prefix(texts.set(entry).len()) as u64).sum();
            texts.index = Index::new(len, entries.len(), threads, |chunk, add| texts.add_postings(entries, chunk, add));
        }
        texts
    }

    fn add_postings(&self, entries: &Entries, chunk: Range<u32>, add: &mut dyn FnMut(u64, Reference)) {
        let mut group = entries.group_of(chunk.start);
        for entry in chunk {
            while entry >= entries.group(group).end {
                group += 1;
            }
            if !is_large(&entries.group(group)) {
                continue;
            }
            let (set, key) = (self.set(entry), entries.key(group));
            let size = (set.len() as u32).min(LARGE) << 16;
            for (position, &id) in set[..self.prefix(set.len())].iter().enumerate() {
                let note = size | (position as u32).min(LARGE);
                add(mix(key, u64::from(id)), Reference { entry, note });
            }
        }
    }

    /// Returns the number of the rarest tokens of a set of which at least one is in each similar set.
    fn prefix(&self, size: usize) -> usize {
        let smallest = self.condition.smallest(size);
        if size == 0 { 0 } else { size + 1 - self.condition.required(size, smallest).unwrap_or(size).max(1) }
    }

    #[inline]
    fn set(&self, entry: u32) -> &[u32] {
        &self.ids[self.starts[entry as usize] as usize..self.starts[entry as usize + 1] as usize]
    }

    /// Replaces the candidates with the entries that may be similar to a text: ascending, and each once.
    pub(super) fn find(
        &self,
        entries: &Entries,
        (text, key): (&str, u64),
        scratch: &mut Scratch,
        pace: &mut Pace<'_>,
    ) -> Result<(), JoinError> {
        scratch.candidates.clear();
        scratch.group = entries.with_key(key);
        if self.condition.least.is_nan() || self.condition.least > 1.0 {
            return Ok(());
        }
        let group = scratch.group.clone();
        self.read_tokens(text, &mut scratch.tokens);
        if self.condition.least <= 0.0 || !is_large(&group) {
            scratch.candidates.extend(group);
            return pace.spend(scratch.candidates.len());
        }
        if scratch.tokens.len() == 0 {
            scratch.candidates.extend(group.take_while(|&entry| self.set(entry).is_empty()));
            return pace.spend(scratch.candidates.len());
        }
        self.collect(key, scratch, pace)
    }

    /// Collects the candidates by the rarest tokens of a set that is not empty.
    fn collect(&self, key: u64, scratch: &mut Scratch, pace: &mut Pace<'_>) -> Result<(), JoinError> {
        let tokens = &scratch.tokens;
        // Tokens that the build side does not have are the rarest.
        let prefix = self.prefix(tokens.len()).saturating_sub(tokens.others).min(tokens.ids.len());
        scratch.hashes.clear();
        scratch.hashes.extend(tokens.ids[..prefix].iter().map(|&id| mix(key, u64::from(id))));
        self.index.find(&scratch.hashes, &mut scratch.found);
        let mut work = 8 * prefix;
        for &found in &scratch.found {
            let postings = self.index.postings(found);
            let after = tokens.len() - tokens.others - found.number as usize;
            work += 16 + 2 * postings.len();
            let near = postings.filter(|posting| self.may_match(tokens, after, posting.note));
            scratch.candidates.extend(near.map(|posting| posting.entry));
            if work > WORK {
                pace.spend(std::mem::take(&mut work))?;
            }
        }
        scratch.candidates.sort_unstable();
        scratch.candidates.dedup();
        pace.spend(work)
    }

    /// Returns whether a set may be similar whose first common token has a note, and `after` tokens
    /// including that one are left.
    #[inline]
    fn may_match(&self, tokens: &TokenSet, after: usize, note: u32) -> bool {
        let (size, position) = (note >> 16, note & LARGE);
        if size == LARGE {
            return true;
        }
        let common = after.min((size - position.min(size)) as usize);
        self.required(tokens, size as usize).is_some_and(|required| common >= required)
    }

    /// Returns the least number of common tokens with a set of a size.
    #[inline]
    fn required(&self, tokens: &TokenSet, size: usize) -> Option<usize> {
        match tokens.required.get(size.checked_sub(tokens.smallest)?) {
            Some(&required) => Some(required as usize),
            None if tokens.required.len() < MOST_SIZES => None,
            None => self.condition.required(tokens.len(), size),
        }
    }

    fn read_tokens(&self, text: &str, set: &mut TokenSet) {
        let TokenSet { ids, others, unknown, bounds, .. } = set;
        ids.clear();
        unknown.clear();
        for_each_token(self.condition.tokens, text, bounds, |token| match self.dictionary.number(token) {
            Some(id) => ids.push(id),
            None => unknown.push(token.into()),
        });
        ids.sort_unstable();
        ids.dedup();
        unknown.sort_unstable();
        unknown.dedup();
        *others = unknown.len();
        let size = set.len();
        set.smallest = self.condition.smallest(size);
        set.required.clear();
        if size > 0 {
            let required = (set.smallest..).map_while(|other| self.condition.required(size, other));
            set.required.extend(required.take(MOST_SIZES).map(|required| required as u32));
        }
    }

    /// Returns whether an entry has the key of the text of the last [`find`](Self::find) and is similar.
    pub(super) fn is_match(&self, entry: u32, scratch: &Scratch) -> bool {
        if !scratch.group.contains(&entry) {
            return false;
        }
        let (set, tokens) = (self.set(entry), &scratch.tokens);
        if self.condition.least <= 0.0 || set.is_empty() || tokens.len() == 0 {
            return self.condition.is_similar(0, set.len(), tokens.len());
        }
        self.required(tokens, set.len()).is_some_and(|required| has_common(set, &tokens.ids, required))
    }

    /// Returns the work of a comparison.
    pub(super) fn comparison_work(&self, entry: u32, scratch: &Scratch) -> usize {
        16 + 2 * (self.set(entry).len() + scratch.tokens.ids.len())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let sets = 4 * self.ids.capacity() + 8 * self.starts.capacity();
        self.dictionary.memory_bytes() + sets + self.index.memory_bytes()
    }

    /// Returns the number of postings of the index.
    pub(super) fn postings(&self) -> usize {
        self.index.len()
    }
}

fn is_large(group: &Range<u32>) -> bool {
    group.len() > SMALL_GROUP
}

/// Returns the tokens of each entry, numbered from the rarest to the most frequent, ascending, and the
/// place at which each set begins and the last one ends.
fn numbered_sets(
    condition: &TokenSimilarity,
    column: &Column,
    entries: &Entries,
    dictionary: &mut Dictionary,
) -> (Vec<u32>, Vec<u64>) {
    let (mut ids, mut starts) = (Vec::new(), Vec::with_capacity(entries.len() as usize + 1));
    let (mut set, mut bounds, mut counts) = (Vec::new(), Vec::new(), Vec::<u32>::new());
    starts.push(0);
    for entry in 0..entries.len() {
        set.clear();
        let text = entries.rows(entry).first().and_then(|&row| column.text(row)).unwrap_or_default();
        for_each_token(condition.tokens, text, &mut bounds, |token| set.push(dictionary.add(token)));
        set.sort_unstable();
        set.dedup();
        for &id in &set {
            match counts.get_mut(id as usize) {
                Some(count) => *count += 1,
                // Numbers are given in turn, but those of a set are sorted here.
                None => counts.resize(id as usize + 1, 1),
            }
        }
        ids.extend_from_slice(&set);
        starts.push(ids.len() as u64);
    }
    let mut by_count: Vec<u32> = (0..counts.len() as u32).collect();
    by_count.sort_unstable_by_key(|&id| (counts[id as usize], Reverse(id)));
    let mut numbers = vec![0; counts.len()];
    by_count.iter().zip(0..).for_each(|(&id, number)| numbers[id as usize] = number);
    dictionary.renumber(&numbers);
    for part in starts.windows(2) {
        let set = &mut ids[part[0] as usize..part[1] as usize];
        set.iter_mut().for_each(|id| *id = numbers[*id as usize]);
        set.sort_unstable();
    }
    (ids, starts)
}

/// Returns whether two ascending sets have at least this many numbers in common.
fn has_common(mut left: &[u32], mut right: &[u32], mut required: usize) -> bool {
    while required > 0 {
        if left.len().min(right.len()) < required {
            return false;
        }
        let (a, b) = (left[0], right[0]);
        left = &left[usize::from(a <= b)..];
        right = &right[usize::from(b <= a)..];
        required -= usize::from(a == b);
    }
    true
}
