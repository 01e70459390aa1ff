//! The copy of a batch's rows into claimed ranges of chunks, column by column. `kernels.rs` has the
//! loops.
//!
//! There are two ways. With few consumers, each one's rows are *gathered*: neighbouring rows share
//! cache lines, and the output is written in one run. With more consumers, each one's pass would
//! touch most of the column's cache lines again. Chunks written a value at a time would cost a
//! cache miss for each line. So the rows are *combined*: the column is read once from front to back
//! into a buffer that stays in the cache. Each consumer's run leaves that buffer in whole lines
//! (software write-combining). It goes past the cache if the open chunks together are larger than
//! the cache.

use arrow::array::{Array, AsArray, RecordBatch};

use super::{
    chunk::{Chunk, ChunkShape, ColumnLayout},
    claim::Claim,
    kernels::{
        Values, ViewSource, copy_run, gather, long_bytes, move_strings, prefetch_run, scatter_all, scatter_views,
        strings_within,
    },
};

/// A claim, and the rows of the input that go there. They are a range of the grouped order.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) claim: Claim<Chunk>,
    pub(crate) consumer: u32,
    /// The position of the claim's first row in the grouped order.
    pub(crate) first: u32,
}

/// The grouped order, of which segments are ranges.
#[derive(Clone, Copy)]
pub(crate) enum Order<'a> {
    /// The batch's row numbers, grouped by consumer.
    Gather(&'a [u32]),
    /// The position of each row of the batch in the grouped order, and the end of that order. The
    /// order may have gaps.
    Combine(&'a [u32], u32),
}

/// The number of segments that are prefetched ahead of the copy. Segments are not neighbours in
/// memory, so the hardware cannot predict them.
const AHEAD: usize = 4;

/// The largest number of bytes of long strings in one claim of a heap. A view's offset has 32 bits,
/// which readers interpret as signed.
const MAX_HEAP_RANGE: usize = i32::MAX as usize;

/// The cost of a copy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CopyCost {
    pub(crate) bytes: u64,
    pub(crate) shared_ops: u64,
}

/// The combining buffer, which is reused. It holds one column of the batches in the grouped order.
#[derive(Debug, Default)]
pub(crate) struct Combiner(Vec<Line>);

/// A cache line, so that the buffer is aligned to one.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "only its bytes are used")] [u8; 64]);

impl Combiner {
    /// Takes memory for `rows` values, and returns its address.
    fn with_capacity<T>(&mut self, rows: usize) -> *mut T {
        let lines = (rows * size_of::<T>()).div_ceil(size_of::<Line>());
        if self.0.len() < lines {
            self.0.resize(lines, Line([0; 64]));
        }
        self.0.as_mut_ptr().cast()
    }
}

/// Copies every row that `order` names into its segment. Several batches are allowed only with
/// [`Order::Combine`]; its positions are then those of all rows, batch after batch.
///
/// # Safety
/// Every row number is below the number of rows. Positions differ, and they and the segments'
/// ranges lie below the end of the order. The columns have the types of the shape.
pub(crate) unsafe fn copy_batches(
    batches: &[RecordBatch],
    shape: &ChunkShape,
    order: Order<'_>,
    segments: &[Segment],
    combiner: &mut Combiner,
) -> CopyCost {
    debug_assert!(batches.len() == 1 || matches!(order, Order::Combine(..)));
    let mut cost = CopyCost::default();
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    for (index, layout) in shape.layouts.iter().enumerate() {
        let column: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(index).as_ref()).collect();
        let mut target = TargetColumn { shape, column: index, rows, order, segments, combiner: &mut *combiner };
        // SAFETY: the rows are in bounds and the types agree, by the caller's promise.
        unsafe {
            match layout {
                ColumnLayout::Fixed(1) => target.copy_values::<u8>(&column),
                ColumnLayout::Fixed(2) => target.copy_values::<u16>(&column),
                ColumnLayout::Fixed(4) => target.copy_values::<u32>(&column),
                ColumnLayout::Fixed(8) => target.copy_values::<u64>(&column),
                ColumnLayout::Fixed(16) => target.copy_values::<u128>(&column),
                ColumnLayout::Fixed(width) => {
                    debug_assert_eq!(*width, 32);
                    target.copy_values::<[u128; 2]>(&column);
                }
                ColumnLayout::Bool => {
                    let bits = |array: &&dyn Array| array.as_boolean().values().iter().map(u8::from).collect();
                    target.copy_bytes(column.iter().map(bits), Chunk::values);
                }
                ColumnLayout::View => target.copy_views(&column, &mut cost),
            }
            if column.iter().any(|array| array.null_count() > 0) {
                let nulls = |array: &&dyn Array| (0..array.len()).map(|row| u8::from(array.is_null(row))).collect();
                target.copy_bytes(column.iter().map(nulls), Chunk::nulls);
            }
        }
        cost.bytes += (rows * layout.width()) as u64;
    }
    #[cfg(target_arch = "x86_64")]
    if shape.past_cache {
        // Non-temporal stores are not ordered by the release that completes the claims.
        // SAFETY: every x86-64 has it.
        unsafe { std::arch::x86_64::_mm_sfence() };
    }
    cost
}

/// Returns the values of an array of fixed width `size_of::<T>()`, from its offset on.
///
/// # Safety
/// The array has that layout, and outlives the use of the result.
unsafe fn values<T>(array: &dyn Array) -> Values<T> {
    let data = array.to_data();
    // SAFETY: the first buffer, which the array holds as well, has at least offset + len values.
    Values { start: unsafe { data.buffers()[0].as_ptr().cast::<T>().add(data.offset()) }, len: array.len() }
}

/// A destination column in the chunks.
struct TargetColumn<'a> {
    shape: &'a ChunkShape,
    column: usize,
    /// The number of rows of the input.
    rows: usize,
    order: Order<'a>,
    segments: &'a [Segment],
    combiner: &'a mut Combiner,
}

impl TargetColumn<'_> {
    /// # Safety
    /// `column` has a value for every row, and `T` is as wide as the column's layout.
    unsafe fn copy_values<T: Copy>(&mut self, column: &[&dyn Array]) {
        // SAFETY: the caller's promise.
        unsafe { self.copy(column.iter().map(|array| values::<T>(*array)), Chunk::values) }
    }

    /// Copies one byte a row.
    ///
    /// # Safety
    /// There is a byte for every row.
    unsafe fn copy_bytes(&mut self, bytes: impl Iterator<Item = Vec<u8>>, out: impl Fn(&Chunk, usize) -> *mut u8) {
        let bytes: Vec<Vec<u8>> = bytes.collect();
        let sources = bytes.iter().map(|bytes| Values { start: bytes.as_ptr(), len: bytes.len() });
        // SAFETY: the caller's promise.
        unsafe { self.copy(sources, out) }
    }

    /// Copies values to the buffer that `out` returns for each chunk.
    ///
    /// # Safety
    /// The sources together have a value for every row, and `T` is as wide as the values of that
    /// buffer.
    unsafe fn copy<T: Copy>(
        &mut self,
        mut sources: impl Iterator<Item = Values<T>>,
        out: impl Fn(&Chunk, usize) -> *mut u8,
    ) {
        let out = |segment: &Segment| {
            // SAFETY: the claim's rows lie in the chunk.
            unsafe { out(segment.claim.chunk(), self.column).cast::<T>().add(segment.claim.start as usize) }
        };
        // SAFETY: the caller's promise, and the claims give the written rows to this thread alone.
        unsafe {
            match self.order {
                Order::Gather(rows) => {
                    let Some(source) = sources.next() else { return };
                    for segment in self.segments {
                        gather(source.start, segment.rows_of(rows), out(segment));
                    }
                }
                Order::Combine(positions, end) => {
                    let combined = self.combiner.with_capacity::<T>(end as usize);
                    scatter_all(sources, positions, combined);
                    let bytes = |segment: &Segment| segment.claim.len as usize * size_of::<T>();
                    for (index, segment) in self.segments.iter().enumerate() {
                        if let Some(soon) = self.segments.get(index + AHEAD) {
                            prefetch_run(out(soon).cast(), bytes(soon), self.shape.past_cache);
                        }
                        let run = combined.add(segment.first as usize).cast::<u8>();
                        copy_run(run, out(segment).cast(), bytes(segment), self.shape.past_cache);
                    }
                }
            }
        }
    }

    /// # Safety
    /// `column` has arrays of views with a value for every row.
    unsafe fn copy_views(&mut self, column: &[&dyn Array], cost: &mut CopyCost) {
        let sources: Vec<ViewSource<'_>> = column.iter().map(|array| ViewSource::from_array(*array)).collect();
        let all = sources.iter().map(|source| Values { start: source.views.as_ptr(), len: source.views.len() });
        if sources.iter().all(|source| source.buffers.is_empty()) {
            // SAFETY: every value is inline; the caller's promise holds for the views.
            return unsafe { self.copy::<u128>(all, Chunk::values) };
        }
        if !self.shape.knows_heap(self.column) {
            let long = sources.iter().flat_map(|source| source.views).map(|view| long_bytes(*view)).sum();
            self.shape.learn_heap(self.column, long, self.rows);
        }
        let combined = match self.order {
            Order::Gather(_) => &mut [],
            Order::Combine(positions, end) => {
                let combined = self.combiner.with_capacity::<u128>(end as usize);
                // SAFETY: as in `copy`; the combining buffer has room for all views, and is initialised.
                unsafe {
                    scatter_views(&sources, positions, combined);
                    std::slice::from_raw_parts_mut(combined, end as usize)
                }
            }
        };
        let buffers = sources.iter().flat_map(|source| source.buffers);
        let buffers: Vec<&[u8]> = buffers.map(|buffer| buffer.as_slice()).collect();
        for (index, segment) in self.segments.iter().enumerate() {
            if let Some(soon) = self.segments.get(index + AHEAD) {
                let out = soon.claim.chunk().values(self.column).cast::<u128>().wrapping_add(soon.claim.start as usize);
                prefetch_run(out.cast(), soon.claim.len as usize * size_of::<u128>(), self.shape.past_cache);
            }
            let (first, len) = (segment.first as usize, segment.claim.len as usize);
            // SAFETY: as in `copy`; each heap range has room for exactly the long strings of its part of the
            // run.
            unsafe {
                let out = segment.claim.chunk().values(self.column).cast::<u128>().add(segment.claim.start as usize);
                let run = match self.order {
                    Order::Gather(rows) => {
                        gather(sources[0].views.as_ptr(), segment.rows_of(rows), out);
                        std::slice::from_raw_parts_mut(out, len)
                    }
                    Order::Combine(..) => &mut combined[first..][..len],
                };
                let mut rest = &mut *run;
                while !rest.is_empty() {
                    let (count, bytes) = strings_within(rest, MAX_HEAP_RANGE);
                    let (part, behind) = rest.split_at_mut(count);
                    rest = behind;
                    if bytes > 0 {
                        let heap = segment.claim.chunk().claim_heap(self.shape, self.column, bytes);
                        move_strings(part, &buffers, heap, bytes);
                        cost.bytes += bytes as u64;
                        cost.shared_ops += 1;
                    }
                }
                if let Order::Combine(..) = self.order {
                    copy_run(run.as_ptr().cast(), out.cast(), size_of_val(run), self.shape.past_cache);
                }
            }
        }
    }
}

impl Segment {
    fn rows_of<'a>(&self, rows: &'a [u32]) -> &'a [u32] {
        &rows[self.first as usize..][..self.claim.len as usize]
    }
}
