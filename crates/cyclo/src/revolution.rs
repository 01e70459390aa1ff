//! One revolution: joins every fragment with a part of the build side.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, Scope},
};

use annulus_join::{
    Fragment, FragmentFormat, JoinError, MOST_PAIRS, MatchBits, NearestPairs, Output, PairSink, SideRows, Writer,
    store_matched,
};
use annulus_roundabout::{Host, Revolution, StopHandle};
use arrow::{
    array::{BooleanArray, RecordBatch},
    buffer::Buffer,
};
use parking_lot::Mutex;

use crate::{
    CycloError, JoinSpec, JoinedFragment, RowSource,
    feed::Feed,
    fragment_memory::FragmentMemory,
    local_join::{FragmentParts, LocalJoin},
    own_fragments::{OwnFragments, ProbeRows},
    workers::{Round, Rounds},
};

/// The state shared by all revolutions.
pub(crate) struct RingJoin {
    pub(crate) spec: JoinSpec,
    pub(crate) output: Arc<Output>,
    pub(crate) format: Arc<FragmentFormat>,
    /// This host's prepared fragments.
    pub(crate) fragments: Vec<Fragment>,
    /// The number of times that this host sends them in a revolution.
    pub(crate) times: usize,
}

/// The part of this host's build side for one revolution.
pub(crate) struct Part {
    pub(crate) local: Arc<LocalJoin>,
    pub(crate) rows: SideRows,
}

impl Part {
    /// Returns the part with these rows, none of which has a match yet.
    pub(crate) fn new(output: &Output, local: Arc<LocalJoin>) -> Result<Self, JoinError> {
        Ok(Self { rows: output.build_rows(local.batch())?, local })
    }
}

/// The counters and times of one revolution.
pub(crate) struct RevolutionStats {
    pub(crate) revolution: Revolution,
    /// The rows of all fragments joined.
    pub(crate) probed: u64,
    /// The pairs of rows compared.
    pub(crate) compared: u64,
}

impl RingJoin {
    /// Prepares a part of the build side.
    pub(crate) fn prepare_part(&self, batches: Vec<RecordBatch>) -> Result<Part, JoinError> {
        Part::new(&self.output, Arc::new(self.spec.local(batches)?))
    }

    /// Runs one revolution for `part`: sends the prepared fragments, then those of `own_rows`.
    /// Afterwards it outputs the rows that the join type emits alone.
    pub(crate) fn revolve(
        &self,
        host: &mut Host,
        part: &Part,
        endings: &mut Endings,
        own_rows: ProbeRows<'_, '_>,
        emit: &(impl Fn(usize, RecordBatch) -> Result<(), JoinError> + Sync),
    ) -> Result<RevolutionStats, CycloError> {
        let Self { output, spec: JoinSpec { condition, threads, cancel, watch, .. }, .. } = self;
        let (threads, wanted, Part { local, rows: build_rows }) = (*threads, output.wanted(), part);
        let (rounds, compared, me) = (Rounds::new(), AtomicU64::new(0), host.position().me());
        // Rows of unfinished batches may hold memory of the part, so they are output before it is freed.
        let writer = |thread| Mutex::new(Writer::new(Arc::clone(output), move |batch| emit(thread, batch)));
        let writers: Vec<_> = (0..threads).map(writer).collect();
        let work = |thread: usize, round: &Round<Work>| {
            let mut writer = writers[thread].lock();
            let Work { fragment, rows, split } = &round.work;
            let mut sink = writer.sink(build_rows, rows);
            let mut found = 0;
            while let Some(part) = round.next_part() {
                // A part may yield no pairs, and only pairs check for cancellation themselves.
                cancel.check()?;
                found += local.probe(condition, (fragment, split), part, (wanted, cancel), &mut sink)?;
            }
            compared.fetch_add(found, Relaxed);
            Ok(())
        };
        let (mut memory, mut probed) =
            (FragmentMemory::new(output.refers_to_probe_rows() || local.keeps_fragments()), 0);
        let revolution = thread::scope(|scope| {
            let _end = EndAtDrop(&rounds);
            for thread in 1..threads {
                let (rounds, work) = (&rounds, &work);
                let help = move || rounds.help(|round| work(thread, round));
                thread::Builder::new().spawn_scoped(scope, help).map_err(CycloError::Threads)?;
            }
            if let ProbeRows::Supplied { feed, probe, .. } = own_rows {
                self.start_feed(scope, host.stop_handle(), (feed, probe))?;
            }
            let mut own = OwnFragments::new(&self.fragments, self.times, own_rows);
            host.revolve_owned(
                |buffer| own.fill(buffer),
                |fragment| {
                    let (frame, is_last) = (fragment.frame, fragment.is_last);
                    let (borrowed, bytes) = memory.lend(fragment);
                    let (work_on, parts) = self.decode(local, bytes)?;
                    let rows = work_on.fragment.batch().num_rows();
                    probed += rows as u64;
                    let done = rounds.run(work_on, parts, threads - 1, |round| work(0, round))?;
                    if is_last && endings.has_met_all(frame.sequence, &done.rows)? {
                        output.probe_alone(&done.rows, 0..rows, |batch| emit(0, batch))?;
                    }
                    let matched = done.into_matched();
                    let mut fragment = memory.take_back(borrowed)?;
                    if let Some(matched) = matched.filter(|_| !is_last) {
                        store_matched(fragment.as_mut(), &matched)?;
                    }
                    if let Some(watch) = watch {
                        let bytes = fragment.as_ref().len() as u64;
                        watch(JoinedFragment { rows: rows as u64, bytes, is_own: frame.origin == me });
                    }
                    Ok::<_, CycloError>(fragment)
                },
            )
        })?;
        let writers = writers.into_iter().map(Mutex::into_inner).collect();
        self.complete(part, writers, emit)?;
        Ok(RevolutionStats { revolution, probed, compared: compared.into_inner() })
    }

    /// Outputs what depends on all fragments, and the rows in the writers.
    fn complete<E: FnMut(RecordBatch) -> Result<(), JoinError>>(
        &self,
        Part { local, rows: build_rows }: &Part,
        mut writers: Vec<Writer<E>>,
        emit: &(impl Fn(usize, RecordBatch) -> Result<(), JoinError> + Sync),
    ) -> Result<(), CycloError> {
        let Self { output, spec: JoinSpec { threads, cancel, .. }, .. } = self;
        local.complete(*threads, cancel, &mut |NearestPairs { probe, build_rows: build, probe_rows }| {
            let (rows, Some(writer)) = (output.probe_rows(probe)?, writers.first_mut()) else { return Ok(()) };
            let mut sink = writer.sink(build_rows, &rows);
            let mut slices = build.chunks(MOST_PAIRS).zip(probe_rows.chunks(MOST_PAIRS));
            slices.try_for_each(|(build, probe)| sink.pairs(build, probe))
        })?;
        output.build_alone(build_rows, 0..local.batch().num_rows(), |batch| emit(0, batch))?;
        writers.into_iter().try_for_each(|writer| Ok(writer.finish()?))
    }

    /// Starts the thread that prepares further rows during the revolution.
    fn start_feed<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        stopper: StopHandle,
        (feed, probe): (&'scope Feed, &'scope RowSource<'scope>),
    ) -> Result<(), CycloError> {
        let work = move || feed.run(probe, |batches| self.prepare(batches), || stopper.stop());
        thread::Builder::new().name("feed".to_owned()).spawn_scoped(scope, work).map_err(CycloError::Threads)?;
        Ok(())
    }

    /// Converts rows of the probe side to fragments.
    pub(crate) fn prepare(&self, batches: Vec<RecordBatch>) -> Result<Vec<Fragment>, JoinError> {
        let JoinSpec { condition, threads, fragment_bytes, cancel, .. } = &self.spec;
        cancel.check()?;
        condition.prepare_probe(self.spec.schemas(), &self.format, batches, *threads, *fragment_bytes)
    }

    /// Decodes a received fragment, and splits it for the threads. Also returns the number of
    /// parts.
    fn decode(&self, local: &LocalJoin, bytes: Buffer) -> Result<(Work, usize), JoinError> {
        let fragment = Fragment::decode(&self.format, bytes)?;
        let rows = self.output.probe_rows(fragment.batch())?;
        rows.mark(&fragment.matched().to_array())?;
        let (split, parts) = local.split(&fragment, self.spec.threads)?;
        Ok((Work { fragment, rows, split }, parts))
    }
}

struct Work {
    fragment: Fragment,
    rows: SideRows,
    split: FragmentParts,
}

impl Work {
    /// Drops all columns, and returns which rows have a match.
    fn into_matched(self) -> Option<Arc<MatchBits>> {
        self.rows.into_matched()
    }
}

/// Ends the threads with the revolution, even if it fails.
struct EndAtDrop<'a, W>(&'a Rounds<W>);

impl<W> Drop for EndAtDrop<'_, W> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The match bits of the fragments whose last host is this one, stored between revolutions. They
/// are the successor's fragments, in the same order each time.
#[derive(Default)]
pub(crate) struct Endings {
    matched: Vec<BooleanArray>,
    /// Whether this is the last revolution.
    pub(crate) is_last: bool,
}

impl Endings {
    /// Returns whether a fragment at its last host has been joined with all parts. Stores its match
    /// bits otherwise.
    fn has_met_all(&mut self, sequence: u32, rows: &SideRows) -> Result<bool, JoinError> {
        let earlier = self.matched.get_mut(sequence as usize);
        earlier.as_ref().map_or(Ok(()), |earlier| rows.mark(earlier))?;
        let Some(matched) = rows.matched().filter(|_| !self.is_last) else { return Ok(self.is_last) };
        match earlier {
            Some(earlier) => *earlier = matched.to_array(),
            None => self.matched.push(matched.to_array()),
        }
        Ok(false)
    }
}

/// A guard that stops the host if the join ends early, even between revolutions.
pub(crate) struct StopGuard(Option<StopHandle>);

impl StopGuard {
    pub(crate) fn new(host: &Host) -> Self {
        Self(Some(host.stop_handle()))
    }

    pub(crate) fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        if let Some(host) = &self.0 {
            host.stop();
        }
    }
}
