//! The conditions of joins of texts.

use super::tokens::{Dictionary, for_each_token};

/// The condition of a join of texts. A null is not like anything.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TextCondition {
    /// Texts are alike if one is made from the other by few edits.
    Distance(EditDistance),
    /// Texts are alike if they have much in common as sets of tokens.
    Similarity(TokenSimilarity),
}

/// The condition that the Levenshtein distance of two texts is small: the least number of insertions,
/// deletions and substitutions of Unicode scalar values that make one text from the other. There is
/// no normalisation: a letter with a combining accent is two scalar values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EditDistance {
    /// The largest distance.
    pub most: u32,
}

/// The condition that two texts are similar as sets of tokens. A token that occurs twice in a text
/// counts once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenSimilarity {
    /// The tokens of a text.
    pub tokens: Tokens,
    /// The measure of similarity.
    pub measure: SetMeasure,
    /// The least similarity. All pairs are alike if it is 0 or less, and none if it is more than 1
    /// or not a number.
    pub least: f64,
}

/// The tokens of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tokens {
    /// All runs of this many Unicode scalar values, without any padding. A shorter text is its own
    /// only token, and an empty one has none. 0 is taken as 1.
    Grams(usize),
    /// The longest runs without whitespace, as [`str::split_whitespace`] returns them.
    Words,
}

/// A measure of the similarity of two sets, from 0 to 1. Two empty sets have similarity 1, and an
/// empty set and another one 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetMeasure {
    /// The common tokens divided by the tokens of either set.
    Jaccard,
    /// The common tokens divided by the square root of the product of both numbers of tokens.
    Cosine,
    /// Twice the common tokens divided by the sum of both numbers of tokens.
    Dice,
    /// The common tokens divided by the tokens of the smaller set.
    Overlap,
}

impl SetMeasure {
    /// Returns the similarity of sets of `left` and `right` tokens that have `common` tokens in common:
    /// one division of numbers of 64 bits.
    ///
    /// ```
    /// use annulus_join::SetMeasure;
    ///
    /// assert_eq!(SetMeasure::Jaccard.similarity(2, 3, 3), 0.5);
    /// assert_eq!(SetMeasure::Overlap.similarity(2, 2, 9), 1.0);
    /// assert_eq!(SetMeasure::Cosine.similarity(0, 0, 0), 1.0);
    /// ```
    #[inline]
    pub fn similarity(self, common: usize, left: usize, right: usize) -> f64 {
        if left == 0 || right == 0 {
            return if left == right { 1.0 } else { 0.0 };
        }
        let (common, left, right) = (common as f64, left as f64, right as f64);
        match self {
            Self::Jaccard => common / (left + right - common),
            Self::Cosine => common / (left * right).sqrt(),
            Self::Dice => 2.0 * common / (left + right),
            Self::Overlap => common / left.min(right),
        }
    }

    /// Returns about the least number of common tokens for a similarity.
    fn estimate(self, least: f64, left: usize, right: usize) -> f64 {
        let (left, right) = (left as f64, right as f64);
        match self {
            Self::Jaccard => least * (left + right) / (1.0 + least),
            Self::Cosine => least * (left * right).sqrt(),
            Self::Dice => least * (left + right) / 2.0,
            Self::Overlap => least * left.min(right),
        }
    }
}

impl TokenSimilarity {
    /// Returns whether sets of `left` and `right` tokens with this many in common are similar.
    #[inline]
    pub(super) fn is_similar(&self, common: usize, left: usize, right: usize) -> bool {
        self.measure.similarity(common, left, right) >= self.least
    }

    /// Returns the least number of common tokens with which two sets with tokens are similar, or `None`
    /// if they cannot be. Similarity grows with that number.
    pub(super) fn required(&self, left: usize, right: usize) -> Option<usize> {
        let most = left.min(right);
        if !self.is_similar(most, left, right) {
            return None;
        }
        let mut required = (self.measure.estimate(self.least, left, right).max(0.0) as usize).min(most);
        while required > 0 && self.is_similar(required - 1, left, right) {
            required -= 1;
        }
        while !self.is_similar(required, left, right) {
            required += 1;
        }
        Some(required)
    }

    /// Returns the smallest number of tokens of a set that is similar to some set with `size` tokens. The
    /// similarity of a set to a part of it grows with the part.
    pub(super) fn smallest(&self, size: usize) -> usize {
        let (mut low, mut high) = (1, size);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.is_similar(middle, size, middle) { high = middle } else { low = middle + 1 }
        }
        low
    }
}

impl TokenSimilarity {
    /// Returns the similarity of two texts by these tokens and this measure. O(length of both).
    ///
    /// ```
    /// use annulus_join::{SetMeasure, TokenSimilarity, Tokens};
    ///
    /// let words = TokenSimilarity { tokens: Tokens::Words, measure: SetMeasure::Jaccard, least: 0.5 };
    /// assert_eq!(words.of_texts("the cat", "the dog"), 1.0 / 3.0);
    /// ```
    pub fn of_texts(&self, left: &str, right: &str) -> f64 {
        let (mut bounds, mut dictionary) = (Vec::new(), Dictionary::default());
        let [left, right] = [left, right].map(|text| {
            let mut numbers = Vec::new();
            for_each_token(self.tokens, text, &mut bounds, |token| numbers.push(dictionary.add(token)));
            numbers.sort_unstable();
            numbers.dedup();
            numbers
        });
        let common = left.iter().filter(|number| right.binary_search(number).is_ok()).count();
        self.measure.similarity(common, left.len(), right.len())
    }
}
