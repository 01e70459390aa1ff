//! One host's prepared part of a join.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use annulus_join::{CancelToken, Fragment, JoinError, Output};
use annulus_roundabout::{Host, Revolution, RoundaboutError};
use arrow::array::RecordBatch;

use crate::{
    CycloError, JoinSpec, Supply,
    feed::Feed,
    local_join::LocalJoin,
    revolution::{Part, RingJoin},
};

/// One host's prepared part of a join: its rows of the build side, or the first part of them, and
/// those rows of the probe side that are in memory.
///
/// [`prepare`](Self::prepare) it, then let it [`revolve`](Self::revolve) around a ring, as in the example
/// of this crate.
pub struct Share {
    pub(crate) ring_join: RingJoin,
    pub(crate) first: Part,
    pub(crate) setup: Duration,
    pub(crate) memory: Memory,
}

/// Rows of a build side that were prepared once, for any number of joins with the same condition. Clones
/// share them.
#[derive(Clone)]
pub struct PreparedBuild(Arc<LocalJoin>);

impl PreparedBuild {
    /// Prepares rows, and frees the given batches.
    ///
    /// # Errors
    /// If columns are missing, or keys cannot be compared.
    pub fn new(spec: &JoinSpec, build: Vec<RecordBatch>) -> Result<Self, CycloError> {
        Ok(Self(Arc::new(spec.local(build)?)))
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.0.batch().num_rows()
    }

    /// Returns the memory of the rows, their keys and tables in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

/// The memory that one host's preparation takes, in bytes. The ring's buffers and incomplete output
/// batches are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// The rows, keys and tables of the build side, or of its largest part.
    pub build: usize,
    /// The fragments in their encoded form. For fed fragments, the largest number of bytes that
    /// were prepared together.
    pub fragments: usize,
    /// The fed rows that were kept in memory for further revolutions.
    pub kept: usize,
    /// The key filter, or the largest one.
    pub filter: usize,
}

/// The counters and times of a complete join on one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JoinStats {
    /// The time to prepare both sides before the first revolution, further parts between
    /// revolutions, and key filters.
    pub setup: Duration,
    /// The time spent waiting for the caller to provide further parts, or probe rows while there
    /// was no other fragment to join.
    pub reading: Duration,
    /// The fragments and times of all revolutions.
    pub revolution: Revolution,
    /// The rows of all fragments that this host joined, in all revolutions, including its own.
    pub probed: u64,
    /// The rows of the probe side that this host prepared: its own, once for all revolutions. With
    /// a key filter and several revolutions, a fed row counts in each one in which it was
    /// prepared.
    pub prepared: u64,
    /// The rows of the probe side that key filters dropped on this host. A row counts in each
    /// revolution in which it was dropped.
    pub dropped: u64,
    /// The bytes of the key filters' parts that this host saw, its own included.
    pub filter_bytes: u64,
    /// The bytes of fed rows that were kept on disk for further revolutions.
    pub kept_on_disk: u64,
    /// The pairs of rows that the join compared. For a hash join these are pairs in one bucket, for
    /// a merge join the merged pairs, and for nested loops all pairs. Together with `probed` it
    /// measures this host's work independently of the machine.
    pub compared: u64,
    /// The memory that the host used.
    pub memory: Memory,
}

impl Share {
    /// Prepares this host's rows of both sides, and frees the given batches. `build` may be the
    /// first of several parts. The memory needed is that of the local join:
    /// [`BuildSide::prepare`](annulus_join::BuildSide::prepare) and [`Fragment::prepare`], or
    /// those of [`MergeJoin`](annulus_join::MergeJoin).
    ///
    /// # Errors
    /// If columns are missing, keys cannot be compared, or a row of the probe side does not fit in
    /// a fragment.
    pub fn prepare(spec: &JoinSpec, build: Vec<RecordBatch>, probe: Vec<RecordBatch>) -> Result<Self, CycloError> {
        Self::with_local(spec, probe, |spec| Ok(Arc::new(spec.local(build)?)))
    }

    /// Like [`prepare`](Self::prepare), with rows of the build side that were prepared for the same
    /// condition and the same columns before. Only match bits are new.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn with_prepared(
        spec: &JoinSpec,
        prepared: &PreparedBuild,
        probe: Vec<RecordBatch>,
    ) -> Result<Self, CycloError> {
        Self::with_local(spec, probe, |_| Ok(Arc::clone(&prepared.0)))
    }

    fn with_local(
        spec: &JoinSpec,
        probe: Vec<RecordBatch>,
        local: impl FnOnce(&JoinSpec) -> Result<Arc<LocalJoin>, CycloError>,
    ) -> Result<Self, CycloError> {
        let start = Instant::now();
        let spec = JoinSpec { threads: spec.threads.max(1), ..spec.clone() };
        let output = Arc::new(Output::try_new(spec.output.clone())?.cancelled_by(spec.cancel.clone()));
        let first = Part::new(&output, local(&spec)?)?;
        let format = spec.condition.format(spec.schemas())?;
        let mut ring_join = RingJoin { spec, output, format, fragments: Vec::new(), times: 1 };
        ring_join.fragments = ring_join.prepare(probe)?;
        let fragments = ring_join.fragments.iter().map(Fragment::encoded_bytes).sum();
        let memory = Memory { build: first.local.memory_bytes(), fragments, ..Memory::default() };
        Ok(Self { ring_join, first, setup: start.elapsed(), memory })
    }

    /// Returns the memory of the prepared rows.
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Returns the fragments that this host would send, for a caller that sends them itself.
    pub fn into_fragments(self) -> Vec<Fragment> {
        self.ring_join.fragments
    }

    /// Returns this share with each prepared row repeated `times` times: every revolution sends the
    /// fragments `times` times. Hidden: for benchmarks that need long joins.
    #[doc(hidden)]
    #[must_use]
    pub fn repeated(mut self, times: usize) -> Self {
        self.ring_join.times = times;
        self
    }

    /// Runs the join with one revolution: sends this host's fragments ring_join, and joins every
    /// host's fragments with this host's build side. Passes the result to `emit` in batches.
    /// Several threads call `emit`, with their number from 0.
    ///
    /// # Errors
    /// If a host fails, the error names it. If this host fails, it [stops](annulus_roundabout::StopHandle),
    /// and the error is the reason: [`JoinError::Cancelled`] if the caller cancelled the join.
    pub fn revolve(
        self,
        host: &mut Host,
        emit: &(impl Fn(usize, RecordBatch) -> Result<(), JoinError> + Sync),
    ) -> Result<JoinStats, CycloError> {
        self.revolve_with(host, Supply::new(), emit)
    }

    /// Like [`revolve`](Self::revolve), with rows that `supply` provides during the join.
    ///
    /// # Errors
    /// As [`revolve`](Self::revolve), and the errors of `supply`.
    pub fn revolve_with(
        self,
        host: &mut Host,
        supply: Supply<'_>,
        emit: &(impl Fn(usize, RecordBatch) -> Result<(), JoinError> + Sync),
    ) -> Result<JoinStats, CycloError> {
        let cancel = self.ring_join.spec.cancel.clone();
        // Joining a fragment may take long, and its result is useless once the ring has failed.
        let feed = Arc::new(Feed::default());
        host.at_failure({
            let (cancel, feed) = (cancel.clone(), Arc::clone(&feed));
            move || {
                // The feed is closed first, so that a read that this cancels does not count as the cause.
                feed.close();
                cancel.cancel();
            }
        });
        let joined = self.run_revolutions(host, supply, &feed, emit);
        // If the rows' source fails, it stops the host.
        feed.take_error().map_or(joined, Err).map_err(|error| cause_of(error, host, &cancel))
    }
}

/// Returns the cause of an error. If a join was cancelled because another host failed, that failure
/// is the cause. If the caller cancelled the join, its own host has not failed.
fn cause_of(error: CycloError, host: &Host, cancel: &CancelToken) -> CycloError {
    match (error, host.lost()) {
        (CycloError::Join(JoinError::Cancelled), Some(lost)) => lost.into(),
        (CycloError::Ring(RoundaboutError::Failed { detail: None, .. }), None) if cancel.is_cancelled() => {
            JoinError::Cancelled.into()
        }
        (error, _) => error,
    }
}
