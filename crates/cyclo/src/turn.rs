//! One revolution: every fragment meets a part of what stays here.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use annulus_join::{
    error::JoinError,
    hash::{Fragment, FragmentFormat, store_matched},
    output::{Output, SideRows, Writer},
};
use annulus_roundabout::host::{self, Host, Revolution, Stopper};
use arrow::{
    array::{BooleanArray, RecordBatch},
    buffer::Buffer,
};

use crate::{
    CycloError, JoinSpec,
    feed::{Feed, Probe, feed},
    local::{Local, Ready},
    spare::Spare,
    workers::{Round, Rounds},
};

/// What is the same in all revolutions.
pub(crate) struct Around {
    pub(crate) spec: JoinSpec,
    pub(crate) output: Arc<Output>,
    pub(crate) format: Arc<FragmentFormat>,
    /// This host's that are in memory.
    pub(crate) fragments: Vec<Fragment>,
}

/// Rows that stay on this host for a revolution.
pub(crate) struct Part {
    pub(crate) local: Local,
    pub(crate) rows: SideRows,
}

/// What went around in a revolution, and what it was to meet it.
pub(crate) struct Met {
    pub(crate) revolution: Revolution,
    /// Rows that came by.
    pub(crate) probed: u64,
    /// Pairs of rows that were compared.
    pub(crate) compared: u64,
    /// Time in which there was room for a fragment, and none was fed.
    pub(crate) unfed: Duration,
    /// Bytes of the fragments that were prepared together, at most, of those that were fed.
    pub(crate) fed_bytes: usize,
}

impl Around {
    /// One revolution around this part: of the fragments that are in memory, then of those that `probe` gives. Their rows come out at
    /// last as they have a match or not, and the part's.
    pub(crate) fn turn(
        &self,
        host: &mut Host,
        part: &Part,
        endings: &mut Endings,
        probe: Option<&Probe<'_>>,
        emit: &(impl Fn(usize, RecordBatch) -> Result<(), JoinError> + Sync),
    ) -> Result<Met, CycloError> {
        let Self { output, spec: JoinSpec { threads, cancel, .. }, .. } = self;
        let Part { local, rows: build_rows } = part;
        let (threads, wanted) = (*threads, output.wanted());
        let (rounds, compared) = (Rounds::new(), AtomicU64::new(0));
        // Rows that have not filled a batch may hold memory of the part, and are handed on with it.
        let writer = |thread| Mutex::new(Writer::new(Arc::clone(output), move |batch| emit(thread, batch)));
        let writers: Vec<_> = (0..threads).map(writer).collect();
        let work = |thread: usize, round: &Round<Work>| {
            let mut writer = writers[thread].lock().unwrap_or_else(PoisonError::into_inner);
            let Work { fragment, rows, ready } = &round.work;
            let mut sink = writer.sink(build_rows, rows);
            let mut found = 0;
            while let Some(part) = round.next_part() {
                // A part may give no pairs, which look at it themselves.
                cancel.check()?;
                found += local.probe(fragment, ready, part, wanted, &mut sink)?;
            }
            compared.fetch_add(found, Relaxed);
            Ok(())
        };
        let (mut prepared, mut probed) = (self.fragments.iter(), 0);
        let (mut spare, largest) = (Spare::default(), AtomicUsize::new(0));
        let (revolution, unfed) = thread::scope(|scope| {
            let _end = EndAtDrop(&rounds);
            for thread in 1..threads {
                let (rounds, work) = (&rounds, &work);
                let help = move || rounds.help(|round| work(thread, round));
                thread::Builder::new().spawn_scoped(scope, help).map_err(CycloError::Threads)?;
            }
            // Dropped before threads are waited for, so that the feeder ends, too.
            let mut fed = Feed::empty();
            if let Some(probe) = probe {
                let (feeder, taken) = feed(&largest);
                fed = taken;
                let work = move || feeder.run(probe, |batches| self.prepare(batches));
                thread::Builder::new().spawn_scoped(scope, work).map_err(CycloError::Threads)?;
            }
            let revolution = host.revolve(
                |buffer| match prepared.next() {
                    Some(fragment) => Ok(Some(fragment.encode(buffer)?)),
                    None => Ok(fed.next()?.map(|fragment| fragment.encode(buffer)).transpose()?),
                },
                |host::Fragment { frame, bytes, is_last }| {
                    let (work_on, parts) = self.ready(local, spare.copy(bytes))?;
                    let rows = work_on.fragment.batch().num_rows();
                    probed += rows as u64;
                    let done = rounds.run(work_on, parts, threads - 1, |round| work(0, round))?;
                    if !is_last {
                        done.rows.matched().map_or(Ok(()), |matched| store_matched(bytes, matched))?;
                    } else if endings.has_met_all(frame.sequence, &done.rows)? {
                        output.probe_alone(&done.rows, 0..rows, |batch| emit(0, batch))?;
                    }
                    drop(done);
                    spare.reclaim();
                    Ok::<_, CycloError>(())
                },
            )?;
            Ok::<_, CycloError>((revolution, fed.waited))
        })?;
        output.build_alone(build_rows, 0..local.batch().num_rows(), |batch| emit(0, batch))?;
        for writer in writers {
            writer.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?;
        }
        Ok(Met { revolution, probed, compared: compared.into_inner(), unfed, fed_bytes: largest.into_inner() })
    }

    /// Rows of the probe side as fragments.
    pub(crate) fn prepare(&self, batches: Vec<RecordBatch>) -> Result<Vec<Fragment>, JoinError> {
        let JoinSpec { condition, threads, fragment_bytes, cancel, .. } = &self.spec;
        cancel.check()?;
        condition.prepare_probe(self.spec.schemas(), &self.format, batches, *threads, *fragment_bytes)
    }

    /// A fragment as it came, for the threads, and into how many parts.
    fn ready(&self, local: &Local, bytes: Buffer) -> Result<(Work, usize), JoinError> {
        let fragment = Fragment::decode(&self.format, bytes)?;
        let rows = self.output.probe_rows(fragment.batch())?;
        rows.mark(&fragment.matched().to_array())?;
        let (ready, parts) = local.ready(&fragment, self.spec.threads)?;
        Ok((Work { fragment, rows, ready }, parts))
    }
}

struct Work {
    fragment: Fragment,
    rows: SideRows,
    ready: Ready,
}

/// The threads end with the revolution, however that does.
struct EndAtDrop<'a, W>(&'a Rounds<W>);

impl<W> Drop for EndAtDrop<'_, W> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Which rows of the fragments that end here have a match, from one revolution to the next: they are the successor's, in the same
/// order each time.
#[derive(Default)]
pub(crate) struct Endings {
    matched: Vec<BooleanArray>,
    /// No revolution follows.
    pub(crate) is_last: bool,
}

impl Endings {
    /// Whether a fragment that has been everywhere has met all parts. If not, its matches are kept.
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

/// A host whose part in a join ends before it is done gives up: also between revolutions.
pub(crate) struct GiveUp(Option<Stopper>);

impl GiveUp {
    pub(crate) fn unless_done(host: &Host) -> Self {
        Self(Some(host.stopper()))
    }

    pub(crate) fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for GiveUp {
    fn drop(&mut self) {
        if let Some(host) = &self.0 {
            host.stop();
        }
    }
}
