//! The output of a column: rows of windows, copied once, into an array of a batch.

use std::sync::Arc;

use arrow::{
    array::{ArrayData, ArrayRef, BinaryViewArray, BooleanArray, BooleanBufferBuilder, StringViewArray, make_array},
    buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer},
    datatypes::DataType,
};

use crate::{
    error::ScanError,
    selection::Selection,
    source::{Source, width},
    values::is_view,
    window::{Segment, Window},
};

/// The bytes that an array of texts keeps for each byte of its texts, before they are copied.
const MOST_KEPT: usize = 4;

/// Collects rows of a column.
#[derive(Debug)]
pub(crate) struct ColumnBuilder {
    /// The type of the values until a batch is complete.
    kept: DataType,
    data_type: DataType,
    values: Values,
    /// The bytes that views refer to, and the source whose bytes were added last.
    texts: Vec<Buffer>,
    last: Option<(Arc<Source>, u32)>,
    rows: usize,
    valid: Option<BooleanBufferBuilder>,
}

/// Values by their width.
#[derive(Debug)]
enum Values {
    Of1(Vec<u8>),
    Of2(Vec<u16>),
    Of4(Vec<u32>),
    Of8(Vec<u64>),
    Of16(Vec<i128>),
    Views(Vec<u128>),
    /// Of any other width.
    Other(Vec<u8>, usize),
}

impl Values {
    fn new(data_type: &DataType) -> Self {
        match width(data_type) {
            _ if is_view(data_type) => Self::Views(Vec::new()),
            // These need not be aligned.
            length if matches!(data_type, DataType::FixedSizeBinary(_)) => Self::Other(Vec::new(), length),
            1 => Self::Of1(Vec::new()),
            2 => Self::Of2(Vec::new()),
            4 => Self::Of4(Vec::new()),
            8 => Self::Of8(Vec::new()),
            16 => Self::Of16(Vec::new()),
            other => Self::Other(Vec::new(), other),
        }
    }
}

impl ColumnBuilder {
    /// Returns an empty column whose values are of type `kept` while it grows, and of `data_type` then.
    pub fn new(kept: DataType, data_type: DataType) -> Self {
        let values = Values::new(&kept);
        Self { kept, data_type, values, texts: Vec::new(), last: None, rows: 0, valid: None }
    }

    /// Adds the selected rows of a window. `capacity` is the number of rows that a batch will have at most.
    pub fn append(&mut self, window: &Window, selection: &Selection, capacity: usize) {
        self.append_valid(window, selection);
        self.rows += selection.len();
        let mut next = 0;
        for (range, segment) in window.segments() {
            let rows = match selection.rows() {
                None => RowChoice::All { start: range.start, count: range.len() },
                Some(rows) => {
                    let end = next + rows[next..].partition_point(|&row| (row as usize) < range.end);
                    let chosen = &rows[next..end];
                    next = end;
                    RowChoice::Rows { start: range.start, rows: chosen }
                }
            };
            self.append_segment(segment, &window.codes, rows, capacity);
        }
    }

    fn append_valid(&mut self, window: &Window, selection: &Selection) {
        let Some(valid) = window.valid() else {
            if let Some(mine) = &mut self.valid {
                mine.append_n(selection.len(), true);
            }
            return;
        };
        let rows = self.rows;
        let mine = self.valid.get_or_insert_with(|| {
            let mut bits = BooleanBufferBuilder::new(rows);
            bits.append_n(rows, true);
            bits
        });
        match selection.rows() {
            None => mine.append_packed_range(0..window.len(), valid.as_slice()),
            Some(rows) => rows.iter().for_each(|&row| mine.append(valid.get_bit(row as usize))),
        }
    }

    fn append_segment(&mut self, segment: &Segment, codes: &[u32], rows: RowChoice<'_>, capacity: usize) {
        let source = &segment.source;
        match &mut self.values {
            Values::Of1(out) => copy(out, source.values.typed_data(), segment, codes, rows, capacity),
            Values::Of2(out) => copy(out, source.values.typed_data(), segment, codes, rows, capacity),
            Values::Of4(out) => copy(out, source.values.typed_data(), segment, codes, rows, capacity),
            Values::Of8(out) => copy(out, source.values.typed_data(), segment, codes, rows, capacity),
            Values::Of16(out) => copy(out, source.values.typed_data(), segment, codes, rows, capacity),
            Values::Views(out) => {
                let start = out.len();
                copy(out, source.values.typed_data(), segment, codes, rows, capacity);
                if out.len() > start && !source.texts.is_empty() {
                    let base = base(&mut self.texts, &mut self.last, source);
                    shift(&mut out[start..], base);
                }
            }
            Values::Other(out, width) => {
                let (values, width) = (source.values.as_slice(), *width);
                rows.each(segment, codes, |code| out.extend_from_slice(&values[code * width..(code + 1) * width]));
            }
        }
    }

    /// Returns the rows as an array, and begins again.
    ///
    /// # Errors
    /// If texts have more bytes than an array of their type can have.
    pub fn finish(&mut self) -> Result<ArrayRef, ScanError> {
        let rows = std::mem::take(&mut self.rows);
        self.last = None;
        let (values, texts) =
            (std::mem::replace(&mut self.values, Values::new(&self.kept)), std::mem::take(&mut self.texts));
        let nulls = self.valid.take().map(|mut valid| NullBuffer::new(valid.finish()));
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let buffer = match values {
            Values::Of1(bytes) if self.kept == DataType::Boolean => {
                let bits = BooleanBuffer::collect_bool(rows, |row| bytes[row] != 0);
                return Ok(Arc::new(BooleanArray::new(bits, nulls)));
            }
            Values::Views(views) => {
                let array = views_of(&self.kept, fitting(views).into(), texts, nulls);
                return if self.kept == self.data_type {
                    Ok(array)
                } else {
                    Ok(arrow::compute::cast(&array, &self.data_type)?)
                };
            }
            Values::Of1(values) => fitting(values).into(),
            Values::Of2(values) => fitting(values).into(),
            Values::Of4(values) => fitting(values).into(),
            Values::Of8(values) => fitting(values).into(),
            Values::Of16(values) => fitting(values).into(),
            Values::Other(values, _) => fitting(values).into(),
        };
        let data = ArrayData::builder(self.data_type.clone()).len(rows).add_buffer(buffer).nulls(nulls);
        Ok(make_array(data.build()?))
    }
}

/// Returns values in memory of their own size: few of them would keep that of a whole batch.
fn fitting<T>(mut values: Vec<T>) -> Vec<T> {
    if values.len() < values.capacity() / 2 {
        values.shrink_to_fit();
    }
    values
}

fn views_of(
    data_type: &DataType,
    views: ScalarBuffer<u128>,
    texts: Vec<Buffer>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    // A few rows of many pages would keep all of these.
    let used: usize = views.iter().map(|&view| view as u32 as usize).filter(|&length| length > 12).sum();
    let is_sparse = texts.iter().map(Buffer::len).sum::<usize>() > MOST_KEPT * (used + 1024);
    if *data_type == DataType::Utf8View {
        // SAFETY: each view is one of a valid array of texts, and its buffer's number was shifted to where
        // this array has the same buffer.
        let array = unsafe { StringViewArray::new_unchecked(views, texts, nulls) };
        return Arc::new(if is_sparse { array.gc() } else { array });
    }
    // SAFETY: as above.
    let array = unsafe { BinaryViewArray::new_unchecked(views, texts, nulls) };
    Arc::new(if is_sparse { array.gc() } else { array })
}

/// The chosen rows of a segment that begins at row `start`.
#[derive(Clone, Copy)]
enum RowChoice<'a> {
    All { start: usize, count: usize },
    Rows { start: usize, rows: &'a [u32] },
}

impl RowChoice<'_> {
    /// Calls `each` with the place of each row's value.
    #[inline]
    fn each(self, segment: &Segment, codes: &[u32], mut each: impl FnMut(usize)) {
        match (self, segment.consecutive) {
            (Self::All { count, .. }, Some(first)) => (first..first + count).for_each(each),
            (Self::All { start, count }, None) => {
                codes[start..start + count].iter().for_each(|&code| each(code as usize));
            }
            (Self::Rows { start, rows }, Some(first)) => {
                rows.iter().for_each(|&row| each(row as usize - start + first));
            }
            (Self::Rows { rows, .. }, None) => rows.iter().for_each(|&row| each(codes[row as usize] as usize)),
        }
    }
}

/// Copies the values of the chosen rows.
fn copy<T: Copy>(
    out: &mut Vec<T>,
    values: &[T],
    segment: &Segment,
    codes: &[u32],
    rows: RowChoice<'_>,
    capacity: usize,
) {
    if out.capacity() == 0 {
        out.reserve_exact(capacity);
    }
    match (rows, segment.consecutive) {
        (RowChoice::All { count, .. }, Some(first)) => out.extend_from_slice(&values[first..first + count]),
        (RowChoice::All { start, count }, None) => {
            out.extend(codes[start..start + count].iter().map(|&code| values[code as usize]));
        }
        (RowChoice::Rows { start, rows }, Some(first)) => {
            let values = &values[first..];
            out.extend(rows.iter().map(|&row| values[row as usize - start]));
        }
        (RowChoice::Rows { rows, .. }, None) => {
            out.extend(rows.iter().map(|&row| values[codes[row as usize] as usize]));
        }
    }
}

/// Returns the number of the source's first buffer in `texts`, after it has added its buffers if need be.
fn base(texts: &mut Vec<Buffer>, last: &mut Option<(Arc<Source>, u32)>, source: &Arc<Source>) -> u32 {
    match last {
        Some((known, base)) if Arc::ptr_eq(known, source) => *base,
        _ => {
            let base = texts.len() as u32;
            texts.extend(source.texts.iter().cloned());
            *last = Some((Arc::clone(source), base));
            base
        }
    }
}

/// Moves views on by `base` buffers. Values of up to 12 bytes are in the view itself.
fn shift(views: &mut [u128], base: u32) {
    if base > 0 {
        for view in views {
            let add = if *view as u32 > 12 { u128::from(base) << 64 } else { 0 };
            *view += add;
        }
    }
}
