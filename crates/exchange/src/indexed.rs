//! The value that a transport passes on for an exchange.

use std::sync::Arc;

use annulus_rows::{
    gather::{BatchBuilder, SourceBatch},
    partition::{Modulo, RowIndex},
    pool::BufferPool,
    rows_bytes,
};
use arrow::{array::RecordBatch, datatypes::SchemaRef};

use crate::{contract::Parcel, error::ExchangeError, overflow::Overflow, stats::ExchangeStats};

/// What the batches of an exchange are indexed by.
pub(crate) struct Indexer {
    pub(crate) schema: SchemaRef,
    pub(crate) modulo: Modulo,
    /// Whether rows are grouped by consumer.
    pub(crate) cluster: bool,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) overflow: Arc<dyn Overflow>,
}

/// A batch, and the consumer of each of its rows.
pub struct IndexedBatch {
    source: SourceBatch,
    index: RowIndex,
    /// Whether the rows are grouped by consumer.
    clustered: bool,
    bytes: usize,
    reserved: usize,
    overflow: Arc<dyn Overflow>,
}

impl Parcel for IndexedBatch {
    fn concerns(&self, consumer: usize) -> bool {
        !self.index.range(consumer).is_empty()
    }
}

impl Indexer {
    /// Groups the rows of a batch by `hash % N`. Its memory is accounted for if the budget allows.
    /// Most transports bound it in any case.
    pub(crate) fn index(
        &self,
        batch: &RecordBatch,
        hashes: &[u64],
        stats: &mut ExchangeStats,
    ) -> Result<IndexedBatch, ExchangeError> {
        let mut index = RowIndex::new();
        index.fill_from_hashes(hashes, &self.modulo)?;
        let mut source = SourceBatch::try_new(batch, &self.schema)?;
        if self.cluster {
            let mut builder = BatchBuilder::new(Arc::clone(&self.schema), batch.num_rows(), Arc::clone(&self.pool));
            let appended = builder.append(&source, index.rows())?;
            stats.bytes_copied += appended.bytes as u64;
            // The builder takes fewer rows if offsets or keys would overflow. Then the batch is
            // published as it is.
            if appended.rows == batch.num_rows()
                && let Some(grouped) = builder.finish()?
            {
                source = SourceBatch::try_new(&grouped, &self.schema)?;
                return Ok(self.accounted(source, index, true, &grouped));
            }
        }
        Ok(self.accounted(source, index, false, batch))
    }

    fn accounted(&self, source: SourceBatch, index: RowIndex, clustered: bool, batch: &RecordBatch) -> IndexedBatch {
        let bytes = rows_bytes(batch) + index.allocated_bytes();
        let reserved = if self.overflow.try_reserve(bytes) { bytes } else { 0 };
        IndexedBatch { source, index, clustered, bytes, reserved, overflow: Arc::clone(&self.overflow) }
    }
}

impl IndexedBatch {
    /// Returns whether the budget has granted the memory.
    pub(crate) fn is_accounted(&self) -> bool {
        self.reserved > 0 || self.bytes == 0
    }

    /// Appends the rows of `consumer` to its builder, and passes full batches to `emit`. Returns
    /// the bytes copied.
    pub(crate) fn copy_rows(
        &self,
        consumer: usize,
        builder: &mut BatchBuilder,
        mut emit: impl FnMut(RecordBatch) -> Result<(), ExchangeError>,
    ) -> Result<usize, ExchangeError> {
        if !self.clustered {
            return builder.push(&[(&self.source, self.index.rows_of(consumer))], emit);
        }
        let range = self.index.range(consumer);
        let mut range = range.start as usize..range.end as usize;
        let mut bytes = 0;
        while !range.is_empty() {
            let appended = builder.append_range(&self.source, range.clone())?;
            bytes += appended.bytes;
            range.start += appended.rows;
            if builder.remaining() == 0 || !range.is_empty() {
                builder.finish()?.map_or(Ok(()), &mut emit)?;
            }
        }
        Ok(bytes)
    }
}

impl Drop for IndexedBatch {
    fn drop(&mut self) {
        self.overflow.release(self.reserved);
    }
}
