//! Rows that the caller provides during a join.

use std::num::NonZeroUsize;

use annulus_join::JoinError;
use arrow::array::RecordBatch;

use crate::{RowSource, StoreConfig};

/// The rows that the caller provides during a join: further parts of the build side, and rows of
/// the probe side. By default there are none.
#[must_use]
pub struct Supply<'a> {
    pub(crate) parts: NonZeroUsize,
    pub(crate) next: Box<NextPart<'a>>,
    pub(crate) probe: Option<&'a RowSource<'a>>,
    pub(crate) store_config: StoreConfig,
}

pub(crate) type NextPart<'a> = dyn FnMut(usize) -> Result<Vec<RecordBatch>, JoinError> + 'a;

impl<'a> Supply<'a> {
    /// Returns a supply without rows: the share has all of them.
    pub fn new() -> Self {
        Self {
            parts: NonZeroUsize::MIN,
            next: Box::new(|_| Ok(Vec::new())),
            probe: None,
            store_config: StoreConfig::default(),
        }
    }

    /// Adds parts of a build side that is larger than memory. It has `parts` parts, the same number
    /// on all hosts, and the fragments make one revolution for each. The first part is in the
    /// share. `next` returns the others, by their numbers from 1, after the previous part has been
    /// freed. A part may have no rows.
    ///
    /// If the join outputs unmatched rows of the probe side, or only rows of that side, a host
    /// keeps one bit for each row of its successor's fragments between revolutions. It outputs
    /// these rows in the last revolution.
    pub fn with_parts(
        self,
        parts: NonZeroUsize,
        next: impl FnMut(usize) -> Result<Vec<RecordBatch>, JoinError> + 'a,
    ) -> Self {
        Self { parts, next: Box::new(next), ..self }
    }

    /// Adds rows of the probe side, which the host sends after the prepared fragments. `probe` is
    /// called once, on its own thread. It waits until the rows that it gave before have been sent.
    /// Meanwhile the host joins and forwards the fragments of other hosts.
    ///
    /// The rows of one call of [`RowSink`](crate::RowSink) are prepared together, by all threads. Pass
    /// the rows of a few dozen fragments at a time, so that each fragment meets few partitions.
    /// Three times their memory is used, and four times with a key filter, which collects the rows
    /// that pass until they are as many.
    pub fn with_probe(self, probe: &'a RowSource<'a>) -> Self {
        Self { probe: Some(probe), ..self }
    }

    /// Sets where rows that were [fed](Self::with_probe) are kept if the build side has several
    /// parts, for every further revolution: as the fragments that are sent again, or, with a key
    /// filter, as they were given. In memory by default.
    pub fn with_store(self, store_config: StoreConfig) -> Self {
        Self { store_config, ..self }
    }
}

impl Default for Supply<'_> {
    fn default() -> Self {
        Self::new()
    }
}
