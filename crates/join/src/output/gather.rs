//! Columns of both sides, gathered for the same pairs.

use std::sync::Arc;

use annulus_rows::{
    error::RowsError,
    gather::{BatchBuilder, SourceBatch, pool_sizes},
    partition::Rows,
    pool::BufferPool,
};
use arrow::{array::RecordBatch, datatypes::SchemaRef};

use crate::error::JoinError;

/// The number of idle buffers of one size that are kept for the next batches.
const IDLE_BUFFERS: usize = 8;

/// Returns a pool of buffers for batches of `rows` rows with these columns.
pub(super) fn pool(schemas: [&SchemaRef; 2], rows: usize) -> Arc<BufferPool> {
    BufferPool::new(schemas.into_iter().flat_map(|schema| pool_sizes(schema, rows)), IDLE_BUFFERS)
}

/// Collects the rows of pairs, in one batch for the build side and one for the probe side.
pub(super) struct PairGather {
    build: BatchBuilder,
    probe: BatchBuilder,
}

impl PairGather {
    pub(super) fn new(build: &SchemaRef, probe: &SchemaRef, rows: usize, pool: &Arc<BufferPool>) -> Self {
        let builder = |schema| BatchBuilder::new(Arc::clone(schema), rows, Arc::clone(pool));
        Self { build: builder(build), probe: builder(probe) }
    }

    /// Takes pairs, and returns how many. If it does not take all of them, or
    /// [`is_full`](Self::is_full), call `finish` next. An empty one takes at least one pair.
    pub(super) fn append(
        &mut self,
        sources: (&SourceBatch, &SourceBatch),
        pairs: (Rows<'_>, Rows<'_>),
    ) -> Result<usize, JoinError> {
        let build = self.build.append(sources.0, pairs.0).map_err(outside)?.rows;
        Ok(self.probe.append(sources.1, pairs.1.split_at(build).0).map_err(outside)?.rows)
    }

    pub(super) fn is_full(&self) -> bool {
        self.build.remaining() == 0
    }

    /// Returns the collected pairs, build side first, if there are any.
    pub(super) fn finish(&mut self) -> Result<Option<(RecordBatch, RecordBatch)>, JoinError> {
        let (build, probe) = (self.build.finish().map_err(outside)?, self.probe.finish().map_err(outside)?);
        // Strings of one side may have left no room for pairs that the other side has taken.
        Ok(build.zip(probe).map(|(build, probe)| (build.slice(0, probe.num_rows()), probe)))
    }
}

pub(crate) fn outside(error: RowsError) -> JoinError {
    JoinError::Outside(Box::new(error))
}
