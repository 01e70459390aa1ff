//! The hybrid of runs and bit-packed groups, written.

/// The least number of equal values that are written as a run.
const RUN: usize = 16;

/// Returns the bits that values up to `greatest` need.
pub(super) fn width(greatest: usize) -> u8 {
    (usize::BITS - greatest.leading_zeros()) as u8
}

/// Appends `values`, each of `width` bits, to `out`.
pub(super) fn encode(values: &[u32], width: u8, out: &mut Vec<u8>) {
    let (mut packed, mut next) = (0, 0);
    while next < values.len() {
        let first = values[next];
        let equal = values[next..].iter().take_while(|&&value| value == first).count();
        if equal >= RUN {
            pack(&values[packed..next], width, out);
            varint(equal << 1, out);
            out.extend_from_slice(&first.to_le_bytes()[..usize::from(width.div_ceil(8))]);
            next += equal;
            packed = next;
        } else {
            // Groups have eight values, except the last one of all.
            next = (next + 8).min(values.len());
        }
    }
    pack(&values[packed..], width, out);
}

/// Appends groups of eight values.
fn pack(values: &[u32], width: u8, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(8);
    varint(groups << 1 | 1, out);
    out.reserve(groups * usize::from(width) + 16);
    let (whole, rest) = values.as_chunks::<8>();
    whole.iter().for_each(|group| pack_group(group, width, out));
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        pack_group(&last, width, out);
    }
}

#[inline]
fn pack_group(group: &[u32; 8], width: u8, out: &mut Vec<u8>) {
    if width <= 8 {
        let word = group.iter().rev().fold(0_u64, |word, &value| word << width | u64::from(value));
        out.extend_from_slice(&word.to_le_bytes()[..width.into()]);
    } else {
        let half = |values: &[u32]| values.iter().rev().fold(0_u128, |word, &value| word << width | u128::from(value));
        let (low, high, bits) = (half(&group[..4]), half(&group[4..]), 4 * u32::from(width));
        let first = (low | high.checked_shl(bits).unwrap_or(0)).to_le_bytes();
        let bytes = usize::from(width);
        out.extend_from_slice(&first[..bytes.min(16)]);
        if bytes > 16 {
            out.extend_from_slice(&(high >> (128 - bits)).to_le_bytes()[..bytes - 16]);
        }
    }
}

fn varint(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hybrid::Hybrid;

    proptest! {
        #[test]
        fn the_reader_finds_the_values(
            runs in prop::collection::vec((any::<u32>(), prop_oneof![Just(1_usize), 1_usize..50]), 0..40),
            bits in 0_u8..=32,
        ) {
            let most = u32::MAX.checked_shr(32 - u32::from(bits)).unwrap_or(0);
            let some = |&(value, count): &(u32, usize)| std::iter::repeat_n(value & most, count);
            let values: Vec<u32> = runs.iter().flat_map(some).collect();
            let mut bytes = Vec::new();
            encode(&values, bits, &mut bytes);
            let mut found = vec![9; values.len()];
            Hybrid::new(bytes.into(), bits).unwrap().read(&mut found).unwrap();
            prop_assert_eq!(found, values);
        }
    }

    #[test]
    fn widths_hold_their_values() {
        assert_eq!([0, 1, 2, 255, 256, 65_535].map(width), [0, 1, 2, 8, 9, 16]);
    }
}
