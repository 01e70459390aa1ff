//! The copies from buffers to pages. Whole cache lines bypass the cache if the page allows it.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::page::{GROUP, SLOT_BYTES};

/// The bytes of a cache line.
pub(super) const LINE: usize = 64;
pub(super) const HALF_LINE: usize = LINE / 2;

/// The way in which lines are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    /// Through the cache.
    Cached,
    /// Past the cache, 16 bytes at a time.
    Stream,
    /// Past the cache, 64 bytes at a time (AVX-512).
    StreamWide,
}

impl Store {
    /// Returns the best way past the cache on this machine, or [`Self::Cached`].
    pub(super) fn best(past_cache: bool) -> Self {
        if !past_cache || !cfg!(target_arch = "x86_64") {
            return Self::Cached;
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            return Self::StreamWide;
        }
        Self::Stream
    }

    /// Orders stores past the cache before the stores that follow.
    pub(super) fn fence(self) {
        #[cfg(target_arch = "x86_64")]
        if self != Self::Cached {
            // SAFETY: every x86-64 processor has SSE.
            unsafe { _mm_sfence() }
        }
    }

    /// Copies `bytes` bytes. They bypass the cache if this way does and `to` is whole lines.
    ///
    /// # Safety
    /// `from` is readable and `to` writable for `bytes` bytes, and they do not overlap.
    #[inline(always)]
    pub(super) unsafe fn copy(self, from: *const u8, to: *mut u8, bytes: usize) {
        let lines = (to.addr() | bytes).is_multiple_of(LINE);
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the caller's promises, and this way is chosen only with AVX-512.
            Self::StreamWide if lines => unsafe { stream_wide(from, to, bytes) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the caller's promises.
            Self::Stream if lines => unsafe { stream(from, to, bytes) },
            // SAFETY: the caller's promises.
            _ => unsafe { to.copy_from_nonoverlapping(from, bytes) },
        }
    }

    /// Copies `bytes` bytes. Whole lines of `to` bypass the cache if this way does.
    ///
    /// # Safety
    /// As [`copy`](Self::copy).
    #[inline(always)]
    pub(super) unsafe fn copy_around(self, from: *const u8, to: *mut u8, bytes: usize) {
        let before = to.addr().wrapping_neg() % LINE;
        if self == Self::Cached || bytes < before + LINE {
            // SAFETY: the caller's promises.
            return unsafe { to.copy_from_nonoverlapping(from, bytes) };
        }
        let lines = (bytes - before) / LINE * LINE;
        let after = before + lines;
        // SAFETY: the caller's promises, for three parts of the bytes.
        unsafe {
            to.copy_from_nonoverlapping(from, before);
            self.copy(from.add(before), to.add(before), lines);
            to.add(after).copy_from_nonoverlapping(from.add(after), bytes - after);
        }
    }

    /// Writes the slots of `count` tuples of one size: their keys, their offsets and `size`. The
    /// first offset is `offset - size`, and each further one is smaller by `size`.
    ///
    /// # Safety
    /// `keys` is readable for `count` numbers, `to` is writable for `count` slots, and they do not
    /// overlap. `offset` is at least `count * size`.
    #[inline(always)]
    pub(super) unsafe fn slots(self, keys: *const u32, count: usize, offset: u32, size: u32, to: *mut u8) {
        let lines = to.addr().is_multiple_of(LINE) && count.is_multiple_of(GROUP);
        let groups = if lines && self != Self::Cached { count / GROUP } else { 0 };
        for group in 0..groups {
            let offset = offset - (group * GROUP) as u32 * size;
            // SAFETY: the caller's promises, for this group.
            unsafe {
                let (keys, to) = (keys.add(group * GROUP), to.add(group * GROUP * SLOT_BYTES));
                match self {
                    #[cfg(target_arch = "x86_64")]
                    Self::StreamWide => slots_wide(keys, offset, size, to),
                    _ => {
                        let slots: [[u32; 3]; GROUP] =
                            std::array::from_fn(|i| [*keys.add(i), offset - (i as u32 + 1) * size, size]);
                        self.copy(slots.as_ptr().cast(), to, GROUP * SLOT_BYTES);
                    }
                }
            }
        }
        for index in groups * GROUP..count {
            // SAFETY: the caller's promises.
            unsafe {
                let slot = [(*keys.add(index)).to_le(), (offset - (index as u32 + 1) * size).to_le(), size.to_le()];
                to.add(index * SLOT_BYTES).cast::<[u32; 3]>().write_unaligned(slot);
            }
        }
    }
}

impl Store {
    /// Copies the payloads of `rows`, each of `size` bytes, downwards from `end`. A `SIZE` other
    /// than `usize::MAX` is the size. They bypass the cache as with [`one`](Self::one).
    ///
    /// # Safety
    /// `from` has a payload for each of the rows, there is room for all of them before `end`, and
    /// they do not overlap.
    #[inline(always)]
    pub(super) unsafe fn rows<const SIZE: usize>(self, from: *const u8, rows: &[u32], size: usize, end: *mut u8) {
        let size = if SIZE == usize::MAX { size } else { SIZE };
        let payload = |row: &u32| from.wrapping_add(*row as usize * size);
        let mut to = end;
        let lines = end.addr().is_multiple_of(LINE) && size.is_multiple_of(HALF_LINE);
        let (pairs, rest) = if lines { rows.as_chunks::<2>() } else { (&[][..], rows) };
        for [upper, lower] in pairs {
            to = to.wrapping_sub(2 * size);
            // SAFETY: the caller's promises.
            unsafe { self.two(payload(lower), payload(upper), size, to) }
        }
        for row in rest {
            to = to.wrapping_sub(size);
            // SAFETY: the caller's promises.
            unsafe { self.one(payload(row), size, to) }
        }
    }

    /// Copies two payloads of `size` bytes, `lower` to `to` and `upper` behind it. They bypass the
    /// cache as with [`one`](Self::one).
    ///
    /// # Safety
    /// Both payloads are readable, `to` is writable for both, and they do not overlap. `size` is a
    /// multiple of 32, and `to` is aligned to a line.
    #[inline(always)]
    pub(super) unsafe fn two(self, lower: *const u8, upper: *const u8, size: usize, to: *mut u8) {
        debug_assert!(size.is_multiple_of(HALF_LINE) && to.addr().is_multiple_of(LINE));
        // SAFETY: the caller's promises, and this way is chosen only with AVX-512.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if self == Self::StreamWide {
                return stream_two(lower, upper, size, to);
            }
            self.one(lower, size, to);
            self.one(upper, size, to.add(size));
        }
    }

    /// Copies a payload of `size` bytes to `to`. It bypasses the cache if this way does, and `size`
    /// and `to` are multiples of 32.
    ///
    /// # Safety
    /// The payload is readable, `to` is writable, and they do not overlap.
    #[inline(always)]
    pub(super) unsafe fn one(self, from: *const u8, size: usize, to: *mut u8) {
        // SAFETY: the caller's promises.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if self != Self::Cached && (to.addr() | size).is_multiple_of(HALF_LINE) {
                return stream(from, to, size);
            }
            to.copy_from_nonoverlapping(from, size);
        }
    }
}

/// Copies whole lines past the cache.
///
/// # Safety
/// As [`Store::copy`], for whole lines. Multiples of 16 bytes will do.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn stream(from: *const u8, to: *mut u8, bytes: usize) {
    for at in (0..bytes).step_by(16) {
        // SAFETY: the caller's promises, and `to` is aligned to a line.
        unsafe { _mm_stream_si128(to.add(at).cast(), _mm_loadu_si128(from.add(at).cast())) }
    }
}

/// Copies whole lines past the cache with AVX-512.
///
/// # Safety
/// As [`Store::copy`], for whole lines. The processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn stream_wide(from: *const u8, to: *mut u8, bytes: usize) {
    for at in (0..bytes).step_by(LINE) {
        // SAFETY: the caller's promises, and `to` is aligned to a line.
        unsafe { _mm512_stream_si512(to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast())) }
    }
}

/// Copies two payloads, one behind the other, past the cache.
///
/// # Safety
/// As [`Store::two`]. `size` is a multiple of 32, and `to` is aligned to a line. The processor has
/// AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn stream_two(lower: *const u8, upper: *const u8, size: usize, to: *mut u8) {
    let whole = size / LINE * LINE;
    // SAFETY: the caller's promises. If half a line is left of each payload, a line takes both.
    unsafe {
        stream_wide(lower, to, whole);
        if whole == size {
            return stream_wide(upper, to.add(size), size);
        }
        let halves = _mm512_inserti64x4::<1>(
            _mm512_castsi256_si512(_mm256_loadu_si256(lower.add(whole).cast())),
            _mm256_loadu_si256(upper.cast()),
        );
        _mm512_stream_si512(to.add(whole).cast(), halves);
        stream_wide(upper.add(HALF_LINE), to.add(whole + LINE), whole);
    }
}

/// Writes sixteen slots as three lines. Each line takes keys and offsets from two registers, and
/// the size for the other words.
///
/// # Safety
/// As [`Store::slots`], for one group and whole lines. The processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn slots_wide(keys: *const u32, offset: u32, size: u32, to: *mut u8) {
    const PLACES: [[i32; 16]; 3] = {
        let mut places = [[0; 16]; 3];
        let mut word = 0;
        while word < 48 {
            // Lanes 0 to 15 are keys, 16 to 31 offsets. The third word of a slot is replaced.
            places[word / 16][word % 16] = (word / 3) as i32 + if word % 3 == 1 { 16 } else { 0 };
            word += 1;
        }
        places
    };
    const SIZES: [__mmask16; 3] = {
        let mut masks = [0; 3];
        let mut word = 2;
        while word < 48 {
            masks[word / 16] |= 1 << (word % 16);
            word += 3;
        }
        masks
    };
    // SAFETY: the caller's promises, and `to` is aligned to a line.
    unsafe {
        let keys = _mm512_loadu_si512(keys.cast());
        let steps = _mm512_setr_epi32(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
        let sizes = _mm512_set1_epi32(size as i32);
        let offsets = _mm512_sub_epi32(_mm512_set1_epi32(offset as i32), _mm512_mullo_epi32(steps, sizes));
        for line in 0..3 {
            let places = _mm512_loadu_si512(PLACES[line].as_ptr().cast());
            let words = _mm512_permutex2var_epi32(keys, places, offsets);
            let words = _mm512_mask_mov_epi32(words, SIZES[line], sizes);
            _mm512_stream_si512(to.add(line * LINE).cast(), words);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::partition::buffers::Lines;

    const ROOM: usize = 16 << 10;

    fn stores() -> Vec<Store> {
        let mut stores = vec![Store::Cached, Store::best(true)];
        if cfg!(target_arch = "x86_64") {
            stores.push(Store::Stream);
        }
        stores
    }

    /// Returns the bytes of aligned memory after `write` has changed it.
    fn written(store: Store, write: impl FnOnce(*mut u8)) -> Vec<u8> {
        let lines = Lines::new(ROOM);
        write(lines.start());
        store.fence();
        // SAFETY: the memory was zeroed or written.
        unsafe { std::slice::from_raw_parts(lines.start(), ROOM) }.to_vec()
    }

    proptest! {
        #[test]
        fn rows_are_copied_downwards(
            size in prop::sample::select(vec![32usize, 64, 96, 100, 128, 160]),
            rows in prop::collection::vec(0..20u32, 0..60),
            end in prop::sample::select(vec![ROOM, ROOM - 32, ROOM - 64, ROOM - 7]),
        ) {
            let from: Vec<u8> = (0..20 * size).map(|at| (at * 31 / 7) as u8).collect();
            let mut expected = vec![0; ROOM];
            for (index, &row) in rows.iter().enumerate() {
                expected[end - (index + 1) * size..][..size].copy_from_slice(&from[row as usize * size..][..size]);
            }
            for store in stores() {
                // SAFETY: `from` has the rows, and there is room before `end`.
                let copied = written(store, |to| unsafe {
                    let end = to.add(end);
                    if size == 96 {
                        store.rows::<96>(from.as_ptr(), &rows, size, end);
                    } else {
                        store.rows::<{ usize::MAX }>(from.as_ptr(), &rows, size, end);
                    }
                });
                prop_assert_eq!(&copied, &expected, "{:?}", store);
            }
        }

        #[test]
        fn two_payloads_are_copied_one_behind_the_other(half_lines in 1..10usize, line in 0..4usize) {
            let size = half_lines * HALF_LINE;
            let from: Vec<u8> = (0..2 * size).map(|at| (at * 31 / 7) as u8).collect();
            let mut expected = vec![0; ROOM];
            expected[line * LINE..][..2 * size].copy_from_slice(&from);
            for store in stores() {
                // SAFETY: both payloads are in `from`.
                let copied = written(store, |to| unsafe {
                    store.two(from.as_ptr(), from.as_ptr().add(size), size, to.add(line * LINE));
                });
                prop_assert_eq!(&copied, &expected, "{:?}", store);
            }
        }

        #[test]
        fn lines_and_what_is_around_them_are_copied(at in 0..200usize, bytes in 0..2000usize) {
            let from: Vec<u8> = (0..bytes).map(|at| at as u8 | 1).collect();
            let mut expected = vec![0; ROOM];
            expected[at..at + bytes].copy_from_slice(&from);
            for store in stores() {
                // SAFETY: both have this number of bytes.
                let copied = written(store, |to| unsafe { store.copy_around(from.as_ptr(), to.add(at), bytes) });
                prop_assert_eq!(&copied, &expected, "{:?}", store);
            }
        }
    }
}
