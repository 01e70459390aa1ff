//! One task's part in a join, on a thread of its own.

use std::{
    env,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use annulus_cyclo::{CycloError, RowSink, Share, StoreConfig, Supply};
use annulus_datafusion::{AnnulusConfig, CycloJoin};
use annulus_join::{CancelToken, JoinError, Side};
use annulus_roundabout::{Failure, Host, Reason, RoundaboutError, StopHandle};
use datafusion::{
    arrow::array::RecordBatch,
    common::{exec_datafusion_err, exec_err, utils::memory::RecordBatchMemoryCounter},
    error::{DataFusionError, Result},
    execution::TaskContext,
};
use tokio::{runtime::Handle, sync::mpsc::Sender, time::timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    access::RingAccess,
    agreed::Agreed,
    budget::{Budget, WAVE, reservation},
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

/// Ends a join from another thread.
#[derive(Clone, Default)]
pub(super) struct Leaving {
    pub(super) token: CancellationToken,
    cancel: CancelToken,
    stopper: StopHandle,
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
        let Self { join, index, stationary: left, rotating, output, leaving, context, runtime, metrics, .. } = self;
        let budget = Budget::reserve(&context, self.filter.is_some());
        // If there is no memory to prepare it, it is read as any other side, and spilled.
        let resident = self.resident.filter(|resident| resident.can_stay(&budget.in_preparation));
        let mut stationary = Stationary::for_task(&join, &context, metrics.spill.clone());
        match &resident {
            Some(resident) => stationary.largest = resident.share.info().rows,
            None => {
                let _timer = metrics.read_time.timer();
                stationary.read(&join, left.read())?;
                metrics.stationary_rows.add(stationary.rows);
            }
        }
        let timer = metrics.meet_time.timer();
        let present = registration(self.id, index, self.count, &stationary, &budget, silence)?;
        let meeting = Meeting { at: &self.meeting_at, leaving: &leaving, runtime: &runtime, context: &context };
        let (met, mut host) = meeting.meet(access, present)?;
        timer.done();
        note_fabric(access, &met, self.count, &metrics);
        let ended = |error| ended(error, &met, index);
        let parts = NonZeroUsize::new(met.parts as usize).unwrap_or(NonZeroUsize::MIN);
        let agreed = Agreed {
            join: &join,
            context: &context,
            metrics: &metrics,
            cancel: &leaving.cancel,
            filter: self.filter.as_ref(),
            is_resident: self.is_resident,
            met: &met,
        };
        let (spec, choice) = agreed.choose(parts).map_err(ended)?;
        metrics.add_filter(choice);
        budget.keep_of_filter(choice.map_or(0, |choice| choice.bytes as usize));
        let spec = spec.with_key_filter(choice.map(|choice| choice.kind));
        let share = match resident {
            Some(resident) => {
                let _timer = metrics.setup_time.timer();
                let prepared =
                    resident.prepare(&join, &spec, met.rows, &budget.in_preparation, reservation(&context))?;
                metrics.stationary_rows.add(prepared.rows());
                Share::with_prepared(&spec, &prepared, Vec::new())
            }
            None => Share::prepare(&spec, stationary.take_first(), Vec::new()),
        };
        let share = share.map_err(ended)?;
        metrics.revolutions.add(parts.get());
        // Rows that go around several times are kept in the folder of this file.
        let disk = &context.runtime_env().disk_manager;
        let file = (parts > NonZeroUsize::MIN).then(|| disk.create_tmp_file("cyclo-join")).transpose()?;
        let folder = file.as_ref().and_then(|file| file.path()?.parent());
        let keep = folder.map_or_else(StoreConfig::in_memory, |folder| StoreConfig::new(0, folder));
        let rotating = Mutex::new(Some(rotating));
        let probe = |give: &mut RowSink<'_>| match rotating.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(input) => feed(&join, input, WAVE * met.fragment_bytes as usize, give),
            None => Ok(()),
        };
        let supply = Supply::new()
            .with_parts(parts, |number| stationary.take(number, &runtime).map_err(into_join))
            .with_probe(&probe)
            .with_store(keep);
        let emit = |_, batch: RecordBatch| {
            let batch = join.finish(&batch).map_err(into_join)?;
            output.blocking_send(batch).map_err(|_| JoinError::Cancelled)
        };
        metrics.add(&share.revolve_with(&mut host, supply, &emit).map_err(ended)?);
        host.finish().map_err(|error| ended(error.into()))
    }
}

/// Returns what a task tells the others, as far as it knows.
fn registration(
    join: String,
    index: usize,
    count: usize,
    stationary: &Stationary,
    budget: &Budget,
    silence: Duration,
) -> Result<Present> {
    Ok(Present {
        join,
        index: task_number(index)?,
        count: task_number(count)?,
        worker: String::new(),
        address: String::new(),
        local: None,
        fabric: None,
        rows: stationary.largest,
        parts: u32::try_from(stationary.parts()).unwrap_or(u32::MAX),
        fragment_bytes: budget.fragment_bytes as u32,
        filter_bytes: budget.filter_bytes(),
        silence,
    })
}

/// Notes in the metrics whether the ring uses a provider of libfabric, and warns if other workers lack it.
fn note_fabric(access: Option<&RingAccess>, met: &Met, count: usize, metrics: &RunMetrics) {
    metrics.fabric.add(usize::from(met.fabric().is_some()));
    if let (Some(access), None) = (access, met.fabric())
        && let Some(own) = access.channels.fabric()
        && count > 1
    {
        tracing::warn!("a join does not use the provider {own}, which other workers do not have: it uses sockets");
    }
}

fn task_number(number: usize) -> Result<u16> {
    u16::try_from(number)
        .map_err(|_| exec_datafusion_err!("a ring supports at most {} tasks, but the join has {number}", u16::MAX))
}

/// Returns a ring without other tasks.
fn alone(present: &Present, access: Option<&RingAccess>) -> Result<(Met, Host), Ended> {
    let Present { rows, parts, fragment_bytes, filter_bytes, silence, .. } = *present;
    let met =
        Met { session: 0, hosts: Vec::new(), rows, part_rows: rows, parts, fragment_bytes, filter_bytes, silence };
    let kept = access.map(|access| access.channels.buffers().clone()).unwrap_or_default();
    let host = Host::single_host_with(&ring::config(fragment_bytes, silence), &kept);
    let host = host.map_err(|error| ended(error.into(), &met, 0))?;
    Ok((met, host))
}

/// Where the tasks of a join meet.
struct Meeting<'a> {
    at: &'a Url,
    leaving: &'a Leaving,
    runtime: &'a Handle,
    context: &'a TaskContext,
}

impl Meeting<'_> {
    /// Returns what all tasks know, and this one's place in the ring.
    fn meet(&self, access: Option<&RingAccess>, present: Present) -> Result<(Met, Host), Ended> {
        match (present.count, access) {
            (1, access) => alone(&present, access),
            (_, Some(access)) => self.connect(access, present),
            (_, None) => Err(exec_datafusion_err!("a task of a join does not know the other workers").into()),
        }
    }

    /// Waits for the other tasks, and connects to them. Tasks of one machine meet in the first folder for
    /// spilled rows that will do.
    fn connect(&self, access: &RingAccess, present: Present) -> Result<(Met, Host), Ended> {
        let RingAccess { channels, own, execution, .. } = access;
        let options = self.context.session_config().options().extensions.get::<AnnulusConfig>();
        // Files left by a killed process are cleaned up with the spill directory.
        let folders: Vec<_> = match options {
            Some(AnnulusConfig { share_memory: false, .. }) => Vec::new(),
            _ => {
                let disk = &self.context.runtime_env().disk_manager;
                disk.temp_dir_paths().into_iter().chain([env::temp_dir()]).collect()
            }
        };
        let listening = Listening::start(own, &folders).map_err(|error| {
            exec_datafusion_err!("worker {} cannot listen for other workers: {error}", address_of(own))
        })?;
        let (index, join) = (present.index, format!("{execution}/{}", present.join));
        let (address, local) = (listening.address.clone(), listening.local());
        let fabric = channels.fabric().and_then(|name| name.split('@').next()).map(str::to_owned);
        let present = Present { join, worker: own.to_string(), address, local, fabric, ..present };
        let met = self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.leaving.token.cancelled() => exec_err!("the join was ended"),
                met = channels.meet(self.at, present) => met,
            }
        })?;
        let host = ring::connect(&met, index, listening, channels, &self.leaving.stopper);
        let host = host.map_err(|error| ended(error, &met, index.into()))?;
        Ok((met, host))
    }
}

/// Passes the rotating rows on, in waves of this many bytes.
fn feed(join: &CycloJoin, input: Input, wave_bytes: usize, give: &mut RowSink<'_>) -> Result<(), JoinError> {
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
