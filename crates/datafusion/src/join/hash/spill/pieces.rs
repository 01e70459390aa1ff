//! The rows of one part, collected into pieces of about the same size.

use std::sync::Arc;

use annulus_rows::{BatchBuilder, BufferPool, Rows, SourceBatch, gather::pool_sizes, rows_bytes};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::error::{DataFusionError, Result};

use super::budget::MemoryBudget;

/// The fewest rows of a piece.
const LEAST_ROWS: usize = 64;
/// The number of idle buffers of one size that are kept for the next pieces.
const IDLE_BUFFERS: usize = 2;

/// The size of pieces: about this many bytes, and at most this many rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct PieceSize {
    pub(super) bytes: usize,
    pub(super) rows: usize,
}

/// The size of pieces, and the memory for them.
#[derive(Debug)]
pub(super) struct Mould {
    schema: SchemaRef,
    rows: usize,
    bytes: usize,
    pool: Arc<BufferPool>,
}

/// The pieces of a part, of which one is open.
#[derive(Debug)]
pub(super) struct Pieces {
    builder: BatchBuilder,
    /// The bytes that are reserved for the open piece.
    held: usize,
    most_bytes: usize,
}

impl Mould {
    /// Returns the mould of pieces of this size, for rows like those of a batch.
    pub(super) fn new(like: &RecordBatch, size: PieceSize) -> Self {
        let width = rows_bytes(like).div_ceil(like.num_rows().max(1)).max(1);
        let rows = (size.bytes / width).max(LEAST_ROWS).min(size.rows.max(1));
        let schema = like.schema();
        let pool = BufferPool::new(pool_sizes(&schema, rows), IDLE_BUFFERS);
        Self { schema, rows, bytes: size.bytes, pool }
    }

    pub(super) fn pieces(&self) -> Pieces {
        let builder = BatchBuilder::new(Arc::clone(&self.schema), self.rows, Arc::clone(&self.pool));
        Pieces { builder, held: 0, most_bytes: 2 * self.bytes }
    }

    /// Looks up the columns of a batch.
    ///
    /// # Errors
    /// If it has other columns.
    pub(super) fn source(&self, batch: &RecordBatch) -> Result<SourceBatch> {
        SourceBatch::try_new(batch, &self.schema).map_err(from_rows)
    }
}

impl Pieces {
    /// Adds rows, and hands on the pieces that they complete.
    ///
    /// # Errors
    /// The first error of `full`, or of a kernel.
    pub(super) fn push(
        &mut self,
        (source, mut rows): (&SourceBatch, Rows<'_>),
        budget: &MemoryBudget,
        mut full: impl FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        while !rows.is_empty() {
            let taken = self.builder.append(source, rows).map_err(from_rows)?.rows;
            rows = rows.split_at(taken).1;
            self.account(budget);
            if self.builder.remaining() == 0 || !rows.is_empty() || self.held > self.most_bytes {
                self.finish(budget)?.map_or(Ok(()), &mut full)?;
            }
        }
        Ok(())
    }

    /// Returns the open piece, if it has rows, and gives its memory back.
    ///
    /// # Errors
    /// If a kernel fails.
    pub(super) fn finish(&mut self, budget: &MemoryBudget) -> Result<Option<RecordBatch>> {
        let piece = self.builder.finish().map_err(from_rows);
        budget.shrink(std::mem::take(&mut self.held));
        piece
    }

    fn account(&mut self, budget: &MemoryBudget) {
        let now = self.builder.allocated_bytes();
        if now >= self.held {
            budget.grow(now - self.held);
        } else {
            budget.shrink(self.held - now);
        }
        self.held = now;
    }
}

fn from_rows(error: annulus_rows::RowsError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
