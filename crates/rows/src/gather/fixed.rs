//! Values of a fixed number of bytes.

use std::ptr::copy_nonoverlapping;

use arrow::{
    array::{ArrayData, ArrayRef, make_array},
    datatypes::DataType,
};

use super::{
    bits::Validity,
    source::{Select, SourceColumn, Space},
};
use crate::{partition::Rows, pool::PooledBuffer};

/// The builder of a fixed-width column: numbers, dates, times, intervals, decimals, fixed-size
/// binary values, and dictionary keys.
#[derive(Debug)]
pub(super) struct FixedBuilder {
    width: usize,
    values: Option<PooledBuffer>,
    validity: Validity,
}

impl FixedBuilder {
    pub(super) fn new(width: usize) -> Self {
        Self { width, values: None, validity: Validity::default() }
    }

    /// Appends the selected rows and returns the bytes copied.
    ///
    /// # Safety
    /// `select` is within `source`, whose first buffer has values of this width. `space` has room
    /// for its rows, and its first `at` rows were appended here since the last `finish`.
    pub(super) unsafe fn append(&mut self, source: &SourceColumn, select: Select<'_>, space: Space<'_>) -> usize {
        let width = self.width;
        let values = self.values.get_or_insert_with(|| space.pool.take(space.capacity * width));
        // SAFETY: element `offset` is within the source's buffer, and row `at` within the output's.
        let (from, to) = unsafe {
            (source.buffer(0).add(source.data.offset() * width), values.as_ptr().as_ptr().add(space.at * width))
        };
        // SAFETY: the caller's promises. Source and output are different allocations, since the output
        // belongs to this builder alone.
        unsafe {
            match select {
                Select::Rows(rows) => gather(width, from, rows, to),
                Select::Range { start, len } => copy_nonoverlapping(from.add(start * width), to, len * width),
            }
            self.validity.append(source.nulls(), select, space);
        }
        select.len() * width
    }

    /// Returns the bytes of memory that this column has taken since the last `finish`.
    pub(super) fn allocated_bytes(&self) -> usize {
        PooledBuffer::capacity_of(self.values.as_ref()) + self.validity.allocated_bytes()
    }

    /// Returns the `len` appended rows as an array of `data_type`.
    ///
    /// # Safety
    /// `len` rows were appended since the last `finish`, all from columns of `data_type`.
    pub(super) unsafe fn finish(&mut self, data_type: &DataType, len: usize) -> ArrayRef {
        // SAFETY: as promised.
        make_array(unsafe { self.finish_data(data_type, len, Vec::new()) })
    }

    /// Does the work of [`finish`](Self::finish), with the given children.
    ///
    /// # Safety
    /// As [`finish`](Self::finish), and the appended values are valid with these children.
    pub(super) unsafe fn finish_data(
        &mut self,
        data_type: &DataType,
        len: usize,
        children: Vec<ArrayData>,
    ) -> ArrayData {
        // SAFETY: `len` values and validity bits were written, copied from arrays of the same type.
        unsafe {
            let values = self.values.take().map(|values| values.into_buffer(len * self.width)).unwrap_or_default();
            ArrayData::builder(data_type.clone())
                .len(len)
                .nulls(self.validity.finish(len))
                .add_buffer(values)
                .child_data(children)
                .build_unchecked()
        }
    }
}

/// Copies `rows` of `width` bytes each.
///
/// # Safety
/// `from` is readable for `rows.bound()` values, `to` writable for `rows.len()`, and they do not
/// overlap.
unsafe fn gather(width: usize, from: *const u8, rows: Rows<'_>, to: *mut u8) {
    let rows = rows.as_slice();
    // SAFETY: passed on.
    unsafe {
        match width {
            1 => gather_bytes::<1>(from, rows, to),
            2 => gather_bytes::<2>(from, rows, to),
            4 => gather_bytes::<4>(from, rows, to),
            8 => gather_bytes::<8>(from, rows, to),
            16 => gather_bytes::<16>(from, rows, to),
            32 => gather_bytes::<32>(from, rows, to),
            _ => {
                for (i, &row) in rows.iter().enumerate() {
                    copy_nonoverlapping(from.add(row as usize * width), to.add(i * width), width);
                }
            }
        }
    }
}

/// Copies `rows` of `W` bytes each: the hot loop. Byte arrays need no alignment, and a constant
/// number of bytes is one load and one store.
///
/// # Safety
/// As [`gather`], with a width of `W`.
#[inline]
pub(super) unsafe fn gather_bytes<const W: usize>(from: *const u8, rows: &[u32], to: *mut u8) {
    let (from, to) = (from.cast::<[u8; W]>(), to.cast::<[u8; W]>());
    for (i, &row) in rows.iter().enumerate() {
        // SAFETY: the row is below the bound that the caller promises, and `i` below the number of rows.
        unsafe { to.add(i).write(from.add(row as usize).read()) }
    }
}
