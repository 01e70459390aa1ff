//! An output partition: its rows of the right side, joined with the build side.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use annulus_join::{JoinError, MOST_PAIRS, MergeFragment, MergePlace, Side, SideRows, Writer};
use arrow::array::RecordBatch;
use datafusion::{
    common::utils::memory::RecordBatchMemoryCounter,
    error::{DataFusionError, Result},
    execution::memory_pool::MemoryReservation,
    physical_plan::{
        SendableRecordBatchStream, coop::cooperative, metrics::RecordOutput, stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, stream};
use parking_lot::Mutex;

use super::{
    alone::Alone,
    build::{Build, BuildFuture, SORT_BYTES, no_memory},
    left::{Left, Part},
    metrics::ProbeMetrics,
    plan::BandPlan,
};
use crate::error::{from_join, into_join};

/// Rows of the right side that are sorted and joined at a time. More rows are sorted for longer
/// before the first is joined, and fewer rows visit more of the build side.
const MORSEL_ROWS: usize = 1 << 17;

/// The same, if the left side is on disk.
const SPILLED_MORSEL_ROWS: usize = 1 << 22;

/// Steps of at most [`MOST_PAIRS`] pairs, or batches of rows alone, after which a partition without
/// output lets other tasks run.
const STEPS: usize = 8;

/// The batches that are complete.
pub(super) type Ready = Arc<Mutex<VecDeque<RecordBatch>>>;
pub(super) type Emit = Box<dyn FnMut(RecordBatch) -> Result<(), JoinError> + Send>;

/// The parts from which an output partition is made.
pub(super) struct ProbeInput {
    pub(super) plan: Arc<BandPlan>,
    pub(super) build: BuildFuture,
    pub(super) input: SendableRecordBatchStream,
    pub(super) memory: MemoryReservation,
    pub(super) batch_rows: usize,
    pub(super) metrics: ProbeMetrics,
}

impl ProbeInput {
    /// Returns the stream of the partition.
    pub(super) fn stream(self) -> SendableRecordBatchStream {
        let schema = Arc::clone(self.plan.schema());
        let probe = Probe {
            reader: Reader { input: Some(self.input), held: None, memory: self.memory },
            plan: self.plan,
            state: State::Waiting(self.build),
            ready: Ready::default(),
            batch_rows: self.batch_rows.max(1),
            metrics: self.metrics,
        };
        let next = |mut probe: Probe| async move { Ok(probe.next().await?.map(|batch| (batch, probe))) };
        Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, stream::try_unfold(probe, next).boxed())))
    }
}

struct Probe {
    plan: Arc<BandPlan>,
    reader: Reader,
    state: State,
    ready: Ready,
    batch_rows: usize,
    metrics: ProbeMetrics,
}

enum State {
    Waiting(BuildFuture),
    Probing(Box<Probing>),
    /// The last partition outputs the rows of the build side that the join emits alone.
    Alone(Box<Alone>),
    Ended,
}

struct Probing {
    build: Arc<Build>,
    writer: Writer<Emit>,
    morsel: Option<Morsel>,
}

/// Some rows of the right side.
struct Morsel {
    fragment: MergeFragment,
    rows: SideRows,
    /// The part of the left side that they are joined with.
    part: Option<Arc<Part>>,
    number: usize,
    place: MergePlace,
}

impl Probe {
    /// Returns the next batch.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let mut steps = 0;
        loop {
            if let Some(batch) = self.take() {
                return Ok(Some(batch.record_output(&self.metrics.baseline)));
            }
            if matches!(self.state, State::Ended) {
                self.metrics.baseline.done();
                return Ok(None);
            }
            if let Err(error) = self.step().await {
                self.state = State::Ended;
                return Err(error);
            }
            steps += 1;
            if steps % STEPS == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes rows of the output, at most as many as the session wants in a batch.
    fn take(&self) -> Option<RecordBatch> {
        let mut ready = self.ready.lock();
        let batch = ready.pop_front()?;
        if batch.num_rows() > self.batch_rows {
            ready.push_front(batch.slice(self.batch_rows, batch.num_rows() - self.batch_rows));
        }
        Some(batch.slice(0, self.batch_rows.min(batch.num_rows())))
    }

    async fn step(&mut self) -> Result<()> {
        let Self { plan, reader, state, ready, metrics, .. } = self;
        match state {
            State::Waiting(build) => {
                let build = build.clone().await.map_err(|error| DataFusionError::from(&error))?;
                let writer = Writer::new(Arc::clone(&build.output), into(plan, ready));
                *state = State::Probing(Box::new(Probing { build, writer, morsel: None }));
            }
            State::Probing(probing) if probing.morsel.is_some() => {
                if probing.join(plan, ready, metrics).await? {
                    reader.memory.free();
                }
            }
            State::Probing(probing) => match reader.read(plan, probing.morsel_size(), metrics).await? {
                Some(batches) => probing.sort(plan, batches, metrics)?,
                None => self.end()?,
            },
            State::Alone(alone) => {
                if !alone.step(plan, ready, metrics).await? {
                    *state = State::Ended;
                }
            }
            State::Ended => {}
        }
        Ok(())
    }

    /// Ends the probing of this partition.
    fn end(&mut self) -> Result<()> {
        if let State::Probing(probing) = std::mem::replace(&mut self.state, State::Ended) {
            let _compute = self.metrics.baseline.elapsed_compute().timer();
            let Probing { build, writer, .. } = *probing;
            writer.finish().map_err(from_join)?;
            // Release: what this partition matched. Acquire: what the others have.
            let last = build.probing.fetch_sub(1, Ordering::AcqRel) == 1;
            if last && build.left.tracks_matches() {
                self.state = State::Alone(Box::new(Alone::new(build)));
            }
        }
        Ok(())
    }
}

/// Returns what puts a batch among those that are complete.
pub(super) fn into(plan: &Arc<BandPlan>, ready: &Ready) -> Emit {
    let (plan, ready) = (Arc::clone(plan), Arc::clone(ready));
    Box::new(move |batch| {
        ready.lock().push_back(plan.finish(&batch).map_err(into_join)?);
        Ok(())
    })
}

impl Probing {
    /// Sorts a morsel.
    fn sort(&mut self, plan: &BandPlan, batches: Vec<RecordBatch>, metrics: &ProbeMetrics) -> Result<()> {
        let _compute = metrics.baseline.elapsed_compute().timer();
        let _timer = metrics.sort_time.timer();
        self.morsel = Some(Morsel::new(plan, &self.build, batches)?);
        Ok(())
    }

    /// Returns the rows, and the bytes of memory, of which either makes a morsel large enough.
    /// Parts on disk are read again for each morsel.
    fn morsel_size(&self) -> (usize, usize) {
        let rows = if matches!(self.build.left, Left::Memory(_)) { MORSEL_ROWS } else { SPILLED_MORSEL_ROWS };
        (rows, self.build.morsel_bytes)
    }

    /// Joins some rows of the morsel with a part of the left side, and returns whether these were
    /// the last ones.
    async fn join(&mut self, plan: &Arc<BandPlan>, ready: &Ready, metrics: &ProbeMetrics) -> Result<bool> {
        let Self { build, writer, morsel } = self;
        let Some(Morsel { fragment, rows, part, number, place }) = morsel else { return Ok(true) };
        if part.is_none() && *number < build.left.parts() {
            *part = Some(build.left.part(plan, &build.output, *number).await?);
            *place = MergePlace::default();
        }
        let _compute = metrics.baseline.elapsed_compute().timer();
        let _timer = metrics.join_time.timer();
        let end = fragment.batch().num_rows() as u32;
        if let Some(left) = part {
            let (wanted, mut sink) = (build.output.wanted(), writer.sink(&left.rows, rows));
            let step = ((&mut *place, end), (wanted, MOST_PAIRS as u64));
            let found = plan.join.probe_some(&left.sorted, fragment, step.0, step.1, &mut sink).map_err(from_join)?;
            metrics.pairs.add(found as usize);
            if place.row() < end {
                return Ok(false);
            }
            build.left.visited(*number, left);
            *part = None;
            *number += 1;
            if *number < build.left.parts() {
                return Ok(false);
            }
        }
        let Some(Morsel { fragment, rows, .. }) = morsel.take() else { return Ok(true) };
        if plan.mark == Some(Side::Right) {
            let marked = plan.marked((Side::Right, fragment.batch()), rows.matched(), 0..end as usize)?;
            ready.lock().push_back(marked);
        } else {
            build.output.probe_alone(&rows, 0..usize::MAX, into(plan, ready)).map_err(from_join)?;
        }
        Ok(true)
    }
}

impl Morsel {
    fn new(plan: &BandPlan, build: &Build, batches: Vec<RecordBatch>) -> Result<Self> {
        let sorted = plan.join.prepare_probe(batches, usize::MAX, 1).map_err(from_join)?;
        let [sorted] = &sorted[..] else {
            return datafusion::common::internal_err!("{} fragments of a morsel", sorted.len());
        };
        let fragment = plan.join.fragment(sorted).map_err(from_join)?;
        let rows = build.output.probe_rows(fragment.batch()).map_err(from_join)?;
        Ok(Self { fragment, rows, part: None, number: 0, place: MergePlace::default() })
    }
}

/// Reads the right side in morsels.
struct Reader {
    /// The input, until it has ended.
    input: Option<SendableRecordBatchStream>,
    /// A batch for which the last morsel had no memory.
    held: Option<RecordBatch>,
    memory: MemoryReservation,
}

impl Reader {
    /// Returns the batches of a morsel, or `None` after the last one. Reserves the memory to sort
    /// them.
    async fn read(
        &mut self,
        plan: &BandPlan,
        (most_rows, most_bytes): (usize, usize),
        metrics: &ProbeMetrics,
    ) -> Result<Option<Vec<RecordBatch>>> {
        let (mut batches, mut rows, mut counter) = (Vec::new(), 0, RecordBatchMemoryCounter::new());
        while rows < most_rows && self.memory.size() < most_bytes {
            let batch = match (self.held.take(), &mut self.input) {
                (Some(batch), _) => batch,
                (None, None) => break,
                (None, Some(input)) => match input.next().await {
                    None => {
                        self.input = None;
                        break;
                    }
                    Some(batch) => {
                        let batch = batch?;
                        metrics.batches.add(1);
                        metrics.rows.add(batch.num_rows());
                        let _compute = metrics.baseline.elapsed_compute().timer();
                        plan.sides.right.read(&batch)?
                    }
                },
            };
            if batch.num_rows() == 0 {
                continue;
            }
            // The rows are gathered in their order, so for a while they are there twice.
            let bytes = 2 * counter.count_batch(&batch) + batch.num_rows() * SORT_BYTES;
            if let Err(error) = self.memory.try_grow(bytes) {
                if batches.is_empty() {
                    return Err(no_memory(error));
                }
                self.held = Some(batch);
                break;
            }
            rows += batch.num_rows();
            batches.push(batch);
        }
        Ok((!batches.is_empty()).then_some(batches))
    }
}
