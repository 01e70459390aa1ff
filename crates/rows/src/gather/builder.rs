//! The builder of one consumer's output batches.

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

/// The most rows of a batch. A value in a buffer has at most `i32::MAX` bytes, so no buffer's size
/// overflows.
const MAX_ROWS: usize = 1 << 31;

/// Returns the sizes of the buffers that a builder for this schema takes from its pool, with one
/// entry for each buffer. A builder takes at most 2^31 rows, so larger numbers give the sizes for
/// these.
pub fn pool_sizes(schema: &Schema, batch_rows: usize) -> Vec<usize> {
    let batch_rows = batch_rows.min(MAX_ROWS);
    schema.fields().iter().flat_map(|field| buffer_sizes(field.data_type(), batch_rows)).collect()
}

/// The outcome of an append.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppendOutcome {
    /// The rows taken, from the first on. Fewer than given if the batch has no more room.
    pub rows: usize,
    /// The bytes of column data that were copied.
    pub bytes: usize,
}

/// A builder of batches with a fixed number of rows. It takes memory from its pool with the first
/// row of a batch.
///
/// ```
/// use std::sync::Arc;
///
/// use annulus_rows::{BatchBuilder, BufferPool, Modulo, RowIndex, SourceBatch, gather::pool_sizes};
/// use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
/// use arrow::datatypes::Int64Type;
///
/// let ids: ArrayRef = Arc::new(Int64Array::from(vec![10, 11, 12, 13]));
/// let batch = RecordBatch::try_from_iter([("id", ids)])?;
/// let schema = batch.schema();
///
/// let mut index = RowIndex::new();
/// index.fill_from_hashes(&[10, 11, 12, 13], &Modulo::new(2))?;
///
/// // The rows of consumer 1, copied into batches of up to 1024 rows.
/// let pool = BufferPool::new(pool_sizes(&schema, 1024), 2);
/// let mut builder = BatchBuilder::new(Arc::clone(&schema), 1024, pool);
/// builder.append(&SourceBatch::try_new(&batch, &schema)?, index.rows_of(1))?;
/// let rows = builder.finish()?.expect("there are rows");
/// assert_eq!(rows.column(0).as_primitive::<Int64Type>().values(), &[11, 13]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// Creates a builder of batches of `schema` with `batch_rows` rows, at least one. Memory comes
    /// from `pool`, which should be created for [`pool_sizes`]. With more than 2^31 rows, every
    /// append is an error.
    pub fn new(schema: SchemaRef, batch_rows: usize, pool: Arc<BufferPool>) -> Self {
        let columns = new_columns(&schema);
        let unbounded = columns.iter().all(ColumnBuilder::is_unbounded);
        Self { schema, pool, batch_rows: batch_rows.max(1), rows: 0, columns, unbounded }
    }

    /// Returns the rows collected.
    #[inline]
    pub fn num_rows(&self) -> usize {
        self.rows
    }

    /// Returns the rows until the batch is full.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.batch_rows - self.rows
    }

    /// Returns the bytes of memory that the collected rows have taken: whole buffers, as for a full
    /// batch, and the dictionaries that they refer to. O(columns).
    pub fn allocated_bytes(&self) -> usize {
        self.columns.iter().map(ColumnBuilder::allocated_bytes).sum()
    }

    /// Appends the first of `rows` of `source` for which the batch has room.
    ///
    /// Room is [`remaining`](Self::remaining) rows, or fewer where 32-bit offsets or dictionary
    /// keys would overflow. An empty builder takes at least one row. If not all rows were
    /// taken, or none remain, call [`finish`](Self::finish) and append the rest. O(rows *
    /// columns).
    ///
    /// # Errors
    /// If the source was made for other columns, a row is beyond its end, batches have more than
    /// 2^31 rows, or an Arrow kernel fails. In the last case the collected rows are lost.
    pub fn append(&mut self, source: &SourceBatch, rows: Rows<'_>) -> Result<AppendOutcome, RowsError> {
        self.append_limited(source, Select::Rows(rows))
    }

    /// Appends neighbouring rows like [`append`](Self::append).
    ///
    /// # Errors
    /// Those of [`append`](Self::append).
    pub fn append_range(&mut self, source: &SourceBatch, rows: Range<usize>) -> Result<AppendOutcome, RowsError> {
        self.append_limited(source, Select::Range { start: rows.start, len: rows.len() })
    }

    /// Appends all rows of all runs, and passes each full batch to `emit`. Returns the bytes
    /// copied.
    ///
    /// If all rows fit, this copies column by column through all runs. That is cheaper than an
    /// [`append`](Self::append) for each run if the runs are short.
    ///
    /// # Errors
    /// Those of [`append`](Self::append), and the first error of `emit`.
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

    /// Returns the collected batch, if it has any row. The builder begins the next one.
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

    fn append_limited(&mut self, source: &SourceBatch, select: Select<'_>) -> Result<AppendOutcome, RowsError> {
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
        Ok(AppendOutcome { rows, bytes })
    }

    /// Checks that the source has this builder's columns and the selected rows, and that batches
    /// are not too long.
    fn check(&self, source: &SourceBatch, select: Select<'_>) -> Result<(), RowsError> {
        if self.batch_rows > MAX_ROWS {
            let (value, remedy) = (self.batch_rows.to_string(), "choose at most 2147483648");
            return Err(RowsError::Argument { argument: "batch_rows", value, remedy });
        }
        source.check(&self.schema)?;
        if select.bound() <= source.num_rows() {
            return Ok(());
        }
        let message = format!("row {} of a batch of {} rows", select.bound().saturating_sub(1), source.num_rows());
        Err(ArrowError::InvalidArgumentError(message).into())
    }

    /// Appends runs of `rows` rows together, column by column. Returns the bytes copied.
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
        // If an Arrow kernel panics, columns of different lengths must not be used again. None are left
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
