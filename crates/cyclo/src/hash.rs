//! One host's part in a join on equal keys.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use annulus_join::{
    error::JoinError,
    hash::{BuildSide, Fragment, FragmentFormat, HashConfig, Morsel, Partitions, match_bits},
    key::Keys,
    output::{Output, OutputSpec, SideRows, Writer},
    types::Side,
};
use annulus_roundabout::host::{self, Host, Revolution};
use arrow::{
    array::RecordBatch,
    buffer::{Buffer, MutableBuffer},
};

use crate::{
    CycloError,
    workers::{Round, Rounds},
};

/// A join on equal keys, the same on all hosts but for `threads`.
#[derive(Clone)]
pub struct HashSpec {
    /// Which rows come out, and the rest of the condition.
    pub output: OutputSpec,
    /// Key columns of the left side.
    pub left_keys: Vec<usize>,
    /// Key columns of the right side, as many and of the same types.
    pub right_keys: Vec<usize>,
    /// Whether null keys match null keys.
    pub nulls_equal: bool,
    /// Into how many partitions both sides are clustered.
    pub partitions: Partitions,
    /// Most bytes of a fragment: those of the ring's buffers.
    pub fragment_bytes: usize,
    /// Threads that join on this host, the one that calls among them.
    pub threads: usize,
}

/// One host's part of both sides, prepared.
pub struct HashShare {
    output: Arc<Output>,
    format: Arc<FragmentFormat>,
    build: BuildSide,
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
}

impl HashShare {
    /// Prepares this host's rows of both sides, which are let go. O(rows); see [`BuildSide::prepare`] and [`Fragment::prepare`] for the
    /// memory that it takes.
    ///
    /// # Errors
    /// If columns are missing, keys cannot be compared, or a row of the side that goes around does not fit in a fragment.
    pub fn prepare(spec: &HashSpec, build: Vec<RecordBatch>, probe: Vec<RecordBatch>) -> Result<Self, CycloError> {
        let start = Instant::now();
        let OutputSpec { left, right, .. } = &spec.output;
        let left = Keys::new(left, &spec.left_keys, spec.nulls_equal)?;
        let right = Keys::new(right, &spec.right_keys, spec.nulls_equal)?;
        let (build_keys, probe_keys) = if spec.output.build == Side::Left { (left, right) } else { (right, left) };
        build_keys.check(&probe_keys)?;
        let output = Arc::new(Output::try_new(spec.output.clone())?);
        let format = Arc::new(FragmentFormat::new(probe_keys, spec.partitions)?);
        let config = HashConfig { partitions: spec.partitions, threads: spec.threads };
        let build = BuildSide::prepare(build_keys, build, &config)?;
        let fragments = Fragment::prepare(&format, probe, spec.threads, spec.fragment_bytes)?;
        let build_rows = output.build_rows(build.batch())?;
        let threads = spec.threads.max(1);
        Ok(Self { output, format, build, build_rows, fragments, threads, setup: start.elapsed() })
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
        let Self { output, format, build, build_rows, fragments, threads, setup } = self;
        let rounds = Rounds::new();
        let writer = |thread| Mutex::new(Some(Writer::new(Arc::clone(&output), move |batch| emit(thread, batch))));
        let writers: Vec<_> = (0..threads).map(writer).collect();
        let work = |thread: usize, round: &Round<Work>| {
            let mut writer = writers[thread].lock().unwrap_or_else(PoisonError::into_inner);
            let Some(writer) = writer.as_mut() else { return Err(CycloError::Panicked) };
            let Work { fragment, rows, morsels } = &round.work;
            let mut sink = writer.sink(&build_rows, rows);
            while let Some(part) = round.next_part() {
                build.probe(fragment, &morsels[part], &mut sink)?;
            }
            Ok(())
        };
        let mut fragments = fragments.into_iter();
        let mut spare = Spare::default();
        let revolution = thread::scope(|scope| {
            for thread in 1..threads {
                let (rounds, work) = (&rounds, &work);
                scope.spawn(move || rounds.help(|round| work(thread, round)));
            }
            let _end = EndAtDrop(&rounds);
            host.revolve(
                |buffer| Ok(fragments.next().map(|fragment| fragment.encode(buffer)).transpose()?),
                |fragment| {
                    let host::Fragment { bytes, is_last, .. } = fragment;
                    let decoded = Fragment::decode(&format, spare.copy(bytes))?;
                    let rows = output.probe_rows(decoded.batch())?;
                    rows.mark(&decoded.matched().to_array())?;
                    let morsels = decoded.morsels(threads);
                    let parts = morsels.len();
                    let done = rounds
                        .run(Work { fragment: decoded, rows, morsels }, parts, threads - 1, |round| work(0, round))?;
                    if is_last {
                        output.probe_alone(&done.rows, 0..done.fragment.batch().num_rows(), |batch| emit(0, batch))?;
                    } else if let Some(matched) = done.rows.matched() {
                        let place = match_bits(bytes)?;
                        let bits = matched.to_array();
                        bytes[place.clone()].copy_from_slice(&bits.values().values()[..place.len()]);
                    }
                    drop(done);
                    spare.reclaim();
                    Ok::<_, CycloError>(())
                },
            )
        })?;
        output.build_alone(&build_rows, 0..build.batch().num_rows(), |batch| emit(0, batch))?;
        for writer in writers {
            if let Some(writer) = writer.into_inner().unwrap_or_else(PoisonError::into_inner) {
                writer.finish()?;
            }
        }
        Ok(Turn { setup, revolution })
    }
}

struct Work {
    fragment: Fragment,
    rows: SideRows,
    morsels: Vec<Morsel>,
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
