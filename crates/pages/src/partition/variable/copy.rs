//! How payloads get into buffers, and slots out of them.

use crate::page::{GROUP, SLOT_BYTES};

/// The numbers of bytes that are copied at once. Copies begin up to a piece before the payload,
/// which overwrites nothing: payloads are stored downwards. Few lengths of copies are easy to
/// predict.
const SMALL_PIECE: usize = 32;
pub(super) const PIECE: usize = 128;

/// A slot as on a page, except that the offset is the bytes from the payload's start to the
/// buffer's end.
pub(super) type Slot = [u32; 3];
const _: () = assert!(size_of::<Slot>() == SLOT_BYTES);

/// Subtracts the offset of each slot from `from`, and makes its words little-endian.
pub(super) fn to_offsets(slots: &mut [Slot], from: u32) {
    // Whole groups have no pattern of three words for the compiler: `from - x` is `!x + (from + 1)`.
    const FLIPPED: [u32; 3 * GROUP] = pattern(!0);
    let added: [u32; 3 * GROUP] = std::array::from_fn(|word| FLIPPED[word] & from.wrapping_add(1));
    let (groups, rest) = slots.as_chunks_mut::<GROUP>();
    for group in groups {
        for (word, (&flipped, &added)) in group.as_flattened_mut().iter_mut().zip(FLIPPED.iter().zip(&added)) {
            *word = (*word ^ flipped).wrapping_add(added).to_le();
        }
    }
    for slot in rest {
        *slot = [slot[0].to_le(), (from - slot[1]).to_le(), slot[2].to_le()];
    }
}

/// Returns `value` for the offsets of a group of slots, and 0 for their other words.
const fn pattern(value: u32) -> [u32; 3 * GROUP] {
    let mut words = [0; 3 * GROUP];
    let mut word = 1;
    while word < words.len() {
        words[word] = value;
        word += 3;
    }
    words
}

/// Copies `size` bytes from `start` of `bytes` to `to`. It may also change the piece before `to`.
///
/// # Safety
/// `bytes` is readable up to the end of the copy. `to` is writable for `size` bytes, and before
/// them for a piece. They do not overlap.
#[inline(always)]
pub(super) unsafe fn copy_before(bytes: *const u8, start: usize, to: *mut u8, size: usize) {
    // SAFETY: the caller's promises. Pieces are read only if they are within `bytes`.
    unsafe {
        let (from, to) = (bytes.add(start + size), to.add(size));
        if start + size < size.max(1).next_multiple_of(PIECE) {
            to.sub(size).copy_from_nonoverlapping(from.sub(size), size);
        } else if size <= SMALL_PIECE {
            to.sub(SMALL_PIECE)
                .cast::<[u8; SMALL_PIECE]>()
                .write(from.sub(SMALL_PIECE).cast::<[u8; SMALL_PIECE]>().read());
        } else {
            let mut at = PIECE;
            while {
                to.sub(at).cast::<[u8; PIECE]>().write(from.sub(at).cast::<[u8; PIECE]>().read());
                at < size
            } {
                at += PIECE;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_copy_changes_nothing_behind_it(before in 0..300usize, size in 0..600usize, after in 0..300usize) {
            let bytes: Vec<u8> = (0..before + size).map(|at| (at * 7 + 1) as u8).collect();
            let mut to = vec![0; PIECE + size + after];
            // SAFETY: there is a piece before the copy, and room for it.
            unsafe { copy_before(bytes.as_ptr(), before, to.as_mut_ptr().add(PIECE), size) };
            prop_assert_eq!(&to[PIECE..PIECE + size], &bytes[before..]);
            prop_assert!(to[PIECE + size..].iter().all(|&byte| byte == 0));
        }

        #[test]
        fn only_offsets_are_subtracted(
            slots in prop::collection::vec(any::<[u32; 3]>(), 0..70),
            from in any::<u32>(),
        ) {
            let slots: Vec<Slot> = slots.into_iter().map(|[key, at, size]| [key, at.min(from), size]).collect();
            let mut changed = slots.clone();
            to_offsets(&mut changed, from);
            for (&[key, at, size], words) in slots.iter().zip(changed) {
                prop_assert_eq!(words.map(u32::from_le), [key, from - at, size]);
            }
        }
    }
}
