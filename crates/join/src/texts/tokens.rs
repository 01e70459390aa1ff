//! Tokens of texts as small numbers.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use super::{condition::Tokens, index::mix};

/// The tokens of the build side, each with a number.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    numbers: HashMap<Box<str>, u32, BuildHasherDefault<TokenHasher>>,
    bytes: usize,
}

impl Dictionary {
    /// Returns the number of a token, which is the next one if the token is new.
    pub(super) fn add(&mut self, token: &str) -> u32 {
        if let Some(&number) = self.numbers.get(token) {
            return number;
        }
        let number = self.numbers.len() as u32;
        self.bytes += token.len().next_multiple_of(8);
        self.numbers.insert(token.into(), number);
        number
    }

    #[inline]
    pub(super) fn number(&self, token: &str) -> Option<u32> {
        self.numbers.get(token).copied()
    }

    /// Replaces each number `n` by `numbers[n]`.
    pub(super) fn renumber(&mut self, numbers: &[u32]) {
        self.numbers.values_mut().for_each(|number| *number = numbers[*number as usize]);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes + self.numbers.capacity() * (size_of::<(Box<str>, u32)>() + 1)
    }
}

/// Calls `token` with each token of a text, as often as it occurs. `bounds` is memory to use.
pub(super) fn for_each_token(tokens: Tokens, text: &str, bounds: &mut Vec<usize>, mut token: impl FnMut(&str)) {
    let length = match tokens {
        Tokens::Words => return text.split_whitespace().for_each(token),
        Tokens::Grams(length) => length.max(1),
    };
    if text.is_empty() {
        return;
    }
    bounds.clear();
    bounds.extend(text.char_indices().map(|(place, _)| place));
    bounds.push(text.len());
    let characters = bounds.len() - 1;
    if characters <= length {
        return token(text);
    }
    bounds.iter().zip(&bounds[length..]).for_each(|(&start, &end)| token(&text[start..end]));
}

/// A hash of short texts, eight bytes at a time.
#[derive(Default)]
struct TokenHasher(u64);

impl Hasher for TokenHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.0 = mix(self.0, u64::from_le_bytes(word));
        }
    }

    /// The end of a text.
    #[inline]
    fn write_u8(&mut self, _: u8) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}
