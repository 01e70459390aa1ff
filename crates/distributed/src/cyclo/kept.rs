//! The share of a resident table as the stationary side of a join.

use std::sync::Arc;

use annulus_cyclo::{JoinSpec, PreparedBuild};
use annulus_datafusion::CycloJoin;
use annulus_join::{Partitions, Side};
use datafusion::{error::Result, execution::memory_pool::MemoryReservation};

use super::{
    run::{Ended, own_error},
    stationary::{MOST_BYTES, prepare_bytes},
};
use crate::resident::{Purpose, Share};

/// The share of a resident table that is the left side.
pub(super) struct Resident {
    pub(super) share: Arc<Share>,
    pub(super) projection: Option<Vec<usize>>,
    /// The join that it is prepared for.
    pub(super) purpose: Vec<u8>,
}

impl Resident {
    /// Returns whether the rows need not be read: they are prepared already, or `memory` has room for that.
    pub(super) fn can_stay(&self, memory: &MemoryReservation) -> bool {
        let info = self.share.info();
        let bytes = prepare_bytes(info.bytes as usize, info.rows as usize);
        self.share.is_prepared(&self.purpose) || bytes <= MOST_BYTES && memory.try_grow(bytes).is_ok()
    }

    /// Returns the rows as a join with `spec` needs them, prepared now or before, and accounts for them.
    pub(super) fn prepare(
        self,
        join: &CycloJoin,
        spec: &JoinSpec,
        rows: u64,
        memory: &MemoryReservation,
        kept: MemoryReservation,
    ) -> Result<PreparedBuild, Ended> {
        let purpose = Purpose { join: self.purpose, partitions: Partitions::for_rows(rows as usize).count() };
        if let Some(prepared) = self.share.prepared(&purpose) {
            memory.free();
            return Ok(prepared);
        }
        let batches = self.share.part(0, 1).map(|batch| match &self.projection {
            Some(columns) => join.read(Side::Left, &batch.project(columns)?),
            None => join.read(Side::Left, batch),
        });
        let prepared = PreparedBuild::new(spec, batches.collect::<Result<_>>()?).map_err(own_error)?;
        memory.free();
        if !self.share.keep_prepared(purpose, &prepared, kept) {
            // It is there anyway, as long as this join.
            memory.grow(prepared.memory_bytes());
        }
        Ok(prepared)
    }
}
