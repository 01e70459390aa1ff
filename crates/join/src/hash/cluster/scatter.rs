//! The scatter: values are collected in a cache line for each partition, and whole lines are
//! written out. If there is much to write, the lines bypass the cache (software-managed
//! write-combining buffers, as in radix joins since Wassenberg and Sanders 2011).

use std::ptr::copy_nonoverlapping;

use arrow::buffer::Buffer;

use super::input::{Span, Values};
use crate::{
    error::JoinError,
    hash::{memory::Block, radix::Radix},
};

/// The bytes of a cache line.
const LINE: usize = 64;
/// The number of rows whose partitions are computed at a time.
const CHUNK: usize = 1024;
/// The number of columns scattered at a time: their lines must stay in the second-level cache.
const COLUMNS: usize = 4;
/// Columns of more bytes than this are written past the cache.
const PAST_CACHE_BYTES: usize = 4 << 20;

/// A column to which several threads write disjoint rows.
#[derive(Debug)]
pub(super) struct Target {
    memory: Block<u8>,
    start: *mut u8,
    bytes: usize,
    width: usize,
}

// SAFETY: it owns its memory, and the callers of `scatter` write disjoint rows.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

impl Target {
    pub(super) fn new(rows: usize, width: usize, is_kept: bool) -> Result<Self, JoinError> {
        let mut memory = Block::new(rows * width, is_kept)?;
        let (start, bytes) = (memory.as_mut_slice().as_mut_ptr(), rows * width);
        Ok(Self { memory, start, bytes, width })
    }

    pub(super) fn into_buffer(self) -> Buffer {
        self.memory.into_buffer()
    }
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// Counts the rows of each partition, and those with null keys.
pub(super) fn count(share: &[Span<'_>], radix: Radix) -> Vec<u32> {
    let mut counts = vec![0; radix.count() + 1];
    let mut groups = [0; CHUNK];
    for chunk in share.iter().flat_map(|span| span.chunks(CHUNK)) {
        let groups = &mut groups[..chunk.len];
        chunk.groups(radix, groups);
        groups.iter().for_each(|&group| counts[group as usize] += 1);
    }
    counts
}

/// Writes the share's rows. Those of each partition go to the positions from its one in `begins`
/// on.
///
/// # Safety
/// The next positions of each partition, as many as [`count`] returns, are within the targets, and
/// no other thread accesses them.
pub(super) unsafe fn scatter(share: &[Span<'_>], radix: Radix, begins: &[u32], targets: &[Target]) {
    let mut lines = vec![Line([0; LINE]); begins.len() * COLUMNS.min(targets.len())];
    let (mut groups, mut positions) = ([0; CHUNK], [0; CHUNK]);
    for (block, targets) in targets.chunks(COLUMNS).enumerate() {
        let mut cursors = begins.to_vec();
        for chunk in share.iter().flat_map(|span| span.chunks(CHUNK)) {
            let (groups, positions) = (&mut groups[..chunk.len], &mut positions[..chunk.len]);
            chunk.groups(radix, groups);
            for (&group, position) in groups.iter().zip(&mut *positions) {
                let cursor = &mut cursors[group as usize];
                *position = *cursor;
                *cursor += 1;
            }
            let rows = Rows { groups, positions, begins };
            for ((column, target), lines) in targets.iter().enumerate().zip(lines.chunks_mut(begins.len())) {
                // SAFETY: the positions are those that the caller promises, and groups are numbers of begins and
                // lines.
                unsafe { rows.put_column(chunk, block * COLUMNS + column, target, lines) }
            }
        }
        for (target, lines) in targets.iter().zip(lines.chunks(begins.len())) {
            // SAFETY: as above; all values before the cursors were put into the lines.
            unsafe { drain(target, lines, begins, &cursors) }
        }
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has SSE.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// The destinations of a chunk's rows.
#[derive(Clone, Copy)]
struct Rows<'a> {
    groups: &'a [u32],
    positions: &'a [u32],
    /// The positions of the partitions' first rows.
    begins: &'a [u32],
}

impl Rows<'_> {
    /// # Safety
    /// All positions are within the target, and no other thread accesses them. Those of a group
    /// count up from its start without gaps. There is a line for each group.
    unsafe fn put_column(self, chunk: Span<'_>, column: usize, target: &Target, lines: &mut [Line]) {
        let numbers: [u32; CHUNK];
        let from = match chunk.values(column, target.width) {
            Values::Bytes(bytes) => bytes.as_ptr(),
            Values::From(first) => {
                numbers = std::array::from_fn(|row| first.wrapping_add(row as u32));
                numbers.as_ptr().cast()
            }
        };
        // SAFETY: the caller's promises; the chunk has as many values.
        unsafe {
            match target.width {
                1 => self.put::<1>(from, target, lines),
                2 => self.put::<2>(from, target, lines),
                4 => self.put::<4>(from, target, lines),
                8 => self.put::<8>(from, target, lines),
                16 => self.put::<16>(from, target, lines),
                _ => self.put::<32>(from, target, lines),
            }
        }
    }

    /// # Safety
    /// As [`put_column`](Self::put_column), for values of `W` bytes. There is one value for each
    /// row.
    #[inline]
    unsafe fn put<const W: usize>(self, from: *const u8, target: &Target, lines: &mut [Line]) {
        let past_cache = target.bytes > PAST_CACHE_BYTES;
        let places = (LINE / W) as u32;
        let (from, lines) = (from.cast::<[u8; W]>(), lines.as_mut_ptr());
        for (row, (&group, &position)) in self.groups.iter().zip(self.positions).enumerate() {
            let place = position % places;
            // SAFETY: there is a line for the group, and a value for the row.
            unsafe {
                let line = lines.add(group as usize);
                line.cast::<[u8; W]>().add(place as usize).write(from.add(row).read());
                if place == places - 1 {
                    let begin = *self.begins.get_unchecked(group as usize);
                    flush::<W>(line, position + 1 - places, begin, target.start, past_cache);
                }
            }
        }
    }
}

/// Writes a full line to the positions from `first` on, or only those from `begin` on.
///
/// # Safety
/// These positions can be written.
#[inline(always)]
unsafe fn flush<const W: usize>(line: *const Line, first: u32, begin: u32, to: *mut u8, past_cache: bool) {
    // SAFETY: the caller's promise. The target begins at a line, so a line's worth of positions is
    // one line.
    unsafe {
        if first >= begin {
            write_line(line, to.add(first as usize * W), past_cache);
        } else {
            let skipped = (begin - first) as usize * W;
            copy_nonoverlapping(line.cast::<u8>().add(skipped), to.add(begin as usize * W), LINE - skipped);
        }
    }
}

/// # Safety
/// `to` is aligned to a line and can be written.
#[inline(always)]
unsafe fn write_line(line: *const Line, to: *mut u8, past_cache: bool) {
    #[cfg(target_arch = "x86_64")]
    if past_cache {
        use std::arch::x86_64::{__m128i, _mm_load_si128, _mm_stream_si128};
        for part in 0..LINE / 16 {
            // SAFETY: the caller's promise; both are aligned.
            unsafe {
                _mm_stream_si128(to.cast::<__m128i>().add(part), _mm_load_si128(line.cast::<__m128i>().add(part)))
            }
        }
        return;
    }
    let _ = past_cache;
    // SAFETY: the caller's promise.
    unsafe { to.cast::<Line>().write(*line) }
}

/// Writes the values that are left in the lines.
///
/// # Safety
/// The positions from `begins` to `cursors` can be written, and their last values are in the lines.
unsafe fn drain(target: &Target, lines: &[Line], begins: &[u32], cursors: &[u32]) {
    let places = (LINE / target.width) as u32;
    for ((line, &begin), &end) in lines.iter().zip(begins).zip(cursors) {
        let first = (end - end % places).max(begin);
        let skipped = (first % places) as usize * target.width;
        // SAFETY: the caller's promise; these values were not flushed, as their line is not full.
        unsafe {
            let to = target.start.add(first as usize * target.width);
            copy_nonoverlapping(line.0.as_ptr().add(skipped), to, (end - first) as usize * target.width);
        }
    }
}
