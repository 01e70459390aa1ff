//! The loops of a copy, over primitive values.

use arrow::{
    array::{Array, AsArray, ByteView},
    buffer::Buffer,
    datatypes::{BinaryViewType, DataType, StringViewType},
};

use super::chunk::HeapRange;

/// The length from which a run is written past the cache. Shorter runs share most of their lines
/// with neighbouring runs.
#[cfg(target_arch = "x86_64")]
const MIN_STREAMED_BYTES: usize = 1024;

/// The distance by which a column is prefetched ahead of a read: enough to hide the latency of
/// memory, and not far beyond a column's end.
#[cfg(target_arch = "x86_64")]
const READ_AHEAD_BYTES: usize = 2048;

/// The largest number of bytes of a run that are prefetched. The hardware fetches the rest.
#[cfg(target_arch = "x86_64")]
const MAX_PREFETCHED_BYTES: usize = 1024;

/// Consecutive values of a column.
#[derive(Clone, Copy)]
pub(super) struct Values<T> {
    pub(super) start: *const T,
    pub(super) len: usize,
}

/// An array of views.
pub(super) struct ViewSource<'a> {
    pub(super) views: &'a [u128],
    pub(super) buffers: &'a [Buffer],
}

impl<'a> ViewSource<'a> {
    pub(super) fn from_array(array: &'a dyn Array) -> Self {
        match array.data_type() {
            DataType::Utf8View => {
                let array = array.as_byte_view::<StringViewType>();
                Self { views: array.views(), buffers: array.data_buffers() }
            }
            _ => {
                let array = array.as_byte_view::<BinaryViewType>();
                Self { views: array.views(), buffers: array.data_buffers() }
            }
        }
    }
}

/// Returns the bytes of a view's string that lie outside the view.
#[inline]
pub(super) fn long_bytes(view: u128) -> usize {
    let len = view as u32 as usize;
    if len > 12 { len } else { 0 }
}

/// Returns how many of the first views have long strings of at most `limit` bytes together, and the
/// number of these bytes. At least one view is counted.
pub(super) fn strings_within(views: &[u128], limit: usize) -> (usize, usize) {
    let all = views.iter().map(|view| long_bytes(*view)).sum();
    if all <= limit {
        return (views.len(), all);
    }
    let mut bytes = 0;
    for (count, view) in views.iter().enumerate() {
        let more = bytes + long_bytes(*view);
        if more > limit && count > 0 {
            return (count, bytes);
        }
        bytes = more;
    }
    (views.len(), bytes)
}

/// Copies one value by bytes. A move of a wide integer would go through two general registers, or
/// through the stack.
///
/// # Safety
/// `source` is readable and `out` writable for a value, aligned or not, and they do not overlap.
#[inline]
unsafe fn copy_value<T>(source: *const T, out: *mut T) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(source.cast::<u8>(), out.cast::<u8>(), size_of::<T>()) }
}

/// Copies the values of `rows` to `out`, in their order.
///
/// # Safety
/// `source[row]` is readable for each row, aligned or not (fixed-size binaries need not be), and
/// `out` is writable for `rows.len()` values.
#[inline]
pub(super) unsafe fn gather<T: Copy>(source: *const T, rows: &[u32], out: *mut T) {
    for (position, row) in rows.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { copy_value(source.add(*row as usize), out.add(position)) };
    }
}

/// Copies value `i` of `source` to position `positions[i]` of `out`.
///
/// # Safety
/// `source` has `positions.len()` values, and `out` is writable at every position.
#[inline]
unsafe fn scatter<T: Copy>(source: *const T, positions: &[u32], out: *mut T) {
    let line = (64 / size_of::<T>()).max(1);
    let mut from = source;
    for positions in positions.chunks(line) {
        prefetch_source(from);
        for (row, position) in positions.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { copy_value(from.add(row), out.add(*position as usize)) };
        }
        from = from.wrapping_add(line);
    }
}

/// Prefetches the values that a loop from `from` on will read soon. The hardware's own prefetch
/// stops at the end of each page.
#[inline]
fn prefetch_source<T>(from: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is allowed for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast::<i8>().wrapping_add(READ_AHEAD_BYTES)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}

/// Scatters all sources. `positions` continues from source to source.
///
/// # Safety
/// The sources together have `positions.len()` values, and `out` is writable at every position.
pub(super) unsafe fn scatter_all<T: Copy>(
    sources: impl Iterator<Item = Values<T>>,
    mut positions: &[u32],
    out: *mut T,
) {
    for source in sources {
        let (here, rest) = positions.split_at(source.len);
        // SAFETY: the caller's promise.
        unsafe { scatter(source.start, here, out) };
        positions = rest;
    }
}

/// Scatters views. The numbers of their buffers continue from source to source.
///
/// # Safety
/// As [`scatter_all`].
pub(super) unsafe fn scatter_views(sources: &[ViewSource<'_>], mut positions: &[u32], out: *mut u128) {
    let mut first_buffer = 0;
    for source in sources {
        let (here, rest) = positions.split_at(source.views.len());
        for (view, position) in source.views.iter().zip(here) {
            prefetch_source(view);
            let mut view = *view;
            if first_buffer > 0 && long_bytes(view) > 0 {
                let long = ByteView::from(view);
                view = long.with_buffer_index(long.buffer_index + first_buffer).as_u128();
            }
            // SAFETY: the caller's promise.
            unsafe { out.add(*position as usize).write(view) };
        }
        positions = rest;
        first_buffer += source.buffers.len() as u32;
    }
}

/// Copies the long strings of `views`, which have `bytes` bytes together, to the heap range, and
/// points the views there.
///
/// # Safety
/// The views are those of a valid array with these buffers, and the range has room for their long
/// strings.
pub(super) unsafe fn move_strings(views: &mut [u128], buffers: &[&[u8]], heap: HeapRange, bytes: usize) {
    /// The bytes copied at once for a short string. The next string overwrites the excess.
    const STRIDE: usize = 64;
    let (mut out, mut offset) = (heap.ptr, heap.offset);
    let mut left = bytes;
    for view in views {
        let len = *view as u32 as usize;
        if len <= 12 {
            continue;
        }
        let mut long = ByteView::from(*view);
        // SAFETY: the caller's promise. A stride stays within the buffer and the rest of the range.
        unsafe {
            let buffer = buffers.get_unchecked(long.buffer_index as usize);
            let start = long.offset as usize;
            let source = buffer.as_ptr().add(start);
            if len <= STRIDE && start + STRIDE <= buffer.len() && left >= STRIDE {
                std::ptr::copy_nonoverlapping(source, out, STRIDE);
            } else {
                copy_string(source, out, len);
            }
            out = out.add(len);
        }
        left -= len;
        long.buffer_index = heap.buffer;
        long.offset = offset;
        // The end of the last string may exceed an offset's 32 bits, but it is not used.
        offset = offset.wrapping_add(len as u32);
        *view = long.as_u128();
    }
}

/// Copies a string of more than twelve bytes, and touches no byte after it. Most strings are short,
/// and two overlapping moves are cheaper than a call.
///
/// # Safety
/// `len` is at least 8; `source` is readable and `out` writable for as many bytes, and they do not
/// overlap.
#[inline]
unsafe fn copy_string(source: *const u8, out: *mut u8, len: usize) {
    /// Copies the first and the last `WIDTH` bytes, which overlap.
    ///
    /// # Safety
    /// As above, and `len` is from `WIDTH` to twice that.
    #[inline]
    unsafe fn ends<const WIDTH: usize>(source: *const u8, out: *mut u8, len: usize) {
        let last = len - WIDTH;
        // SAFETY: both moves lie within `len` bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(source, out, WIDTH);
            std::ptr::copy_nonoverlapping(source.add(last), out.add(last), WIDTH);
        }
    }
    // SAFETY: the caller's promise; each arm has lengths of one to two times its width.
    unsafe {
        match len {
            0..=16 => ends::<8>(source, out, len),
            17..=32 => ends::<16>(source, out, len),
            33..=64 => ends::<32>(source, out, len),
            _ => std::ptr::copy_nonoverlapping(source, out, len),
        }
    }
}

/// Copies `bytes` bytes: past the cache if `past_cache` asks for it and the run is long enough.
///
/// # Safety
/// `source` is readable and `out` writable for as many bytes, and they do not overlap.
#[inline]
pub(super) unsafe fn copy_run(source: *const u8, out: *mut u8, bytes: usize, past_cache: bool) {
    #[cfg(target_arch = "x86_64")]
    if past_cache && bytes >= MIN_STREAMED_BYTES {
        // SAFETY: the caller's promise.
        return unsafe { stream_run(source, out, bytes) };
    }
    let _ = past_cache;
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(source, out, bytes) }
}

/// Prefetches the lines that [`copy_run`] writes through the cache: all lines of a short run, and
/// the two ends of a run that goes past the cache.
#[inline]
pub(super) fn prefetch_run(out: *const u8, bytes: usize, past_cache: bool) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        let step = if past_cache && bytes >= MIN_STREAMED_BYTES { bytes - 1 } else { 64 };
        for offset in (0..bytes.min(MAX_PREFETCHED_BYTES)).step_by(step.max(1)).chain(bytes.checked_sub(1)) {
            // SAFETY: a prefetch is allowed for any address.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(out.wrapping_add(offset).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (out, bytes, past_cache);
}

/// Copies with non-temporal stores of whole lines. Only an `sfence` orders them before later
/// stores; [`copy_batches`](super::copy::copy_batches) ends with one.
///
/// # Safety
/// As [`copy_run`].
#[cfg(target_arch = "x86_64")]
unsafe fn stream_run(source: *const u8, out: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    let head = out.align_offset(64).min(bytes);
    let lines = (bytes - head) / 64;
    let tail = head + lines * 64;
    // SAFETY: head + lines * 64 <= bytes, and `out + head` is aligned to 64.
    unsafe {
        std::ptr::copy_nonoverlapping(source, out, head);
        for line in 0..lines {
            let from = source.add(head + line * 64).cast::<__m128i>();
            let to = out.add(head + line * 64).cast::<__m128i>();
            let parts = [0, 1, 2, 3].map(|part| _mm_loadu_si128(from.add(part)));
            for (part, value) in parts.into_iter().enumerate() {
                _mm_stream_si128(to.add(part), value);
            }
        }
        std::ptr::copy_nonoverlapping(source.add(tail), out.add(tail), bytes - tail);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn strings_are_cut_where_a_range_would_be_too_long() {
        let view = |len: u32| u128::from(len);
        let views = [12, 20, 13, 50, 4, 13].map(view);
        assert_eq!(strings_within(&views, 96), (6, 96));
        assert_eq!(strings_within(&views, 83), (5, 83));
        assert_eq!(strings_within(&views, 33), (3, 33));
        assert_eq!(strings_within(&views, 32), (2, 20));
        assert_eq!(strings_within(&views[3..], 40), (1, 50), "one string may be longer than the limit");
        assert_eq!(strings_within(&[], 10), (0, 0));
    }
}
