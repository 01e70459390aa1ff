//! One output partition: looks up the rows of one partition of the probe side.

use std::{ops::Range, sync::Arc};

use annulus_join::RequiredPairs;
use arrow::{array::RecordBatch, compute::BatchCoalescer};
use datafusion::{
    error::{DataFusionError, Result},
    execution::SendableRecordBatchStream,
    physical_plan::metrics::RecordOutput,
};
use futures::{Stream, StreamExt, stream};

use super::{
    build::BuildTable,
    merged::{merged, without_numbers},
    setup::{ProbeBatch, Setup},
    spill::SpilledProbe,
};
use crate::error::from_join;

/// The join of one partition of the probe side.
struct PartitionJoin {
    setup: Setup,
    stage: Stage,
    /// Batches that are ready, and the rows that are not one yet.
    coalescer: BatchCoalescer,
    /// The rows that may still be output.
    left: usize,
    /// The pass through the parts of the build side that are on disk, if there are any.
    spilled: Option<Box<SpilledProbe>>,
}

enum Stage {
    /// The build side is not ready.
    Build,
    /// Rows are looked up: those of this batch, or of the next one.
    Probing(Arc<BuildTable>, Option<Box<ProbeBatch>>),
    /// Rows of the build side are output alone.
    Alone(Arc<BuildTable>, Range<usize>),
    /// The table has no more output, but there may be others.
    Next,
    /// The output of all tables is put in the order of the probe side.
    Ordered(SendableRecordBatchStream),
    End,
}

/// Returns the stream of a partition's output.
pub(super) fn join(setup: Setup) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let coalescer = coalescer(&setup);
    let left = setup.fetch.unwrap_or(usize::MAX);
    let joining = PartitionJoin { left, stage: Stage::Build, coalescer, spilled: None, setup };
    stream::try_unfold(joining, |mut joining| async move {
        let batch = joining.next().await?;
        Ok(batch.map(|batch| (batch, joining)))
    })
}

fn coalescer(setup: &Setup) -> BatchCoalescer {
    BatchCoalescer::new(setup.layout.schema(), setup.batch_rows)
        .with_biggest_coalesce_batch_size(Some(setup.batch_rows / 2))
}

impl PartitionJoin {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.left == 0 {
                (self.stage, self.spilled) = (Stage::End, None);
                return Ok(None);
            }
            if let Some(batch) = self.coalescer.next_completed_batch() {
                if let Some(order) = self.spilled.as_mut().and_then(|spilled| spilled.order()) {
                    order.push(&batch)?;
                    continue;
                }
                return Ok(Some(self.output(&batch)));
            }
            // Without rows to pass on this may go on for long.
            tokio::task::consume_budget().await;
            match &mut self.stage {
                Stage::Build => {
                    let Some(build) = self.setup.build.take() else { return Ok(None) };
                    let built = build.await.map_err(|error| DataFusionError::from(&error))?;
                    self.begin(built)?;
                }
                Stage::Probing(built, probing @ None) => {
                    let batch = match &mut self.spilled {
                        Some(spilled) => spilled.next(&mut self.setup).await?,
                        None => self.setup.next(&built.seen).await?,
                    };
                    match batch {
                        Some(batch) if batch.num_rows() == 0 => {}
                        Some(batch) => {
                            let probed = self.setup.begin(built, batch)?;
                            self.spilled.as_mut().map_or(Ok(()), |spilled| spilled.begin(&probed.rows))?;
                            *probing = Some(Box::new(probed));
                        }
                        None => {
                            let (built, rows) = (Arc::clone(built), built.finish_probing());
                            self.setup.finder = None;
                            let has_more = self.setup.outputs_alone(&built, &rows);
                            self.stage = if has_more { Stage::Alone(built, rows) } else { Stage::Next };
                        }
                    }
                }
                Stage::Probing(..) => self.probe()?,
                Stage::Alone(..) => self.output_alone()?,
                Stage::Next => self.advance().await?,
                Stage::Ordered(stream) => match stream.next().await.transpose()? {
                    Some(batch) => return Ok(Some(self.output(&batch))),
                    None => self.stage = Stage::End,
                },
                Stage::End if self.coalescer.is_empty() => return Ok(None),
                Stage::End => self.coalescer.finish_buffered_batch()?,
            }
        }
    }

    /// Starts to probe.
    fn begin(&mut self, built: Arc<BuildTable>) -> Result<()> {
        if let Some(spilled) = &built.spilled {
            self.spilled = Some(Box::new(SpilledProbe::new(spilled, &mut self.setup)?));
            self.coalescer = coalescer(&self.setup);
        } else if self.setup.merges() {
            self.setup.number()?;
        }
        let is_needed = built.side.batch().num_rows() > 0 || self.spilled.is_some() || self.setup.needs_no_partner();
        self.stage = if is_needed { Stage::Probing(built, None) } else { Stage::End };
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
        let Some(spilled) = &mut self.spilled else {
            self.stage = Stage::End;
            return Ok(());
        };
        if let Some(order) = spilled.order() {
            self.coalescer.finish_buffered_batch()?;
            while let Some(batch) = self.coalescer.next_completed_batch() {
                order.push(&batch)?;
            }
            order.end_table()?;
        }
        self.stage = match spilled.advance().await? {
            Some(built) => Stage::Probing(built, None),
            None => match spilled.ordered()? {
                Some(ordered) => Stage::Ordered(ordered),
                None => Stage::End,
            },
        };
        Ok(())
    }

    /// Makes the next pairs of the batch, or ends it.
    fn probe(&mut self) -> Result<()> {
        let Stage::Probing(built, probing) = &mut self.stage else { return Ok(()) };
        let Some(probed) = probing else { return Ok(()) };
        let compute = self.setup.metrics.baseline.elapsed_compute().clone();
        let _timer = compute.timer();
        let output = Arc::clone(&self.setup.output);
        let marked = built.rows.matched().filter(|_| output.wanted() == RequiredPairs::OneOfEachBuildRow);
        let found = self.setup.finder.as_mut().map(|finder| finder.next(&built.side, marked)).transpose();
        match found.map_err(from_join)?.flatten() {
            Some((build, probe)) => {
                // Rows before the last one have met all partners in this table.
                let met = probe.last().map_or(0, |&row| row as usize);
                let joined = output.joined((&built.rows, &probed.rows), build, probe).map_err(from_join)?;
                let mut made: Vec<_> = joined.into_iter().collect();
                if self.setup.merges() && self.spilled.as_ref().is_none_or(|spilled| spilled.is_last()) {
                    made.extend(self.setup.alone_rows(probed, probed.done..met)?);
                    probed.done = met;
                }
                merged(&made)?.map_or(Ok(()), |batch| self.push(&batch))
            }
            None => {
                if let Some((build, probe)) = probed.null_pairs(built) {
                    // It marks those that the filter keeps.
                    let joined = output.joined((&built.rows, &probed.rows), &build, &probe).map_err(from_join)?;
                    return joined.map_or(Ok(()), |batch| self.push(&batch));
                }
                match probing.take() {
                    Some(probed) if self.spilled.as_mut().is_none_or(|spilled| spilled.end(&probed.rows)) => {
                        self.probe_alone(&probed)
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// Outputs the rows of a batch of the probe side that are output alone.
    fn probe_alone(&mut self, probed: &ProbeBatch) -> Result<()> {
        let alone = self.setup.alone_rows(probed, probed.done..probed.batch.num_rows())?;
        alone.iter().try_for_each(|batch| self.push(batch))
    }

    /// Outputs the next rows of the build side that are output alone.
    fn output_alone(&mut self) -> Result<()> {
        let Stage::Alone(built, rest) = &mut self.stage else { return Ok(()) };
        let built = Arc::clone(built);
        let Setup { output, batch_rows, .. } = &self.setup;
        let now = rest.start..rest.end.min(rest.start + batch_rows);
        rest.start = now.end;
        if now.is_empty() {
            self.stage = Stage::Next;
            return Ok(());
        }
        let mut made = Vec::new();
        let emit = |batch| {
            made.push(batch);
            Ok(())
        };
        output.build_alone(&built.rows, now, emit).map_err(from_join)?;
        made.iter().try_for_each(|batch| self.push(batch))
    }

    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut batch = self.setup.layout.arrange(batch)?;
        if self.spilled.is_none() && self.setup.merges() {
            batch = without_numbers(&batch)?;
        }
        self.coalescer.push_batch(batch)?;
        if self.coalescer.get_buffered_rows() >= self.left {
            // These are the last ones.
            self.coalescer.finish_buffered_batch()?;
        }
        Ok(())
    }
}
