//! Rows of a batch into claimed ranges of chunks: the one copy, column by column, with free functions over primitives.

use arrow::{
    array::{Array, ArrayData, AsArray, ByteView, RecordBatch},
    buffer::ScalarBuffer,
    datatypes::{BinaryViewType, DataType, StringViewType},
};

use super::{
    chunk::{Chunk, ChunkShape, Layout},
    lane::Claim,
};

/// A claim, and the rows of the input that go there: a range of the permutation.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) claim: Claim<Chunk>,
    /// Where the claim's row numbers begin in the permutation.
    pub(crate) first: u32,
}

impl Segment {
    fn rows<'a>(&self, permutation: &'a [u32]) -> &'a [u32] {
        &permutation[self.first as usize..][..self.claim.len as usize]
    }
}

/// What a copy cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CopyCost {
    pub(crate) bytes: u64,
    pub(crate) shared_ops: u64,
}

/// Copies every row that `permutation` names into its segment.
///
/// # Safety
/// Every entry of `permutation` is below the batch's number of rows, the segments' ranges lie within it, and the columns
/// have the types of the shape.
pub(crate) unsafe fn copy_batch(
    batch: &RecordBatch,
    shape: &ChunkShape,
    permutation: &[u32],
    segments: &[Segment],
) -> CopyCost {
    let mut cost = CopyCost::default();
    for (index, column) in batch.columns().iter().enumerate() {
        let layout = shape.layouts[index];
        let target = Target { shape, column: index, permutation, segments };
        let data = column.to_data();
        // SAFETY: the rows are in bounds and the types agree, by the caller's promise.
        unsafe {
            match layout {
                Layout::Fixed(1) => target.gather::<u8>(values(&data)),
                Layout::Fixed(2) => target.gather::<u16>(values(&data)),
                Layout::Fixed(4) => target.gather::<u32>(values(&data)),
                Layout::Fixed(8) => target.gather::<u64>(values(&data)),
                Layout::Fixed(16) => target.gather::<u128>(values(&data)),
                Layout::Fixed(width) => {
                    debug_assert_eq!(width, 32);
                    target.gather::<[u128; 2]>(values(&data));
                }
                Layout::Bool => target.gather_bits(column.as_boolean().values()),
                Layout::View => target.gather_views(column.as_ref(), &mut cost),
            }
        }
        if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
            target.mark_nulls(nulls);
        }
        cost.bytes += (permutation.len() * layout.width()) as u64;
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
    permutation: &'a [u32],
    segments: &'a [Segment],
}

impl Target<'_> {
    /// # Safety
    /// `source` has a value for every row of the permutation, and `T` is as wide as the column's layout.
    unsafe fn gather<T: Copy>(&self, source: *const T) {
        for segment in self.segments {
            let rows = segment.rows(self.permutation);
            // SAFETY: the claim gives rows start .. start + len of the chunk to this thread alone; rows are in bounds.
            unsafe {
                let out = segment.claim.chunk().values(self.column).cast::<T>().add(segment.claim.start as usize);
                gather_run(source, rows, out);
            }
        }
    }

    /// One byte a row, see [`Layout::Bool`].
    fn gather_bits(&self, source: &arrow::buffer::BooleanBuffer) {
        for segment in self.segments {
            for (position, row) in segment.rows(self.permutation).iter().enumerate() {
                let value = u8::from(source.value(*row as usize));
                // SAFETY: the claim gives this row of the chunk to this thread alone.
                unsafe {
                    *segment.claim.chunk().values(self.column).add(segment.claim.start as usize + position) = value
                };
            }
        }
    }

    fn mark_nulls(&self, nulls: &arrow::buffer::NullBuffer) {
        for segment in self.segments {
            // A field declared without nulls cannot have any: Arrow checks that when a batch is made.
            let Some(out) = segment.claim.chunk().nulls(self.column) else { return };
            for (position, row) in segment.rows(self.permutation).iter().enumerate() {
                let null = u8::from(nulls.is_null(*row as usize));
                // SAFETY: the claim gives this row of the chunk to this thread alone.
                unsafe { *out.add(segment.claim.start as usize + position) = null };
            }
        }
    }

    /// # Safety
    /// `source` is an array of views with a value for every row of the permutation.
    unsafe fn gather_views(&self, source: &dyn Array, cost: &mut CopyCost) {
        let (views, buffers): (&ScalarBuffer<u128>, _) = match source.data_type() {
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
            return unsafe { self.gather::<u128>(views.as_ptr()) };
        }
        if !self.shape.knows_heap(self.column) {
            let long: usize = views.iter().map(|view| long_bytes(*view)).sum();
            self.shape.learn_heap(self.column, long, views.len());
        }
        let buffers: Vec<*const u8> = buffers.iter().map(|buffer| buffer.as_ptr()).collect();
        for segment in self.segments {
            let rows = segment.rows(self.permutation);
            let bytes: usize = rows.iter().map(|row| long_bytes(views[*row as usize])).sum();
            // SAFETY: as in `gather`; the heap range has room for exactly the long strings of these rows.
            unsafe {
                let out = segment.claim.chunk().values(self.column).cast::<u128>().add(segment.claim.start as usize);
                if bytes == 0 {
                    gather_run(views.as_ptr(), rows, out);
                    continue;
                }
                let heap = segment.claim.chunk().claim_heap(self.shape, self.column, bytes);
                copy_views(views, &buffers, rows, out, heap.ptr, heap.buffer, heap.offset);
            }
            cost.bytes += bytes as u64;
            cost.shared_ops += 1;
        }
    }
}

/// Bytes of a view's string that lie outside the view.
fn long_bytes(view: u128) -> usize {
    let len = view as u32 as usize;
    if len > 12 { len } else { 0 }
}

/// # Safety
/// `source[row]` is readable for each row, and `out` is writable for `rows.len()` values.
#[inline]
unsafe fn gather_run<T: Copy>(source: *const T, rows: &[u32], out: *mut T) {
    for (position, row) in rows.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { out.add(position).write(source.add(*row as usize).read()) };
    }
}

/// # Safety
/// `views` and `buffers` are those of a valid array, `rows` are in bounds, `out` takes `rows.len()` views, and `heap` the
/// bytes of their long strings.
unsafe fn copy_views(
    views: &[u128],
    buffers: &[*const u8],
    rows: &[u32],
    out: *mut u128,
    mut heap: *mut u8,
    buffer: u32,
    mut offset: u32,
) {
    for (position, row) in rows.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            let view = *views.get_unchecked(*row as usize);
            let len = view as u32;
            if len <= 12 {
                out.add(position).write(view);
                continue;
            }
            let mut long = ByteView::from(view);
            let source = buffers.get_unchecked(long.buffer_index as usize).add(long.offset as usize);
            std::ptr::copy_nonoverlapping(source, heap, len as usize);
            long.buffer_index = buffer;
            long.offset = offset;
            out.add(position).write(long.as_u128());
            heap = heap.add(len as usize);
            offset += len;
        }
    }
}
