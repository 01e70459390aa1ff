//! The context of a join that may spill: what all its parts share.

use std::{fmt, sync::Arc};

use annulus_join::{Divider, HashConfig, Output, Partitions, Side, Sides, UnpairedRows};
use datafusion::{error::Result, execution::TaskContext};

use super::{budget::MemoryBudget, files::Files, metrics::Metrics, pieces::PieceSize, plan::build_bytes};
use crate::join::{
    collect::threads,
    hash::{
        build::ProbeFacts,
        layout::{BUILD, Layout},
    },
};

/// The most parts into which rows are divided at once.
const MOST_PARTS: usize = 16;
/// The fewest parts into which rows are divided at once.
const LEAST_PARTS: usize = 4;
/// The most files that all streams of a join write at once, if that leaves enough parts.
const MOST_FILES: usize = 128;
/// The most partitions of one table. More take more than one pass.
const MOST_PARTITIONS: usize = 1 << 9;

/// The numbers of streams and tables that share the memory, the files and the threads of a join.
#[derive(Clone, Copy, Debug)]
pub(in crate::join::hash) struct Concurrency {
    /// The streams that probe one table.
    streams: usize,
    /// The tables that are there at once, each with its own build side.
    tables: usize,
}

impl Concurrency {
    /// Returns the numbers for one table, which this number of streams probe.
    pub(in crate::join::hash) fn of_streams(streams: usize) -> Self {
        Self { streams, tables: 1 }
    }

    /// Returns the numbers for tables of which one stream each probes one.
    pub(in crate::join::hash) fn of_tables(tables: usize) -> Self {
        Self { streams: 1, tables: tables.max(1) }
    }
}

/// What the build side and the streams of one join share.
pub(in crate::join::hash) struct SpillContext {
    pub(in crate::join::hash) layout: Arc<Layout>,
    pub(in crate::join::hash) output: Arc<Output>,
    pub(in crate::join::hash) budget: MemoryBudget,
    pub(super) files: Sides<Files>,
    /// The parts of the first division.
    pub(super) parts: usize,
    /// The number of streams that probe.
    pub(in crate::join::hash) streams: usize,
    /// The number of tables that are there at once.
    tables: usize,
    pub(super) batch_rows: usize,
    pub(super) threads: usize,
    pub(super) metrics: Arc<Metrics>,
    pub(in crate::join::hash) seen: Arc<ProbeFacts>,
}

impl SpillContext {
    pub(in crate::join::hash) fn new(
        context: &TaskContext,
        layout: Arc<Layout>,
        output: Arc<Output>,
        Concurrency { streams, tables }: Concurrency,
        metrics: Arc<Metrics>,
    ) -> Self {
        let files = |side: Side| Files::new(context, Arc::clone(&layout.sides[side].schema), Arc::clone(&metrics));
        Self {
            files: Sides::from_fn(files),
            budget: MemoryBudget::new(context),
            parts: (MOST_FILES / (streams * tables).max(1)).clamp(LEAST_PARTS, MOST_PARTS),
            streams,
            tables,
            batch_rows: context.session_config().batch_size(),
            threads: threads(context).div_ceil(tables),
            metrics,
            seen: Arc::default(),
            layout,
            output,
        }
    }

    /// Returns a divider of the rows of a side.
    ///
    /// # Errors
    /// If a key's type cannot be compared.
    pub(super) fn divider(&self, side: Side, level: u32, parts: usize) -> Result<Divider> {
        Ok(Divider::new(self.layout.keys(side)?, level, parts))
    }

    /// Returns the configuration for a table of this many rows.
    pub(in crate::join::hash) fn hash_config(&self, rows: usize) -> HashConfig {
        let partitions = Partitions::at_least(Partitions::for_rows(rows).count().min(MOST_PARTITIONS));
        HashConfig::new(partitions)
            .with_threads(self.threads)
            .with_dense(true)
            .with_packed(true)
            .with_dense_beside_nulls(!self.layout.is_null_aware())
            .with_kept_memory(self.budget.is_wide())
    }

    /// Reserves what it takes to make a table of rows whose memory is reserved.
    ///
    /// # Errors
    /// If the pool refuses, or the table would take more than the join may hold.
    pub(super) fn try_build(&self, bytes: usize, rows: usize) -> Result<()> {
        let work = build_bytes(bytes, rows).saturating_sub(bytes);
        self.budget.try_build(work, work)
    }

    /// Returns the size of the pieces of one side, whose parts have an open piece each.
    pub(super) fn piece_size(&self, side: Side) -> PieceSize {
        let writers = if side == BUILD { 1 } else { self.streams };
        self.size_of_open(self.parts * writers * self.tables)
    }

    /// Returns the size of pieces of which this number are open at once.
    pub(super) fn size_of_open(&self, open: usize) -> PieceSize {
        PieceSize { bytes: self.budget.piece_bytes(open), rows: self.batch_rows }
    }

    /// Returns whether rows of a side are output when all of the other side have been seen: without a
    /// partner, once though they have several, or with a mark.
    pub(super) fn outputs_alone(&self, side: Side) -> bool {
        self.alone_rows(side) != UnpairedRows::None
    }

    /// Returns whether rows of a side without a partner are output.
    pub(super) fn keeps_unmatched(&self, side: Side) -> bool {
        self.alone_rows(side).has_unmatched()
    }

    /// Returns which rows of a side are output without those of the other.
    fn alone_rows(&self, side: Side) -> UnpairedRows {
        let emits = self.output.emits();
        if side == BUILD { emits.build } else { emits.probe }
    }
}

impl fmt::Debug for SpillContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpillContext").field("budget", &self.budget).field("parts", &self.parts).finish_non_exhaustive()
    }
}
