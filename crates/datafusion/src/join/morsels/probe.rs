//! An output partition: its rows of the right side, joined with the build side.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use annulus_join::{JoinError, SideRows, Writer};
use arrow::array::RecordBatch;
use datafusion::{
    error::{DataFusionError, Result},
    execution::{TaskContext, memory_pool::MemoryConsumer},
    physical_plan::{
        SendableRecordBatchStream,
        coop::cooperative,
        metrics::{ExecutionPlanMetricsSet, RecordOutput},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, stream};
use parking_lot::Mutex;

use super::{
    alone::UnpairedOutput,
    build::{Build, BuildFuture, all_go_on},
    left::{Left, Part},
    method::{Method, Step},
    metrics::ProbeMetrics,
    reader::{MorselSize, Reader},
};
use crate::error::{from_join, into_join};

/// Rows of a morsel from which on it is large enough, if the left side is on disk.
const SPILLED_MORSEL_ROWS: usize = 1 << 22;

/// Steps of up to [`MOST_PAIRS`](annulus_join::MOST_PAIRS) pairs, or batches of rows alone, after
/// which a partition without output lets other tasks run, and can be cancelled.
const STEPS: usize = 8;

/// The time after which it does so earlier: the condition of the pairs may be costly.
const BUSY: Duration = Duration::from_millis(1);

/// The batches that are complete.
pub(super) type Ready = Arc<Mutex<VecDeque<RecordBatch>>>;
pub type Emit = Box<dyn FnMut(RecordBatch) -> Result<(), JoinError> + Send>;

/// The parts from which an output partition is made.
pub(super) struct ProbeInput<M: Method> {
    pub(super) method: Arc<M>,
    pub(super) build: BuildFuture<M>,
    pub(super) input: SendableRecordBatchStream,
}

impl<M: Method> ProbeInput<M> {
    /// Returns the stream of the partition.
    pub(super) fn stream(
        self,
        partition: usize,
        context: &TaskContext,
        metrics: &ExecutionPlanMetricsSet,
    ) -> SendableRecordBatchStream {
        let schema = Arc::clone(self.method.rows().schema());
        let memory = MemoryConsumer::new(format!("{}[{partition}]", M::NAMES.operator));
        let probe = Probe {
            reader: Reader::new(self.input, memory.register(context.memory_pool())),
            method: self.method,
            state: State::Waiting(self.build),
            ready: Ready::default(),
            batch_rows: context.session_config().batch_size().max(1),
            metrics: ProbeMetrics::new::<M>(metrics, partition),
        };
        let next = |mut probe: Probe<M>| async move { Ok(probe.next().await?.map(|batch| (batch, probe))) };
        Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, stream::try_unfold(probe, next).boxed())))
    }
}

struct Probe<M: Method> {
    method: Arc<M>,
    reader: Reader,
    state: State<M>,
    ready: Ready,
    batch_rows: usize,
    metrics: ProbeMetrics,
}

enum State<M: Method> {
    Waiting(BuildFuture<M>),
    Probing(Box<MorselProbe<M>>),
    /// All pairs have been found, and some may not be output yet.
    Probed(Arc<Build<M>>),
    /// The last partition outputs the rows of the build side that the join emits alone.
    Alone(Box<UnpairedOutput<M>>),
    End,
}

struct MorselProbe<M: Method> {
    build: Arc<Build<M>>,
    writer: Writer<Emit>,
    morsel: Option<Morsel<M>>,
}

/// Some rows of the right side.
struct Morsel<M: Method> {
    right: M::Right,
    rows: SideRows,
    /// The part of the left side that they are joined with.
    part: Option<Arc<Part<M>>>,
    number: usize,
    place: M::Position,
}

impl<M: Method> Probe<M> {
    /// Returns the next batch.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let (mut steps, mut begun) = (0, Instant::now());
        loop {
            if let Some(batch) = self.take() {
                return Ok(Some(batch.record_output(&self.metrics.baseline)));
            }
            if matches!(self.state, State::End) {
                self.metrics.baseline.done();
                return Ok(None);
            }
            if let Err(error) = self.step().await {
                self.state = State::End;
                return Err(error);
            }
            steps += 1;
            if steps == STEPS || begun.elapsed() >= BUSY {
                tokio::task::yield_now().await;
                (steps, begun) = (0, Instant::now());
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
        let Self { method, reader, state, ready, metrics, .. } = self;
        match state {
            State::Waiting(build) => {
                let build = all_go_on(build.clone()).await.map_err(|error| DataFusionError::from(&error))?;
                let writer = Writer::new(Arc::clone(&build.output), into(method, ready));
                *state = State::Probing(Box::new(MorselProbe { build, writer, morsel: None }));
            }
            State::Probing(probing) if probing.morsel.is_some() => {
                if probing.join(method, ready, metrics).await? {
                    reader.free();
                }
            }
            State::Probing(probing) => match reader.read(&**method, probing.morsel_size(method), metrics).await? {
                Some(batches) => probing.prepare(&**method, batches, metrics)?,
                None => self.end()?,
            },
            State::Probed(build) => {
                // Release: what this partition matched. Acquire: what the others have. All pairs of
                // this partition have been taken, so rows alone come after the pairs of all.
                let last = build.probing.fetch_sub(1, Ordering::AcqRel) == 1;
                let is_alone = last && build.left.tracks_matches();
                *state =
                    if is_alone { State::Alone(Box::new(UnpairedOutput::new(Arc::clone(build)))) } else { State::End };
            }
            State::Alone(alone) => {
                if !alone.step(method, ready, metrics).await? {
                    *state = State::End;
                }
            }
            State::End => {}
        }
        Ok(())
    }

    /// Ends the probing of this partition.
    fn end(&mut self) -> Result<()> {
        if let State::Probing(probing) = std::mem::replace(&mut self.state, State::End) {
            let _compute = self.metrics.baseline.elapsed_compute().timer();
            let MorselProbe { build, writer, .. } = *probing;
            writer.finish().map_err(from_join)?;
            self.state = State::Probed(build);
        }
        Ok(())
    }
}

/// Returns what puts a batch among those that are complete.
pub(super) fn into<M: Method>(method: &Arc<M>, ready: &Ready) -> Emit {
    let (method, ready) = (Arc::clone(method), Arc::clone(ready));
    Box::new(move |batch| {
        ready.lock().push_back(method.rows().finish(&batch).map_err(into_join)?);
        Ok(())
    })
}

impl<M: Method> MorselProbe<M> {
    /// Prepares a morsel.
    fn prepare(&mut self, method: &M, batches: Vec<RecordBatch>, metrics: &ProbeMetrics) -> Result<()> {
        let _compute = metrics.baseline.elapsed_compute().timer();
        let _timer = metrics.prepare_time.timer();
        let right = method.right(batches)?;
        let rows = self.build.output.probe_rows(M::right_batch(&right)).map_err(from_join)?;
        self.morsel = Some(Morsel { right, rows, part: None, number: 0, place: M::Position::default() });
        Ok(())
    }

    /// Returns the rows, and the bytes of memory, of which either makes a morsel large enough.
    /// Parts on disk are read again for each morsel.
    fn morsel_size(&self, method: &M) -> MorselSize {
        let rows = if matches!(self.build.left, Left::Memory(_)) { method.morsel_rows() } else { SPILLED_MORSEL_ROWS };
        MorselSize { rows, bytes: self.build.morsel_bytes }
    }

    /// Joins some rows of the morsel with a part of the left side, and returns whether these were
    /// the last ones.
    async fn join(&mut self, method: &Arc<M>, ready: &Ready, metrics: &ProbeMetrics) -> Result<bool> {
        let Self { build, writer, morsel } = self;
        let Some(Morsel { right, rows, part, number, place }) = morsel else { return Ok(true) };
        if part.is_none() && *number < build.left.parts() {
            *part = Some(build.left.part(&**method, &build.output, *number).await?);
            *place = M::Position::default();
        }
        let _compute = metrics.baseline.elapsed_compute().timer();
        let _timer = metrics.join_time.timer();
        if let Some(left) = part {
            let step = Step { left: &**left, right: (&*right, &*rows), place, output: &build.output, writer };
            let (found, is_done) = method.join(step)?;
            metrics.pairs.add(found);
            if !is_done {
                return Ok(false);
            }
            build.left.visited(*number, left);
            *part = None;
            *number += 1;
            if *number < build.left.parts() {
                return Ok(false);
            }
        }
        let Some(Morsel { rows, .. }) = morsel.take() else { return Ok(true) };
        let emits = build.output.emits();
        if emits.pairs && emits.probe != annulus_join::UnpairedRows::None {
            // Rows alone come after the pairs, as from DataFusion's operator.
            let pairs = Writer::new(Arc::clone(&build.output), into(method, ready));
            std::mem::replace(writer, pairs).finish().map_err(from_join)?;
        }
        build.output.probe_alone(&rows, 0..usize::MAX, into(method, ready)).map_err(from_join)?;
        Ok(true)
    }
}
