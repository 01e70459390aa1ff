//! One task of a join, on a thread of its own.

use std::{fs::File, num::NonZeroUsize, path::Path, sync::Arc, time::Duration};

use annulus_cyclo::{RowSink, Share, StoreConfig, StoreFile, Supply};
use annulus_datafusion::DescribedJoin;
use annulus_join::{JoinError, Side};
use annulus_roundabout::Host;
use datafusion::{
    arrow::array::RecordBatch,
    common::utils::memory::RecordBatchMemoryCounter,
    error::Result,
    execution::{SpillFile, TaskContext},
};
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::mpsc::Sender, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    budget::{MemoryBudget, WAVE},
    cancel::WorkTokens,
    choice::AgreedJoin,
    exec::RingPlan,
    failure::{RingFailure, Witness, into_join},
    input::Input,
    meet::Arrival,
    metrics::RunMetrics,
    output::Outcome,
    stationary::{StationaryInput, StationarySide},
};
use crate::{
    net::DEFAULT_SILENCE,
    state::{RingAgreement, TaskAccess},
};

/// The parts of a task that do not change while it runs.
pub(super) struct TaskSetup {
    pub(super) join: Arc<DescribedJoin>,
    pub(super) ring: RingPlan,
    /// The number of the task, from 0.
    pub(super) index: usize,
    /// The number of tasks.
    pub(super) count: usize,
    /// Whether the left side is a resident table.
    pub(super) is_resident: bool,
    pub(super) cancel: CancellationToken,
    pub(super) context: Arc<TaskContext>,
    pub(super) runtime: Handle,
    pub(super) metrics: RunMetrics,
}

/// One task of a join around a ring. The left side is stationary, and the right side rotates.
pub(super) struct RingTask {
    pub(super) setup: TaskSetup,
    pub(super) stationary: StationaryInput,
    pub(super) rotating: Input,
    pub(super) output: Sender<RecordBatch>,
    pub(super) outcome: Arc<Outcome>,
}

impl RingTask {
    /// Joins, and stores the outcome. Then the output ends.
    pub(super) fn run(self) {
        let (outcome, output) = (Arc::clone(&self.outcome), self.output.clone());
        let (cancel, runtime) = (self.setup.cancel.clone(), self.setup.runtime.clone());
        let access = TaskAccess::from_context(&self.setup.context);
        let silence = access.as_ref().map_or(DEFAULT_SILENCE, |access| access.connections.silence());
        let ended = self.join(access.as_deref(), silence);
        if let Err(RingFailure { has_another_left: true, .. }) = &ended {
            // Either that task has reported its error, or it needs no more rows. Both end this task from above.
            runtime.block_on(async { timeout(silence / 2, cancel.cancelled()).await }).ok();
        }
        // Nothing else sets it.
        outcome.set(ended.map_err(|failure| Arc::new(failure.error))).ok();
        drop(output);
    }

    fn join(self, access: Option<&TaskAccess>, silence: Duration) -> Result<(), RingFailure> {
        let Self { setup, stationary, rotating, output, .. } = self;
        let metrics = &setup.metrics;
        let tokens = WorkTokens::follow(&setup.cancel, &setup.runtime);
        let budget = MemoryBudget::reserve(&setup.context, setup.ring.filter.is_some());
        let mut stationary = stationary.read(&setup, &budget)?;
        let timer = metrics.meet_time.timer();
        let arrival = Arrival { setup: &setup, access, silence, stopper: &tokens.host };
        let (agreement, host) = arrival.meet(&stationary, &budget)?;
        timer.done();
        setup.note_fabric(access, &agreement);
        let witness = Witness { index: setup.index, agreement: &agreement, access };
        let agreed = AgreedJoin { setup: &setup, cancel: &tokens.local, agreement: &agreement };
        let (spec, filter) = agreed.choose().map_err(|error| witness.failure(error))?;
        metrics.add_filter(filter);
        budget.shrink_filter(filter.map_or(0, |filter| filter.bytes as usize));
        let spec = spec.with_key_filter(filter.map(|filter| filter.kind));
        let prepared = stationary.prepare(&setup, &spec, &agreement, &budget, &witness)?;
        let revolutions = Revolutions { setup: &setup, agreement: &agreement, stationary, rotating, output };
        revolutions.run(prepared, host, &witness)
    }
}

impl TaskSetup {
    /// Counts whether the ring uses a provider of libfabric, and warns if other workers lack it.
    fn note_fabric(&self, access: Option<&TaskAccess>, agreement: &RingAgreement) {
        self.metrics.fabric.add(usize::from(agreement.fabric().is_some()));
        if let (Some(access), None) = (access, agreement.fabric())
            && let Some(own) = &access.connections.ring().fabric
            && self.count > 1
        {
            tracing::warn!("a join does not use the provider {own}, which other workers do not have: it uses sockets");
        }
    }
}

/// The revolutions of the rotating side.
struct Revolutions<'a> {
    setup: &'a TaskSetup,
    agreement: &'a RingAgreement,
    stationary: StationarySide,
    rotating: Input,
    output: Sender<RecordBatch>,
}

impl Revolutions<'_> {
    /// Joins the fragments of all tasks with the stationary side, whose first part is `prepared`.
    fn run(self, prepared: Share, mut host: Host, witness: &Witness<'_>) -> Result<(), RingFailure> {
        let Self { setup, agreement, mut stationary, rotating, output } = self;
        let TaskSetup { join, runtime, metrics, .. } = setup;
        let parts = agreement.part_count();
        metrics.revolutions.add(parts.get());
        let keep = match parts {
            NonZeroUsize::MIN => StoreConfig::in_memory(),
            _ => kept_in(setup.context.runtime_env().disk_manager.create_tmp_file("cyclo-join")?),
        };
        let rotating = Mutex::new(Some(rotating));
        let wave_bytes = WAVE * agreement.fragment_bytes as usize;
        let probe = |give: &mut RowSink<'_>| {
            let input = rotating.lock().take();
            input.map_or(Ok(()), |input| feed(join, input, wave_bytes, give))
        };
        let supply = Supply::new()
            .with_parts(parts, |number| stationary.take_part(number, runtime).map_err(into_join))
            .with_probe(&probe)
            .with_store(keep);
        let emit = |_, batch: RecordBatch| {
            let batch = join.finish(&batch).map_err(into_join)?;
            output.blocking_send(batch).map_err(|_| JoinError::Cancelled)
        };
        let turn = prepared.revolve_with(&mut host, supply, &emit);
        metrics.add(&turn.map_err(|error| witness.failure(error))?);
        host.finish().map_err(|error| witness.failure(error.into()))
    }
}

/// Returns the store of rows of several revolutions in a file, whose bytes count with the limit of the disk.
fn kept_in(file: Arc<dyn SpillFile>) -> StoreConfig {
    let path = file.path().map(Path::to_owned);
    // A file elsewhere cannot be read at any place.
    let Some(path) = path else { return StoreConfig::in_memory() };
    let folder = path.parent().map(Path::to_owned).unwrap_or_default();
    StoreConfig::in_file(folder, move || Ok(StoreFile { writer: file.open_writer()?, reader: File::open(&path)? }))
}

/// Passes the rotating rows on, in waves of this many bytes.
fn feed(join: &DescribedJoin, input: Input, wave_bytes: usize, give: &mut RowSink<'_>) -> Result<(), JoinError> {
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
