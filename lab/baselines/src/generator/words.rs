//! The generator's loops, compiled for the machine's vector instructions.

use crate::simd::vectorised;

use super::splitmix64;

/// The difference between neighbouring words of a payload.
pub(super) const STEP: u32 = 0x9E37_79B9;

vectorised! {
    /// Writes the keys for the states from `state` on.
    pub(super) fn keys(state: u64, keys: &mut [u32]) {
        for (index, key) in (0_u64..).zip(keys) {
            *key = (splitmix64(state.wrapping_add(index)) >> 32) as u32;
        }
    }
}

vectorised! {
    /// Writes payloads of `size` bytes, one after the other, from tuple `first` on.
    pub(super) fn payloads(first: u32, size: usize, bytes: &mut [u8]) {
        match size {
            0 => (),
            12 => fixed::<12>(first, bytes),
            _ => (first..).zip(bytes.chunks_exact_mut(size)).for_each(|(number, bytes)| words(number, bytes)),
        }
    }
}

#[inline(always)]
fn fixed<const SIZE: usize>(first: u32, bytes: &mut [u8]) {
    let (payloads, _) = bytes.as_chunks_mut::<SIZE>();
    (first..).zip(payloads).for_each(|(number, payload)| words(number, payload));
}

/// Writes the payload of tuple `number`.
pub(super) fn payload(number: u32, bytes: &mut [u8]) {
    words(number, bytes);
}

#[inline(always)]
fn words(number: u32, bytes: &mut [u8]) {
    let (words, rest) = bytes.as_chunks_mut::<4>();
    let last = word(number, words.len() as u32);
    for (index, bytes) in (0..).zip(words) {
        *bytes = word(number, index).to_le_bytes();
    }
    rest.copy_from_slice(&last.to_le_bytes()[..rest.len()]);
}

/// Returns a word of a tuple's payload.
#[inline(always)]
fn word(number: u32, index: u32) -> u32 {
    number.wrapping_add(index.wrapping_mul(STEP))
}
