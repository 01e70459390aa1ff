//! One output partition: looks up the rows of one partition of the probe side.

use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

use annulus_join::{Alone, Finder, Output, SideRows, Wanted};
use arrow::{
    array::{BooleanArray, RecordBatch},
    compute::BatchCoalescer,
};
use datafusion::{
    error::{DataFusionError, Result},
    execution::SendableRecordBatchStream,
    physical_plan::metrics::RecordOutput,
};
use futures::{Stream, StreamExt, stream};

use super::{
    build::{Building, Built, Seen},
    layout::{BUILD, Layout, PROBE},
    metrics::ProbeMetrics,
    spill::Walk,
};
use crate::error::from_join;

/// What a stream needs.
pub(super) struct Setup {
    pub(super) layout: Arc<Layout>,
    pub(super) output: Arc<Output>,
    /// Until the build side is ready.
    pub(super) build: Option<Building>,
    pub(super) probe: SendableRecordBatchStream,
    pub(super) finder: Finder,
    pub(super) batch_rows: usize,
    /// The most rows to output.
    pub(super) fetch: Option<usize>,
    /// Whether rows with null keys decide about the rows of the other side, as in `NOT IN`.
    pub(super) null_aware: bool,
    /// Whether the output must be in the order of the probe side.
    pub(super) is_ordered: bool,
    pub(super) metrics: ProbeMetrics,
}

/// The join of one partition of the probe side.
struct Joining {
    setup: Setup,
    stage: Stage,
    /// Batches that are ready, and the rows that are not one yet.
    coalescer: BatchCoalescer,
    /// The rows that may still be output.
    left: usize,
    /// The way through the parts of the build side that are on disk, if there are any.
    walk: Option<Box<Walk>>,
}

enum Stage {
    /// The build side is not ready.
    Building,
    /// Rows are looked up: those of this batch, or of the next one.
    Probing(Arc<Built>, Option<Box<Probed>>),
    /// Rows of the build side are output alone.
    Alone(Arc<Built>, Range<usize>),
    /// The table has no more output, but there may be others.
    Next,
    /// The output of all tables is put in the order of the probe side.
    Ordered(SendableRecordBatchStream),
    Ended,
}

/// A batch of the probe side.
struct Probed {
    batch: RecordBatch,
    rows: SideRows,
}

/// Returns the stream of a partition's output.
pub(super) fn join(setup: Setup) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let coalescer = coalescer(&setup);
    let left = setup.fetch.unwrap_or(usize::MAX);
    let joining = Joining { left, stage: Stage::Building, coalescer, walk: None, setup };
    stream::try_unfold(joining, |mut joining| async move {
        let batch = joining.next().await?;
        Ok(batch.map(|batch| (batch, joining)))
    })
}

fn coalescer(setup: &Setup) -> BatchCoalescer {
    BatchCoalescer::new(setup.layout.schema(), setup.batch_rows)
        .with_biggest_coalesce_batch_size(Some(setup.batch_rows / 2))
}

impl Joining {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.left == 0 {
                (self.stage, self.walk) = (Stage::Ended, None);
                return Ok(None);
            }
            if let Some(batch) = self.coalescer.next_completed_batch() {
                if let Some(order) = self.walk.as_mut().and_then(|walk| walk.order()) {
                    order.push(&batch)?;
                    continue;
                }
                return Ok(Some(self.output(&batch)));
            }
            // Without rows to pass on this may go on for long.
            tokio::task::consume_budget().await;
            match &mut self.stage {
                Stage::Building => {
                    let Some(build) = self.setup.build.take() else { return Ok(None) };
                    let built = build.await.map_err(|error| DataFusionError::from(&error))?;
                    self.begin(built)?;
                }
                Stage::Probing(built, probing @ None) => {
                    let batch = match &mut self.walk {
                        Some(walk) => walk.next(&mut self.setup).await?,
                        None => match self.setup.probe.next().await.transpose()? {
                            Some(batch) => Some(self.setup.read_input(&self.setup.layout, &built.seen, &batch)?),
                            None => None,
                        },
                    };
                    match batch {
                        Some(batch) if batch.num_rows() == 0 => {}
                        Some(batch) => {
                            let probed = self.setup.begin(built, batch)?;
                            self.walk.as_mut().map_or(Ok(()), |walk| walk.begin(&probed.rows))?;
                            *probing = Some(Box::new(probed));
                        }
                        None => {
                            let rows = built.finish_probing();
                            self.stage = Stage::Alone(Arc::clone(built), rows);
                        }
                    }
                }
                Stage::Probing(..) => self.probe()?,
                Stage::Alone(..) => self.alone()?,
                Stage::Next => self.advance().await?,
                Stage::Ordered(stream) => match stream.next().await.transpose()? {
                    Some(batch) => return Ok(Some(self.output(&batch))),
                    None => self.stage = Stage::Ended,
                },
                Stage::Ended if self.coalescer.is_empty() => return Ok(None),
                Stage::Ended => self.coalescer.finish_buffered_batch()?,
            }
        }
    }

    /// Starts to probe.
    fn begin(&mut self, built: Arc<Built>) -> Result<()> {
        if let Some(spilled) = &built.spilled {
            self.walk = Some(Box::new(Walk::new(spilled, &mut self.setup)?));
            self.coalescer = coalescer(&self.setup);
        }
        let is_needed = built.side.batch().num_rows() > 0 || self.walk.is_some() || self.setup.needs_no_partner();
        self.stage = if is_needed { Stage::Probing(built, None) } else { Stage::Ended };
        Ok(())
    }

    /// Returns the batch, without rows beyond the limit.
    fn output(&mut self, batch: &RecordBatch) -> RecordBatch {
        let rows = batch.num_rows().min(self.left);
        self.left -= rows;
        batch.slice(0, rows).record_output(&self.setup.metrics.baseline)
    }

    /// Goes to the next table, or to the end.
    async fn advance(&mut self) -> Result<()> {
        let Some(walk) = &mut self.walk else {
            self.stage = Stage::Ended;
            return Ok(());
        };
        if let Some(order) = walk.order() {
            self.coalescer.finish_buffered_batch()?;
            while let Some(batch) = self.coalescer.next_completed_batch() {
                order.push(&batch)?;
            }
            order.end_table()?;
        }
        self.stage = match walk.advance().await? {
            Some(built) => Stage::Probing(built, None),
            None => match walk.ordered()? {
                Some(ordered) => Stage::Ordered(ordered),
                None => Stage::Ended,
            },
        };
        Ok(())
    }

    /// Makes the next pairs of the batch, or ends it.
    fn probe(&mut self) -> Result<()> {
        let Stage::Probing(built, probing) = &mut self.stage else { return Ok(()) };
        let Some(probed) = &*probing else { return Ok(()) };
        let compute = self.setup.metrics.baseline.elapsed_compute().clone();
        let _timer = compute.timer();
        let output = Arc::clone(&self.setup.output);
        let marked = built.rows.matched().filter(|_| output.wanted() == Wanted::OneOfEachBuildRow);
        let found = self.setup.finder.next(&built.side, marked).map_err(from_join)?;
        match found {
            Some((build, probe)) => {
                let joined = output.joined((&built.rows, &probed.rows), build, probe).map_err(from_join)?;
                joined.map_or(Ok(()), |batch| self.push(&batch, None))
            }
            None => match probing.take() {
                Some(probed) if self.walk.as_mut().is_none_or(|walk| walk.end(&probed.rows)) => {
                    self.probe_alone(&probed)
                }
                _ => Ok(()),
            },
        }
    }

    /// Outputs the rows of a batch of the probe side that are output alone.
    fn probe_alone(&mut self, probed: &Probed) -> Result<()> {
        let Setup { layout, output, .. } = &self.setup;
        if layout.mark == Some(PROBE) {
            let mark = probed.rows.matched().map(|matched| matched.to_array());
            let read = layout.sides[PROBE].output(&probed.batch)?;
            return self.push(&read, mark.as_ref());
        }
        let mut made = Vec::new();
        let emit = |batch| {
            made.push(batch);
            Ok(())
        };
        output.probe_alone(&probed.rows, 0..probed.batch.num_rows(), emit).map_err(from_join)?;
        made.iter().try_for_each(|batch| self.push(batch, None))
    }

    /// Outputs the next rows of the build side that are output alone.
    fn alone(&mut self) -> Result<()> {
        let Stage::Alone(built, rest) = &mut self.stage else { return Ok(()) };
        let built = Arc::clone(built);
        let Setup { layout, output, batch_rows, null_aware, .. } = &self.setup;
        let now = rest.start..rest.end.min(rest.start + batch_rows);
        rest.start = now.end;
        let is_none = output.emits().build == Alone::None || *null_aware && !built.settle_nulls();
        if now.is_empty() || is_none {
            self.stage = Stage::Next;
            return Ok(());
        }
        if layout.mark == Some(BUILD) {
            let mark = |row| built.rows.matched().is_some_and(|matched| matched.get(row as u32));
            let mark: BooleanArray = now.clone().map(mark).collect::<Vec<_>>().into();
            let read = layout.sides[BUILD].output(&built.side.batch().slice(now.start, now.len()))?;
            return self.push(&read, Some(&mark));
        }
        let mut made = Vec::new();
        let emit = |batch| {
            made.push(batch);
            Ok(())
        };
        output.build_alone(&built.rows, now, emit).map_err(from_join)?;
        made.iter().try_for_each(|batch| self.push(batch, None))
    }

    fn push(&mut self, batch: &RecordBatch, mark: Option<&BooleanArray>) -> Result<()> {
        let batch = self.setup.layout.arrange(batch, mark)?;
        self.coalescer.push_batch(batch)?;
        if self.coalescer.get_buffered_rows() >= self.left {
            // These are the last ones.
            self.coalescer.finish_buffered_batch()?;
        }
        Ok(())
    }
}

impl Setup {
    /// Returns whether there may be output though the build side has no rows.
    fn needs_no_partner(&self) -> bool {
        self.layout.mark == Some(PROBE) || self.output.emits().probe == Alone::Unmatched
    }

    /// Reads the columns of a batch of the input.
    pub(super) fn read_input(&self, layout: &Layout, seen: &Seen, batch: &RecordBatch) -> Result<RecordBatch> {
        self.metrics.rows.add(batch.num_rows());
        let read = layout.sides[PROBE].read(batch)?;
        if self.null_aware && read.num_rows() > 0 {
            seen.rows.fetch_or(true, Ordering::Relaxed);
            seen.null_key.fetch_or(layout.sides[PROBE].has_null_key(&read), Ordering::Relaxed);
        }
        Ok(read)
    }

    /// Starts to look up the rows of a batch that was [read](Self::read_input).
    fn begin(&mut self, built: &Built, batch: RecordBatch) -> Result<Probed> {
        let compute = self.metrics.baseline.elapsed_compute().clone();
        let _timer = compute.timer();
        self.finder.start(&built.side, &batch).map_err(from_join)?;
        let rows = self.output.probe_rows(&batch).map_err(from_join)?;
        Ok(Probed { batch, rows })
    }
}
