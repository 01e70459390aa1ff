//! The share of a resident table as the stationary side of a join.

use std::sync::Arc;

use annulus_cyclo::{JoinSpec, PreparedBuild};
use annulus_datafusion::DescribedJoin;
use annulus_join::{Partitions, Side};
use datafusion::{error::Result, execution::memory_pool::MemoryReservation};

use super::{
    budget::{MOST_PART_BYTES, prepare_bytes},
    failure::RingFailure,
};
use crate::state::{Purpose, Share, SharePart};

/// The share of a resident table that is the stationary side.
pub(super) struct ResidentSide {
    pub(super) share: Arc<Share>,
    pub(super) projection: Option<Vec<usize>>,
    /// The encoded join that it is prepared for.
    pub(super) join: Vec<u8>,
}

/// The reservations for prepared rows.
pub(super) struct PreparedMemory<'a> {
    /// For the time of the preparation.
    pub(super) preparation: &'a MemoryReservation,
    /// For rows that the share keeps.
    pub(super) kept: MemoryReservation,
}

impl ResidentSide {
    /// Returns whether the rows need not be read: they are prepared already, or `memory` has grown for that.
    pub(super) fn can_stay(&self, memory: &MemoryReservation) -> bool {
        let info = self.share.info();
        let bytes = prepare_bytes(info.bytes as usize, info.rows as usize);
        self.share.is_prepared(&self.join) || bytes <= MOST_PART_BYTES && memory.try_grow(bytes).is_ok()
    }

    /// Returns the rows in the form that a join with `spec` needs, prepared now or before, and accounts for
    /// them. `most_rows` are the rows of the largest part of a task.
    pub(super) fn prepare(
        self,
        join: &DescribedJoin,
        spec: &JoinSpec,
        most_rows: u64,
        memory: PreparedMemory<'_>,
    ) -> Result<PreparedBuild, RingFailure> {
        let PreparedMemory { preparation, kept } = memory;
        let purpose = Purpose { join: self.join, partitions: Partitions::for_rows(most_rows as usize).count() };
        if let Some(prepared) = self.share.prepared(&purpose) {
            preparation.free();
            return Ok(prepared);
        }
        let batches = self.share.part(SharePart::WHOLE).map(|batch| match &self.projection {
            Some(columns) => join.read(Side::Left, &batch.project(columns)?),
            None => join.read(Side::Left, batch),
        });
        let prepared = PreparedBuild::new(spec, batches.collect::<Result<_>>()?)?;
        preparation.free();
        if !self.share.keep_prepared(purpose, &prepared, kept) {
            // The rows exist as long as this join.
            preparation.grow(prepared.memory_bytes());
        }
        Ok(prepared)
    }
}
