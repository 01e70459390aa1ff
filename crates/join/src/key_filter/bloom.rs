//! A Bloom filter of blocks: Putze, Sanders and Singler, *Cache-, Hash- and Space-Efficient Bloom
//! Filters* (2007), with the block of Apache Parquet's split-block filters: eight words of 32 bits,
//! in each of which a key sets one bit. A look-up reads one block.

use crate::error::JoinError;

const WORDS: usize = 8;
pub(super) const BLOCK_BYTES: usize = WORDS * size_of::<u32>();
/// The bytes before the blocks of a part: the number of the first one.
const HEADING: usize = size_of::<u64>();

/// Odd factors, one for each word (from the Apache Parquet format's specification).
const SALTS: [u32; WORDS] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

#[derive(Clone, Debug)]
pub(super) struct Bloom {
    blocks: Vec<[u32; WORDS]>,
}

impl Bloom {
    pub(super) fn new(blocks: u32) -> Self {
        Self { blocks: vec![[0; WORDS]; blocks.max(1) as usize] }
    }

    pub(super) fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    #[inline]
    pub(super) fn insert(&mut self, hash: u64) {
        let block = self.block(hash);
        self.blocks[block].iter_mut().zip(mask(hash)).for_each(|(word, bit)| *word |= bit);
    }

    #[inline]
    pub(super) fn may_have(&self, hash: u64) -> bool {
        let block = &self.blocks[self.block(hash)];
        block.iter().zip(mask(hash)).fold(true, |all, (word, bit)| all & (word & bit != 0))
    }

    /// Returns the block of a hash, from its upper half. The bits are taken from its lower half.
    #[inline]
    fn block(&self, hash: u64) -> usize {
        (((hash >> 32) * self.blocks.len() as u64) >> 32) as usize
    }

    pub(super) fn write(&self, first: usize, end: usize, out: &mut [u8]) -> (usize, usize) {
        let fits = out.len().saturating_sub(HEADING) / BLOCK_BYTES;
        let blocks = fits.min(end.saturating_sub(first));
        if blocks == 0 {
            return (0, 0);
        }
        let (heading, words) = out.split_at_mut(HEADING);
        heading.copy_from_slice(&(first as u64).to_le_bytes());
        let from = self.blocks[first..first + blocks].as_flattened();
        words.as_chunks_mut().0.iter_mut().zip(from).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        (blocks, HEADING + blocks * BLOCK_BYTES)
    }

    /// Unites a part with the same blocks of this filter, in both.
    pub(super) fn merge(&mut self, bytes: &mut [u8]) -> Result<(), JoinError> {
        let damaged = || JoinError::Fragment { what: "it is not a part of this join's key filter" };
        let (heading, words) = bytes.split_at_mut_checked(HEADING).ok_or_else(damaged)?;
        let first = u64::from_le_bytes(heading.try_into().map_err(|_| damaged())?);
        let first = usize::try_from(first).map_err(|_| damaged())?;
        let end = first.checked_add(words.len() / BLOCK_BYTES).ok_or_else(damaged)?;
        let blocks = self.blocks.get_mut(first..end).filter(|blocks| !blocks.is_empty()).ok_or_else(damaged)?;
        if !words.len().is_multiple_of(BLOCK_BYTES) {
            return Err(damaged());
        }
        for (word, bytes) in blocks.as_flattened_mut().iter_mut().zip(words.as_chunks_mut().0) {
            *word |= u32::from_le_bytes(*bytes);
            *bytes = word.to_le_bytes();
        }
        Ok(())
    }
}

#[inline]
fn mask(hash: u64) -> [u32; WORDS] {
    SALTS.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27))
}

/// Returns the share of false positives. A block has a number of keys after Poisson, and each word
/// a bit of each of them.
pub(super) fn false_positives(bits_per_key: f64) -> f64 {
    let mean = 8.0 * BLOCK_BYTES as f64 / bits_per_key.max(0.1);
    // The terms beyond are too small to count.
    let most = (mean + 12.0 * mean.sqrt()) as u32 + 12;
    let (mut kept, mut probability) = (0.0, (-mean).exp());
    for keys in 0..most {
        let is_set = 1.0 - (31.0_f64 / 32.0).powf(keys.into());
        kept += probability * is_set.powi(WORDS as i32);
        probability *= mean / f64::from(keys + 1);
    }
    kept.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::hash_of;

    /// As many other keys are kept as expected, for keys that are dense numbers.
    #[test]
    fn the_share_of_false_positives_is_as_expected() {
        const KEYS: u64 = 20_000;
        for bits in [8_u32, 12, 16] {
            let mut bloom = Bloom::new(KEYS as u32 * bits / 256);
            (0..KEYS).for_each(|key| bloom.insert(hash_of(key)));
            assert!((0..KEYS).all(|key| bloom.may_have(hash_of(key))));
            let kept = (KEYS..KEYS + 1_000_000).filter(|&key| bloom.may_have(hash_of(key))).count() as f64 / 1e6;
            let expected = false_positives(bits.into());
            assert!((0.8 * expected..1.2 * expected).contains(&kept), "{bits} bits: {kept}, not {expected}");
        }
    }
}
