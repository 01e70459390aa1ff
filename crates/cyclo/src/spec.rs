//! The specification of a join.

use annulus_join::{Alone, CancelToken, JoinError, KeyFilterKind, Keys, Output, OutputSpec};
use arrow::array::RecordBatch;

use crate::{Condition, CycloError, local::Schemas, turn::Part};

/// The specification of a join. All hosts pass the same one; only `threads` may differ.
#[derive(Clone)]
#[non_exhaustive]
pub struct JoinSpec {
    /// The join type, the output columns, and the filter.
    pub output: OutputSpec,
    /// The condition that the local join evaluates.
    pub condition: Condition,
    /// The largest size of a fragment in bytes: that of the ring's buffers.
    pub fragment_bytes: usize,
    /// The form of a filter of the build side's keys, if one is to drop rows of the probe side that
    /// have no partner, before they are prepared and sent.
    pub key_filter: Option<KeyFilterKind>,
    /// The number of threads that join on this host, including the calling one.
    pub threads: usize,
    /// Ends the join from another thread, within the limits of [`CancelToken`]. The join cancels it
    /// itself when the ring fails.
    pub cancel: CancelToken,
}

impl JoinSpec {
    /// Returns the specification of a join on one thread. `fragment_bytes` is the size of the
    /// ring's buffers.
    pub fn new(output: OutputSpec, condition: Condition, fragment_bytes: usize) -> Self {
        Self { output, condition, fragment_bytes, key_filter: None, threads: 1, cancel: CancelToken::new() }
    }

    /// Sets the form of the [key filter](Self::key_filter). The hosts make it together before the
    /// first revolution. It applies to rows that are [fed](crate::Supply::with_probe).
    ///
    /// It needs [equal keys](Self::can_filter_keys) and a build side of one part.
    #[must_use]
    pub fn with_key_filter(self, key_filter: Option<KeyFilterKind>) -> Self {
        Self { key_filter, ..self }
    }

    /// Returns whether a key filter may drop rows: the condition has equal keys, and the join does
    /// not output rows of the probe side that have no partner.
    ///
    /// # Errors
    /// If columns are missing, or keys cannot be compared.
    pub fn can_filter_keys(&self) -> Result<bool, CycloError> {
        Ok(self.filter_keys()?.is_some())
    }

    /// Returns the keys of the build and the probe side, if a key filter may drop rows.
    pub(crate) fn filter_keys(&self) -> Result<Option<(Keys, Keys)>, CycloError> {
        let drops = self.output.join.emits(self.output.build).probe != Alone::Unmatched;
        Ok(if drops { self.condition.equal_keys(self.schemas())? } else { None })
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

    pub(crate) fn schemas(&self) -> Schemas<'_> {
        let (build, probe) = self.output.schemas.as_ref().one_and_other(self.output.build);
        Schemas { build, probe }
    }

    /// Prepares a part of the build side.
    pub(crate) fn part(&self, output: &Output, batches: Vec<RecordBatch>) -> Result<Part, JoinError> {
        self.cancel.check()?;
        let local = self.condition.prepare_build(self.schemas(), batches, self.threads)?;
        Ok(Part { rows: output.build_rows(local.batch())?, local })
    }
}
