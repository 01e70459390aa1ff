//! One host's part in a join.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use annulus_join::{
    error::JoinError,
    hash::{Fragment, FragmentFormat, store_matched},
    output::{Output, OutputSpec, SideRows, Writer},
    types::Side,
};
use annulus_roundabout::host::{self, Host, Revolution};
use arrow::{
    array::RecordBatch,
    buffer::{Buffer, MutableBuffer},
};

use crate::{
    Condition, CycloError,
    local::{Local, Ready},
    workers::{Round, Rounds},
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
}

/// One host's part of both sides, prepared.
pub struct Share {
    output: Arc<Output>,
    local: Local,
    format: Arc<FragmentFormat>,
    build_rows: SideRows,
    fragments: Vec<Fragment>,
    threads: usize,
    setup: Duration,
}

/// What a join was for one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Time to prepare both sides, before anything was sent.
    pub setup: Duration,
    /// What went around, and where the time went.
    pub revolution: Revolution,
    /// Rows that came by, this host's own among them.
    pub probed: u64,
    /// Pairs of rows that the join compared: those in one bucket of a hash table, those that are merged, or all. With the rows that
    /// came by it is this host's work, whatever machine it is.
    pub compared: u64,
}

/// Memory that a host has prepared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareBytes {
    /// What stays, tables included.
    pub build: usize,
    /// What this host sends around; freed when the last of it has gone out.
    pub fragments: usize,
}

impl Share {
    /// Prepares this host's rows of both sides, which are let go. Memory is taken as the local join says:
    /// [`BuildSide::prepare`](annulus_join::hash::BuildSide::prepare) and [`Fragment::prepare`], or those of
    /// [`MergeJoin`](annulus_join::merge::MergeJoin).
    ///
    /// # Errors
    /// If columns are missing, keys cannot be compared, or a row of the side that goes around does not fit in a fragment.
    pub fn prepare(spec: &JoinSpec, build: Vec<RecordBatch>, probe: Vec<RecordBatch>) -> Result<Self, CycloError> {
        let start = Instant::now();
        let threads = spec.threads.max(1);
        let OutputSpec { left, right, .. } = &spec.output;
        let schemas = if spec.output.build == Side::Left { (left, right) } else { (right, left) };
        let output = Arc::new(Output::try_new(spec.output.clone())?);
        let (local, format, fragments) =
            spec.condition.prepare(schemas, (build, probe), threads, spec.fragment_bytes)?;
        let build_rows = output.build_rows(local.batch())?;
        Ok(Self { output, local, format, build_rows, fragments, threads, setup: start.elapsed() })
    }

    /// How much memory it takes, the ring's buffers not included.
    pub fn bytes(&self) -> ShareBytes {
        let fragments = self.fragments.iter().map(Fragment::bytes).sum();
        ShareBytes { build: self.local.bytes(), fragments }
    }

    /// What this host would send around, for someone else to do so.
    pub fn into_fragments(self) -> Vec<Fragment> {
        self.fragments
    }

    /// Sends this host's fragments around, joins every host's with what stays here, and hands the result to `emit` in batches: it
    /// is called by several threads, with the thread's number from 0 on.
    ///
    /// # Errors
    /// If a host fails, which is named, or this one does.
    pub fn turn(
        self,
        host: &mut Host,
        emit: &(impl Fn(usize, RecordBatch) -> Result<(), JoinError> + Sync),
    ) -> Result<Turn, CycloError> {
        let Self { output, local, format, build_rows, fragments, threads, setup } = self;
        let wanted = output.wanted();
        let (rounds, compared) = (Rounds::new(), AtomicU64::new(0));
        let writer = |thread| Mutex::new(Writer::new(Arc::clone(&output), move |batch| emit(thread, batch)));
        let writers: Vec<_> = (0..threads).map(writer).collect();
        let work = |thread: usize, round: &Round<Work>| {
            let mut writer = writers[thread].lock().unwrap_or_else(PoisonError::into_inner);
            let Work { fragment, rows, ready } = &round.work;
            let mut sink = writer.sink(&build_rows, rows);
            let mut found = 0;
            while let Some(part) = round.next_part() {
                found += local.probe(fragment, ready, part, wanted, &mut sink)?;
            }
            compared.fetch_add(found, Relaxed);
            Ok(())
        };
        let (mut fragments, mut probed) = (fragments.into_iter(), 0);
        let mut spare = Spare::default();
        let revolution = thread::scope(|scope| {
            let _end = EndAtDrop(&rounds);
            for thread in 1..threads {
                let (rounds, work) = (&rounds, &work);
                let help = move || rounds.help(|round| work(thread, round));
                thread::Builder::new().spawn_scoped(scope, help).map_err(CycloError::Threads)?;
            }
            host.revolve(
                |buffer| Ok(fragments.next().map(|fragment| fragment.encode(buffer)).transpose()?),
                |fragment| {
                    let host::Fragment { bytes, is_last, .. } = fragment;
                    let decoded = Fragment::decode(&format, spare.copy(bytes))?;
                    probed += decoded.batch().num_rows() as u64;
                    let rows = output.probe_rows(decoded.batch())?;
                    rows.mark(&decoded.matched().to_array())?;
                    let (ready, parts) = local.ready(&decoded, threads)?;
                    let work_on = Work { fragment: decoded, rows, ready };
                    let done = rounds.run(work_on, parts, threads - 1, |round| work(0, round))?;
                    if is_last {
                        output.probe_alone(&done.rows, 0..done.fragment.batch().num_rows(), |batch| emit(0, batch))?;
                    } else if let Some(matched) = done.rows.matched() {
                        store_matched(bytes, matched)?;
                    }
                    drop(done);
                    spare.reclaim();
                    Ok::<_, CycloError>(())
                },
            )
        })?;
        output.build_alone(&build_rows, 0..local.batch().num_rows(), |batch| emit(0, batch))?;
        for writer in writers {
            writer.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?;
        }
        Ok(Turn { setup, revolution, probed, compared: compared.into_inner() })
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

/// Memory for a fragment beside its buffer, used again for the next one: columns may outlive the fragment, in batches with views.
#[derive(Default)]
struct Spare {
    memory: Option<MutableBuffer>,
    lent: Option<Buffer>,
}

impl Spare {
    fn copy(&mut self, bytes: &[u8]) -> Buffer {
        let mut memory = self.memory.take().unwrap_or_else(|| MutableBuffer::new(bytes.len()));
        memory.clear();
        memory.extend_from_slice(bytes);
        let buffer = Buffer::from(memory);
        self.lent = Some(buffer.clone());
        buffer
    }

    /// Takes the memory back, if nobody has it any more.
    fn reclaim(&mut self) {
        self.memory = self.lent.take().and_then(|buffer| buffer.into_mutable().ok());
    }
}
