//! One host's prepared part of a join.

use std::{
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

use annulus_join::{CancelToken, Fragment, JoinError, Output};
use annulus_roundabout::{Host, Revolution, RoundaboutError};
use arrow::array::RecordBatch;

use crate::{
    CycloError, JoinSpec, Supply,
    feed::{Feed, rows_of},
    keep::Kept,
    key_filter::ProbeFilter,
    own::Rows,
    turn::{Around, Endings, GiveUp, Met, Part},
};

/// One host's prepared part of a join: its rows of the build side, or the first part of them, and
/// those rows of the probe side that are in memory.
///
/// [`prepare`](Self::prepare) it, then let it [`turn`](Self::turn) around a ring, as the example of
/// this crate shows.
pub struct Share {
    around: Around,
    first: Part,
    setup: Duration,
    memory: Memory,
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
    /// The fed fragments that were kept in memory for further revolutions.
    pub kept: usize,
    /// The key filter.
    pub filter: usize,
}

/// The counters and times of a complete join on one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Turn {
    /// The time to prepare both sides and the key filter before the first revolution, and further
    /// parts between revolutions.
    pub setup: Duration,
    /// The time spent waiting for the caller to provide further parts, or probe rows while there
    /// was no other fragment to join.
    pub reading: Duration,
    /// The fragments and times of all revolutions.
    pub revolution: Revolution,
    /// The rows of all fragments that this host joined, in all revolutions, including its own.
    pub probed: u64,
    /// The rows of the probe side that this host prepared: its own, once for all revolutions.
    pub prepared: u64,
    /// The rows of the probe side that the key filter dropped on this host.
    pub dropped: u64,
    /// The bytes of the key filter's parts that this host saw, its own included.
    pub filter_bytes: u64,
    /// The bytes of fed fragments that were kept on disk for further revolutions.
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
        let start = Instant::now();
        let spec = JoinSpec { threads: spec.threads.max(1), ..spec.clone() };
        let output = Arc::new(Output::try_new(spec.output.clone())?.cancelled_by(spec.cancel.clone()));
        let first = spec.part(&output, build)?;
        let format = spec.condition.format(spec.schemas())?;
        let mut around = Around { spec, output, format, filter: None, fragments: Vec::new() };
        around.fragments = around.prepare(probe)?;
        let fragments = around.fragments.iter().map(Fragment::encoded_bytes).sum();
        let memory = Memory { build: first.local.memory_bytes(), fragments, ..Memory::default() };
        Ok(Self { around, first, setup: start.elapsed(), memory })
    }

    /// Returns the memory of the prepared rows.
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Returns the fragments that this host would send, for a caller that sends them itself.
    pub fn into_fragments(self) -> Vec<Fragment> {
        self.around.fragments
    }

    /// Runs the join with one revolution: sends this host's fragments around, and joins every
    /// host's fragments with this host's build side. Passes the result to `emit` in batches.
    /// Several threads call `emit`, with their number from 0. [`Host::progress`] reports the
    /// progress to other threads.
    ///
    /// # Errors
    /// If a host fails, the error names it. If this host fails, it [gives
    /// up](annulus_roundabout::Stopper), and the error is the reason:
    /// [`JoinError::Cancelled`] if it was asked to stop.
    pub fn turn(
        self,
        host: &mut Host,
        emit: &(impl Fn(usize, RecordBatch) -> Result<(), JoinError> + Sync),
    ) -> Result<Turn, CycloError> {
        self.turn_with(host, Supply::new(), emit)
    }

    /// Like [`turn`](Self::turn), with rows that `supply` provides during the join.
    ///
    /// # Errors
    /// As [`turn`](Self::turn), and the errors of `supply`.
    pub fn turn_with(
        self,
        host: &mut Host,
        supply: Supply<'_>,
        emit: &(impl Fn(usize, RecordBatch) -> Result<(), JoinError> + Sync),
    ) -> Result<Turn, CycloError> {
        let cancel = self.around.spec.cancel.clone();
        // A fragment may take long, and its result is useless when the ring has failed.
        let feed = Arc::new(Feed::default());
        host.at_failure({
            let (cancel, feed) = (cancel.clone(), Arc::clone(&feed));
            move || {
                // First, so that a read that is cancelled by this is not taken for the cause.
                feed.close();
                cancel.cancel();
            }
        });
        let turned = self.turn_all(host, supply, &feed, emit);
        // If the rows' source fails, it stops the host.
        turned.map_err(|error| feed.take_error().unwrap_or(error)).map_err(|error| behind(error, host, &cancel))
    }

    fn turn_all(
        self,
        host: &mut Host,
        Supply { parts, mut next, probe, keep }: Supply<'_>,
        feed: &Feed,
        emit: &(impl Fn(usize, RecordBatch) -> Result<(), JoinError> + Sync),
    ) -> Result<Turn, CycloError> {
        let Self { mut around, first, setup, memory } = self;
        let give_up = GiveUp::unless_done(host);
        let mut turn = Turn { setup, memory, prepared: rows_of(&around.fragments), ..Turn::default() };
        around.make_filter(&first, parts, host, &mut turn)?;
        let (mut first, mut endings) = (Some(first), Endings::default());
        let mut kept = (parts.get() > 1).then(|| Kept::new(&keep));
        for number in 0..parts.get() {
            // The previous part has been freed.
            let part = match first.take() {
                Some(first) => first,
                None => {
                    let start = Instant::now();
                    let batches = next(number)?;
                    turn.reading += start.elapsed();
                    let start = Instant::now();
                    let part = around.spec.part(&around.output, batches)?;
                    turn.setup += start.elapsed();
                    turn.memory.build = turn.memory.build.max(part.local.memory_bytes());
                    part
                }
            };
            endings.is_last = number + 1 == parts.get();
            let own_rows = match (probe, &mut kept) {
                (None, _) => Rows::None,
                (Some(probe), kept) if number == 0 => Rows::Fed { feed, probe, kept: kept.as_mut() },
                (Some(_), kept) => kept.as_ref().map_or(Rows::None, Rows::Kept),
            };
            let met = around.turn(host, &part, &mut endings, own_rows, emit)?;
            if probe.is_some() {
                turn.reading += met.revolution.waiting_fill;
            }
            turn.add(met);
        }
        give_up.done();
        let waves = feed.waves();
        turn.prepared += waves.rows;
        turn.dropped = around.filter.as_ref().map_or(0, ProbeFilter::dropped);
        turn.memory.fragments = turn.memory.fragments.max(waves.largest);
        if let Some(kept) = kept {
            (turn.memory.kept, turn.kept_on_disk) = (kept.memory_bytes(), kept.file_bytes());
        }
        Ok(turn)
    }
}

impl Around {
    /// Makes the key filter, if there is to be one.
    fn make_filter(
        &mut self,
        first: &Part,
        parts: NonZeroUsize,
        host: &mut Host,
        turn: &mut Turn,
    ) -> Result<(), CycloError> {
        let Some(kind) = self.spec.key_filter else { return Ok(()) };
        let refuse = |reason| CycloError::KeyFilter { reason };
        if parts > NonZeroUsize::MIN {
            return Err(refuse("the build side has several parts"));
        }
        let keys = self.spec.filter_keys()?;
        let (build, probe) =
            keys.ok_or_else(|| refuse("the join has no equal keys, or outputs rows without a match"))?;
        let start = Instant::now();
        let (filter, bytes) = ProbeFilter::make(kind, (&build, probe), first.local.batch(), host)?;
        turn.setup += start.elapsed();
        turn.filter_bytes = bytes;
        turn.memory.filter = filter.bytes();
        self.filter = Some(filter);
        Ok(())
    }
}

/// Returns the cause of an error. If a join was cancelled because another host failed, it is that
/// failure. If it was cancelled on request, its own host has not failed.
fn behind(error: CycloError, host: &Host, cancel: &CancelToken) -> CycloError {
    match (error, host.lost()) {
        (CycloError::Join(JoinError::Cancelled), Some(lost)) => lost.into(),
        (CycloError::Ring(RoundaboutError::Failed { detail: None, .. }), None) if cancel.is_cancelled() => {
            JoinError::Cancelled.into()
        }
        (error, _) => error,
    }
}

impl Turn {
    fn add(&mut self, met: Met) {
        self.revolution += met.revolution;
        self.probed += met.probed;
        self.compared += met.compared;
    }
}
