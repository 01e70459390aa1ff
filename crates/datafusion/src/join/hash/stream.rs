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
    build::{Building, Built},
    layout::{BUILD, Layout, PROBE},
    metrics::ProbeMetrics,
};
use crate::error::from_join;

/// What a stream needs.
pub(super) struct Setup {
    pub(super) layout: Arc<Layout>,
    pub(super) output: Arc<Output>,
    pub(super) build: Building,
    pub(super) probe: SendableRecordBatchStream,
    pub(super) finder: Finder,
    pub(super) batch_rows: usize,
    /// The most rows to output.
    pub(super) fetch: Option<usize>,
    /// Whether rows with null keys decide about the rows of the other side, as in `NOT IN`.
    pub(super) null_aware: bool,
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
}

enum Stage {
    /// The build side is not ready.
    Building,
    /// Rows are looked up: those of this batch, or of the next one.
    Probing(Arc<Built>, Option<Box<Probed>>),
    /// Rows of the build side are output alone.
    Alone(Arc<Built>, Range<usize>),
    Ended,
}

/// A batch of the probe side.
struct Probed {
    batch: RecordBatch,
    rows: SideRows,
}

/// Returns the stream of a partition's output.
pub(super) fn join(setup: Setup) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let coalescer = BatchCoalescer::new(setup.layout.schema(), setup.batch_rows)
        .with_biggest_coalesce_batch_size(Some(setup.batch_rows / 2));
    let joining = Joining { left: setup.fetch.unwrap_or(usize::MAX), stage: Stage::Building, coalescer, setup };
    stream::try_unfold(joining, |mut joining| async move {
        let batch = joining.next().await?;
        Ok(batch.map(|batch| (batch, joining)))
    })
}

impl Joining {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.left == 0 {
                self.stage = Stage::Ended;
                return Ok(None);
            }
            if let Some(batch) = self.coalescer.next_completed_batch() {
                let rows = batch.num_rows().min(self.left);
                self.left -= rows;
                return Ok(Some(batch.slice(0, rows).record_output(&self.setup.metrics.baseline)));
            }
            // Without rows to pass on this may go on for long.
            tokio::task::consume_budget().await;
            match &mut self.stage {
                Stage::Building => {
                    let built = self.setup.build.clone().await.map_err(|error| DataFusionError::from(&error))?;
                    let is_needed = built.side.batch().num_rows() > 0 || self.setup.needs_no_partner();
                    self.stage = if is_needed { Stage::Probing(built, None) } else { Stage::Ended };
                }
                Stage::Probing(built, probing @ None) => match self.setup.probe.next().await.transpose()? {
                    Some(batch) => *probing = self.setup.begin(built, &batch)?.map(Box::new),
                    None => {
                        let rows = built.finish_probing();
                        self.stage = Stage::Alone(Arc::clone(built), rows);
                    }
                },
                Stage::Probing(..) => self.probe()?,
                Stage::Alone(..) => self.alone()?,
                Stage::Ended if self.coalescer.is_empty() => return Ok(None),
                Stage::Ended => self.coalescer.finish_buffered_batch()?,
            }
        }
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
            None => probing.take().map_or(Ok(()), |probed| self.probe_alone(&probed)),
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
            self.stage = Stage::Ended;
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

    /// Starts to look up the rows of a batch.
    fn begin(&mut self, built: &Built, batch: &RecordBatch) -> Result<Option<Probed>> {
        let compute = self.metrics.baseline.elapsed_compute().clone();
        let _timer = compute.timer();
        self.metrics.rows.add(batch.num_rows());
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        let batch = self.layout.sides[PROBE].read(batch)?;
        if self.null_aware {
            let has_null = self.layout.sides[PROBE].has_null_key(&batch);
            built.seen.rows.fetch_or(true, Ordering::Relaxed);
            built.seen.null_key.fetch_or(has_null, Ordering::Relaxed);
        }
        self.finder.start(&built.side, &batch).map_err(from_join)?;
        let rows = self.output.probe_rows(&batch).map_err(from_join)?;
        Ok(Some(Probed { batch, rows }))
    }
}
