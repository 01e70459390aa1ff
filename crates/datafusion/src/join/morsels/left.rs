//! The left side: in memory, or as parts on disk.

use std::sync::Arc;

use annulus_join::{MatchBits, Output, SideRows};
use arrow::array::RecordBatch;
use datafusion::{common::internal_datafusion_err, error::Result, execution::SpillFile, physical_plan::SpillManager};
use futures::TryStreamExt;

use super::method::Method;
use crate::error::from_join;

/// The rows of the left side. A row of the right side must be joined with all parts.
pub(super) enum Left<M: Method> {
    /// In memory.
    Memory(Vec<Arc<Part<M>>>),
    /// On disk.
    Disk(Disk),
}

/// Prepared rows in memory.
pub struct Part<M: Method> {
    pub(in crate::join) left: M::Left,
    pub(in crate::join) rows: SideRows,
}

impl<M: Method> Part<M> {
    /// Prepares rows as parts.
    ///
    /// # Errors
    /// If they are too many for a batch.
    pub(super) fn all(method: &M, output: &Output, batches: Vec<RecordBatch>, threads: usize) -> Result<Vec<Self>> {
        let part = |left| {
            let rows = output.build_rows(M::left_batch(&left)).map_err(from_join)?;
            Ok(Self { left, rows })
        };
        method.left(batches, threads)?.into_iter().map(part).collect()
    }

    /// Returns the memory of parts in bytes.
    pub(super) fn bytes(parts: &[Self]) -> usize {
        let bits = |part: &Self| part.rows.matched().map_or(0, |matched| matched.rows().div_ceil(8));
        M::left_bytes(parts.iter().map(|part| &part.left)) + parts.iter().map(bits).sum::<usize>()
    }
}

/// Parts on disk. Each has a file, which is removed with this.
pub(super) struct Disk {
    manager: SpillManager,
    parts: Vec<OnDisk>,
}

struct OnDisk {
    file: Arc<dyn SpillFile>,
    /// The rows that have a match, if the join type depends on it.
    matched: Option<MatchBits>,
}

impl Disk {
    /// Creates it without parts.
    pub(super) fn new(manager: SpillManager) -> Self {
        Self { manager, parts: Vec::new() }
    }

    /// Writes prepared rows, cut into parts of one row, or such that can be read in `bytes` bytes of
    /// memory. Returns the memory that reading the largest of them takes.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn write<M: Method>(&mut self, from: &Part<M>, bytes: usize) -> Result<usize> {
        let batch = M::left_batch(&from.left);
        let rows = batch.num_rows();
        // As read, as prepared again, and what preparing needs.
        let row_bytes = 2 * Part::bytes(std::slice::from_ref(from)).div_ceil(rows.max(1)) + M::ROW_BYTES;
        let part_rows = (bytes / row_bytes).max(1);
        for start in (0..rows).step_by(part_rows) {
            let part = batch.slice(start, part_rows.min(rows - start));
            let file = self.manager.spill_record_batch_and_finish(std::slice::from_ref(&part), M::NAMES.join)?;
            let file = file.ok_or_else(|| internal_datafusion_err!("rows that were not spilled"))?;
            let matched = from.rows.matched().map(|_| MatchBits::new(part.num_rows()));
            self.parts.push(OnDisk { file, matched });
        }
        Ok(part_rows.min(rows) * row_bytes)
    }

    /// Returns the memory of the match bits in bytes.
    pub(super) fn bits_bytes(&self) -> usize {
        let bits = |part: &OnDisk| part.matched.as_ref().map_or(0, |matched| matched.rows().div_ceil(8));
        self.parts.iter().map(bits).sum()
    }
}

impl<M: Method> Left<M> {
    /// Returns the number of parts.
    pub(super) fn parts(&self) -> usize {
        match self {
            Self::Memory(parts) => parts.len(),
            Self::Disk(disk) => disk.parts.len(),
        }
    }

    /// Returns whether the join type depends on which rows have a match, and there are rows.
    pub(super) fn tracks_matches(&self) -> bool {
        match self {
            Self::Memory(parts) => parts.first().is_some_and(|part| part.rows.matched().is_some()),
            Self::Disk(disk) => disk.parts.first().is_some_and(|part| part.matched.is_some()),
        }
    }

    /// Returns a part. One that comes from the disk does not know which rows have a match.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) async fn part(&self, method: &M, output: &Output, number: usize) -> Result<Arc<Part<M>>> {
        let disk = match self {
            Self::Memory(parts) => return Ok(Arc::clone(&parts[number])),
            Self::Disk(disk) => disk,
        };
        let file = Arc::clone(&disk.parts[number].file);
        let batches = disk.manager.read_spill_as_stream_unbuffered(file, None)?.try_collect().await?;
        let mut parts = Part::all(method, output, batches, 1)?;
        match (parts.pop(), parts.is_empty()) {
            (Some(part), true) => Ok(Arc::new(part)),
            _ => datafusion::common::internal_err!("a part of the left side has no rows, or too many"),
        }
    }

    /// Notes the matches that a visit of a part has found.
    pub(super) fn visited(&self, number: usize, part: &Part<M>) {
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
    pub(super) fn mark(&self, number: usize, part: &Part<M>) -> Result<()> {
        if let Self::Disk(disk) = self
            && let Some(matched) = &disk.parts[number].matched
        {
            part.rows.mark(&matched.to_array()).map_err(from_join)?;
        }
        Ok(())
    }
}
