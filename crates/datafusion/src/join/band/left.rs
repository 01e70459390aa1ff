//! The sorted left side: in memory, or as parts of sorted runs on disk.

use std::sync::Arc;

use annulus_join::{Matched, MergeBuild, Output, SideRows};
use arrow::array::RecordBatch;
use datafusion::{common::internal_datafusion_err, error::Result, execution::SpillFile, physical_plan::SpillManager};
use futures::TryStreamExt;

use super::{build::SORT_BYTES, plan::BandPlan};
use crate::error::from_join;

/// The rows of the left side. A row of the right side must be joined with all parts.
pub(super) enum Left {
    /// One part, in memory.
    Memory(Arc<Part>),
    /// Several, on disk.
    Disk(Disk),
}

/// Sorted rows in memory.
pub(super) struct Part {
    pub(super) sorted: MergeBuild,
    pub(super) rows: SideRows,
}

impl Part {
    /// Sorts rows.
    ///
    /// # Errors
    /// If they are too many for a batch.
    pub(super) fn new(plan: &BandPlan, output: &Output, batches: Vec<RecordBatch>, threads: usize) -> Result<Self> {
        let sorted = plan.join.prepare_build(batches, threads).map_err(from_join)?;
        let rows = output.build_rows(sorted.batch()).map_err(from_join)?;
        Ok(Self { sorted, rows })
    }

    /// Returns the memory of the rows in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.sorted.memory_bytes() + self.rows.matched().map_or(0, |matched| matched.rows().div_ceil(8))
    }
}

/// Parts of sorted runs. Each has a file, which is removed with this.
pub(super) struct Disk {
    manager: SpillManager,
    parts: Vec<OnDisk>,
}

struct OnDisk {
    file: Arc<dyn SpillFile>,
    /// The rows that have a match, if the join type depends on it.
    matched: Option<Matched>,
}

impl Disk {
    /// Creates it without parts.
    pub(super) fn new(manager: SpillManager) -> Self {
        Self { manager, parts: Vec::new() }
    }

    /// Writes a sorted run, cut into parts of one row, or such that can be read in `bytes` bytes of
    /// memory. Returns the memory that reading the largest of them takes.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn write(&mut self, run: &Part, bytes: usize) -> Result<usize> {
        let batch = run.sorted.batch();
        let rows = batch.num_rows();
        // As read, as sorted again, and what the sort needs.
        let row_bytes = 2 * run.memory_bytes().div_ceil(rows.max(1)) + SORT_BYTES;
        let part_rows = (bytes / row_bytes).max(1);
        for start in (0..rows).step_by(part_rows) {
            let part = batch.slice(start, part_rows.min(rows - start));
            let file = self.manager.spill_record_batch_and_finish(std::slice::from_ref(&part), "band join")?;
            let file = file.ok_or_else(|| internal_datafusion_err!("rows that were not spilled"))?;
            let matched = run.rows.matched().map(|_| Matched::new(part.num_rows()));
            self.parts.push(OnDisk { file, matched });
        }
        Ok(part_rows.min(rows) * row_bytes)
    }
}

impl Left {
    /// Returns the number of parts.
    pub(super) fn parts(&self) -> usize {
        match self {
            Self::Memory(_) => 1,
            Self::Disk(disk) => disk.parts.len(),
        }
    }

    /// Returns whether the join type depends on which rows have a match, and there are rows.
    pub(super) fn tracks_matches(&self) -> bool {
        match self {
            Self::Memory(part) => part.rows.matched().is_some(),
            Self::Disk(disk) => disk.parts.first().is_some_and(|part| part.matched.is_some()),
        }
    }

    /// Returns a part. One that comes from the disk does not know which rows have a match.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) async fn part(&self, plan: &BandPlan, output: &Output, number: usize) -> Result<Arc<Part>> {
        let disk = match self {
            Self::Memory(part) => return Ok(Arc::clone(part)),
            Self::Disk(disk) => disk,
        };
        let file = Arc::clone(&disk.parts[number].file);
        let batches = disk.manager.read_spill_as_stream_unbuffered(file, None)?.try_collect().await?;
        Ok(Arc::new(Part::new(plan, output, batches, 1)?))
    }

    /// Notes the matches that a visit of a part has found.
    pub(super) fn visited(&self, number: usize, part: &Part) {
        if let Self::Disk(disk) = self
            && let (Some(found), Some(matched)) = (part.rows.matched(), &disk.parts[number].matched)
        {
            found.to_array().values().set_indices().for_each(|row| matched.set(row as u32));
        }
    }

    /// Tells a part which of its rows have a match, after all visits.
    ///
    /// # Errors
    /// If it has another number of rows than it had.
    pub(super) fn mark(&self, number: usize, part: &Part) -> Result<()> {
        if let Self::Disk(disk) = self
            && let Some(matched) = &disk.parts[number].matched
        {
            part.rows.mark(&matched.to_array()).map_err(from_join)?;
        }
        Ok(())
    }
}
