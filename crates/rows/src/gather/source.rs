//! The sources of copies: a batch whose columns are looked up once, and the rows selected from it.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayData, ArrayRef, RecordBatch},
    buffer::NullBuffer,
    datatypes::{Schema, SchemaRef},
};

use crate::{error::RowsError, partition::Rows};

/// A batch that is prepared to be copied from, by any number of consumers. Its columns may be
/// slices.
///
/// The example of [`BatchBuilder`](super::BatchBuilder) uses it.
#[derive(Clone, Debug)]
pub struct SourceBatch {
    schema: SchemaRef,
    rows: usize,
    columns: Vec<SourceColumn>,
}

#[derive(Clone, Debug)]
pub(super) struct SourceColumn {
    pub(super) array: ArrayRef,
    pub(super) data: ArrayData,
    /// Whether any row is null. A column without nulls costs nothing.
    has_nulls: bool,
}

impl SourceBatch {
    /// Looks up the columns of `batch`, which must have those of `schema`. Names and metadata are
    /// not compared.
    ///
    /// # Errors
    /// [`RowsError::Schema`] if the number or the types of the columns differ.
    pub fn try_new(batch: &RecordBatch, schema: &SchemaRef) -> Result<Self, RowsError> {
        if !same_types(schema, batch.schema_ref()) {
            return Err(schema_error(schema, batch.schema_ref()));
        }
        let column = |array: &ArrayRef| SourceColumn {
            array: Arc::clone(array),
            data: array.to_data(),
            has_nulls: array.null_count() > 0,
        };
        let columns = batch.columns().iter().map(column).collect();
        Ok(Self { schema: Arc::clone(schema), rows: batch.num_rows(), columns })
    }

    /// Returns the number of rows.
    #[inline]
    pub fn num_rows(&self) -> usize {
        self.rows
    }

    #[inline]
    pub(super) fn columns(&self) -> &[SourceColumn] {
        &self.columns
    }

    /// Checks that this was made for `schema`, or fails with [`RowsError::Schema`]. Pointers are
    /// compared first.
    #[inline]
    pub(super) fn check(&self, schema: &SchemaRef) -> Result<(), RowsError> {
        if Arc::ptr_eq(&self.schema, schema) || same_types(schema, &self.schema) {
            return Ok(());
        }
        Err(schema_error(schema, &self.schema))
    }
}

impl SourceColumn {
    #[inline]
    pub(super) fn nulls(&self) -> Option<&NullBuffer> {
        if self.has_nulls { self.data.nulls() } else { None }
    }

    /// Returns the start of buffer `index`. Elements begin at `self.data.offset()`.
    #[inline]
    pub(super) fn buffer(&self, index: usize) -> *const u8 {
        self.data.buffers()[index].as_ptr()
    }
}

fn same_types(a: &Schema, b: &Schema) -> bool {
    a.fields().len() == b.fields().len()
        && a.fields().iter().zip(b.fields()).all(|(a, b)| a.data_type() == b.data_type())
}

fn schema_error(expected: &Schema, found: &Schema) -> RowsError {
    let columns = |schema: &Schema| {
        let fields: Vec<String> =
            schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
        format!("({})", fields.join(", "))
    };
    RowsError::Schema { expected: columns(expected), found: columns(found) }
}

/// The rows to copy.
#[derive(Clone, Copy, Debug)]
pub(super) enum Select<'a> {
    Rows(Rows<'a>),
    Range { start: usize, len: usize },
}

impl Select<'_> {
    #[inline]
    pub(super) fn len(self) -> usize {
        match self {
            Self::Rows(rows) => rows.len(),
            Self::Range { len, .. } => len,
        }
    }

    /// Returns a bound below which all rows are.
    #[inline]
    pub(super) fn bound(self) -> usize {
        match self {
            Self::Rows(rows) => rows.bound(),
            Self::Range { start, len } => start.saturating_add(len),
        }
    }

    /// Returns the most times that a row occurs.
    #[inline]
    pub(super) fn max_repeats(self) -> usize {
        match self {
            Self::Rows(rows) => rows.max_repeats(),
            Self::Range { .. } => 1,
        }
    }

    /// Returns the first `rows` rows.
    #[inline]
    pub(super) fn head(self, rows: usize) -> Self {
        match self {
            Self::Rows(all) => Self::Rows(all.split_at(rows).0),
            Self::Range { start, len } => Self::Range { start, len: len.min(rows) },
        }
    }

    /// Calls `f` with each row in order. It is monomorphised for each kind, so that the loop has no
    /// branch on the kind.
    #[inline]
    pub(super) fn for_each(self, mut f: impl FnMut(usize)) {
        match self {
            Self::Rows(rows) => rows.as_slice().iter().for_each(|&row| f(row as usize)),
            Self::Range { start, len } => (start..start + len).for_each(f),
        }
    }

    /// Returns whether `f` holds for any row.
    #[inline]
    pub(super) fn any(self, mut f: impl FnMut(usize) -> bool) -> bool {
        match self {
            Self::Rows(rows) => rows.as_slice().iter().any(|&row| f(row as usize)),
            Self::Range { start, len } => (start..start + len).any(f),
        }
    }
}

/// The space for a copy: the rows that an output batch can hold, the rows already there, and the
/// source of its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Space<'a> {
    pub(super) pool: &'a Arc<crate::pool::BufferPool>,
    pub(super) capacity: usize,
    pub(super) at: usize,
}
