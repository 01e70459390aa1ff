//! Restores the order of the probe side in the output of a stream. The output of each table is in
//! this order already: it is written to a file, with the numbers of the rows, and the files are
//! merged.

use std::{fmt, sync::Arc};

use arrow::array::RecordBatch;
use datafusion::{
    error::Result,
    execution::{
        SendableRecordBatchStream,
        memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool},
    },
    physical_expr::{LexOrdering, PhysicalSortExpr, expressions::Column},
    physical_plan::{
        EmptyRecordBatchStream,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet},
        sorts::streaming_merge::StreamingMergeBuilder,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::StreamExt;

use super::{
    budget::MemoryBudget,
    files::{Files, SpilledRows, Writer},
};

/// The most rows of a batch in a file. One of each file is in memory when they are merged.
const ROWS: usize = 1024;

/// The output of a stream, whose last column is the number of the row of the probe side.
pub(in crate::join::hash) struct Order {
    files: Files,
    budget: MemoryBudget,
    runs: Vec<SpilledRows>,
    run: Option<Writer>,
}

impl Order {
    pub(super) fn new(files: Files, budget: MemoryBudget) -> Self {
        Self { files, budget, runs: Vec::new(), run: None }
    }

    /// Adds output of the current table.
    ///
    /// # Errors
    /// If the disk is full.
    pub(in crate::join::hash) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let run = self.run.get_or_insert_with(|| self.files.create());
        let starts = (0..batch.num_rows()).step_by(ROWS);
        starts
            .map(|start| batch.slice(start, ROWS.min(batch.num_rows() - start)))
            .try_for_each(|part| run.append(&part))
    }

    /// Ends the output of the current table.
    ///
    /// # Errors
    /// If the disk is full.
    pub(in crate::join::hash) fn end_table(&mut self) -> Result<()> {
        if let Some(run) = self.run.take() {
            self.runs.push(run.finish()?);
        }
        Ok(())
    }

    /// Returns all output in the order of the numbers, without them.
    pub(super) fn merge(self, batch_rows: usize) -> Result<SendableRecordBatchStream> {
        let schema = self.files.schema();
        let last = schema.fields().len() - 1;
        let shown = Arc::new(schema.project(&(0..last).collect::<Vec<_>>())?);
        let number = Arc::new(Column::new(schema.field(last).name(), last));
        let Some(by_number) = LexOrdering::new([PhysicalSortExpr::new_default(number)]) else {
            return datafusion::common::internal_err!("an order without an expression");
        };
        if self.runs.is_empty() {
            return Ok(Box::pin(EmptyRecordBatchStream::new(shown)));
        }
        let largest = |run: &SpilledRows| run.pieces.iter().map(|piece| piece.bytes).max().unwrap_or(0);
        // The merge holds two batches of each file. It must not be refused them.
        self.budget.grow(2 * self.runs.iter().map(largest).sum::<usize>());
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let merged = StreamingMergeBuilder::new()
            .with_streams(self.runs.iter().map(|run| self.files.read(run)).collect::<Result<_>>()?)
            .with_schema(Arc::clone(schema))
            .with_expressions(&by_number)
            .with_metrics(BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), 0))
            .with_batch_size(batch_rows)
            .with_reservation(MemoryConsumer::new("merge").register(&pool))
            .build()?;
        let budget = self.budget;
        let columns: Vec<usize> = (0..last).collect();
        let shown_batch = move |batch: Result<RecordBatch>| {
            let _held = &budget;
            Ok(batch?.project(&columns)?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(shown, merged.map(shown_batch))))
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order").field("runs", &self.runs.len()).finish_non_exhaustive()
    }
}
