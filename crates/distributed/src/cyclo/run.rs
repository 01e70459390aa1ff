//! One task's part in a join, on a thread of its own.

use std::{
    env,
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use annulus_cyclo::{Condition, CycloError, Give, JoinSpec, Keep, Share, Supply};
use annulus_datafusion::{AnnulusConfig, CycloJoin, CycloMethod};
use annulus_join::{CancelToken, JoinError, Partitions, Side};
use annulus_roundabout::{Failure, Host, Reason, RoundaboutError, Stopper};
use datafusion::{
    arrow::array::RecordBatch,
    common::{exec_datafusion_err, exec_err, utils::memory::RecordBatchMemoryCounter},
    error::{DataFusionError, Result},
    execution::{
        TaskContext,
        memory_pool::{MemoryConsumer, MemoryLimit},
    },
    physical_plan::SpillManager,
};
use tokio::{runtime::Handle, sync::mpsc::Sender, time::timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    access::RingAccess,
    algorithm,
    input::Input,
    kept::Resident,
    key_filter::FilterSizes,
    meeting::{Met, Present},
    metrics::RunMetrics,
    output::Outcome,
    ring::{self, Listening},
    stationary::Stationary,
};
use crate::{
    channels::{DEFAULT_SILENCE, named},
    workers::address_of,
};

/// The sizes of fragments, from the largest. The first one is used of which a task's fragments take at
/// most this share of the memory limit, or the last one.
const FRAGMENT_BYTES: [usize; 3] = [1 << 20, 1 << 19, 1 << 18];
const MEMORY_SHARE: usize = 8;
/// The fragments whose rows are prepared together: each of them then meets few partitions.
const WAVE: usize = 16;
/// The most memory of a filter of keys.
const MOST_FILTER_BYTES: usize = 256 << 20;
/// The fragments of which a task has the memory: those in a ring's buffers, and three waves.
const IN_MEMORY: usize = 16 + 3 * WAVE;

/// Ends a join from another thread.
#[derive(Clone, Default)]
pub(super) struct Leaving {
    pub(super) token: CancellationToken,
    cancel: CancelToken,
    stopper: Stopper,
}

impl Leaving {
    /// Ends the join: nobody needs its rows.
    pub(super) fn leave(&self) {
        self.token.cancel();
        self.cancel.cancel();
        self.stopper.stop();
    }
}

/// One task's part in a join.
pub(super) struct Run {
    pub(super) join: Arc<CycloJoin>,
    /// The join, whatever the execution of its query.
    pub(super) id: String,
    /// The worker at which the tasks meet.
    pub(super) meeting_at: Url,
    /// What is known for a filter of keys.
    pub(super) filter: Option<FilterSizes>,
    pub(super) index: usize,
    pub(super) count: usize,
    /// Whether the left side is a resident table.
    pub(super) is_resident: bool,
    /// The left side, if this worker keeps it.
    pub(super) resident: Option<Resident>,
    pub(super) stationary: Input,
    pub(super) rotating: Input,
    pub(super) output: Sender<RecordBatch>,
    pub(super) outcome: Arc<Outcome>,
    pub(super) leaving: Leaving,
    pub(super) context: Arc<TaskContext>,
    pub(super) runtime: Handle,
    pub(super) metrics: RunMetrics,
}

/// Why a join has ended early.
pub(super) struct Ended {
    error: DataFusionError,
    /// Whether another task has left the ring. If it failed, its own error says more than this one.
    has_another_left: bool,
}

impl From<DataFusionError> for Ended {
    fn from(error: DataFusionError) -> Self {
        Self { error, has_another_left: false }
    }
}

impl Run {
    /// Joins, and notes how that ended. Then the output ends.
    pub(super) fn run(self) {
        let (outcome, output) = (Arc::clone(&self.outcome), self.output.clone());
        let (leaving, runtime) = (self.leaving.token.clone(), self.runtime.clone());
        let access = RingAccess::of(&self.context);
        let silence = access.as_ref().map_or(DEFAULT_SILENCE, |access| access.channels.silence());
        let ended = self.join(access.as_deref(), silence);
        if let Err(Ended { has_another_left: true, .. }) = &ended {
            // Either it has reported why, or it needs no more rows. Both end this task, too, from above.
            runtime.block_on(async { timeout(silence / 2, leaving.cancelled()).await }).ok();
        }
        // Nobody else sets it.
        outcome.set(ended.map_err(|ended| Arc::new(ended.error))).ok();
        drop(output);
    }

    fn join(self, access: Option<&RingAccess>, silence: Duration) -> Result<(), Ended> {
        let Self { join, index, count, stationary: left, rotating, output, leaving, context, runtime, metrics, .. } =
            self;
        let reserve = || MemoryConsumer::new("CycloJoinExec").register(context.memory_pool());
        let share = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(limit) => limit / MEMORY_SHARE,
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        let (in_transit, fragment_bytes) = (reserve(), fragment_bytes(share));
        // A pool that refuses so little does not end the join: it has no other memory to work with.
        in_transit.try_grow(fragment_bytes * IN_MEMORY).ok();
        let for_filter = reserve();
        let filter_bytes = match self.filter {
            Some(_) if for_filter.try_grow(share.min(MOST_FILTER_BYTES)).is_ok() => for_filter.size() as u64,
            _ => 0,
        };
        let disk = &context.runtime_env().disk_manager;
        let spill = disk.tmp_files_enabled().then(|| {
            let schema = Arc::clone(join.schema(Side::Left));
            SpillManager::new(context.runtime_env(), metrics.spill.clone(), schema)
                .with_compression_type(context.session_config().spill_compression())
        });
        let in_preparation = reserve();
        // If there is no memory to prepare it, it is read as any other side, and spilled.
        let resident = self.resident.filter(|resident| resident.can_stay(&in_preparation));
        let spilling = MemoryConsumer::new("CycloJoinExec").with_can_spill(spill.is_some());
        let mut stationary = Stationary::new(spilling.register(context.memory_pool()), spill);
        match &resident {
            Some(resident) => stationary.largest = resident.share.info().rows,
            None => {
                let _timer = metrics.read_time.timer();
                stationary.read(&join, left.read())?;
                metrics.stationary_rows.add(stationary.rows);
            }
        }
        let timer = metrics.meet_time.timer();
        let present = Present {
            join: self.id,
            index: task_number(index)?,
            count: task_number(count)?,
            worker: String::new(),
            address: String::new(),
            local: None,
            fabric: None,
            rows: stationary.largest,
            parts: u32::try_from(stationary.parts()).unwrap_or(u32::MAX),
            fragment_bytes: fragment_bytes as u32,
            filter_bytes,
            silence,
        };
        let (met, mut host) = match (count, access) {
            (1, access) => alone(&present, access)?,
            (_, Some(access)) => {
                let options = context.session_config().options().extensions.get::<AnnulusConfig>();
                // What a killed process leaves among spilled rows is removed with them.
                let folders = match options {
                    Some(AnnulusConfig { share_memory: false, .. }) => Vec::new(),
                    _ => disk.temp_dir_paths().into_iter().chain([env::temp_dir()]).collect(),
                };
                meet((access, &folders), &self.meeting_at, present, &leaving, &runtime)?
            }
            (_, None) => return Err(exec_datafusion_err!("a task of a join does not know the other workers").into()),
        };
        timer.done();
        metrics.fabric.add(usize::from(met.fabric().is_some()));
        if let (Some(access), None) = (access, met.fabric())
            && let Some(own) = access.channels.fabric()
            && count > 1
        {
            tracing::warn!("a join does not use the provider {own}, which other workers do not have: it uses sockets");
        }
        let ended = |error| ended(error, &met, index);
        let condition = match join.method() {
            CycloMethod::Hash { build, probe, nulls_equal } => Condition::Hash {
                build: build.clone(),
                probe: probe.clone(),
                nulls_equal: *nulls_equal,
                partitions: Partitions::for_rows(usize::try_from(met.rows).unwrap_or(usize::MAX)),
            },
            CycloMethod::Merge(condition) => Condition::Merge(condition.clone()),
            CycloMethod::Any(condition) => Condition::Any(condition.clone()),
        };
        let session = context.session_config();
        let cpus = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let spec = |condition| {
            JoinSpec::new(join.output(session.batch_size()), condition, met.fragment_bytes as usize)
                .with_threads(session.target_partitions().clamp(1, cpus))
                .with_cancel(leaving.cancel.clone())
                .with_watch(metrics.watch())
        };
        let (mut spec, merge) = (spec(condition), algorithm::merge_condition(join.method()).map(spec));
        let parts = NonZeroUsize::new(met.parts as usize).unwrap_or(NonZeroUsize::MIN);
        let choice = self.filter.and_then(|filter| filter.choose(&met));
        let choice = choice.filter(|_| spec.can_filter_keys(parts).unwrap_or(false));
        // A resident table is prepared for hashing, also where this task reads it.
        if let (Some(merge), Some(sizes), false) = (merge, &self.filter, self.is_resident)
            && let Some(keys) = spec.key_form().map_err(ended)?
            && algorithm::prefers_merge((sizes, choice), &met, keys, WAVE, session.target_partitions())
        {
            spec = merge;
            metrics.merges.add(1);
        }
        metrics.add_filter(choice);
        for_filter.shrink(for_filter.size().saturating_sub(choice.map_or(0, |choice| choice.bytes as usize)));
        let spec = spec.with_key_filter(choice.map(|choice| choice.kind));
        let share = match resident {
            Some(resident) => {
                let _timer = metrics.setup_time.timer();
                let prepared = resident.prepare(&join, &spec, met.rows, &in_preparation, reserve())?;
                metrics.stationary_rows.add(prepared.rows());
                Share::with_prepared(&spec, &prepared, Vec::new())
            }
            None => Share::prepare(&spec, stationary.take_first(), Vec::new()),
        };
        let share = share.map_err(ended)?;
        metrics.revolutions.add(parts.get());
        // Rows that go around several times are kept in the folder of this file.
        let file = (parts > NonZeroUsize::MIN).then(|| disk.create_tmp_file("cyclo-join")).transpose()?;
        let folder = file.as_ref().and_then(|file| file.path()?.parent());
        let keep = folder.map_or_else(Keep::in_memory, |folder| Keep::new(0, folder));
        let rotating = Mutex::new(Some(rotating));
        let probe = |give: &mut Give<'_>| match rotating.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(input) => feed(&join, input, WAVE * met.fragment_bytes as usize, give),
            None => Ok(()),
        };
        let supply = Supply::new()
            .with_parts(parts, |number| stationary.take(number, &runtime).map_err(into_join))
            .with_probe(&probe)
            .with_keep(keep);
        let emit = |_, batch: RecordBatch| {
            let batch = join.finish(&batch).map_err(into_join)?;
            output.blocking_send(batch).map_err(|_| JoinError::Cancelled)
        };
        metrics.add(&share.turn_with(&mut host, supply, &emit).map_err(ended)?);
        host.finish().map_err(|error| ended(error.into()))
    }
}

/// Returns the size of the fragments that fit in this much memory.
fn fragment_bytes(memory: usize) -> usize {
    let [.., least] = FRAGMENT_BYTES;
    let fits = |bytes: &usize| bytes * IN_MEMORY <= memory;
    FRAGMENT_BYTES.into_iter().find(fits).unwrap_or(least)
}

fn task_number(number: usize) -> Result<u16> {
    u16::try_from(number).map_err(|_| exec_datafusion_err!("a join of {number} tasks: a ring has fewer"))
}

/// Returns a ring without other tasks.
fn alone(present: &Present, access: Option<&RingAccess>) -> Result<(Met, Host), Ended> {
    let Present { rows, parts, fragment_bytes, filter_bytes, silence, .. } = *present;
    let met =
        Met { session: 0, hosts: Vec::new(), rows, part_rows: rows, parts, fragment_bytes, filter_bytes, silence };
    let kept = access.map(|access| access.channels.buffers().clone()).unwrap_or_default();
    let host = Host::alone_with(&ring::config(fragment_bytes, silence), &kept);
    let host = host.map_err(|error| ended(error.into(), &met, 0))?;
    Ok((met, host))
}

/// Waits for the other tasks, and connects to them. Tasks of one machine meet in the first of `folders` that
/// will do.
fn meet(
    (access, folders): (&RingAccess, &[PathBuf]),
    at: &Url,
    present: Present,
    leaving: &Leaving,
    runtime: &Handle,
) -> Result<(Met, Host), Ended> {
    let RingAccess { channels, own, execution, .. } = access;
    let listening = Listening::start(own, folders)
        .map_err(|error| exec_datafusion_err!("worker {} cannot listen for other workers: {error}", address_of(own)))?;
    let (index, join) = (present.index, format!("{execution}/{}", present.join));
    let (address, local) = (listening.address.clone(), listening.local());
    let fabric = channels.fabric().and_then(|name| name.split('@').next()).map(str::to_owned);
    let present = Present { join, worker: own.to_string(), address, local, fabric, ..present };
    let met = runtime.block_on(async {
        tokio::select! {
            biased;
            () = leaving.token.cancelled() => exec_err!("the join was ended"),
            met = channels.meet(at, present) => met,
        }
    })?;
    let host = ring::connect(&met, index, listening, channels, &leaving.stopper);
    let host = host.map_err(|error| ended(error, &met, index.into()))?;
    Ok((met, host))
}

/// Passes the rotating rows on, in waves of this many bytes.
fn feed(join: &CycloJoin, input: Input, wave_bytes: usize, give: &mut Give<'_>) -> Result<(), JoinError> {
    let mut batches = input.read();
    let (mut wave, mut counter, mut bytes) = (Vec::new(), RecordBatchMemoryCounter::new(), 0);
    while let Some(batch) = batches.next().map_err(into_join)? {
        let batch = join.read(Side::Right, &batch).map_err(into_join)?;
        bytes += counter.count_batch(&batch);
        wave.push(batch);
        if bytes >= wave_bytes {
            give(std::mem::take(&mut wave))?;
            (counter, bytes) = (RecordBatchMemoryCounter::new(), 0);
        }
    }
    give(wave)
}

fn into_join(error: DataFusionError) -> JoinError {
    JoinError::Outside(Box::new(error))
}

/// Returns why task `me` has ended.
fn ended(error: CycloError, met: &Met, me: usize) -> Ended {
    let (Failure { host, reason }, detail) = match error {
        CycloError::Ring(RoundaboutError::Failed { failure, detail }) if failure.host.index() != me => {
            (failure, detail)
        }
        error => return own_error(error),
    };
    let detail = detail.map(|detail| format!(" ({detail})")).unwrap_or_default();
    let error = exec_datafusion_err!("it has left a join around a ring: {reason}{detail}");
    let worker = met.hosts.get(host.index()).and_then(|host| Url::parse(&host.worker).ok());
    let error = match worker {
        Some(worker) => named(&worker, error),
        None => error,
    };
    Ended { error, has_another_left: reason == Reason::GaveUp }
}

/// Returns the error of this task.
pub(super) fn own_error(error: CycloError) -> Ended {
    let error = match error {
        CycloError::Join(JoinError::Outside(error)) => match error.downcast::<DataFusionError>() {
            Ok(error) => *error,
            Err(error) => DataFusionError::External(error),
        },
        CycloError::Join(JoinError::Arrow(error)) => error.into(),
        error => DataFusionError::External(Box::new(error)),
    };
    Ended { error, has_another_left: false }
}
