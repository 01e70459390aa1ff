//! What all parts of one join share.

use std::{fmt, sync::Arc};

use annulus_join::{Divider, HashConfig, Output, Partitions, Side, Sides, UnpairedRows};
use datafusion::{error::Result, execution::TaskContext};

use super::{files::Files, metrics::Metrics, plan::build_bytes, room::Room};
use crate::join::{
    collect::threads,
    hash::{
        build::Seen,
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

/// How many share the memory, the files and the threads of a join.
#[derive(Clone, Copy, Debug)]
pub(in crate::join::hash) struct Crowd {
    /// The streams that probe one table.
    streams: usize,
    /// The tables that are there at once, each with its own build side.
    tables: usize,
}

impl Crowd {
    /// Returns that of one table, which this number of streams probe.
    pub(in crate::join::hash) fn of_streams(streams: usize) -> Self {
        Self { streams, tables: 1 }
    }

    /// Returns that of tables of which one stream each probes one.
    pub(in crate::join::hash) fn of_tables(tables: usize) -> Self {
        Self { streams: 1, tables: tables.max(1) }
    }
}

/// What the build side and the streams of one join share.
pub(in crate::join::hash) struct Tools {
    pub(in crate::join::hash) layout: Arc<Layout>,
    pub(in crate::join::hash) output: Arc<Output>,
    pub(in crate::join::hash) room: Room,
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
    pub(in crate::join::hash) seen: Arc<Seen>,
}

impl Tools {
    pub(in crate::join::hash) fn new(
        context: &TaskContext,
        (layout, output): (Arc<Layout>, Arc<Output>),
        Crowd { streams, tables }: Crowd,
        metrics: Arc<Metrics>,
    ) -> Self {
        let files = |side: Side| Files::new(context, Arc::clone(&layout.sides[side].schema), Arc::clone(&metrics));
        Self {
            files: Sides::from_fn(files),
            room: Room::new(context),
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
        HashConfig::new(partitions).with_threads(self.threads).with_dense(true).with_kept_memory(self.room.is_wide())
    }

    /// Reserves what it takes to make a table of rows whose memory is reserved.
    ///
    /// # Errors
    /// If the pool refuses, or the table would take more than the join may hold.
    pub(super) fn try_build(&self, bytes: usize, rows: usize) -> Result<()> {
        let work = build_bytes(bytes, rows).saturating_sub(bytes);
        self.room.try_build(work, work)
    }

    /// Returns the bytes of a piece of one side, whose parts have an open piece each.
    pub(super) fn piece_bytes(&self, side: Side) -> usize {
        let writers = if side == BUILD { 1 } else { self.streams };
        self.room.piece_bytes(self.parts * writers * self.tables)
    }

    /// Returns whether rows of a side are output when all of the other side have been seen: without a
    /// partner, once though they have several, or with a mark.
    pub(super) fn outputs_alone(&self, side: Side) -> bool {
        self.alone(side) != UnpairedRows::None
    }

    /// Returns whether rows of a side without a partner are output.
    pub(super) fn keeps_unmatched(&self, side: Side) -> bool {
        self.alone(side).has_unmatched()
    }

    fn alone(&self, side: Side) -> UnpairedRows {
        let emits = self.output.emits();
        if side == BUILD { emits.build } else { emits.probe }
    }
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tools").field("room", &self.room).field("parts", &self.parts).finish_non_exhaustive()
    }
}
