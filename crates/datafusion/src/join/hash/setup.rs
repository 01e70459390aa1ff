//! What a stream of a join needs, and what it does with a batch of the probe side.

use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

use annulus_join::{Finder, Output, SideRows, UnpairedRows};
use arrow::array::RecordBatch;
use datafusion::{error::Result, execution::SendableRecordBatchStream};
use futures::StreamExt;

use super::{
    build::{BuildFuture, BuildTable, ProbeFacts},
    layout::{Layout, PROBE},
    metrics::ProbeMetrics,
    nulls::NullPairs,
};
use crate::error::from_join;

/// What a stream needs.
pub(super) struct Setup {
    /// The columns of the input and the output.
    pub(super) shown: Arc<Layout>,
    /// The same, perhaps with numbers of rows.
    pub(super) layout: Arc<Layout>,
    pub(super) output: Arc<Output>,
    /// Until the build side is ready.
    pub(super) build: Option<BuildFuture>,
    pub(super) probe: SendableRecordBatchStream,
    /// While a table is probed: it takes memory, and most streams may wait.
    pub(super) finder: Option<Finder>,
    pub(super) batch_rows: usize,
    /// The most rows to output.
    pub(super) fetch: Option<usize>,
    /// Whether the output must be in the order of the probe side.
    pub(super) is_ordered: bool,
    pub(super) metrics: ProbeMetrics,
}

/// A batch of the probe side.
pub(super) struct ProbeBatch {
    pub(super) batch: RecordBatch,
    pub(super) rows: SideRows,
    /// The index of the first row that has not been output.
    pub(super) done: usize,
    nulls: Option<NullPairs>,
}

impl ProbeBatch {
    /// Returns the next pairs of which one row has a null key, if they count.
    pub(super) fn null_pairs(&mut self, built: &BuildTable) -> Option<(Vec<u32>, Vec<u32>)> {
        let rows = built.side.batch().num_rows() as u32;
        self.nulls.as_mut()?.next(rows, &built.side.nulls(), built.rows.matched()?)
    }
}

impl Setup {
    /// Returns whether there may be output though the build side has no rows.
    pub(super) fn needs_no_partner(&self) -> bool {
        self.output.emits().probe.has_unmatched()
    }

    /// Returns whether some of these rows of the build side may be output alone, after all streams have probed.
    /// Settles the rows with null keys.
    pub(super) fn outputs_alone(&self, built: &BuildTable, rows: &Range<usize>) -> bool {
        !rows.is_empty()
            && self.output.emits().build != UnpairedRows::None
            && (!self.decides_by_nulls() || built.settle_nulls())
    }

    /// Returns whether a null key of the probe side decides about all rows of the build side.
    pub(super) fn decides_by_nulls(&self) -> bool {
        self.layout.is_null_aware() && !self.layout.has_filter()
    }

    /// Returns whether a null key decides about the rows that the filter pairs with it.
    pub(super) fn pairs_nulls(&self) -> bool {
        self.layout.is_null_aware() && self.layout.has_filter()
    }

    /// Returns whether rows without a partner must be output between pairs.
    pub(super) fn merges(&self) -> bool {
        let emits = self.output.emits();
        self.is_ordered && emits.pairs && emits.probe != UnpairedRows::None
    }

    /// Gives each row of the probe side, and of the output, a number in a last column. Call it before
    /// the first batch.
    ///
    /// # Errors
    /// If a key's type cannot be compared.
    pub(super) fn number(&mut self) -> Result<()> {
        self.layout = Arc::new(self.layout.numbered());
        self.output = Arc::new(self.layout.output(self.batch_rows)?);
        Ok(())
    }

    /// Returns the rows of a part of a batch that are output alone.
    ///
    /// # Errors
    /// If a kernel fails.
    pub(super) fn alone_rows(&self, probed: &ProbeBatch, rows: Range<usize>) -> Result<Vec<RecordBatch>> {
        let mut made = Vec::new();
        let emit = |batch| {
            made.push(batch);
            Ok(())
        };
        self.output.probe_alone(&probed.rows, rows, emit).map_err(from_join)?;
        Ok(made)
    }

    /// Returns the next batch of the input, or nothing at its end. Its rows are numbered if that is
    /// needed without a disk.
    ///
    /// # Errors
    /// If the input fails, or a key cannot be computed.
    pub(super) async fn next(&mut self, seen: &ProbeFacts) -> Result<Option<RecordBatch>> {
        let Some(batch) = self.probe.next().await.transpose()? else { return Ok(None) };
        let read = self.read_input(seen, &batch)?;
        Ok(Some(if self.merges() { self.layout.sides[PROBE].numbered(&read, 0)? } else { read }))
    }

    /// Reads the columns of a batch of the input.
    ///
    /// # Errors
    /// If a key cannot be computed.
    pub(super) fn read_input(&self, seen: &ProbeFacts, batch: &RecordBatch) -> Result<RecordBatch> {
        self.metrics.rows.add(batch.num_rows());
        let side = &self.shown.sides[PROBE];
        let read = side.read(batch)?;
        if self.decides_by_nulls() && read.num_rows() > 0 {
            seen.rows.fetch_or(true, Ordering::Relaxed);
            seen.null_key.fetch_or(side.has_null_key(&read), Ordering::Relaxed);
        }
        Ok(read)
    }

    /// Starts to look up the rows of a batch of the [layout](Self::layout).
    pub(super) fn begin(&mut self, built: &BuildTable, batch: RecordBatch) -> Result<ProbeBatch> {
        let compute = self.metrics.baseline.elapsed_compute().clone();
        let _timer = compute.timer();
        let finder = match &mut self.finder {
            Some(finder) => finder,
            none => none.insert(Finder::new(self.layout.keys(PROBE)?)),
        };
        finder.start(&built.side, &batch).map_err(from_join)?;
        let rows = self.output.probe_rows(&batch).map_err(from_join)?;
        let nulls =
            self.pairs_nulls().then(|| NullPairs::new(batch.num_rows(), self.layout.sides[PROBE].null_keys(&batch)));
        Ok(ProbeBatch { batch, rows, done: 0, nulls })
    }
}
