//! Rows that are divided, each part into a file.

use annulus_join::Divider;
use arrow::array::RecordBatch;
use datafusion::error::Result;

use super::{
    files::{Files, Spooled, Writer},
    pieces::{Mould, Pieces},
    room::Room,
};
use crate::error::from_join;

/// The files of some parts, which one task writes.
pub(super) struct Lanes {
    room: Room,
    piece_bytes: usize,
    most_rows: usize,
    /// Whether rows with null keys are in the files of all parts.
    nulls_everywhere: bool,
    /// Made for the first batch.
    mould: Option<Mould>,
    /// None for parts whose rows are left out.
    lanes: Vec<Option<Lane>>,
}

struct Lane {
    pieces: Option<Pieces>,
    file: Writer,
}

impl Lanes {
    /// Returns files without rows for the parts that are wanted. Each piece has about this many
    /// bytes, and at most this many rows.
    pub(super) fn new(
        room: Room,
        files: &Files,
        wanted: impl Iterator<Item = bool>,
        (piece_bytes, most_rows): (usize, usize),
    ) -> Self {
        let lane = |is_wanted: bool| is_wanted.then(|| Lane { pieces: None, file: files.create() });
        let lanes = wanted.map(lane).collect();
        Self { room, piece_bytes, most_rows, nulls_everywhere: false, mould: None, lanes }
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
        let Self { room, piece_bytes, most_rows, nulls_everywhere, mould, lanes } = self;
        let mould = mould.get_or_insert_with(|| Mould::new(batch, *piece_bytes, *most_rows));
        let (source, nulls) = (mould.source(batch)?, divider.parts());
        for (part, lane) in lanes.iter_mut().enumerate() {
            let Some(Lane { pieces, file }) = lane else { continue };
            let own = if part == nulls { 0..=nulls } else { part..=part };
            let others = (*nulls_everywhere && part != nulls).then_some(nulls);
            for rows in own.chain(others).map(|part| divider.rows(part)).filter(|rows| !rows.is_empty()) {
                let pieces = pieces.get_or_insert_with(|| mould.pieces());
                pieces.push((&source, rows), room, |piece| file.append(&piece))?;
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
    pub(super) fn finish(self) -> Result<Vec<Spooled>> {
        let room = self.room;
        let finish = |lane: Option<Lane>| {
            let Some(Lane { pieces, mut file }) = lane else { return Ok(Spooled::default()) };
            if let Some(mut pieces) = pieces {
                pieces.finish(&room)?.map_or(Ok(()), |piece| file.append(&piece))?;
            }
            file.finish()
        };
        self.lanes.into_iter().map(finish).collect()
    }
}
