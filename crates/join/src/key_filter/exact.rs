//! The hashes of all keys.

use crate::error::JoinError;

pub(super) const HASH_BYTES: usize = size_of::<u64>();

#[derive(Clone, Debug, Default)]
pub(super) struct Exact {
    /// In ascending order, each once, when the filter is complete.
    hashes: Vec<u64>,
    /// The place of the first hash with each value of the upper `bits` bits, and the end.
    starts: Vec<usize>,
    bits: u32,
}

impl Exact {
    pub(super) fn extend(&mut self, hashes: impl Iterator<Item = u64>) {
        self.hashes.extend(hashes);
    }

    /// Removes copies of a hash.
    pub(super) fn unite(&mut self) {
        self.hashes.sort_unstable();
        self.hashes.dedup();
    }

    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.hashes.len() * HASH_BYTES + self.starts.len() * size_of::<usize>()
    }

    /// Sorts the hashes, and makes a directory with an entry for each, about.
    pub(super) fn complete(mut self) -> Self {
        self.unite();
        self.bits = self.hashes.len().max(2).ilog2();
        let start = |upper: usize| self.hashes.partition_point(|&hash| hash >> (64 - self.bits) < upper as u64);
        self.starts = (0..=1 << self.bits).map(start).collect();
        self
    }

    /// Returns whether a complete filter has a hash.
    #[inline]
    pub(super) fn has(&self, hash: u64) -> bool {
        let upper = (hash >> (64 - self.bits)) as usize;
        let (start, end) = (self.starts[upper], self.starts[upper + 1]);
        self.hashes[start..end].contains(&hash)
    }

    pub(super) fn write(&self, first: usize, end: usize, out: &mut [u8]) -> (usize, usize) {
        let hashes = &self.hashes[first.min(end)..end];
        let out = out.as_chunks_mut().0;
        out.iter_mut().zip(hashes).for_each(|(bytes, hash)| *bytes = hash.to_le_bytes());
        let written = hashes.len().min(out.len());
        (written, written * HASH_BYTES)
    }

    pub(super) fn merge(&mut self, bytes: &[u8]) -> Result<(), JoinError> {
        let (hashes, []) = bytes.as_chunks() else {
            return Err(JoinError::Fragment { what: "it is not a part of this join's key filter" });
        };
        self.hashes.extend(hashes.iter().map(|&bytes| u64::from_le_bytes(bytes)));
        Ok(())
    }
}
