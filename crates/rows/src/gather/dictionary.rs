//! Dictionary columns, whose keys are gathered and whose values are shared.

use arrow::{
    array::{Array, ArrayData, ArrayRef, make_array},
    buffer::{Buffer, NullBuffer},
    compute::concat,
    datatypes::DataType,
    error::ArrowError,
};

use super::{
    fixed::FixedBuilder,
    source::{Select, SourceColumn, Space},
};

/// The builder of a dictionary column. While the dictionary stays the same, only keys are copied.
/// Arrow merges pieces with different dictionaries when the batch is finished.
#[derive(Debug)]
pub(super) struct DictionaryBuilder {
    keys: FixedBuilder,
    /// The number of values that a key can name.
    max_values: usize,
    values: Option<ArrayData>,
    /// The earlier rows of this batch, with other values.
    pieces: Vec<ArrayRef>,
    /// The number of rows in the pieces.
    pieces_rows: usize,
    /// The values of all dictionaries of this batch, each counted whenever it replaced another one.
    values_seen: usize,
}

impl DictionaryBuilder {
    /// Creates a builder for keys of an integer type.
    pub(super) fn new(key_type: &DataType) -> Self {
        let width = key_type.primitive_width().unwrap_or(0);
        let sign_bits = u32::from(key_type.is_signed_integer());
        let max_values = 1usize.checked_shl(8 * width as u32 - sign_bits).unwrap_or(usize::MAX);
        let keys = FixedBuilder::new(width);
        Self { keys, max_values, values: None, pieces: Vec::new(), pieces_rows: 0, values_seen: 0 }
    }

    /// Returns the number of the selected rows that fit: none if the dictionaries together could
    /// have more values than the keys can name. In an empty builder, all fit.
    pub(super) fn room(&self, source: &SourceColumn, select: Select<'_>) -> usize {
        let values = &source.data.child_data()[0];
        let fits =
            self.values_seen == 0 || self.is_current(values) || self.values_seen + values.len() <= self.max_values;
        if fits { select.len() } else { 0 }
    }

    /// Appends the selected rows and returns the bytes copied.
    ///
    /// # Safety
    /// `select` is within `source`, a dictionary column with keys of this type, and
    /// [`room`](Self::room) has allowed it; `space` has room for its rows, and its first `at`
    /// rows were appended here since the last `finish`.
    pub(super) unsafe fn append(
        &mut self,
        data_type: &DataType,
        source: &SourceColumn,
        select: Select<'_>,
        space: Space<'_>,
    ) -> usize {
        let values = &source.data.child_data()[0];
        if !self.is_current(values) {
            // SAFETY: all `at` rows were appended here.
            unsafe { self.seal(data_type, space.at) };
            self.values_seen += values.len();
            self.values = Some(values.clone());
        }
        let space = Space { at: space.at - self.pieces_rows, ..space };
        // SAFETY: the caller's promises, and the current piece has `at - pieces_rows` rows.
        unsafe { self.keys.append(source, select, space) }
    }

    /// Returns the bytes of memory that this column has taken since the last `finish`, with those
    /// of the dictionaries.
    pub(super) fn allocated_bytes(&self) -> usize {
        let pieces: usize = self.pieces.iter().map(|piece| piece.get_buffer_memory_size()).sum();
        self.keys.allocated_bytes() + self.values.as_ref().map_or(0, ArrayData::get_buffer_memory_size) + pieces
    }

    /// Returns the `len` appended rows as an array of `data_type`.
    ///
    /// # Safety
    /// `len` rows were appended since the last `finish`, all from columns of `data_type`.
    pub(super) unsafe fn finish(&mut self, data_type: &DataType, len: usize) -> Result<ArrayRef, ArrowError> {
        self.values_seen = 0;
        let rows = len - std::mem::take(&mut self.pieces_rows);
        let values = self.values.take().into_iter().collect();
        // SAFETY: the current piece has `rows` rows, whose keys name its values.
        let last = make_array(unsafe { self.keys.finish_data(data_type, rows, values) });
        if self.pieces.is_empty() {
            return Ok(last);
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.push(last);
        let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        concat(&pieces)
    }

    fn is_current(&self, values: &ArrayData) -> bool {
        self.values.as_ref().is_some_and(|current| current.ptr_eq(values))
    }

    /// Puts the current piece aside, in memory of its own size, since there may be many pieces.
    ///
    /// # Safety
    /// `len` rows were appended since the last `finish`.
    unsafe fn seal(&mut self, data_type: &DataType, len: usize) {
        let Some(values) = self.values.take() else { return };
        let rows = len - self.pieces_rows;
        // SAFETY: as in `finish`, and the copies have the same content.
        let piece = unsafe {
            let piece = self.keys.finish_data(data_type, rows, vec![values]);
            let keys = Buffer::from_slice_ref(piece.buffers()[0].as_slice());
            let nulls = piece.nulls().map(|nulls| NullBuffer::from_iter(nulls.iter()));
            piece.into_builder().buffers(vec![keys]).nulls(nulls).build_unchecked()
        };
        self.pieces.push(make_array(piece));
        self.pieces_rows = len;
    }
}
