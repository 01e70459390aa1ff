//! The search for the nearest rows among rows that arrive in parts, as an interface: a program evaluates the
//! distances.

use std::fmt;

use annulus_sync::CancelToken;
use arrow::array::RecordBatch;

use crate::error::JoinError;

/// A search for the rows of the probe side that are nearest to each row of the build side. Rows of the
/// probe side arrive in parts.
pub trait NearestSearch: fmt::Debug + Send + Sync {
    /// Starts with rows of the build side, for which this number of threads search.
    ///
    /// # Errors
    /// [`JoinError::Outside`] if distances to these rows have no order.
    fn of_rows(&self, build: RecordBatch, threads: usize) -> Result<Box<dyn NearestRows>, JoinError>;
}

/// Rows of the build side, and the rows that are nearest to them so far.
///
/// One thread calls [`add`](Self::add) and [`complete`](Self::complete). After each call, threads search the
/// parts that it returned, each of them once, before the next call.
pub trait NearestRows: Send + Sync {
    /// Returns the rows of the build side.
    fn build(&self) -> &RecordBatch;

    /// Returns the memory of the rows and the lists in bytes.
    fn memory_bytes(&self) -> usize;

    /// Takes rows of the probe side, and keeps their columns. Returns the number of parts to search: 0 while
    /// it waits for more rows.
    ///
    /// # Errors
    /// [`JoinError::Outside`] if the rows cannot be prepared.
    fn add(&self, probe: &RecordBatch) -> Result<usize, JoinError>;

    /// Ends the rows of the probe side. Returns the number of parts to search.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    fn complete(&self) -> Result<usize, JoinError>;

    /// Offers the rows that were added to the rows of the build side in a part.
    ///
    /// # Errors
    /// [`JoinError::Cancelled`], or [`JoinError::Outside`] if a distance cannot be evaluated.
    fn search(&self, part: usize, cancel: &CancelToken) -> Result<(), JoinError>;

    /// Returns the next rows of the build side that have neighbours, with these; `None` after the last ones.
    /// It is called when all parts were searched for the last time.
    ///
    /// # Errors
    /// [`JoinError::Arrow`] if the rows do not fit in a batch.
    fn next_pairs(&self) -> Result<Option<NearestPairs>, JoinError>;
}

/// Rows of the build side with the rows that are nearest to them.
#[derive(Clone, Debug)]
pub struct NearestPairs {
    /// The rows of the probe side.
    pub probe: RecordBatch,
    /// The row of the build side of each pair.
    pub build_rows: Vec<u32>,
    /// The row of each pair in `probe`.
    pub probe_rows: Vec<u32>,
}
