//! One join on one host, step by step as it is ordered.

use std::{
    io::Write,
    num::NonZeroUsize,
    sync::{
        Arc, OnceLock,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use annulus_cyclo::{Give, JoinSpec, Probe, Share};
use annulus_dataset::{Collection, OutputOptions, SealedDataset, WholeDataset};
use annulus_join::{JoinError, Partitions};
use arrow::array::RecordBatch;
use tracing::info;

use super::{
    load::{Loaded, Reader, Side, outside},
    progress::{self, Progress},
    ring::{self, Member},
    stop::Stop,
    write::write_while,
};
use crate::{
    control::{HostSummary, LineWriter, Order, Phase, Report, Task},
    error::ClusterError,
    plan::{self, Bound},
};

/// Memory for files that are being written, and for rows that are prepared together, at most.
const MOST_BYTES: u64 = 256 << 20;
/// Files take at most this part of what a host may use of memory.
const WRITERS_SHARE: u64 = 8;
/// Fragments' worth of rows that go around and are prepared together: each of them then meets few
/// partitions, or values.
const WAVE_FRAGMENTS: u64 = 32;
/// Such rows take at most this part of what a host may use of memory.
const WAVE_SHARE: u64 = 16;

/// Bytes that all files that are being written may take.
pub(crate) fn writers_bytes(memory_bytes: Option<u64>) -> u64 {
    (memory_bytes.unwrap_or(u64::MAX) / WRITERS_SHARE).min(MOST_BYTES)
}

/// Bytes of rows that go around and are read and prepared together. Three times as much is in
/// memory: rows that are read, that are prepared, and that wait to be sent.
pub(crate) fn wave_bytes(fragment_bytes: u32, memory_bytes: Option<u64>) -> u64 {
    let fragment = u64::from(fragment_bytes);
    (WAVE_FRAGMENTS * fragment).min(MOST_BYTES).min(memory_bytes.unwrap_or(u64::MAX) / WAVE_SHARE).max(fragment)
}

pub(super) struct Session<W> {
    pub(super) orders: Receiver<Order>,
    pub(super) reports: Arc<LineWriter<W>>,
    pub(super) stop: Stop,
    pub(super) progress: Arc<Progress>,
    pub(super) member: Option<Member>,
    /// What the log calls the join, from when it is known.
    pub(super) id: OnceLock<String>,
}

/// How a join has ended that did not fail here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The result is complete.
    Kept,
    /// The coordinator has ended before it said so.
    Unconfirmed,
}

impl<W: Write> Session<W> {
    /// All of it, to the end of the orders.
    pub(super) fn run(&self) -> Result<Ended, ClusterError> {
        let Order::Load(task) = self.order()? else { return Err(out_of_order()) };
        let id = self.id.get_or_init(|| format!("{:016x}", task.session));
        let (host, hosts, dir) = (task.host, task.hosts, task.output.dir.display());
        info!(join = %id, "the join begins: host {host} of {hosts}, output '{dir}'");
        let task = task.checked()?;
        // A node has joined before, and what that took is none of this join's.
        let counts_memory = self.member.is_none() || progress::reset_peak().is_ok();
        let joined = self.join(&task);
        // It may have failed before it came into the ring.
        ring::leave(&task, self.member.as_ref());
        let (mut summary, sealed) = joined?;
        summary.peak_bytes = if counts_memory { progress::peak_bytes() } else { 0 };
        self.reports.write(&Report::Sealed(summary))?;
        let Order::Publish = self.order()? else { return Err(out_of_order()) };
        let manifest = sealed.publish()?;
        // A coordinator that is gone is noticed by the end of its orders.
        self.reports.write(&Report::Published(Box::new(manifest.clone()))).ok();
        match self.order() {
            Ok(Order::Keep) => self.reports.write(&Report::Kept).map(|()| Ended::Kept),
            Ok(_) => Err(out_of_order()),
            // The coordinator has ended too early: the manifest of all says whether it had come so far, where this host
            // can see it.
            Err(_) => {
                Collection::remove_unless_in(&task.output.dir, task.output.member, &manifest)?;
                Ok(Ended::Unconfirmed)
            }
        }
    }

    /// The next order. A node does not wait for one for ever, even if its coordinator is alive.
    fn order(&self) -> Result<Order, ClusterError> {
        let limit = self.member.as_ref().map_or(Duration::MAX, |member| member.step_timeout);
        self.orders.recv_timeout(limit).map_err(|ended| match ended {
            RecvTimeoutError::Disconnected => ClusterError::Cancelled,
            RecvTimeoutError::Timeout => ClusterError::Control {
                reason: format!(
                    "the next step was not ordered within {} s; other hosts may need longer for theirs: allow \
                        more on this node",
                    limit.as_secs_f64()
                ),
            },
        })
    }

    /// Opens both sides, which must be what this host may read, and where nothing is written.
    fn open(&self, task: &Task) -> Result<[Side; 2], ClusterError> {
        let (access, output) = (self.member.as_ref().map(|member| &member.access), &task.output);
        if let Some(access) = access {
            // A host's own folder may be a link that is there already.
            [&output.dir, &Collection::member_dir(&output.dir, output.member)]
                .into_iter()
                .try_for_each(|dir| access.check_output(dir))?;
        }
        task.query.refuse_nested(&output.dir, output.format)?;
        let sides = [Side::open(task, 0, access)?, Side::open(task, 1, access)?];
        // The coordinator sees only its own files.
        sides.iter().try_for_each(|side| side.dataset.refuse_inputs_in(&output.dir))?;
        Ok(sides)
    }

    /// Everything up to files that are complete and cannot be seen.
    fn join(&self, task: &Task) -> Result<(HostSummary, SealedDataset), ClusterError> {
        let start = Instant::now();
        let sides = self.open(task)?;
        let bound = bind(task, &sides)?;
        // What cannot be written is known before anything is read.
        let files = create_files(task, &bound)?;
        let (stop, progress) = (&self.stop, &*self.progress);
        let (threads, memory_bytes) = (task.threads(), task.memory_bytes);
        let readers = [0, 1].map(|side| Reader {
            side: &sides[side],
            scan: &bound.scans[side],
            threads,
            memory_bytes,
            stop,
            progress,
        });
        let (stays, around) = if task.rotates_left { (1, 0) } else { (0, 1) };
        let mut read = [Loaded::default(), Loaded::default()];
        let first = readers[stays].part(0, task.revolutions)?;
        let mut summary = HostSummary { load_ms: milliseconds(start.elapsed()), ..HostSummary::default() };
        self.reports.write(&Report::Loaded { build_rows: first.rows })?;
        let Order::Prepare { build_rows } = self.order()? else { return Err(out_of_order()) };

        self.progress.enter(Phase::Preparing);
        let partitions = Partitions::for_rows(build_rows.try_into().unwrap_or(usize::MAX));
        let spec = JoinSpec::new(bound.output.clone(), bound.condition(partitions), task.fragment_bytes as usize)
            .with_threads(task.threads())
            .with_cancel(self.stop.token.clone());
        let share = Share::prepare(&spec, read[stays].count(first), Vec::new())?;
        self.stop.check()?;
        self.reports.write(&Report::Prepared)?;
        let Order::Turn = self.order()? else { return Err(out_of_order()) };
        let later = |part: usize| Ok(read[stays].count(readers[stays].part(part, task.revolutions).map_err(outside)?));
        let fed = OnceLock::new();
        let feed = |give: &mut Give<'_>| {
            // Again in each revolution.
            let bytes = wave_bytes(task.fragment_bytes, task.memory_bytes);
            let rows = readers[around].feed(bytes, fed.get(), give)?;
            fed.set(rows).ok();
            Ok(())
        };
        let sealed = self.turn(task, share, later, &feed, files, &mut summary)?;
        read[around] = fed.into_inner().unwrap_or_default();
        (summary.rows, summary.bytes) = (read.each_ref().map(|side| side.rows), read.each_ref().map(|side| side.bytes));
        summary.rows_bad = read.iter().map(|side| side.rows_bad).sum();
        Ok((summary, sealed))
    }

    /// Around the ring, once for each part of what stays.
    fn turn(
        &self,
        task: &Task,
        share: Share,
        later: impl FnMut(usize) -> Result<Vec<RecordBatch>, JoinError>,
        feed: &Probe<'_>,
        files: WholeDataset,
        summary: &mut HostSummary,
    ) -> Result<SealedDataset, ClusterError> {
        let start = Instant::now();
        let mut host = ring::enter(task, self.member.as_ref(), &self.stop.ring)?;
        self.progress.follow(host.progress());
        let parts = NonZeroUsize::new(task.revolutions).unwrap_or(NonZeroUsize::MIN);
        let progress = &self.progress;
        let turn = write_while(&files, task.threads(), &self.stop.token, |writers| {
            share.turn_parts(&mut host, parts, later, Some(feed), &|_, batch: RecordBatch| {
                progress.wrote(batch.num_rows());
                writers.take(batch)
            })
        })?;
        host.finish()?;
        // What was to be written when the stop came was not.
        self.stop.check()?;
        self.progress.enter(Phase::Writing);
        summary.rows_out = self.progress.get().rows_out;
        if task.host == 0 && summary.rows_out == 0 {
            // Whoever reads a result without rows finds its columns.
            files.write_columns(0)?;
        }
        let sealed = files.seal()?;
        let revolution = turn.revolution;
        (summary.injected, summary.joined) = (revolution.injected, revolution.joined);
        summary.bytes_joined = revolution.bytes;
        summary.prepared_bytes = (turn.memory.build + turn.memory.fragments) as u64;
        summary.setup_ms = milliseconds(turn.setup);
        summary.wait_ms = milliseconds(revolution.waiting);
        summary.load_ms += milliseconds(turn.reading);
        let other = turn.reading + revolution.waiting;
        summary.join_ms = milliseconds(start.elapsed().saturating_sub(other));
        Ok(sealed)
    }
}

fn bind(task: &Task, sides: &[Side; 2]) -> Result<Bound, ClusterError> {
    let [left, right] = sides.each_ref().map(|side| &side.dataset.schema);
    let condition = plan::Condition::new(&task.query, left, right, task.now_ns)?;
    plan::bind(&condition, &task.query, task.rotate(), task.algorithm)
}

fn create_files(task: &Task, bound: &Bound) -> Result<WholeDataset, ClusterError> {
    let output = &task.output;
    let mut options = OutputOptions::new(Collection::member_dir(&output.dir, output.member), output.format);
    (options.compression, options.existing) = (output.compression, output.existing);
    let schema = annulus_join::Output::try_new(bound.output.clone())?.schema().clone();
    let settings = Collection::member_settings(output.member, task.session);
    let memory = writers_bytes(task.memory_bytes) as usize;
    Ok(WholeDataset::create(&options, settings, schema, task.threads(), memory)?)
}

fn out_of_order() -> ClusterError {
    ClusterError::Control { reason: "an order came out of its turn".to_owned() }
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
