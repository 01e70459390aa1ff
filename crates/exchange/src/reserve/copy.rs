//! Rows of a batch into claimed ranges of chunks: the one copy, column by column, with free functions over primitives.
//!
//! Two ways. With few consumers each one's rows are *gathered*: neighbouring rows share cache lines, and the output is
//! written in one run. With more, every consumer's pass would touch most of the column's cache lines again, and N chunks
//! that are written a value at a time cost a cache miss a line. So the column is read once from front to back and
//! *combined* in a buffer that stays in the cache, and each consumer's run goes out from there in whole lines (software
//! write-combining; past the cache, where the open chunks together are larger than it).

use arrow::{
    array::{Array, ArrayData, AsArray, ByteView, RecordBatch},
    buffer::{BooleanBuffer, Buffer},
    datatypes::{BinaryViewType, DataType, StringViewType},
};

use super::{
    chunk::{Chunk, ChunkShape, HeapRange, Layout},
    lane::Claim,
};

/// A claim, and the rows of the input that go there: a range of the grouped order.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) claim: Claim<Chunk>,
    pub(crate) consumer: u32,
    /// Where the claim's rows begin in the grouped order.
    pub(crate) first: u32,
}

/// Which row goes where, in the grouped order that segments are ranges of.
#[derive(Clone, Copy)]
pub(crate) enum Order<'a> {
    /// The batch's row numbers, grouped by consumer.
    Gather(&'a [u32]),
    /// For each row of the batch its position in the grouped order.
    Combine(&'a [u32]),
}

/// What a copy cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CopyCost {
    pub(crate) bytes: u64,
    pub(crate) shared_ops: u64,
}

/// The combining buffer: one column of one batch, in the grouped order. Reused.
#[derive(Debug, Default)]
pub(crate) struct Combiner(Vec<Line>);

/// A cache line, so that the buffer is aligned to one.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "only its bytes are used")] [u8; 64]);

impl Combiner {
    /// Room for `rows` values.
    fn room<T>(&mut self, rows: usize) -> *mut T {
        self.0.resize((rows * size_of::<T>()).div_ceil(size_of::<Line>()), Line([0; 64]));
        self.0.as_mut_ptr().cast()
    }
}

/// Copies every row that `order` names into its segment.
///
/// # Safety
/// Every row number and position is below the batch's number of rows, positions differ, the segments' ranges lie below
/// it, and the columns have the types of the shape.
pub(crate) unsafe fn copy_batch(
    batch: &RecordBatch,
    shape: &ChunkShape,
    order: Order<'_>,
    segments: &[Segment],
    combiner: &mut Combiner,
) -> CopyCost {
    let mut cost = CopyCost::default();
    for (index, column) in batch.columns().iter().enumerate() {
        let layout = shape.layouts[index];
        let mut target = Target { shape, column: index, order, segments, combiner: &mut *combiner };
        let data = column.to_data();
        // SAFETY: the rows are in bounds and the types agree, by the caller's promise.
        unsafe {
            match layout {
                Layout::Fixed(1) => target.copy::<u8>(values(&data)),
                Layout::Fixed(2) => target.copy::<u16>(values(&data)),
                Layout::Fixed(4) => target.copy::<u32>(values(&data)),
                Layout::Fixed(8) => target.copy::<u64>(values(&data)),
                Layout::Fixed(16) => target.copy::<u128>(values(&data)),
                Layout::Fixed(width) => {
                    debug_assert_eq!(width, 32);
                    target.copy::<[u128; 2]>(values(&data));
                }
                Layout::Bool => target.copy_bits(column.as_boolean().values(), Chunk::values),
                Layout::View => target.copy_views(column.as_ref(), &mut cost),
            }
            if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
                target.copy_bits(&!nulls.inner(), Chunk::nulls);
            }
        }
        cost.bytes += (batch.num_rows() * layout.width()) as u64;
    }
    #[cfg(target_arch = "x86_64")]
    if shape.past_cache {
        // Non-temporal stores are not ordered by the release that completes the claims.
        // SAFETY: every x86-64 has it.
        unsafe { std::arch::x86_64::_mm_sfence() };
    }
    cost
}

/// The values of an array of fixed width `size_of::<T>()`, from its offset on.
///
/// # Safety
/// The array has that layout.
unsafe fn values<T>(data: &ArrayData) -> *const T {
    // SAFETY: the first buffer holds at least offset + len values.
    unsafe { data.buffers()[0].as_ptr().cast::<T>().add(data.offset()) }
}

/// A column of the chunks that a batch goes to.
struct Target<'a> {
    shape: &'a ChunkShape,
    column: usize,
    order: Order<'a>,
    segments: &'a [Segment],
    combiner: &'a mut Combiner,
}

impl Target<'_> {
    /// # Safety
    /// `source` has a value for every row, and `T` is as wide as the column's layout.
    unsafe fn copy<T: Copy>(&mut self, source: *const T) {
        // SAFETY: the caller's promise.
        unsafe { self.copy_to(source, Chunk::values) }
    }

    /// Copies to the buffer that `out` finds in each chunk.
    ///
    /// # Safety
    /// As [`copy`](Self::copy).
    unsafe fn copy_to<T: Copy>(&mut self, source: *const T, out: impl Fn(&Chunk, usize) -> *mut u8) {
        let out = |segment: &Segment| {
            // SAFETY: the claim's rows lie in the chunk.
            unsafe { out(segment.claim.chunk(), self.column).cast::<T>().add(segment.claim.start as usize) }
        };
        // SAFETY: the caller's promise, and the claims give the written rows to this thread alone.
        unsafe {
            match self.order {
                Order::Gather(rows) => {
                    for segment in self.segments {
                        gather(source, segment.of(rows), out(segment));
                    }
                }
                Order::Combine(positions) => {
                    let combined = self.combiner.room::<T>(positions.len());
                    scatter(source, positions, combined);
                    for segment in self.segments {
                        let run = combined.add(segment.first as usize);
                        copy_run(
                            run.cast::<u8>(),
                            out(segment).cast(),
                            segment.claim.len as usize * size_of::<T>(),
                            self.shape.past_cache,
                        );
                    }
                }
            }
        }
    }

    /// One byte a row.
    ///
    /// # Safety
    /// `source` has a bit for every row.
    unsafe fn copy_bits(&mut self, source: &BooleanBuffer, out: impl Fn(&Chunk, usize) -> *mut u8) {
        let bytes: Vec<u8> = source.iter().map(u8::from).collect();
        // SAFETY: one byte for each bit; the caller's promise.
        unsafe { self.copy_to(bytes.as_ptr(), out) }
    }

    /// # Safety
    /// `source` is an array of views with a value for every row.
    unsafe fn copy_views(&mut self, source: &dyn Array, cost: &mut CopyCost) {
        let (views, buffers): (&[u128], &[Buffer]) = match source.data_type() {
            DataType::Utf8View => {
                let array = source.as_byte_view::<StringViewType>();
                (array.views(), array.data_buffers())
            }
            _ => {
                let array = source.as_byte_view::<BinaryViewType>();
                (array.views(), array.data_buffers())
            }
        };
        if buffers.is_empty() {
            // SAFETY: every value is inline; the caller's promise holds for `views`.
            return unsafe { self.copy::<u128>(views.as_ptr()) };
        }
        if !self.shape.knows_heap(self.column) {
            let long: usize = views.iter().map(|view| long_bytes(*view)).sum();
            self.shape.learn_heap(self.column, long, views.len());
        }
        let buffers: Vec<*const u8> = buffers.iter().map(|buffer| buffer.as_ptr()).collect();
        let combined = self.combiner.room::<u128>(views.len());
        // SAFETY: as in `copy_to`; the combining buffer has room for all views.
        let grouped = unsafe {
            match self.order {
                Order::Gather(rows) => gather(views.as_ptr(), rows, combined),
                Order::Combine(positions) => scatter(views.as_ptr(), positions, combined),
            }
            std::slice::from_raw_parts_mut(combined, views.len())
        };
        for segment in self.segments {
            let run = &mut grouped[segment.first as usize..][..segment.claim.len as usize];
            let bytes = run.iter().map(|view| long_bytes(*view)).sum();
            // SAFETY: as in `copy_to`; the heap range has room for exactly the long strings of the run.
            unsafe {
                let out = segment.claim.chunk().values(self.column).cast::<u128>().add(segment.claim.start as usize);
                if bytes > 0 {
                    let heap = segment.claim.chunk().claim_heap(self.shape, self.column, bytes);
                    move_strings(run, &buffers, heap);
                    cost.bytes += bytes as u64;
                    cost.shared_ops += 1;
                }
                copy_run(run.as_ptr().cast(), out.cast(), size_of_val(run), self.shape.past_cache);
            }
        }
    }
}

impl Segment {
    fn of<'a>(&self, rows: &'a [u32]) -> &'a [u32] {
        &rows[self.first as usize..][..self.claim.len as usize]
    }
}

/// Bytes of a view's string that lie outside the view.
#[inline]
fn long_bytes(view: u128) -> usize {
    let len = view as u32 as usize;
    if len > 12 { len } else { 0 }
}

/// # Safety
/// `source[row]` is readable for each row, and `out` is writable for `rows.len()` values.
#[inline]
unsafe fn gather<T: Copy>(source: *const T, rows: &[u32], out: *mut T) {
    for (position, row) in rows.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { out.add(position).write(source.add(*row as usize).read()) };
    }
}

/// # Safety
/// `source` has `positions.len()` values, and `out` is writable at every position.
#[inline]
unsafe fn scatter<T: Copy>(source: *const T, positions: &[u32], out: *mut T) {
    for (row, position) in positions.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { out.add(*position as usize).write(source.add(row).read()) };
    }
}

/// Copies the long strings of `views` to the heap range and points the views there.
///
/// # Safety
/// The views are those of a valid array with these buffers, and the range has room for their long strings.
unsafe fn move_strings(views: &mut [u128], buffers: &[*const u8], heap: HeapRange) {
    let (mut out, mut offset) = (heap.ptr, heap.offset);
    for view in views {
        let len = *view as u32;
        if len <= 12 {
            continue;
        }
        let mut long = ByteView::from(*view);
        // SAFETY: the caller's promise.
        unsafe {
            let source = buffers.get_unchecked(long.buffer_index as usize).add(long.offset as usize);
            std::ptr::copy_nonoverlapping(source, out, len as usize);
            out = out.add(len as usize);
        }
        long.buffer_index = heap.buffer;
        long.offset = offset;
        offset += len;
        *view = long.as_u128();
    }
}

/// Copies `bytes` bytes, past the cache if so wished and possible.
///
/// # Safety
/// `source` is readable and `out` writable for as many bytes, and they do not overlap.
#[inline]
unsafe fn copy_run(source: *const u8, out: *mut u8, bytes: usize, past_cache: bool) {
    #[cfg(target_arch = "x86_64")]
    if past_cache && bytes >= 256 {
        // SAFETY: the caller's promise.
        return unsafe { stream_run(source, out, bytes) };
    }
    let _ = past_cache;
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(source, out, bytes) }
}

/// Copies with non-temporal stores of whole lines. The stores are ordered before later ones only by an `sfence`, which
/// [`copy_batch`] ends with.
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
