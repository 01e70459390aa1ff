//! The parts of a build side that does not fit in memory: as many as fit stay, the others are
//! files.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use annulus_join::Divider;
use arrow::array::RecordBatch;
use datafusion::error::Result;
use parking_lot::Mutex;

use super::{
    context::SpillContext,
    files::{SpilledRows, Writer},
    pieces::{Mould, Pieces},
    victims::victims,
};
use crate::{error::from_join, join::hash::layout::BUILD};

/// The parts of a build side, which several tasks fill at once.
#[derive(Debug)]
pub(super) struct Residents {
    spill: Arc<SpillContext>,
    mould: Mould,
    /// The last part is of rows that have no partner.
    parts: Vec<Mutex<Part>>,
    /// The bytes of the complete pieces of each part that are in memory.
    bytes: Vec<AtomicUsize>,
}

#[derive(Debug)]
struct Part {
    pieces: Pieces,
    in_memory: Vec<RecordBatch>,
    rows: usize,
    file: Option<Writer>,
}

/// The rows of a part when all have been read.
#[derive(Debug)]
pub(super) enum PartRows {
    InMemory(Vec<RecordBatch>),
    OnDisk(SpilledRows),
}

impl Residents {
    /// Returns parts without rows, for rows like those of a batch.
    pub(super) fn new(spill: &Arc<SpillContext>, like: &RecordBatch) -> Self {
        let mould = Mould::new(like, spill.piece_size(BUILD));
        let part = || Part { pieces: mould.pieces(), in_memory: Vec::new(), rows: 0, file: None };
        let parts = (0..=spill.parts).map(|_| Mutex::new(part())).collect();
        let bytes = (0..=spill.parts).map(|_| AtomicUsize::new(0)).collect();
        Self { spill: Arc::clone(spill), mould, parts, bytes }
    }

    /// Adds the rows of a batch.
    ///
    /// # Errors
    /// If a kernel fails, or the disk.
    pub(super) fn add(&self, divider: &mut Divider, batch: &RecordBatch) -> Result<()> {
        divider.divide(batch).map_err(from_join)?;
        let source = self.mould.source(batch)?;
        let mut refused = 0;
        for part in 0..self.parts.len() {
            let is_last = part == self.spill.parts;
            let rows = if is_last { divider.without_partner() } else { divider.rows(part) };
            if rows.is_empty() || is_last && !self.spill.keeps_unmatched(BUILD) {
                continue;
            }
            let mut locked = self.parts[part].lock();
            let Part { pieces, in_memory, rows: count, file } = &mut *locked;
            *count += rows.len();
            pieces.push((&source, rows), &self.spill.budget, |piece| match file {
                Some(file) => file.append(&piece),
                None => {
                    refused += self.keep(part, &piece);
                    in_memory.push(piece);
                    Ok(())
                }
            })?;
        }
        // No part is locked here, so tasks never wait for each other in a circle.
        if refused > 0 { self.relieve(refused) } else { Ok(()) }
    }

    /// Accounts for a piece that stays in memory. Returns the bytes that the pool refused.
    fn keep(&self, part: usize, piece: &RecordBatch) -> usize {
        let bytes = piece.get_array_memory_size();
        self.bytes[part].fetch_add(bytes, Relaxed);
        match self.spill.budget.try_collect(bytes) {
            Ok(()) => 0,
            Err(_) => {
                self.spill.budget.grow(bytes);
                bytes
            }
        }
    }

    /// Spills parts until `need` bytes are free, or none is in memory.
    fn relieve(&self, need: usize) -> Result<()> {
        let bytes: Vec<usize> = self.bytes.iter().map(|bytes| bytes.load(Relaxed)).collect();
        victims(&bytes, need).into_iter().try_for_each(|part| self.spill(part))
    }

    /// Moves a part from memory to its file.
    fn spill(&self, part: usize) -> Result<()> {
        let mut locked = self.parts[part].lock();
        let Part { in_memory, file, .. } = &mut *locked;
        let file = file.get_or_insert_with(|| self.spill.files[BUILD].create());
        for piece in in_memory.drain(..) {
            file.append(&piece)?;
        }
        // Under the lock of the part, nothing is added meanwhile.
        self.spill.budget.shrink(self.bytes[part].swap(0, Relaxed));
        Ok(())
    }

    /// Completes all pieces, and spills parts until there is memory for a table of the others. Call
    /// it when nothing is added any more. Returns the bytes that are reserved for the rows in
    /// memory.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub(super) fn settle(&self) -> Result<usize> {
        for part in 0..self.parts.len() {
            let mut locked = self.parts[part].lock();
            let Part { pieces, in_memory, file, .. } = &mut *locked;
            match (pieces.finish(&self.spill.budget)?, file) {
                (Some(piece), Some(file)) => file.append(&piece)?,
                (Some(piece), None) => {
                    self.keep(part, &piece);
                    in_memory.push(piece);
                }
                (None, _) => {}
            }
        }
        loop {
            let bytes: Vec<usize> = self.bytes.iter().map(|bytes| bytes.load(Relaxed)).collect();
            let in_memory: usize = bytes.iter().sum();
            let rows = |part: &Mutex<Part>| Some(part.lock()).filter(|part| part.file.is_none()).map(|part| part.rows);
            let rows = self.parts.iter().filter_map(rows).sum();
            if in_memory == 0 || self.spill.try_build(in_memory, rows).is_ok() {
                return Ok(in_memory);
            }
            self.relieve(1)?;
        }
    }

    /// Returns the parts, the last of which is of rows that have no partner.
    ///
    /// # Errors
    /// If a file cannot be completed.
    pub(super) fn take(&self) -> Result<Vec<PartRows>> {
        let take = |part: &Mutex<Part>| {
            let mut part = part.lock();
            match part.file.take() {
                Some(file) => Ok(PartRows::OnDisk(file.finish()?)),
                None => Ok(PartRows::InMemory(std::mem::take(&mut part.in_memory))),
            }
        };
        self.parts.iter().map(take).collect()
    }
}
