//! One consumer's output batch, being filled.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{Schema, SchemaRef},
    error::ArrowError,
};

use super::{
    column::{ColumnBuilder, buffer_sizes},
    source::{Select, SourceBatch, Space},
};
use crate::{error::RowsError, partition::Rows, pool::BufferPool};

/// Most rows of a batch. A value in a buffer has at most `i32::MAX` bytes, so that no buffer's size
/// overflows.
const MAX_ROWS: usize = 1 << 31;

/// The sizes of buffers that a builder for this schema takes from its pool; a size stands there
/// once for each buffer. A builder takes at most 2^31 rows, so larger numbers give the sizes for
/// these.
pub fn pool_sizes(schema: &Schema, batch_rows: usize) -> Vec<usize> {
    let batch_rows = batch_rows.min(MAX_ROWS);
    schema.fields().iter().flat_map(|field| buffer_sizes(field.data_type(), batch_rows)).collect()
}

/// What an append did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// Rows taken, from the first; fewer than given if the batch has no more room.
    pub rows: usize,
    /// Bytes of column data copied.
    pub bytes: usize,
}

/// Collects rows into batches of a fixed number of rows. Memory is taken from the pool with the
/// first row of a batch.
#[derive(Debug)]
pub struct BatchBuilder {
    schema: SchemaRef,
    pool: Arc<BufferPool>,
    batch_rows: usize,
    rows: usize,
    columns: Vec<ColumnBuilder>,
    /// Whether `batch_rows` is the only limit.
    unbounded: bool,
}

impl BatchBuilder {
    /// For batches of `schema` with `batch_rows` rows (at least one), in memory from `pool`, which
    /// is best made for [`pool_sizes`]. With more than 2^31 rows it takes nothing: every append
    /// is an error.
    pub fn new(schema: SchemaRef, batch_rows: usize, pool: Arc<BufferPool>) -> Self {
        let columns = new_columns(&schema);
        let unbounded = columns.iter().all(ColumnBuilder::is_unbounded);
        Self { schema, pool, batch_rows: batch_rows.max(1), rows: 0, columns, unbounded }
    }

    /// Rows collected.
    #[inline]
    pub fn num_rows(&self) -> usize {
        self.rows
    }

    /// Rows until the batch is full.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.batch_rows - self.rows
    }

    /// Appends rows of `source`, as many as the batch has room for.
    ///
    /// Room is [`remaining`](Self::remaining) rows, or fewer where 32-bit offsets or dictionary
    /// keys would overflow; an empty builder takes at least one row. If not all rows were
    /// taken, or none remain, [`finish`](Self::finish) and go on with the rest. O(rows *
    /// columns).
    ///
    /// # Errors
    /// If the source was made for other columns, a row is beyond its end, the batch is to have more
    /// than 2^31 rows, or an Arrow kernel fails. In the last case the rows collected so far are
    /// lost.
    pub fn append(&mut self, source: &SourceBatch, rows: Rows<'_>) -> Result<Appended, RowsError> {
        self.append_limited(source, Select::Rows(rows))
    }

    /// Like [`append`](Self::append), for neighbouring rows.
    ///
    /// # Errors
    /// As there.
    pub fn append_range(&mut self, source: &SourceBatch, rows: Range<usize>) -> Result<Appended, RowsError> {
        self.append_limited(source, Select::Range { start: rows.start, len: rows.len() })
    }

    /// Appends all rows of all runs, and hands each batch that is full to `emit`. Returns the bytes
    /// copied.
    ///
    /// Where they all fit, this goes column by column through all runs: cheaper than as many
    /// [`append`](Self::append)s if each has few rows.
    ///
    /// # Errors
    /// As [`append`](Self::append), or the first error of `emit`.
    pub fn push<E: From<RowsError>>(
        &mut self,
        runs: &[(&SourceBatch, Rows<'_>)],
        mut emit: impl FnMut(RecordBatch) -> Result<(), E>,
    ) -> Result<usize, E> {
        let rows = runs.iter().fold(0, |sum: usize, (_, rows)| sum.saturating_add(rows.len()));
        if self.unbounded && rows < self.remaining() {
            for (source, rows) in runs {
                self.check(source, Select::Rows(*rows))?;
            }
            // SAFETY: all runs are checked, and there is room for them.
            return Ok(unsafe {
                self.append_runs(runs.iter().map(|&(source, rows)| (source, Select::Rows(rows))), rows)?
            });
        }
        let mut bytes = 0;
        for &(source, mut rows) in runs {
            while !rows.is_empty() {
                let appended = self.append(source, rows)?;
                bytes += appended.bytes;
                rows = rows.split_at(appended.rows).1;
                if self.remaining() == 0 || !rows.is_empty() {
                    self.finish()?.map_or(Ok(()), &mut emit)?;
                }
            }
        }
        Ok(bytes)
    }

    /// The batch collected so far, if it has any row; the builder begins the next one.
    ///
    /// # Errors
    /// If an Arrow kernel fails, or a column that must not be null has nulls. The rows are then
    /// lost.
    pub fn finish(&mut self) -> Result<Option<RecordBatch>, RowsError> {
        let rows = std::mem::take(&mut self.rows);
        if rows == 0 {
            return Ok(None);
        }
        let fields = self.schema.fields().iter().zip(&mut self.columns);
        // SAFETY: every column was appended exactly `rows` rows of its field's type.
        let columns = fields.map(|(field, column)| unsafe { column.finish(field.data_type(), rows) });
        let columns: Result<Vec<_>, ArrowError> = columns.collect();
        if columns.is_err() {
            self.columns = new_columns(&self.schema);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns?, &options)?))
    }

    fn append_limited(&mut self, source: &SourceBatch, select: Select<'_>) -> Result<Appended, RowsError> {
        self.check(source, select)?;
        let mut select = select.head(self.remaining());
        if !self.unbounded && select.len() > 0 {
            for (column, source) in self.columns.iter().zip(source.columns()) {
                // SAFETY: the selection is checked.
                select = select.head(unsafe { column.room(source, select) });
            }
        }
        let rows = select.len();
        // SAFETY: the selection is checked, and limited to the room.
        let bytes = unsafe { self.append_runs([(source, select)].into_iter(), rows)? };
        Ok(Appended { rows, bytes })
    }

    /// An error unless the source has this builder's columns, and the rows, and a batch can be as
    /// long as it is to be.
    fn check(&self, source: &SourceBatch, select: Select<'_>) -> Result<(), RowsError> {
        if self.batch_rows > MAX_ROWS {
            let (value, remedy) = (self.batch_rows.to_string(), "choose at most 2147483648");
            return Err(RowsError::Config { option: "batch_rows", value, remedy });
        }
        source.check(&self.schema)?;
        if select.bound() <= source.num_rows() {
            return Ok(());
        }
        let message = format!("row {} of a batch of {} rows", select.bound().saturating_sub(1), source.num_rows());
        Err(ArrowError::InvalidArgumentError(message).into())
    }

    /// Appends runs of `rows` rows altogether, column by column. Returns the bytes copied.
    ///
    /// # Safety
    /// All runs are within their sources, which have this builder's columns, and there is room for
    /// them.
    unsafe fn append_runs<'a>(
        &mut self,
        runs: impl Iterator<Item = (&'a SourceBatch, Select<'a>)> + Clone,
        rows: usize,
    ) -> Result<usize, RowsError> {
        let mut bytes = 0;
        // Should an Arrow kernel panic, columns of different lengths must not be seen again: none are left
        // then.
        let mut columns = std::mem::take(&mut self.columns);
        for (index, column) in columns.iter_mut().enumerate() {
            let mut space = Space { pool: &self.pool, capacity: self.batch_rows, at: self.rows };
            for (source, select) in runs.clone().filter(|(_, select)| select.len() > 0) {
                // SAFETY: the caller's promises; each run makes the column longer by its rows.
                match unsafe { column.append(&source.columns()[index], select, space) } {
                    Ok(copied) => bytes += copied,
                    Err(error) => {
                        self.rows = 0;
                        self.columns = new_columns(&self.schema);
                        return Err(error.into());
                    }
                }
                space.at += select.len();
            }
        }
        self.columns = columns;
        self.rows += rows;
        Ok(bytes)
    }
}

fn new_columns(schema: &Schema) -> Vec<ColumnBuilder> {
    schema.fields().iter().map(|field| ColumnBuilder::new(field.data_type())).collect()
}
