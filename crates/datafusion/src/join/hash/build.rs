//! The build side: read by a task for each of its partitions, then clustered and put into one table
//! by all threads. Rows that do not fit in memory are on disk (`spill`).

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use annulus_join::{BuildSide, KeySet, SideRows};
use datafusion::{error::Result, execution::SendableRecordBatchStream};

use super::{
    layout::BUILD,
    metrics::BuildMetrics,
    spill::{BuildRows, MemoryBudget, SpillContext, SpilledParts, gather},
};
use crate::{
    error::from_join,
    join::{
        collect::{SharedBuild, no_memory, shared},
        key_filter::{Known, Publisher},
    },
};

/// The build side, ready to be probed, and what the probing streams share.
#[derive(Debug)]
pub(super) struct BuildTable {
    pub(super) side: BuildSide,
    pub(super) rows: SideRows,
    /// The probing streams that have not come to their end.
    probing: Arc<AtomicUsize>,
    pub(super) seen: Arc<ProbeFacts>,
    /// The parts of the build side that are on disk, if this is the table of the others.
    pub(super) spilled: Option<SpilledParts>,
    _memory: MemoryBudget,
}

/// What a null-aware anti join must know of the whole probe side.
#[derive(Debug, Default)]
pub(super) struct ProbeFacts {
    pub(super) rows: AtomicBool,
    pub(super) null_key: AtomicBool,
}

/// The build side, for each of the streams that wait for it.
pub(super) type BuildFuture = SharedBuild<BuildTable>;

/// What is needed to build.
pub(super) struct Setup {
    pub(super) spill: Arc<SpillContext>,
    pub(super) streams: Vec<SendableRecordBatchStream>,
    pub(super) publisher: Option<Publisher>,
    pub(super) metrics: BuildMetrics,
}

impl Setup {
    /// Returns the build side in the making. It starts now, in a task, or when it is first polled.
    /// Dropping it ends the task.
    pub(super) fn start(self, now: bool) -> BuildFuture {
        shared(self.build(), now)
    }

    async fn build(self) -> Result<BuildTable> {
        let Self { spill, streams, publisher, metrics } = self;
        let keys = spill.layout.keys(BUILD)?;
        let known = publisher.as_ref().map(|_| Known::new(keys.types())).transpose()?;
        let BuildRows { batches, rows, spilled, known } = gather(streams, &spill, known).await?;
        let _timer = metrics.time.timer();
        let in_memory = batches.iter().map(|batch| batch.num_rows()).sum();
        let side = BuildSide::prepare(keys, batches, &spill.hash_config(in_memory)).map_err(from_join)?;
        let known = known.map(Known::complete);
        let set_bytes = known.as_ref().and_then(|(_, set)| set.as_ref()).map_or(0, KeySet::bytes);
        spill.budget.settle(side.memory_bytes() + set_bytes).map_err(no_memory)?;
        match (publisher, known) {
            (Some(publisher), Some((known, set))) if spilled.is_some() => {
                publisher.publish_known(known, set, side.keys())?;
            }
            (Some(publisher), Some((known, _))) => {
                publisher.publish(known, &side, &spill.layout.sides[BUILD].key_columns(side.batch()))?;
            }
            _ => {}
        }
        metrics.rows.add(rows);
        metrics.memory.set_max(side.memory_bytes());
        let rows = spill.output.build_rows(side.batch()).map_err(from_join)?;
        let probing = Arc::new(AtomicUsize::new(spill.streams));
        Ok(BuildTable::new(side, rows, probing, &spill, spill.budget.take(), spilled))
    }
}

impl BuildTable {
    /// Returns a table that `probing` streams have to finish. Its memory is in `memory`.
    pub(super) fn new(
        side: BuildSide,
        rows: SideRows,
        probing: Arc<AtomicUsize>,
        spill: &SpillContext,
        memory: MemoryBudget,
        spilled: Option<SpilledParts>,
    ) -> Self {
        Self { side, rows, probing, seen: Arc::clone(&spill.seen), spilled, _memory: memory }
    }

    /// Notes that a stream has probed all of its rows. Returns the rows of the build side that this
    /// stream must look through for those that are output alone: all for the last stream.
    pub(super) fn finish_probing(&self) -> Range<usize> {
        // Each stream must see the match bits of all others.
        let is_last = self.probing.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last { 0..self.side.batch().num_rows() } else { 0..0 }
    }

    /// Decides for a null-aware anti join, after all streams have probed, about the rows with null
    /// keys: they are output only if the probe side has no rows. Returns false if no row is output,
    /// because the probe side has a null key. O(rows with null keys).
    pub(super) fn settle_nulls(&self) -> bool {
        if self.seen.null_key.load(Ordering::Relaxed) {
            return false;
        }
        if self.seen.rows.load(Ordering::Relaxed)
            && let Some(matched) = self.rows.matched()
        {
            self.side.nulls().for_each(|row| matched.set(row));
        }
        true
    }
}
