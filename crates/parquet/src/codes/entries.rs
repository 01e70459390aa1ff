//! The values of a dictionary, each of which is there once.

use std::hash::BuildHasher;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::table::CodeTable;

/// The values of a dictionary, as the format writes them.
#[derive(Debug)]
pub(crate) struct Entries {
    /// The values one after the other: PLAIN.
    plain: Vec<u8>,
    /// The bytes of each value; `None` if they have their length before them.
    width: Option<usize>,
    /// The start of each value, if they have different lengths.
    starts: Vec<u32>,
    table: CodeTable,
    /// Values that have one hash in one process have others in the next.
    seed: u64,
}

impl Entries {
    /// Returns none, of values of `width` bytes, or of different lengths.
    pub fn new(width: Option<usize>) -> Self {
        let seed = std::hash::RandomState::new().hash_one(0);
        Self { plain: Vec::new(), width, starts: Vec::new(), table: CodeTable::default(), seed }
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the values one after the other, as the format writes them.
    pub fn plain(&self) -> &[u8] {
        &self.plain
    }

    /// Returns the value of a code.
    #[inline]
    pub fn value(&self, code: u32) -> &[u8] {
        let code = code as usize;
        match self.width {
            Some(width) => &self.plain[code * width..(code + 1) * width],
            None => {
                let end = self.starts.get(code + 1).map_or(self.plain.len(), |&start| start as usize);
                &self.plain[self.starts[code] as usize + 4..end]
            }
        }
    }

    /// Returns the hash of a value, by which it is looked up and added.
    #[inline]
    pub fn hash(&self, value: &[u8]) -> u32 {
        xxh3_64_with_seed(value, self.seed) as u32
    }

    /// Returns the code of a value.
    #[inline]
    pub fn find(&self, hash: u32, value: &[u8]) -> Option<u32> {
        self.table.find(hash, |code| self.value(code) == value)
    }

    /// Adds a value that is new, and returns its code.
    pub fn add(&mut self, hash: u32, value: &[u8]) -> u32 {
        if self.width.is_none() {
            self.starts.push(self.plain.len() as u32);
            self.plain.extend_from_slice(&(value.len() as u32).to_le_bytes());
        }
        self.plain.extend_from_slice(value);
        self.table.add(hash)
    }

    /// Returns the bytes that the values have with another one.
    pub fn plain_with(&self, value: &[u8]) -> usize {
        self.plain.len() + value.len() + if self.width.is_none() { 4 } else { 0 }
    }

    /// Returns the memory in use, in bytes.
    pub fn memory(&self) -> usize {
        self.plain.capacity() + self.starts.capacity() * size_of::<u32>() + self.table.memory()
    }
}
