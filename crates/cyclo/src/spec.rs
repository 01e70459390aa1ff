//! The specification of a join.

use std::{num::NonZeroUsize, sync::Arc};

use annulus_join::{CancelToken, JoinError, KeyFilterKind, Keys, OutputSpec, UnpairedRows};
use arrow::array::RecordBatch;

use crate::{
    Condition, CycloError, KeyForm,
    local_join::{LocalJoin, Schemas},
};

/// The specification of a join. All hosts pass the same one; only `threads`, `cancel` and
/// `watch` may differ.
#[derive(Clone)]
#[non_exhaustive]
pub struct JoinSpec {
    /// The join type, the output columns, and the filter.
    pub output: OutputSpec,
    /// The condition that the local join evaluates.
    pub condition: Condition,
    /// The largest size of a fragment in bytes: that of the ring's buffers.
    pub fragment_bytes: usize,
    /// The form of the key filter, or `None` for no filter. In each revolution the filter drops rows
    /// of the probe side without a partner before they are prepared and sent. A Bloom filter has
    /// the keys of one part of the build side.
    pub key_filter: Option<KeyFilterKind>,
    /// The number of threads that join on this host, including the calling one.
    pub threads: usize,
    /// Ends the join from another thread, within the limits of [`CancelToken`]. The join cancels it
    /// itself when the ring fails.
    pub cancel: CancelToken,
    /// A function that is called after each joined fragment, on the thread that runs the revolution.
    pub watch: Option<Watch>,
}

/// A callback that observes each joined fragment during the join.
pub type Watch = Arc<dyn Fn(JoinedFragment) + Send + Sync>;

/// A fragment that a host has joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JoinedFragment {
    /// The fragment's rows.
    pub rows: u64,
    /// The fragment's size in bytes.
    pub bytes: u64,
    /// Whether the fragment is one of this host's own.
    pub is_own: bool,
}

impl JoinSpec {
    /// Returns the specification of a join on one thread. `fragment_bytes` is the size of the
    /// ring's buffers.
    pub fn new(output: OutputSpec, condition: Condition, fragment_bytes: usize) -> Self {
        Self {
            output,
            condition,
            fragment_bytes,
            key_filter: None,
            threads: 1,
            cancel: CancelToken::new(),
            watch: None,
        }
    }

    /// Sets the form of the [key filter](Self::key_filter). The hosts make one together before each
    /// revolution, of the keys of that revolution's part of the build side. It applies to rows that
    /// are [fed](crate::Supply::with_probe), and has to be [possible](Self::can_filter_keys).
    #[must_use]
    pub fn with_key_filter(self, key_filter: Option<KeyFilterKind>) -> Self {
        Self { key_filter, ..self }
    }

    /// Returns whether a key filter may drop rows if the build side has `parts` parts. The
    /// condition must have equal keys, and the join must not output rows of the probe side that
    /// have no partner. With several parts it must output no row of the probe side alone, as in a
    /// semi-join: a host knows whether such a row was already output only if the row rotates in every
    /// revolution.
    ///
    /// # Errors
    /// If columns are missing, or keys cannot be compared.
    pub fn can_filter_keys(&self, parts: NonZeroUsize) -> Result<bool, CycloError> {
        Ok(self.filter_keys(parts)?.is_some())
    }

    /// Returns the keys of the build and the probe side, if a key filter may drop rows.
    pub(crate) fn filter_keys(&self, parts: NonZeroUsize) -> Result<Option<(Keys, Keys)>, CycloError> {
        let drops = match self.output.join.emits(self.output.build).probe {
            UnpairedRows::None => true,
            UnpairedRows::Matched => parts == NonZeroUsize::MIN,
            UnpairedRows::Unmatched | UnpairedRows::Marked => false,
        };
        Ok(if drops { self.condition.equal_keys(self.schemas())? } else { None })
    }

    /// Returns the form in which a merge join would sort and compare the equal keys. `None` if
    /// there are none, or a merge join does not know their types.
    ///
    /// # Errors
    /// If columns are missing, or keys cannot be compared.
    pub fn key_form(&self) -> Result<Option<KeyForm>, CycloError> {
        self.condition.key_form(self.schemas()).map_err(CycloError::from)
    }

    /// Sets the number of threads that join on this host, including the calling one.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Sets the token that ends the join from another thread.
    #[must_use]
    pub fn with_cancel(self, cancel: CancelToken) -> Self {
        Self { cancel, ..self }
    }

    /// Sets the callback that [observes](Self::watch) the fragments.
    #[must_use]
    pub fn with_watch(self, watch: Watch) -> Self {
        Self { watch: Some(watch), ..self }
    }

    pub(crate) fn schemas(&self) -> Schemas<'_> {
        let (build, probe) = self.output.schemas.as_ref().one_and_other(self.output.build);
        Schemas { build, probe }
    }

    /// Prepares rows of the build side.
    pub(crate) fn local(&self, batches: Vec<RecordBatch>) -> Result<LocalJoin, JoinError> {
        self.cancel.check()?;
        self.condition.prepare_build(self.schemas(), batches, self.threads.max(1))
    }
}
