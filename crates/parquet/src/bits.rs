//! Integers of a few bits each, packed from the lowest bit on.

/// Returns the value of `width` bits at `bit`, where `bytes` has all its bits.
#[inline]
fn value_at(bytes: &[u8], bit: usize, width: u32) -> u64 {
    let mut word = [0; 16];
    let start = bit / 8;
    let length = (bit % 8 + width as usize).div_ceil(8);
    word[..length].copy_from_slice(&bytes[start..start + length]);
    (u128::from_le_bytes(word) >> (bit % 8)) as u64 & mask(width)
}

fn mask(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// Reads `out.len()` values of `width` bits (at most 32), of which the first is value `first`.
///
/// `bytes` must have all of them.
pub(crate) fn unpack(bytes: &[u8], first: usize, width: u32, out: &mut [u32]) {
    if width == 0 {
        return out.fill(0);
    }
    let mut next = first;
    // Blocks of 32 values begin and end with a word.
    let lead = (next.next_multiple_of(BLOCK) - next).min(out.len());
    let (head, out) = out.split_at_mut(lead);
    part(bytes, next, width, head);
    next += lead;
    let block = BLOCKS[width as usize];
    let (blocks, rest) = out.as_chunks_mut::<BLOCK>();
    for now in blocks {
        let start = next / 8 * width as usize;
        block(&bytes[start..start + 4 * width as usize], now);
        next += BLOCK;
    }
    part(bytes, next, width, rest);
}

/// Reads some values of one block, of which the first is value `first`.
fn part(bytes: &[u8], first: usize, width: u32, out: &mut [u32]) {
    if out.is_empty() {
        return;
    }
    let (width, skipped) = (width as usize, first % BLOCK);
    // The last block may have fewer bytes.
    let bytes = &bytes[(first - skipped) / 8 * width..];
    let mut whole = [0; 4 * BLOCK];
    let length = bytes.len().min(4 * width);
    whole[..length].copy_from_slice(&bytes[..length]);
    let mut values = [0; BLOCK];
    BLOCKS[width](&whole[..4 * width], &mut values);
    out.copy_from_slice(&values[skipped..skipped + out.len()]);
}

/// The values of a block: as many as there are bits in a word, so that blocks of any width are whole words.
const BLOCK: usize = 32;

/// Reads a block of values of `W` bits.
fn block<const W: usize>(bytes: &[u8], out: &mut [u32; BLOCK]) {
    let mut words = [0_u32; BLOCK + 1];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0).take(W) {
        *word = u32::from_le_bytes(*bytes);
    }
    // Written out, so that all shifts are constants.
    macro_rules! values {
        ($($index:literal)*) => { $( out[$index] = packed::<W>(&words, $index); )* };
    }
    values!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
}

#[inline(always)]
fn packed<const W: usize>(words: &[u32; BLOCK + 1], index: usize) -> u32 {
    let (word, shift) = (index * W / 32, index * W % 32);
    let low = words[word] >> shift;
    let value = if shift + W > 32 { low | words[word + 1] << (32 - shift) } else { low };
    if W == 32 { value } else { value & ((1 << W) - 1) }
}

/// A reader of a block of values of one width.
type ReadBlock = fn(&[u8], &mut [u32; BLOCK]);

/// The readers of blocks, by width.
const BLOCKS: [ReadBlock; 33] = {
    macro_rules! widths {
        ($($width:literal)*) => { [ $( block::<$width> ),* ] };
    }
    widths!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32)
};

/// Like [`unpack`], with values of up to 64 bits, from the first on.
pub(crate) fn unpack_wide(bytes: &[u8], width: u32, out: &mut [u64]) {
    for (index, value) in out.iter_mut().enumerate() {
        *value = if width == 0 { 0 } else { value_at(bytes, index * width as usize, width) };
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn values_come_back(width in 0..=64_u32, values in vec(any::<u64>(), 0..200), first in 0..100_usize) {
            let values: Vec<u64> = values.iter().map(|value| value & mask(width)).collect();
            let mut bytes = vec![0_u8; (values.len() * width as usize).div_ceil(8)];
            for (index, value) in values.iter().enumerate() {
                for bit in 0..width as usize {
                    let place = index * width as usize + bit;
                    bytes[place / 8] |= ((value >> bit & 1) as u8) << (place % 8);
                }
            }
            let mut wide = vec![1; values.len()];
            unpack_wide(&bytes, width, &mut wide);
            prop_assert_eq!(&wide, &values);
            if width <= 32 {
                let first = first.min(values.len());
                let mut narrow = vec![1; values.len() - first];
                unpack(&bytes, first, width, &mut narrow);
                prop_assert!(narrow.iter().map(|&value| u64::from(value)).eq(values[first..].iter().copied()));
            }
        }
    }
}
