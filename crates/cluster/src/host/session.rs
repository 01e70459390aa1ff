//! Runs one join on one host, step by step as the coordinator orders.

use std::{
    io::Write,
    mem,
    num::NonZeroUsize,
    sync::{
        Arc, OnceLock,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use annulus_cyclo::{Give, JoinSpec, Keep, Probe, Share, Supply};
use annulus_dataset::{Collection, SealedDataset, WholeDataset};
use annulus_join::{JoinError, Partitions, Side, Sides};
use arrow::array::RecordBatch;
use tracing::info;

use super::{
    Admission,
    load::{HostInput, Loaded, Reader, outside},
    memory::{create_files, wave_bytes},
    progress::{self, Counters},
    queue::Refusal,
    ring::{self, Member},
    single::SingleHost,
    stop::Stop,
    write::write_while,
};
use crate::{
    control::{HostSummary, LineWriter, Order, Phase, Report, Task},
    error::ClusterError,
    plan::{self, Bound, Condition},
};

pub(super) struct Session<W> {
    pub(super) orders: Receiver<Order>,
    pub(super) reports: Arc<LineWriter<W>>,
    pub(super) stop: Stop,
    pub(super) progress: Arc<Counters>,
    /// The place at a node, unless the host is a process of one machine.
    pub(super) admission: Option<Admission>,
    /// The join's id in the log, once it is known.
    pub(super) id: OnceLock<String>,
}

/// The end of a join that did not fail on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The result is complete.
    Kept,
    /// The host was busy, and the join did not wait.
    Refused,
    /// The coordinator ended before it confirmed the result.
    Unconfirmed,
}

impl<W: Write> Session<W> {
    /// Runs all steps, until the orders end.
    pub(super) fn run(&self) -> Result<Ended, ClusterError> {
        let entry_timeout = self.admission.as_ref().map_or(Duration::MAX, |admission| admission.entry_timeout);
        let Order::Enter { wait } = self.order_within(entry_timeout)? else { return Err(out_of_order()) };
        match self.enter(wait) {
            Ok(()) => self.reports.write(&Report::Entered)?,
            Err(Refusal::Busy) => return self.reports.write(&Report::Busy).map(|()| Ended::Refused),
            Err(Refusal::Stopped) => return Err(ClusterError::Cancelled),
        }
        // The join may wait in the queues of other hosts.
        let Order::Load(task) = self.order_within(entry_timeout)? else { return Err(out_of_order()) };
        let id = self.id.get_or_init(|| format!("{:016x}", task.ring.session));
        let (host, hosts, dir) = (task.ring.host, task.ring.hosts, task.output.dir.display());
        info!(join = %id, "the join begins: host {host} of {hosts}, output '{dir}'");
        let task = task.checked()?;
        // A node's peak until now is that of earlier joins.
        let counts_memory = self.admission.is_none() || progress::reset_peak().is_ok();
        let joined = self.join(&task);
        // The host may have failed before it joined the ring.
        ring::leave(&task, self.member());
        let (mut summary, sealed) = joined?;
        summary.peak_bytes = if counts_memory { progress::peak_bytes() } else { 0 };
        self.reports.write(&Report::Sealed(Box::new(summary)))?;
        let Order::Publish = self.order()? else { return Err(out_of_order()) };
        let manifest = sealed.publish()?;
        // If the coordinator is gone, its orders have ended, which is noticed below.
        self.reports.write(&Report::Published(Box::new(manifest.clone()))).ok();
        match self.order() {
            Ok(Order::Keep) => self.reports.write(&Report::Kept).map(|()| Ended::Kept),
            Ok(_) => Err(out_of_order()),
            // The coordinator ended early. The manifest of all hosts, if this host can see it,
            // shows whether the result is complete.
            Err(_) => {
                Collection::remove_unless_in(&task.output.dir, task.output.member, &manifest)?;
                Ok(Ended::Unconfirmed)
            }
        }
    }

    fn member(&self) -> Option<&Member> {
        self.admission.as_ref().map(|admission| &admission.member)
    }

    /// Waits for this join's turn.
    fn enter(&self, wait: bool) -> Result<(), Refusal> {
        let Some(admission) = &self.admission else { return Ok(()) };
        admission.seat.enter(wait, &self.stop, |ahead| {
            // If the coordinator is gone, its orders end.
            self.reports.write(&Report::Queued { ahead }).ok();
        })
    }

    /// Waits for the next order. A node waits for a limited time, even if its coordinator is alive.
    fn order(&self) -> Result<Order, ClusterError> {
        self.order_within(self.member().map_or(Duration::MAX, |member| member.step_timeout))
    }

    fn order_within(&self, limit: Duration) -> Result<Order, ClusterError> {
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

    /// Opens both inputs. Refuses paths outside the folders that the node opens to joins, and
    /// inputs in the output folder.
    fn open(&self, task: &Task) -> Result<Sides<HostInput>, ClusterError> {
        let (access, output) = (self.member().map(|member| &member.access), &task.output);
        if let Some(access) = access {
            // The host's own folder may exist already, as a link.
            [&output.dir, &Collection::member_dir(&output.dir, output.member)]
                .into_iter()
                .try_for_each(|dir| access.check_output(dir))?;
        }
        task.join.query.refuse_nested(&output.dir, output.format)?;
        let sides = Sides::try_from_fn(|side| HostInput::open(task, side, access))?;
        // The coordinator sees only its own files.
        sides.iter().try_for_each(|side| side.dataset.refuse_inputs_in(&output.dir))?;
        Ok(sides)
    }

    /// Runs the steps until the files are complete but hidden.
    fn join(&self, task: &Task) -> Result<(HostSummary, SealedDataset), ClusterError> {
        let start = Instant::now();
        let sides = self.open(task)?;
        let (condition, bound) = bind(task, &sides)?;
        // An output that cannot be written is an error before anything is read.
        let files = create_files(task, &bound, &sides)?;
        if let Some(single) = task.join.single {
            // No other host will connect.
            ring::leave(task, self.member());
            let host = SingleHost::plan(task, single, sides, (&condition, &bound), files)?;
            return self.join_alone(host, start);
        }
        let (stop, progress) = (&self.stop, &*self.progress);
        let (threads, memory_bytes) = (task.threads(), task.resources.memory_bytes);
        let reader = |side: Side| Reader {
            input: &sides[side],
            scan: &bound.scans[side],
            threads,
            memory_bytes,
            stop,
            progress,
        };
        let rotate = task.join.rotate;
        let (rotating, stationary) = (reader(rotate), reader(rotate.other()));
        let mut build = Loaded::default();
        let first = stationary.part(0, task.join.revolutions)?;
        let mut summary = HostSummary { load_ms: milliseconds(start.elapsed()), ..HostSummary::default() };
        let build_rows = stationary.largest_part(task.join.revolutions, &first);
        self.reports.write(&Report::Loaded { build_rows })?;
        let Order::Prepare { build_rows, key_filter } = self.order()? else { return Err(out_of_order()) };

        self.progress.enter(Phase::Preparing);
        let partitions = Partitions::for_rows(build_rows.try_into().unwrap_or(usize::MAX));
        let spec = JoinSpec::new(bound.output.clone(), bound.condition(partitions), task.ring.fragment_bytes as usize)
            .with_key_filter(key_filter)
            .with_threads(task.threads())
            .with_cancel(self.stop.token.clone());
        let share = Share::prepare(&spec, build.count(first), Vec::new())?;
        self.stop.check()?;
        self.reports.write(&Report::Prepared)?;
        let Order::Turn = self.order()? else { return Err(out_of_order()) };
        let later = |part: usize| Ok(build.count(stationary.part(part, task.join.revolutions).map_err(outside)?));
        let fed = OnceLock::new();
        let feed = |give: &mut Give<'_>| {
            let before = progress.bytes_read();
            let bytes = wave_bytes(task.ring.fragment_bytes, task.resources.memory_bytes);
            let rows = rotating.feed(bytes, give)?;
            progress.read_rotating(progress.bytes_read() - before);
            // Called once.
            fed.set(rows).ok();
            Ok(())
        };
        let sealed = self.turn(task, (share, later, &feed), (&bound, files), &mut summary)?;
        let mut read = Sides { left: build, right: fed.into_inner().unwrap_or_default() };
        if rotate == Side::Left {
            mem::swap(&mut read.left, &mut read.right);
        }
        summary.bytes_read = self.progress.bytes_read();
        summary.rows = read.as_ref().map(|side| side.rows).into_array();
        summary.bytes = read.as_ref().map(|side| side.bytes).into_array();
        summary.rows_bad = read.iter().map(|side| side.rows_bad).sum();
        Ok((summary, sealed))
    }

    /// Runs the steps on a single host, which does all of its work when others would turn.
    fn join_alone(&self, host: SingleHost<'_>, start: Instant) -> Result<(HostSummary, SealedDataset), ClusterError> {
        let mut summary = HostSummary { load_ms: milliseconds(start.elapsed()), ..HostSummary::default() };
        self.reports.write(&Report::Loaded { build_rows: 0 })?;
        let Order::Prepare { .. } = self.order()? else { return Err(out_of_order()) };
        self.reports.write(&Report::Prepared)?;
        let Order::Turn = self.order()? else { return Err(out_of_order()) };
        let sealed = host.join(&self.stop, &self.progress, &mut summary)?;
        Ok((summary, sealed))
    }

    /// Runs the revolutions of the ring, one for each part of the stationary relation.
    fn turn(
        &self,
        task: &Task,
        (share, later, feed): (Share, impl FnMut(usize) -> Result<Vec<RecordBatch>, JoinError>, &Probe<'_>),
        (bound, files): (&Bound, WholeDataset),
        summary: &mut HostSummary,
    ) -> Result<SealedDataset, ClusterError> {
        let start = Instant::now();
        let mut host = ring::enter(task, self.member(), &self.stop.ring)?;
        self.progress.follow(host.progress());
        let parts = NonZeroUsize::new(task.join.revolutions).unwrap_or(NonZeroUsize::MIN);
        let (progress, projection) = (&self.progress, bound.projection.as_ref());
        // On the disk of the result, which is meant for much data.
        let dir = Collection::member_dir(&task.output.dir, task.output.member);
        let keep = Keep::new(task.resources.kept_bytes.try_into().unwrap_or(usize::MAX), dir);
        let supply = Supply::new().with_parts(parts, later).with_probe(feed).with_keep(keep);
        let turn = write_while(&files, task.threads(), &self.stop.token, |writers| {
            share.turn_with(&mut host, supply, &|_, batch: RecordBatch| {
                let batch = projection.map_or(Ok(batch.clone()), |projection| projection.apply(&batch));
                let batch = batch.map_err(outside)?;
                progress.wrote(batch.num_rows());
                writers.take(batch)
            })
        })?;
        host.finish()?;
        // After a stop, batches are dropped instead of written.
        self.stop.check()?;
        self.progress.enter(Phase::Writing);
        summary.rows_out = self.progress.get().rows_out;
        if task.ring.host == 0 && summary.rows_out == 0 {
            // Readers of a result without rows find its columns in this file.
            files.write_columns(0)?;
        }
        let sealed = files.seal()?;
        let revolution = turn.revolution;
        (summary.injected, summary.joined) = (revolution.injected, revolution.joined);
        summary.bytes_joined = revolution.bytes;
        summary.prepared_bytes = (turn.memory.build + turn.memory.fragments) as u64;
        (summary.rows_prepared, summary.rows_dropped) = (turn.prepared, turn.dropped);
        summary.filter_bytes = turn.filter_bytes;
        summary.bytes_kept = [turn.memory.kept as u64, turn.kept_on_disk];
        summary.setup_ms = milliseconds(turn.setup);
        let waiting = revolution.waiting.saturating_sub(revolution.waiting_fill);
        summary.wait_ms = milliseconds(waiting);
        // Includes waits for own rows.
        summary.load_ms += milliseconds(turn.reading);
        let other = turn.reading + waiting;
        summary.join_ms = milliseconds(start.elapsed().saturating_sub(other));
        Ok(sealed)
    }
}

fn bind(task: &Task, inputs: &Sides<HostInput>) -> Result<(Condition, Bound), ClusterError> {
    let Sides { left, right } = inputs.as_ref().map(|input| &input.dataset.schema);
    let join = &task.join;
    let condition = Condition::new(&join.query, left, right, join.now_ns)?;
    let bound = plan::bind(&condition, &join.query, join.rotate, join.algorithm)?;
    Ok((condition, bound))
}

fn out_of_order() -> ClusterError {
    ClusterError::Control { reason: "an order came at the wrong step".to_owned() }
}

pub(super) fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
