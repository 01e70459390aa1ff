//! Where rows go that a slow consumer has not taken: accounted memory, else disk. Both belong to
//! the embedder.

use std::{
    any::Any,
    error::Error,
    fmt,
    sync::atomic::{AtomicUsize, Ordering},
};

use arrow::array::{Array, ArrayRef, RecordBatch};

use crate::error::StopError;

/// The embedder's memory accounting and disk.
pub trait Overflow: Send + Sync + 'static {
    /// Account for `bytes` more; false if the budget does not allow it. Never waits.
    fn try_reserve(&self, bytes: usize) -> bool;
    /// Give `bytes` back.
    fn release(&self, bytes: usize);
    /// Write `batch`, which belongs to `consumer`, elsewhere, and return what it takes to read it
    /// back.
    ///
    /// # Errors
    /// If it cannot be written (no disk, or a full one): the exchange stops with that error.
    fn spill(&self, consumer: usize, batch: RecordBatch) -> Result<SpilledBatch, StopError>;
}

/// What [`Overflow::spill`] returned, opaque to the exchange. Dropping it frees what was written.
pub struct SpilledBatch(pub Box<dyn Any + Send>);

impl fmt::Debug for SpilledBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpilledBatch")
    }
}

/// What a consumer receives.
#[derive(Debug)]
pub enum Delivery {
    /// Rows in memory.
    Batch(RecordBatch),
    /// Rows that were spilled; the embedder reads them back.
    Spilled(SpilledBatch),
}

/// Bytes in memory beyond the bound of an exchange, within the limit that its configuration sets
/// for them.
#[derive(Debug)]
pub(crate) struct Beyond {
    held: AtomicUsize,
    limit: usize,
}

impl Beyond {
    pub(crate) fn new(limit: usize) -> Self {
        Self { held: AtomicUsize::new(0), limit }
    }

    /// Whether so many more are within the limit; they are then counted.
    pub(crate) fn try_add(&self, bytes: usize) -> bool {
        let add = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= self.limit);
        bytes == 0 || self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// They have left memory.
    pub(crate) fn subtract(&self, bytes: usize) {
        if bytes > 0 {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// Bytes that the rows of a batch take, without what its buffers hold beyond them.
pub(crate) fn batch_bytes(batch: &RecordBatch) -> usize {
    let size = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(0);
    batch.columns().iter().map(size).sum()
}

/// Memory without a limit, for embedders that have no accounting.
#[derive(Debug, Default)]
pub struct Unlimited;

impl Overflow for Unlimited {
    fn try_reserve(&self, _bytes: usize) -> bool {
        true
    }
    fn release(&self, _bytes: usize) {}
    fn spill(&self, _consumer: usize, _batch: RecordBatch) -> Result<SpilledBatch, StopError> {
        Err(Box::<dyn Error + Send + Sync>::from("nothing is spilled where memory has no limit").into())
    }
}
