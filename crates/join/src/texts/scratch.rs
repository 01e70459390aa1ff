//! Memory to find the matches of one text, used again for the next.

use std::ops::Range;

use super::{
    distance::Pattern,
    index::PostingRange,
    segments::{next_hash, next_power},
};

/// Memory to find the matches of one text.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    /// The entries that may match, ascending, and each once.
    pub(super) candidates: Vec<u32>,
    /// The entries with the key of the text.
    pub(super) group: Range<u32>,
    pub(super) pattern: Pattern,
    /// The hashes to look up, and the largest number of different bits of sketches for each.
    pub(super) hashes: Vec<u64>,
    pub(super) bounds: Vec<u32>,
    /// Those of the hashes that may be in the index.
    pub(super) found: Vec<PostingRange>,
    /// The starts of segments.
    pub(super) starts: Vec<i32>,
    /// The hash of each prefix of the pattern, and the factors for hashes of all lengths.
    prefixes: Vec<u64>,
    powers: Vec<u64>,
    /// The tokens of a text.
    pub(super) tokens: TokenSet,
}

/// The tokens of a text of the probe side.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenSet {
    /// The tokens that the build side has, the rarest first.
    pub(super) ids: Vec<u32>,
    /// The number of other tokens.
    pub(super) others: usize,
    /// The other tokens.
    pub(super) unknown: Vec<Box<str>>,
    /// The least number of tokens to have in common with a set of each size, from the smallest one
    /// that can match on.
    pub(super) required: Vec<u32>,
    pub(super) smallest: usize,
    /// The places of characters.
    pub(super) bounds: Vec<usize>,
}

impl TokenSet {
    /// Returns the number of tokens.
    pub(super) fn len(&self) -> usize {
        self.ids.len() + self.others
    }
}

impl Scratch {
    /// Prepares [`hash_of`](Self::hash_of) for the pattern.
    pub(super) fn hash_prefixes(&mut self) {
        self.prefixes.clear();
        self.prefixes.push(0);
        let mut hash = 0;
        for &code in &self.pattern.codes {
            hash = next_hash(hash, code);
            self.prefixes.push(hash);
        }
        while self.powers.len() < self.prefixes.len() {
            let power = self.powers.last().map_or(1, |&power| next_power(power));
            self.powers.push(power);
        }
    }

    /// Returns the hash of a part of the pattern.
    #[inline]
    pub(super) fn hash_of(&self, start: usize, end: usize) -> u64 {
        self.prefixes[end].wrapping_sub(self.prefixes[start].wrapping_mul(self.powers[end - start]))
    }
}
