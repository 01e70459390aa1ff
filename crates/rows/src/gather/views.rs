//! Strings and binary values as views: short values are within the view, long ones in blocks.

use arrow::{
    array::{ArrayData, ArrayRef, ByteView, make_array},
    buffer::Buffer,
    datatypes::DataType,
};

use super::{
    bits::Validity,
    blocks::{SLACK, block_hint, copy_value, take_block},
    fixed::gather_bytes,
    source::{Select, SourceColumn, Space},
};
use crate::pool::PooledBuffer;

/// The bytes of the longest value within a view.
const MAX_INLINE_BYTES: u32 = 12;
pub(super) const VIEW_BYTES: usize = size_of::<u128>();

/// The builder of a column of views. Long values are also copied, so that an output of a few rows
/// keeps no source alive.
#[derive(Debug, Default)]
pub(super) struct ViewBuilder {
    views: Option<PooledBuffer>,
    heap: Heap,
    validity: Validity,
}

/// The long values of one output column.
#[derive(Debug, Default)]
struct Heap {
    full: Vec<Buffer>,
    block: Option<PooledBuffer>,
    /// The bytes of `block` in use.
    used: usize,
    /// The bytes of all blocks in use.
    total: usize,
    hint: usize,
}

impl ViewBuilder {
    /// Appends the selected rows and returns the bytes copied.
    ///
    /// # Safety
    /// `select` is within `source`, a column of views; `space` has room for its rows, and its first
    /// `at` rows were appended here since the last `finish`.
    pub(super) unsafe fn append(&mut self, source: &SourceColumn, select: Select<'_>, space: Space<'_>) -> usize {
        let views = self.views.get_or_insert_with(|| space.pool.take(space.capacity * VIEW_BYTES));
        let before = self.heap.total;
        // SAFETY: the source's views begin at its offset, and there is room from row `at` on.
        unsafe {
            let from = source.buffer(0).cast::<u128>().add(source.data.offset());
            let to = views.as_ptr().as_ptr().cast::<u128>().add(space.at);
            let blocks = &source.data.buffers()[1..];
            match select {
                Select::Rows(rows) if blocks.is_empty() => {
                    gather_bytes::<VIEW_BYTES>(from.cast(), rows.as_slice(), to.cast());
                }
                _ => {
                    let mut i = 0;
                    select.for_each(|row| {
                        to.add(i).write(self.heap.own(from.add(row).read(), blocks, space));
                        i += 1;
                    });
                }
            }
            self.validity.append(source.nulls(), select, space);
        }
        self.heap.total - before + select.len() * VIEW_BYTES
    }

    /// Returns the bytes of memory that this column has taken since the last `finish`.
    pub(super) fn allocated_bytes(&self) -> usize {
        PooledBuffer::capacity_of(self.views.as_ref()) + self.heap.allocated_bytes() + self.validity.allocated_bytes()
    }

    /// Returns the `len` appended rows as an array of `data_type`.
    ///
    /// # Safety
    /// `len` rows were appended since the last `finish`, all from columns of `data_type`.
    pub(super) unsafe fn finish(&mut self, data_type: &DataType, len: usize) -> ArrayRef {
        // SAFETY: `len` views and validity bits were written, and the views' long values to the heap's
        // blocks.
        make_array(unsafe {
            let views = self.views.take().map(|views| views.into_buffer(len * VIEW_BYTES)).unwrap_or_default();
            ArrayData::builder(data_type.clone())
                .len(len)
                .nulls(self.validity.finish(len))
                .add_buffer(views)
                .add_buffers(self.heap.finish())
                .build_unchecked()
        })
    }
}

impl Heap {
    /// Returns `view` unchanged if its value is within, else a view of a copy of the value here.
    ///
    /// # Safety
    /// `view` is a valid view of `blocks`.
    #[inline]
    unsafe fn own(&mut self, view: u128, blocks: &[Buffer], space: Space<'_>) -> u128 {
        if view as u32 <= MAX_INLINE_BYTES {
            return view;
        }
        let view = ByteView::from(view);
        let len = view.length as usize;
        // SAFETY: the index and the offset of a valid view are within the blocks.
        let (from, readable) = unsafe {
            let block = blocks.get_unchecked(view.buffer_index as usize);
            (block.as_ptr().add(view.offset as usize), block.len() - view.offset as usize)
        };
        let to = match &self.block {
            // A block for a value of about 4 GiB is larger, but offsets have 32 bits.
            Some(block) if block.capacity() - self.used >= len + SLACK && u32::try_from(self.used).is_ok() => {
                block.as_ptr().as_ptr()
            }
            _ => self.next_block(len, space),
        };
        let offset = self.used;
        // SAFETY: `len + SLACK` bytes are free in the block from `offset` on, and `len` readable at `from`.
        unsafe { copy_value(from, readable, to.add(offset), len) };
        self.used += len;
        self.total += len;
        ByteView { buffer_index: self.full.len() as u32, offset: offset as u32, ..view }.as_u128()
    }

    /// Puts the block aside and begins one with room for a value of `len` bytes.
    #[cold]
    fn next_block(&mut self, len: usize, space: Space<'_>) -> *mut u8 {
        // As many bytes as there are already, for few blocks, of which at most half is unused.
        let wanted = if self.block.is_some() { block_hint(self.total) } else { self.hint };
        self.seal();
        let block = take_block(space.pool, wanted.max(len));
        self.block.insert(block).as_ptr().as_ptr()
    }

    fn seal(&mut self) {
        let used = std::mem::take(&mut self.used);
        if let Some(block) = self.block.take() {
            // SAFETY: `used` bytes were written, and the block is not written again.
            self.full.push(unsafe { block.into_buffer(used) });
        }
    }

    fn allocated_bytes(&self) -> usize {
        PooledBuffer::capacity_of(self.block.as_ref()) + self.full.iter().map(Buffer::capacity).sum::<usize>()
    }

    fn finish(&mut self) -> Vec<Buffer> {
        self.seal();
        self.hint = block_hint(std::mem::take(&mut self.total));
        std::mem::take(&mut self.full)
    }
}
