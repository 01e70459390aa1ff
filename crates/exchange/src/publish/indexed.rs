//! The value that a transport passes on.

use std::sync::Arc;

use annulus_rows::{
    gather::{BatchBuilder, SourceBatch},
    partition::RowIndex,
    rows_bytes,
};
use arrow::array::RecordBatch;

use super::Shared;
use crate::{error::ExchangeError, overflow::Overflow, stats::ExchangeStats, transport::Parcel};

/// A batch, and the consumer of each of its rows.
pub(super) struct IndexedBatch {
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

impl IndexedBatch {
    /// Groups the rows of a batch by `hash % N`. Its memory is accounted for if the budget allows.
    /// Most transports bound it in any case.
    pub(super) fn try_new(
        batch: &RecordBatch,
        hashes: &[u64],
        shared: &Shared,
        stats: &mut ExchangeStats,
    ) -> Result<Self, ExchangeError> {
        let mut index = RowIndex::new();
        index.fill_from_hashes(hashes, &shared.modulo)?;
        let mut source = SourceBatch::try_new(batch, &shared.schema)?;
        if shared.cluster {
            let mut builder = BatchBuilder::new(Arc::clone(&shared.schema), batch.num_rows(), Arc::clone(&shared.pool));
            let appended = builder.append(&source, index.rows())?;
            stats.bytes_copied += appended.bytes as u64;
            // The builder takes fewer rows if offsets or keys would overflow. Then the batch is
            // published as it is.
            if appended.rows == batch.num_rows()
                && let Some(grouped) = builder.finish()?
            {
                source = SourceBatch::try_new(&grouped, &shared.schema)?;
                return Ok(Self::accounted(source, index, true, &grouped, shared));
            }
        }
        Ok(Self::accounted(source, index, false, batch, shared))
    }

    fn accounted(source: SourceBatch, index: RowIndex, clustered: bool, batch: &RecordBatch, shared: &Shared) -> Self {
        let bytes = rows_bytes(batch) + index.allocated_bytes();
        let reserved = if shared.overflow.try_reserve(bytes) { bytes } else { 0 };
        Self { source, index, clustered, bytes, reserved, overflow: Arc::clone(&shared.overflow) }
    }

    /// Returns whether the budget has granted the memory.
    pub(super) fn is_accounted(&self) -> bool {
        self.reserved > 0 || self.bytes == 0
    }

    /// Appends the rows of `consumer` to its builder, and passes full batches to `emit`. Returns
    /// the bytes copied.
    pub(super) fn copy_rows(
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
