//! Characters as small numbers.

use std::collections::HashMap;

use super::{column::Column, entries::Entries};
use crate::parallel;

/// The code of characters that no text of the build side has.
const UNKNOWN: u32 = 0;
const CHUNK_ENTRIES: usize = 1 << 14;

/// The codes of the build side's characters, from 1, the most frequent character first.
///
/// All other characters have one code, which no text of the build side has. So the codes of a text
/// of the probe side are equal to codes of the build side where the characters are.
#[derive(Debug)]
pub(super) struct Alphabet {
    ascii: [u32; 128],
    others: HashMap<char, u32>,
    /// The number of codes.
    len: usize,
}

/// The codes of the build side's texts, one after the other: one byte each if there are at most 255
/// characters, else four.
#[derive(Debug)]
pub(super) enum Codes {
    Narrow(Vec<u8>),
    Wide(Vec<u32>),
}

/// The number of times that characters occur.
struct Counts {
    ascii: [u64; 128],
    others: HashMap<char, u64>,
}

impl Default for Counts {
    fn default() -> Self {
        Self { ascii: [0; 128], others: HashMap::new() }
    }
}

impl Counts {
    fn add(&mut self, text: &str) {
        for character in text.chars() {
            match self.ascii.get_mut(character as usize) {
                Some(count) => *count += 1,
                None => *self.others.entry(character).or_default() += 1,
            }
        }
    }

    fn merge(mut self, other: Self) -> Self {
        self.ascii.iter_mut().zip(other.ascii).for_each(|(count, other)| *count += other);
        for (character, count) in other.others {
            *self.others.entry(character).or_default() += count;
        }
        self
    }
}

/// Returns the text of each of some entries.
fn texts<'a>(column: &'a Column, entries: &'a Entries, chunk: &[u32]) -> impl Iterator<Item = &'a str> {
    let rows = chunk.iter().filter_map(|&entry| entries.rows(entry).first());
    rows.filter_map(|&row| column.text(row)).collect::<Vec<_>>().into_iter()
}

impl Alphabet {
    /// Returns the alphabet of the entries, and their codes with the place at which each begins and
    /// the last one ends.
    pub(super) fn encode(column: &Column, entries: &Entries, threads: usize) -> (Self, Codes, Vec<u64>) {
        let numbers: Vec<u32> = (0..entries.len()).collect();
        let chunks = || numbers.chunks(CHUNK_ENTRIES).collect::<Vec<_>>();
        let counts = parallel::map(threads, chunks(), |chunk| {
            let mut counts = Counts::default();
            texts(column, entries, chunk).for_each(|text| counts.add(text));
            counts
        });
        let alphabet = Self::from_counts(counts.into_iter().fold(Counts::default(), Counts::merge));
        let parts = parallel::map(threads, chunks(), |chunk| {
            let (mut codes, mut lengths) = (Vec::new(), Vec::with_capacity(chunk.len()));
            for text in texts(column, entries, chunk) {
                let before = codes.len();
                codes.extend(text.chars().map(|character| alphabet.code(character)));
                lengths.push((codes.len() - before) as u64);
            }
            let narrow = alphabet.len() <= 256;
            let codes =
                if narrow { Codes::Narrow(codes.iter().map(|&code| code as u8).collect()) } else { Codes::Wide(codes) };
            (codes, lengths)
        });
        let mut starts = Vec::with_capacity(numbers.len() + 1);
        starts.push(0);
        let mut end = 0;
        for length in parts.iter().flat_map(|(_, lengths)| lengths) {
            end += length;
            starts.push(end);
        }
        let mut codes = if alphabet.len() <= 256 {
            Codes::Narrow(Vec::with_capacity(end as usize))
        } else {
            Codes::Wide(Vec::with_capacity(end as usize))
        };
        for (part, _) in parts {
            match (&mut codes, part) {
                (Codes::Narrow(codes), Codes::Narrow(part)) => codes.extend(part),
                (Codes::Wide(codes), Codes::Wide(part)) => codes.extend(part),
                _ => {}
            }
        }
        (alphabet, codes, starts)
    }

    fn from_counts(counts: Counts) -> Self {
        let ascii = (0..128_u8).map(char::from).zip(counts.ascii);
        let mut characters: Vec<_> = ascii.filter(|&(_, count)| count > 0).chain(counts.others).collect();
        characters.sort_unstable_by_key(|&(character, count)| (std::cmp::Reverse(count), character));
        let mut alphabet = Self { ascii: [UNKNOWN; 128], others: HashMap::new(), len: characters.len() + 1 };
        for ((character, _), code) in characters.into_iter().zip(UNKNOWN + 1..) {
            match alphabet.ascii.get_mut(character as usize) {
                Some(slot) => *slot = code,
                None => {
                    alphabet.others.insert(character, code);
                }
            }
        }
        alphabet
    }

    /// Returns the number of codes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn code(&self, character: char) -> u32 {
        match self.ascii.get(character as usize) {
            Some(&code) => code,
            None => self.others.get(&character).copied().unwrap_or(UNKNOWN),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.others.capacity() * (size_of::<(char, u32)>() + 1)
    }
}

impl Codes {
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Narrow(codes) => codes.capacity(),
            Self::Wide(codes) => 4 * codes.capacity(),
        }
    }
}
