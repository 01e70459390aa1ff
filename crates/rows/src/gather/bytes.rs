//! Strings and binary values with offsets of 32 or 64 bits.

use std::{ptr::copy_nonoverlapping, slice};

use arrow::{
    array::{ArrayData, ArrayRef, OffsetSizeTrait, make_array},
    datatypes::DataType,
};

use super::{
    bits::Validity,
    blocks::{SLACK, block_hint, copy_value, take_block},
    source::{Select, SourceColumn, Space},
};
use crate::{partition::Rows, pool::PooledBuffer};

/// The builder of a column of byte arrays. Values go to one block, which grows by doubling and
/// begins with the size of the last one.
#[derive(Debug, Default)]
pub(super) struct BytesBuilder {
    offsets: Option<PooledBuffer>,
    data: Option<PooledBuffer>,
    /// The bytes of `data` in use.
    used: usize,
    hint: usize,
    validity: Validity,
}

impl BytesBuilder {
    /// Returns the number of the selected rows that fit before an offset would overflow: at least
    /// one in an empty builder.
    ///
    /// # Safety
    /// `select` is within `source`, a column with offsets of type `O`.
    pub(super) unsafe fn room<O: OffsetSizeTrait>(&self, source: &SourceColumn, select: Select<'_>) -> usize {
        let free = O::MAX_OFFSET - self.used;
        // SAFETY: the caller's promise.
        let offsets = unsafe { source_offsets::<O>(source) };
        let total = offsets[offsets.len() - 1].as_usize() - offsets[0].as_usize();
        if total.saturating_mul(select.max_repeats()) <= free {
            return select.len();
        }
        let (mut bytes, mut fit) = (0, 0);
        select.any(|row| {
            bytes += offsets[row + 1].as_usize() - offsets[row].as_usize();
            fit += usize::from(bytes <= free);
            bytes > free
        });
        fit
    }

    /// Appends the selected rows and returns the bytes copied.
    ///
    /// # Safety
    /// As [`room`](Self::room), which has allowed these rows. `space` has room for them, and its
    /// first `at` rows were appended here since the last `finish`.
    pub(super) unsafe fn append<O: OffsetSizeTrait>(
        &mut self,
        source: &SourceColumn,
        select: Select<'_>,
        space: Space<'_>,
    ) -> usize {
        let offsets = self.offsets.get_or_insert_with(|| space.pool.take((space.capacity + 1) * size_of::<O>()));
        let ends = offsets.as_ptr().as_ptr().cast::<O>();
        let before = self.used;
        // SAFETY: there is room for one offset more than rows, of which the first `at + 1` are written.
        unsafe {
            if space.at == 0 {
                ends.write(O::usize_as(0));
            }
            let ends = slice::from_raw_parts_mut(ends.add(space.at + 1), select.len());
            let from = source_offsets::<O>(source);
            match select {
                Select::Rows(rows) => self.gather(from, &source.data.buffers()[1], rows, ends, space),
                Select::Range { start, len } => {
                    self.copy(&from[start..=start + len], &source.data.buffers()[1], ends, space);
                }
            }
            self.validity.append(source.nulls(), select, space);
        }
        self.used - before + select.len() * size_of::<O>()
    }

    /// Appends the values of `rows`, and writes their `ends`.
    ///
    /// # Safety
    /// `rows` are within `from`, the offsets into `values`.
    unsafe fn gather<O: OffsetSizeTrait>(
        &mut self,
        from: &[O],
        values: &[u8],
        rows: Rows<'_>,
        ends: &mut [O],
        space: Space<'_>,
    ) {
        let rows = rows.as_slice();
        let mut end = self.used;
        for (&row, slot) in rows.iter().zip(&mut *ends) {
            // SAFETY: the row is within the column, which has one offset more than rows.
            let (start, stop) = unsafe { (from.get_unchecked(row as usize), from.get_unchecked(row as usize + 1)) };
            end += (*stop - *start).as_usize();
            *slot = O::usize_as(end);
        }
        let data = self.reserve(end, space);
        let mut to = self.used;
        for (&row, slot) in rows.iter().zip(&*ends) {
            let end = slot.as_usize();
            // SAFETY: offsets of a valid column lie within its values, and `end` is within the reserved block.
            unsafe {
                let start = from.get_unchecked(row as usize).as_usize();
                copy_value(values.as_ptr().add(start), values.len() - start, data.add(to), end - to);
            }
            to = end;
        }
        self.used = end;
    }

    /// Appends neighbouring values, and writes their `ends`.
    ///
    /// # Safety
    /// `from` are offsets into `values`, one more than `ends`.
    unsafe fn copy<O: OffsetSizeTrait>(&mut self, from: &[O], values: &[u8], ends: &mut [O], space: Space<'_>) {
        let start = from[0].as_usize();
        let len = from[from.len() - 1].as_usize() - start;
        let data = self.reserve(self.used + len, space);
        // SAFETY: offsets of a valid column lie within its values, and the block has room.
        unsafe { copy_nonoverlapping(values.as_ptr().add(start), data.add(self.used), len) };
        for (slot, end) in ends.iter_mut().zip(&from[1..]) {
            *slot = O::usize_as(end.as_usize() - start + self.used);
        }
        self.used += len;
    }

    /// Returns the block, with room for `bytes` bytes and the slack of a copy.
    fn reserve(&mut self, bytes: usize, space: Space<'_>) -> *mut u8 {
        match &mut self.data {
            Some(data) if data.capacity() >= bytes + SLACK => {}
            Some(data) => {
                let larger = take_block(space.pool, bytes.max(data.capacity()));
                // SAFETY: `used` bytes are written, and fit in the larger block.
                unsafe { copy_nonoverlapping(data.as_ptr().as_ptr(), larger.as_ptr().as_ptr(), self.used) };
                *data = larger;
            }
            data @ None => *data = Some(take_block(space.pool, bytes.max(self.hint))),
        }
        self.data.as_ref().map_or(std::ptr::null_mut(), |data| data.as_ptr().as_ptr())
    }

    /// Returns the bytes of memory that this column has taken since the last `finish`.
    pub(super) fn allocated_bytes(&self) -> usize {
        let buffers = [&self.offsets, &self.data].map(|buffer| PooledBuffer::capacity_of(buffer.as_ref()));
        buffers.iter().sum::<usize>() + self.validity.allocated_bytes()
    }

    /// Returns the `len` appended rows as an array of `data_type`.
    ///
    /// # Safety
    /// `len` rows were appended since the last `finish`, all from columns of `data_type`, whose
    /// offsets have type `O`.
    pub(super) unsafe fn finish<O: OffsetSizeTrait>(&mut self, data_type: &DataType, len: usize) -> ArrayRef {
        let used = std::mem::take(&mut self.used);
        self.hint = block_hint(used);
        // SAFETY: `len + 1` offsets, `used` bytes and `len` validity bits were written. Whole values of
        // valid columns make a valid column.
        make_array(unsafe {
            let offsets_bytes = (len + 1) * size_of::<O>();
            let offsets = self.offsets.take().map(|offsets| offsets.into_buffer(offsets_bytes)).unwrap_or_default();
            let data = self.data.take().map(|data| data.into_buffer(used)).unwrap_or_default();
            ArrayData::builder(data_type.clone())
                .len(len)
                .nulls(self.validity.finish(len))
                .add_buffer(offsets)
                .add_buffer(data)
                .build_unchecked()
        })
    }
}

/// Returns the offsets of a column that is not empty: one more than it has rows.
///
/// # Safety
/// The column has offsets of type `O`.
unsafe fn source_offsets<O: OffsetSizeTrait>(source: &SourceColumn) -> &[O] {
    let first = source.buffer(0).cast::<O>();
    // SAFETY: a valid column's offsets are aligned, and there are `offset + len + 1` of them.
    unsafe { slice::from_raw_parts(first.add(source.data.offset()), source.data.len() + 1) }
}
