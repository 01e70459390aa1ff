//! The rows of slow consumers beyond the bound of the exchange: kept in accounted memory, or else
//! on disk. The embedder provides the accounting and the disk.

use std::{
    any::Any,
    error::Error,
    fmt,
    sync::atomic::{AtomicUsize, Ordering},
};

use arrow::array::RecordBatch;

use crate::error::StopError;

/// The embedder's memory accounting and disk.
///
/// ```
/// use std::sync::{
///     Arc,
///     atomic::{AtomicUsize, Ordering::Relaxed},
/// };
///
/// use annulus_exchange::{ExchangeConfig, Overflow, SpilledBatch, StopError, exchange};
/// use arrow::{array::RecordBatch, datatypes::Schema};
///
/// /// At most 1 MiB of memory, and no disk.
/// #[derive(Default)]
/// struct Budget(AtomicUsize);
///
/// impl Overflow for Budget {
///     fn try_reserve(&self, bytes: usize) -> bool {
///         let grow = |used: usize| (used + bytes <= 1 << 20).then_some(used + bytes);
///         self.0.fetch_update(Relaxed, Relaxed, grow).is_ok()
///     }
///     fn release(&self, bytes: usize) {
///         self.0.fetch_sub(bytes, Relaxed);
///     }
///     fn spill(&self, _consumer: usize, _batch: RecordBatch) -> Result<SpilledBatch, StopError> {
///         Err(Arc::new(std::io::Error::other("there is no disk")))
///     }
/// }
///
/// let handles = exchange(&ExchangeConfig::new(1, 1), Arc::new(Schema::empty()), Arc::new(Budget::default()));
/// assert!(handles.is_ok());
/// ```
///
/// `examples/overflow.rs` shows an implementation that spills.
pub trait Overflow: Send + Sync + 'static {
    /// Accounts for `bytes` more, and returns whether the budget allows them. Must not wait.
    fn try_reserve(&self, bytes: usize) -> bool;
    /// Gives `bytes` back to the budget.
    fn release(&self, bytes: usize);
    /// Stores `batch`, which belongs to `consumer`, outside the budget, and returns what is needed
    /// to read it back.
    ///
    /// # Errors
    /// If it cannot be stored, for example on a full disk. The exchange stops with the error.
    fn spill(&self, consumer: usize, batch: RecordBatch) -> Result<SpilledBatch, StopError>;
}

/// A batch that [`Overflow::spill`] stored. The content is opaque to the exchange; dropping it must
/// free what was stored.
pub struct SpilledBatch(pub Box<dyn Any + Send>);

impl fmt::Debug for SpilledBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpilledBatch")
    }
}

/// Rows that a consumer receives.
#[derive(Debug)]
pub enum Delivery {
    /// Rows in memory.
    Batch(RecordBatch),
    /// Rows that were spilled. The embedder reads them back.
    Spilled(SpilledBatch),
}

/// The bytes in memory beyond the bound of an exchange, and the limit that its configuration sets
/// for them.
#[derive(Debug)]
pub(crate) struct OverflowBytes {
    held: AtomicUsize,
    limit: usize,
}

impl OverflowBytes {
    pub(crate) fn new(limit: usize) -> Self {
        Self { held: AtomicUsize::new(0), limit }
    }

    /// Counts `bytes` more if they are within the limit, and returns whether they are.
    pub(crate) fn try_add(&self, bytes: usize) -> bool {
        let add = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= self.limit);
        bytes == 0 || self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Subtracts `bytes` that have left memory.
    pub(crate) fn subtract(&self, bytes: usize) {
        if bytes > 0 {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// Memory without a limit, for embedders without memory accounting. It spills nothing.
#[derive(Debug, Default)]
pub struct Unlimited;

impl Overflow for Unlimited {
    fn try_reserve(&self, _bytes: usize) -> bool {
        true
    }
    fn release(&self, _bytes: usize) {}
    fn spill(&self, _consumer: usize, _batch: RecordBatch) -> Result<SpilledBatch, StopError> {
        Err(Box::<dyn Error + Send + Sync>::from("memory without a limit has no disk to spill to").into())
    }
}
