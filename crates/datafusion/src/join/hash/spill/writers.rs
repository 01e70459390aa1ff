//! Rows that are divided, each part into a file.

use annulus_join::Divider;
use arrow::array::RecordBatch;
use datafusion::error::Result;

use super::{
    budget::MemoryBudget,
    files::{Files, SpilledRows, Writer},
    pieces::{Mould, PieceSize, Pieces},
};
use crate::error::from_join;

/// The writers of the files of some parts, which one task owns.
pub(super) struct PartitionWriters {
    budget: MemoryBudget,
    size: PieceSize,
    /// Whether rows with null keys are in the files of all parts.
    nulls_everywhere: bool,
    /// Made for the first batch.
    mould: Option<Mould>,
    /// None for parts whose rows are left out.
    writers: Vec<Option<PartitionWriter>>,
}

struct PartitionWriter {
    pieces: Option<Pieces>,
    file: Writer,
}

impl PartitionWriters {
    /// Returns files without rows for the parts that are wanted, with pieces of this size.
    pub(super) fn new(
        budget: MemoryBudget,
        files: &Files,
        wanted: impl Iterator<Item = bool>,
        size: PieceSize,
    ) -> Self {
        let writer = |is_wanted: bool| is_wanted.then(|| PartitionWriter { pieces: None, file: files.create() });
        let writers = wanted.map(writer).collect();
        Self { budget, size, nulls_everywhere: false, mould: None, writers }
    }

    /// Puts rows with null keys, which have no partner, into the files of all parts. If there is a
    /// file after those of the parts, it gets all rows.
    pub(super) fn with_nulls_everywhere(self, nulls_everywhere: bool) -> Self {
        Self { nulls_everywhere, ..self }
    }

    /// Adds the rows of a batch that the divider has divided.
    ///
    /// # Errors
    /// If a kernel fails, or the disk.
    pub(super) fn add(&mut self, divider: &Divider, batch: &RecordBatch) -> Result<()> {
        let Self { budget, size, nulls_everywhere, mould, writers } = self;
        let mould = mould.get_or_insert_with(|| Mould::new(batch, *size));
        let (source, nulls) = (mould.source(batch)?, divider.parts());
        for (part, writer) in writers.iter_mut().enumerate() {
            let Some(PartitionWriter { pieces, file }) = writer else { continue };
            let own = if part == nulls { 0..=nulls } else { part..=part };
            let others = (*nulls_everywhere && part != nulls).then_some(nulls);
            for rows in own.chain(others).map(|part| divider.rows(part)).filter(|rows| !rows.is_empty()) {
                let pieces = pieces.get_or_insert_with(|| mould.pieces());
                pieces.push((&source, rows), budget, |piece| file.append(&piece))?;
            }
        }
        Ok(())
    }

    /// Divides the rows of a batch, and adds them.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub(super) fn divide(&mut self, divider: &mut Divider, batch: &RecordBatch) -> Result<()> {
        divider.divide(batch).map_err(from_join)?;
        self.add(divider, batch)
    }

    /// Returns the files of all parts, empty ones for those that are left out.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub(super) fn finish(self) -> Result<Vec<SpilledRows>> {
        let budget = self.budget;
        let finish = |writer: Option<PartitionWriter>| {
            let Some(PartitionWriter { pieces, mut file }) = writer else { return Ok(SpilledRows::default()) };
            if let Some(mut pieces) = pieces {
                pieces.finish(&budget)?.map_or(Ok(()), |piece| file.append(&piece))?;
            }
            file.finish()
        };
        self.writers.into_iter().map(finish).collect()
    }
}
