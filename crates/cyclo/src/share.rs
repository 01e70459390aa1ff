//! One host's part of a join, prepared.

use std::{
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

use annulus_join::{
    cancel::CancelToken,
    error::JoinError,
    hash::Fragment,
    output::{Output, OutputSpec},
    types::Side,
};
use annulus_roundabout::{
    error::RoundaboutError,
    host::{Host, Revolution},
};
use arrow::array::RecordBatch;

use crate::{
    Condition, CycloError, Probe,
    local::Schemas,
    turn::{Around, Endings, GiveUp, Met, Part},
};

/// A join, the same on all hosts but for `threads`.
#[derive(Clone)]
pub struct JoinSpec {
    /// Which rows come out, and the rest of the condition.
    pub output: OutputSpec,
    /// What makes a pair.
    pub condition: Condition,
    /// Most bytes of a fragment: those of the ring's buffers.
    pub fragment_bytes: usize,
    /// Threads that join on this host, the one that calls among them.
    pub threads: usize,
    /// Ends the join from another thread, within what [`CancelToken`] says. The join cancels it itself when the ring fails.
    pub cancel: CancelToken,
}

/// One host's part of a join, prepared: of what stays all or the first part, and what is in memory of what goes around.
pub struct Share {
    around: Around,
    first: Part,
    setup: Duration,
    memory: Memory,
}

/// Bytes of what one host has prepared. The ring's buffers come besides, and until a batch is full, the rows of the result in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Of what stays: rows, keys and tables; of the largest part, if there are several.
    pub build: usize,
    /// Of the fragments, as they are sent; of those that are fed, the most that were prepared together.
    pub fragments: usize,
}

/// What a join was for one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Time to prepare both sides, before anything was sent, and further parts, between revolutions.
    pub setup: Duration,
    /// Time in which nothing could be done until the caller gave further parts, or rows that go around.
    pub reading: Duration,
    /// What went around, in all revolutions, and where the time went.
    pub revolution: Revolution,
    /// Rows that came by in all revolutions, this host's own among them.
    pub probed: u64,
    /// Pairs of rows that the join compared: those in one bucket of a hash table, those that are merged, or all. With the rows that
    /// came by it is this host's work, whatever machine it is.
    pub compared: u64,
    /// What it held.
    pub memory: Memory,
}

impl Share {
    /// Prepares this host's rows of both sides, which are let go; `build` may be the first of several parts. Memory is taken as the
    /// local join says: [`BuildSide::prepare`](annulus_join::hash::BuildSide::prepare) and
    /// [`Fragment::prepare`], or those of [`MergeJoin`](annulus_join::merge::MergeJoin).
    ///
    /// # Errors
    /// If columns are missing, keys cannot be compared, or a row of the side that goes around does not fit in a fragment.
    pub fn prepare(spec: &JoinSpec, build: Vec<RecordBatch>, probe: Vec<RecordBatch>) -> Result<Self, CycloError> {
        let start = Instant::now();
        let spec = JoinSpec { threads: spec.threads.max(1), ..spec.clone() };
        let output = Arc::new(Output::try_new(spec.output.clone())?.cancelled_by(spec.cancel.clone()));
        let first = spec.part(&output, build)?;
        let format = spec.condition.format(spec.schemas())?;
        let mut around = Around { spec, output, format, fragments: Vec::new() };
        around.fragments = around.prepare(probe)?;
        let fragments = around.fragments.iter().map(Fragment::encoded_bytes).sum();
        let memory = Memory { build: first.local.memory_bytes(), fragments };
        Ok(Self { around, first, setup: start.elapsed(), memory })
    }

    /// Bytes of what is prepared.
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// What this host would send around, for someone else to do so.
    pub fn into_fragments(self) -> Vec<Fragment> {
        self.around.fragments
    }

    /// Sends this host's fragments around, joins every host's with what stays here, and hands the result to `emit` in batches: it
    /// is called by several threads, with the thread's number from 0 on. [`Host::progress`] tells another thread how far it is.
    ///
    /// # Errors
    /// If a host fails, which is named, or this one does, after which it [has given up](annulus_roundabout::host::Stopper);
    /// [`JoinError::Cancelled`] if it was asked to stop.
    pub fn turn(
        self,
        host: &mut Host,
        emit: &(impl Fn(usize, RecordBatch) -> Result<(), JoinError> + Sync),
    ) -> Result<Turn, CycloError> {
        self.turn_parts(host, NonZeroUsize::MIN, |_| Ok(Vec::new()), None, emit)
    }

    /// Like [`turn`](Self::turn) for a build side larger than memory, in `parts` parts, as many on all hosts: the fragments go
    /// around once for each. The first was prepared; `next` gives the others, by their numbers from 1 on, when the one before has
    /// been let go. A part may have no rows. From one revolution to the next a host keeps a bit a row of the fragments of
    /// its successor, if the join gives rows of that side alone: they come out in the last one.
    ///
    /// Behind the fragments that are prepared, or instead of them, go those of the rows that `probe` gives: it is called once for each
    /// revolution, on a thread of its own, and kept waiting until what it gave before has been sent. What it gives at a time is prepared
    /// together, by all threads: some dozen fragments' worth, so that each of them meets few partitions. Three times that is taken.
    ///
    /// # Errors
    /// As of [`turn`](Self::turn), and those of `next` and `probe`.
    pub fn turn_parts(
        self,
        host: &mut Host,
        parts: NonZeroUsize,
        next: impl FnMut(usize) -> Result<Vec<RecordBatch>, JoinError>,
        probe: Option<&Probe<'_>>,
        emit: &(impl Fn(usize, RecordBatch) -> Result<(), JoinError> + Sync),
    ) -> Result<Turn, CycloError> {
        let cancel = self.around.spec.cancel.clone();
        // A fragment may take long, and what becomes of it is in vain when the ring has failed.
        host.at_failure({
            let cancel = cancel.clone();
            move || cancel.cancel()
        });
        self.turn_all(host, parts, next, probe, emit).map_err(|error| behind(error, host, &cancel))
    }

    fn turn_all(
        self,
        host: &mut Host,
        parts: NonZeroUsize,
        mut next: impl FnMut(usize) -> Result<Vec<RecordBatch>, JoinError>,
        probe: Option<&Probe<'_>>,
        emit: &(impl Fn(usize, RecordBatch) -> Result<(), JoinError> + Sync),
    ) -> Result<Turn, CycloError> {
        let Self { around, first, setup, memory } = self;
        let give_up = GiveUp::unless_done(host);
        let mut turn = Turn { setup, memory, ..Turn::default() };
        let (mut first, mut endings) = (Some(first), Endings::default());
        for number in 0..parts.get() {
            // The part before is gone.
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
            turn.add(around.turn(host, &part, &mut endings, probe, emit)?);
        }
        give_up.done();
        Ok(turn)
    }
}

/// The reason behind an error: a join that was cancelled because another host has failed says so, and one that was asked to stop
/// does not say that its own host has failed.
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
        self.reading += met.unfed;
        self.memory.fragments = self.memory.fragments.max(met.fed_bytes);
    }
}

impl JoinSpec {
    pub(crate) fn schemas(&self) -> Schemas<'_> {
        let OutputSpec { left, right, build, .. } = &self.output;
        let (build, probe) = if *build == Side::Left { (left, right) } else { (right, left) };
        Schemas { build, probe }
    }

    fn part(&self, output: &Output, batches: Vec<RecordBatch>) -> Result<Part, JoinError> {
        self.cancel.check()?;
        let local = self.condition.prepare_build(self.schemas(), batches, self.threads)?;
        Ok(Part { rows: output.build_rows(local.batch())?, local })
    }
}
