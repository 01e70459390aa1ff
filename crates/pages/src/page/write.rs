//! Writes tuples to their places on a page. Slots are written first and data after them, so that a
//! batch touches one end of the page at a time (paper, section 3.3.5).

use std::{ops::Add, ptr::NonNull, slice};

use super::{Block, GROUP, HEADER_BYTES, PageLayout, PageShape, PayloadSize, SLOT_BYTES};

/// A number of tuples and the bytes of their data. A place on a page is the extent of the tuples
/// before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The number of tuples.
    pub tuples: usize,
    /// The bytes of their data.
    pub bytes: usize,
}

impl Add for Extent {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self { tuples: self.tuples + other.tuples, bytes: self.bytes + other.bytes }
    }
}

/// The sizes of the data of consecutive tuples.
#[derive(Clone, Copy, Debug)]
pub struct Sizes<'a> {
    /// The size of all tuples, if they have one size.
    fixed: Option<usize>,
    /// Otherwise the size of each.
    each: &'a [u32],
}

impl<'a> Sizes<'a> {
    /// Creates sizes that are all `size`.
    #[inline(always)]
    pub fn fixed(size: usize) -> Self {
        Self { fixed: Some(size), each: &[] }
    }

    /// Creates sizes with one value for each tuple.
    #[inline(always)]
    pub fn each(sizes: &'a [u32]) -> Self {
        Self { fixed: None, each: sizes }
    }

    /// Returns whether all tuples have one size.
    #[inline(always)]
    pub fn are_fixed(&self) -> bool {
        self.fixed.is_some()
    }

    /// Returns the sum of the first `tuples` sizes.
    #[inline(always)]
    fn sum(&self, tuples: usize) -> usize {
        match self.fixed {
            Some(size) => tuples * size,
            None => self.each[..tuples].iter().map(|&size| size as usize).sum(),
        }
    }

    /// Returns the sizes of the first `tuples` and of the others.
    #[inline(always)]
    fn split(&self, tuples: usize) -> (Self, Self) {
        let (first, others) = self.each.split_at(if self.are_fixed() { 0 } else { tuples });
        (Self { each: first, ..*self }, Self { each: others, ..*self })
    }
}

/// The room that consecutive tuples need.
#[derive(Clone, Copy, Debug)]
pub struct TupleExtents<'a> {
    /// The extent of all of them.
    pub all: Extent,
    /// The size of each.
    pub sizes: Sizes<'a>,
}

impl TupleExtents<'_> {
    /// Returns the extent of the first tuples that fit on a page at this place. O(1) if all fit or
    /// have one size.
    #[inline(always)]
    pub fn fitting(&self, shape: &PageShape, at: Extent) -> Extent {
        if let Some(size) = self.sizes.fixed {
            let tuples = self.all.tuples.min(shape.capacity() - at.tuples);
            Extent { tuples, bytes: tuples * size }
        } else if shape.fits(at.tuples + self.all.tuples, at.bytes + self.all.bytes) {
            self.all
        } else {
            fitting(self.sizes.each.iter().map(|&size| size as usize), shape, at)
        }
    }

    /// Returns the extent of the first `tuples`.
    #[inline(always)]
    pub fn first(&self, tuples: usize) -> Extent {
        let bytes = if tuples == self.all.tuples { self.all.bytes } else { self.sizes.sum(tuples) };
        Extent { tuples, bytes }
    }

    /// Returns the need of the tuples after `first`.
    #[inline(always)]
    pub fn after(&self, first: Extent) -> Self {
        let all = Extent { tuples: self.all.tuples - first.tuples, bytes: self.all.bytes - first.bytes };
        Self { all, sizes: self.sizes.split(first.tuples).1 }
    }
}

/// Returns the extent of the first tuples of these sizes that fit on a page at this place.
fn fitting(sizes: impl Iterator<Item = usize>, shape: &PageShape, at: Extent) -> Extent {
    let mut first = Extent::default();
    for bytes in sizes {
        let more = first + Extent { tuples: 1, bytes };
        if !shape.fits(at.tuples + more.tuples, at.bytes + more.bytes) {
            break;
        }
        first = more;
    }
    first
}

/// Consecutive tuples of one partition, laid out as on a page: keys upwards, data downwards.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    keys: &'a [u32],
    sizes: Sizes<'a>,
    /// The data; that of the first tuple comes last.
    data: &'a [u8],
}

impl<'a> Run<'a> {
    /// Creates a run of tuples with these keys, sizes and data. There is a size for each key, and
    /// the data has the sum of the sizes.
    #[inline(always)]
    pub fn new(keys: &'a [u32], sizes: Sizes<'a>, data: &'a [u8]) -> Self {
        debug_assert_eq!(sizes.sum(keys.len()), data.len());
        Self { keys, sizes, data }
    }

    /// Returns the room that it needs.
    #[inline(always)]
    pub fn need(&self) -> TupleExtents<'a> {
        TupleExtents { all: Extent { tuples: self.keys.len(), bytes: self.data.len() }, sizes: self.sizes }
    }

    /// Returns whether it has no tuples.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the first tuples and the others.
    #[inline(always)]
    pub fn split(&self, first: Extent) -> (Self, Self) {
        let (keys, other_keys) = self.keys.split_at(first.tuples);
        let (other_data, data) = self.data.split_at(self.data.len() - first.bytes);
        let (sizes, other_sizes) = self.sizes.split(first.tuples);
        (Self { keys, sizes, data }, Self { keys: other_keys, sizes: other_sizes, data: other_data })
    }
}

/// Writes the tuples of `run` to `at` on the page.
///
/// # Safety
/// `page` is a block of the shape's size. The place has room for the run ([`TupleExtents::fitting`]), and
/// no other thread reads or writes it.
#[inline(always)]
pub unsafe fn run(page: NonNull<u8>, shape: &PageShape, at: Extent, run: &Run<'_>) {
    debug_assert!(shape.fits(at.tuples + run.keys.len(), at.bytes + run.data.len()));
    let end = shape.page_bytes() - at.bytes;
    // SAFETY: the caller promises room for the slots after `at.tuples` others.
    let slots = unsafe { page.add(HEADER_BYTES + at.tuples * shape.slot_bytes()) };
    match (shape.layout(), run.sizes) {
        (PageLayout::Compact, _) => {
            // SAFETY: the slots are this caller's, and the memory is initialised. Pages are aligned to 64
            // bytes, so slots are aligned to 4.
            let slots = unsafe { slice::from_raw_parts_mut(slots.cast::<u32>().as_ptr(), run.keys.len()) };
            slots.iter_mut().zip(run.keys).for_each(|(slot, key)| *slot = key.to_le());
        }
        (PageLayout::Slotted, sizes) => {
            // SAFETY: as above.
            let slots = unsafe { slice::from_raw_parts_mut(slots.cast::<Slot>().as_ptr(), run.keys.len()) };
            match sizes.fixed {
                Some(size) => fixed_slots(slots, run.keys, end as u32, size as u32),
                None => each_slots(slots, run.keys, end as u32, sizes.each),
            }
        }
    }
    let data = NonNull::from(run.data).cast();
    // SAFETY: the caller promises room for the data above the slots.
    unsafe { page.add(end - run.data.len()).copy_from_nonoverlapping(data, run.data.len()) };
}

/// A slot: key, offset and length.
type Slot = [u32; 3];
const _: () = assert!(size_of::<Slot>() == SLOT_BYTES);

#[inline]
fn fixed_slots(slots: &mut [Slot], keys: &[u32], end: u32, size: u32) {
    #[cfg(target_arch = "x86_64")]
    if keys.len() >= GROUP && std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the machine has the feature.
        return unsafe { fixed_slots_avx512(slots, keys, end, size) };
    }
    fixed_slots_from(0, slots, keys, end, size);
}

/// Does the work of `fixed_slots` for the tuples from `first` on.
#[inline]
fn fixed_slots_from(first: usize, slots: &mut [Slot], keys: &[u32], end: u32, size: u32) {
    for ((slot, &key), index) in slots[first..].iter_mut().zip(&keys[first..]).zip(first as u32 + 1..) {
        *slot = [key.to_le(), (end - index * size).to_le(), size.to_le()];
    }
}

/// Writes sixteen slots as three vectors. Compilers would scatter their words instead.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn fixed_slots_avx512(slots: &mut [Slot], keys: &[u32], end: u32, size: u32) {
    use std::arch::x86_64::*;
    // Word `w` of the slots is a key, an offset or a length, depending on w % 3. A key comes from
    // lane w / 3, and an offset from lane w / 3 of the second vector.
    const LANES: [[i32; GROUP]; 3] = {
        let mut lanes = [[0; GROUP]; 3];
        let mut word = 0;
        while word < 3 * GROUP {
            lanes[word / GROUP][word % GROUP] = (word / 3 + if word % 3 == 1 { GROUP } else { 0 }) as i32;
            word += 1;
        }
        lanes
    };
    // The words of each vector that are lengths.
    const LENGTHS: [u16; 3] = [0b0100_1001_0010_0100, 0b0010_0100_1001_0010, 0b1001_0010_0100_1001];
    let lengths = _mm512_set1_epi32(size as i32);
    let steps = _mm512_mullo_epi32(lengths, _mm512_set_epi32(16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1));
    let (groups, _) = keys.as_chunks::<GROUP>();
    let (slot_groups, _) = slots.as_chunks_mut::<GROUP>();
    for ((group, slots), first) in groups.iter().zip(slot_groups).zip((0..).step_by(GROUP)) {
        let offsets = _mm512_sub_epi32(_mm512_set1_epi32((end - first * size) as i32), steps);
        // SAFETY: a group is 64 bytes of keys, or three times that of slots; the lanes are 64 bytes each.
        unsafe {
            let keys = _mm512_loadu_si512(group.as_ptr().cast());
            for part in 0..3 {
                let lanes = _mm512_loadu_si512(LANES[part].as_ptr().cast());
                let words = _mm512_permutex2var_epi32(keys, lanes, offsets);
                let words = _mm512_mask_mov_epi32(words, LENGTHS[part], lengths);
                _mm512_storeu_si512(slots.as_mut_ptr().cast::<u8>().add(64 * part).cast(), words);
            }
        }
    }
    fixed_slots_from(groups.len() * GROUP, slots, keys, end, size);
}

#[inline]
fn each_slots(slots: &mut [Slot], keys: &[u32], end: u32, sizes: &[u32]) {
    let mut offset = end;
    for ((slot, &key), &size) in slots.iter_mut().zip(keys).zip(sizes) {
        offset -= size;
        *slot = [key.to_le(), offset.to_le(), size.to_le()];
    }
}

/// Moves the last tuples of one page to the end of another one, as many as fit. The end of each
/// page is passed with it. Returns the extent of the moved tuples.
pub fn move_last(shape: &PageShape, from: (&Block, Extent), to: (&mut Block, Extent)) -> Extent {
    let ((from, from_end), (to, to_end)) = (from, to);
    let (from, to) = (from.as_slice(), to.as_mut_slice());
    let slot = |tuples: usize| HEADER_BYTES + tuples * shape.slot_bytes();
    let moved = match shape.payload() {
        PayloadSize::Fixed(size) => {
            let all = TupleExtents { all: from_end, sizes: Sizes::fixed(size as usize) };
            all.fitting(shape, to_end)
        }
        PayloadSize::Variable => {
            let sizes = (0..from_end.tuples).rev().map(|tuple| word(from, slot(tuple) + 8) as usize);
            fitting(sizes, shape, to_end)
        }
    };
    let first = from_end.tuples - moved.tuples;
    let new_slots = &mut to[slot(to_end.tuples)..slot(to_end.tuples + moved.tuples)];
    new_slots.copy_from_slice(&from[slot(first)..slot(from_end.tuples)]);
    // Data keeps its order, so all offsets move by the same.
    let (old, new) = (shape.page_bytes() - from_end.bytes, shape.page_bytes() - to_end.bytes - moved.bytes);
    if shape.layout() == PageLayout::Slotted {
        for slot in new_slots.chunks_exact_mut(SLOT_BYTES) {
            let offset = word(slot, 4).wrapping_sub(old as u32).wrapping_add(new as u32);
            slot[4..8].copy_from_slice(&offset.to_le_bytes());
        }
    }
    to[new..new + moved.bytes].copy_from_slice(&from[old..old + moved.bytes]);
    moved
}

/// Returns the little-endian word at `at`.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}
