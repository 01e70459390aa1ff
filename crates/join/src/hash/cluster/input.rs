//! The input of clustering: runs of rows, and the choice of the columns that are scattered.

use arrow::{
    array::Array,
    buffer::{Buffer, NullBuffer, ScalarBuffer},
    datatypes::DataType,
};

use super::{
    scatter::Target,
    views::{VIEW_BYTES, ViewColumn},
};
use crate::{
    error::JoinError,
    hash::radix::Radix,
    key::{Key, KeyValues, KeyedBatch, Keys},
};

/// The assignment of columns to the scatter and to the gather that follows.
#[derive(Debug)]
pub(super) struct Layout {
    /// The columns of 1, 2, 4, 8, 16 or 32 bytes per value, and that width.
    pub(super) fixed: Vec<(usize, usize)>,
    /// The views of each of those columns, if it is a column of views.
    pub(super) views: Vec<Option<ViewColumn>>,
    /// All other columns.
    pub(super) others: Vec<usize>,
    /// Whether each row's number is scattered too, after the columns. It is if a column has nulls.
    pub(super) row_numbers: bool,
    /// The index of the key in `fixed`, and whether it has 8 bytes.
    key: (usize, bool),
}

/// Returns the bytes per value of a column that is scattered.
fn scattered_bytes(data_type: &DataType) -> Option<usize> {
    match data_type.primitive_width() {
        Some(width @ (1 | 2 | 4 | 8 | 16 | 32)) => Some(width),
        _ => is_view(data_type).then_some(VIEW_BYTES),
    }
}

fn is_view(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::BinaryView)
}

impl Layout {
    pub(super) fn new(keys: &Keys, pieces: &[KeyedBatch], threads: usize) -> Self {
        let data_type = |column: usize| keys.full().field(column).data_type();
        let width = |column: usize| Some((column, scattered_bytes(data_type(column))?));
        let columns = 0..keys.full().fields().len();
        let fixed: Vec<(usize, usize)> = columns.clone().filter_map(width).collect();
        let others: Vec<usize> = columns.filter(|&column| width(column).is_none()).collect();
        let has_nulls = |piece: &KeyedBatch| fixed.iter().any(|&(column, _)| piece.columns[column].null_count() > 0);
        let row_numbers = pieces.iter().any(has_nulls);
        let views = |&(column, _): &(usize, usize)| {
            is_view(data_type(column)).then(|| ViewColumn::from_pieces(pieces, column, threads))
        };
        let views = fixed.iter().map(views).collect();
        let key = keys.key_column();
        let at = fixed.iter().position(|&(column, _)| column == key).expect("a key has 4 or 8 bytes");
        let key = (at, fixed[at].1 == size_of::<u64>());
        Self { fixed, views, others, row_numbers, key }
    }

    /// Allocates the target of each scattered column.
    pub(super) fn targets(&self, rows: usize, is_kept: bool) -> Result<Vec<Target>, JoinError> {
        self.widths().map(|width| Target::new(rows, width, is_kept)).collect()
    }

    /// Iterates over the bytes per value of each scattered column.
    fn widths(&self) -> impl Iterator<Item = usize> {
        self.fixed.iter().map(|&(_, width)| width).chain(self.row_numbers.then_some(size_of::<u32>()))
    }
}

/// Rows to be clustered.
#[derive(Debug)]
pub(super) struct Input {
    keys: KeyValues,
    nulls: Option<NullBuffer>,
    /// The values of each scattered column. Row numbers are included only if the rows were
    /// scattered before.
    columns: Vec<Buffer>,
    /// The number of the first row.
    first_row: u32,
    /// The index of the piece that it was made from.
    pub(super) piece: usize,
}

/// Consecutive rows of an input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span<'a> {
    pub(super) input: &'a Input,
    pub(super) start: usize,
    pub(super) len: usize,
}

/// The values of a column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Values<'a> {
    /// The values as bytes.
    Bytes(&'a [u8]),
    /// Consecutive numbers from this one on.
    From(u32),
}

impl Input {
    pub(super) fn of_pieces(layout: &Layout, pieces: &[KeyedBatch]) -> Vec<Self> {
        let mut first_row = 0;
        let input = |(number, piece): (usize, &KeyedBatch)| {
            let values = |(&(column, width), views): (&(usize, usize), &Option<ViewColumn>)| {
                if let Some(views) = views {
                    return views.pieces[number].clone();
                }
                let data = piece.columns[column].to_data();
                data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width)
            };
            let columns = layout.fixed.iter().zip(&layout.views).map(values).collect();
            let input =
                Self { keys: piece.values.clone(), nulls: piece.nulls.clone(), columns, first_row, piece: number };
            first_row += piece.rows() as u32;
            input
        };
        pieces.iter().enumerate().map(input).collect()
    }

    /// Returns the rows that an earlier pass has scattered.
    pub(super) fn of_buffers(layout: &Layout, columns: &[Buffer], rows: usize) -> Self {
        let (at, wide) = layout.key;
        let key = columns[at].clone();
        let keys = if wide {
            KeyValues::Wide(ScalarBuffer::new(key, 0, rows))
        } else {
            KeyValues::Narrow(ScalarBuffer::new(key, 0, rows))
        };
        Self { keys, nulls: None, columns: columns.to_vec(), first_row: 0, piece: 0 }
    }
}

impl<'a> Span<'a> {
    /// Splits the span into consecutive spans of at most `rows` rows.
    pub(super) fn chunks(self, rows: usize) -> impl Iterator<Item = Self> {
        (0..self.len).step_by(rows).map(move |at| Self { start: self.start + at, len: rows.min(self.len - at), ..self })
    }

    /// Writes the partition of each row: the one after all others for null keys.
    pub(super) fn groups(self, radix: Radix, groups: &mut [u32]) {
        match &self.input.keys {
            KeyValues::Narrow(keys) => fill(&keys[self.start..][..self.len], radix, groups),
            KeyValues::Wide(keys) => fill(&keys[self.start..][..self.len], radix, groups),
        }
        if let Some(nulls) = &self.input.nulls {
            for (row, group) in groups.iter_mut().enumerate() {
                if nulls.is_null(self.start + row) {
                    *group = radix.count() as u32;
                }
            }
        }
    }

    /// Returns the values of scattered column `column`, of `width` bytes each.
    pub(super) fn values(self, column: usize, width: usize) -> Values<'a> {
        match self.input.columns.get(column) {
            Some(values) => Values::Bytes(&values[self.start * width..][..self.len * width]),
            None => Values::From(self.input.first_row + self.start as u32),
        }
    }
}

/// Writes the partition of each key.
fn fill<K: Key>(keys: &[K], radix: Radix, groups: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
        // SAFETY: the features were detected.
        return unsafe { fill_wide(keys, radix, groups) };
    }
    fill_any(keys, radix, groups);
}

/// [`fill_any`], which the compiler vectorizes here with 512-bit vectors.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn fill_wide<K: Key>(keys: &[K], radix: Radix, groups: &mut [u32]) {
    fill_any(keys, radix, groups);
}

#[inline(always)]
fn fill_any<K: Key>(keys: &[K], radix: Radix, groups: &mut [u32]) {
    for (key, group) in keys.iter().zip(groups) {
        *group = radix.number(key.hash()) as u32;
    }
}

/// Splits all rows into `threads` parts of about equal length.
pub(super) fn shares(inputs: &[Input], threads: usize) -> Vec<Vec<Span<'_>>> {
    let total: usize = inputs.iter().map(|input| input.keys.len()).sum();
    let mut rest = inputs.iter().map(|input| Span { input, start: 0, len: input.keys.len() });
    let mut current = rest.next();
    let ends = (1..=threads.max(1)).map(|part| total * part / threads.max(1));
    let mut at = 0;
    let mut share = |end: usize| {
        let mut spans = Vec::new();
        while at < end
            && let Some(span) = current
        {
            let len = span.len.min(end - at);
            spans.push(Span { len, ..span });
            at += len;
            current = if len == span.len {
                rest.next()
            } else {
                Some(Span { start: span.start + len, len: span.len - len, ..span })
            };
        }
        spans
    };
    ends.map(&mut share).collect()
}
