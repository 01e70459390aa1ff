//! One output partition: the rows of one partition of the left side, with their partners.

use std::sync::Arc;

use annulus_join::{AsOfProbe, Side, Sides};
use arrow::{
    array::{Array, RecordBatch},
    datatypes::SchemaRef,
};
use datafusion::{
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_plan::{
        metrics::{BaselineMetrics, RecordOutput},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    build::{BuildFuture, IndexedRows, RightSide},
    condition::AsOfCondition,
    layout::Layout,
    merge::Merge,
    sort::{column, sorted},
    sorted::{Rows, SortedRows, number_field},
};
use crate::{error::from_join, executions::cooperative};

/// What a stream needs.
pub(super) struct Setup {
    pub(super) condition: Arc<AsOfCondition>,
    pub(super) schemas: Sides<SchemaRef>,
    pub(super) layout: Layout,
    pub(super) build: BuildFuture,
    pub(super) left: SendableRecordBatchStream,
    /// Whether the output must be in the order of the left side.
    pub(super) is_ordered: bool,
    pub(super) context: Arc<TaskContext>,
    pub(super) metrics: BaselineMetrics,
}

impl Setup {
    /// Returns the output.
    pub(super) fn stream(self, schema: SchemaRef) -> SendableRecordBatchStream {
        let metrics = self.metrics.clone();
        let rows = stream::once(self.start()).try_flatten();
        let rows = rows.map(move |batch| batch.map(|batch| batch.record_output(&metrics)));
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }

    async fn start(self) -> Result<SendableRecordBatchStream> {
        let right = self.build.clone().await.map_err(|error| DataFusionError::from(&error))?;
        match right.as_ref() {
            RightSide::Indexed(rows) => Ok(self.look_up(Arc::clone(rows))),
            RightSide::Sorted(rows) => self.merge(rows),
        }
    }

    /// Looks each row of the left side up in the index.
    fn look_up(self, right: Arc<IndexedRows>) -> SendableRecordBatchStream {
        let Self { layout, condition, metrics, .. } = self;
        let schema = Arc::clone(layout.schema());
        let mut probe = None;
        let mut look_up = move |batch: RecordBatch| {
            let index = &right.index;
            let _timer = metrics.elapsed_compute().timer();
            let probe = probe.get_or_insert_with(|| AsOfProbe::new(index, condition.comparison));
            let partners = probe.find(index, &condition.columns(Side::Left, &batch)?).map_err(from_join)?;
            let has_partner = partners.nulls().map(|nulls| nulls.inner().clone());
            layout.output(&batch, has_partner, |column| right.partners(column, &partners))
        };
        let rows = self.left.then(cooperative).map(move |batch| look_up(batch?));
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }

    /// Sorts the left side, and merges it with the right one.
    fn merge(self, right: &SortedRows) -> Result<SendableRecordBatchStream> {
        let (schema, comparison) = (Arc::clone(self.layout.schema()), self.condition.comparison);
        let rows =
            Rows { side: Side::Left, schema: self.schemas.left, condition: self.condition, context: self.context };
        let sorted_left = rows.sort(self.left, self.is_ordered)?;
        if !self.is_ordered {
            let merge = Merge::new(sorted_left, right.read()?, comparison, self.layout);
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, merge.stream())));
        }
        // The row's number is the last column of the sorted rows.
        let number = sorted_left.schema().fields().len() - 1;
        let layout = self.layout.with_left_column(number, number_field());
        let numbered = Arc::clone(layout.schema());
        let merge = Merge::new(sorted_left, right.read()?, comparison, layout);
        let merged = RecordBatchStreamAdapter::new(Arc::clone(&numbered), merge.stream());
        let columns: Vec<usize> = (0..schema.fields().len()).collect();
        let number = column(&numbered, columns.len());
        let in_order = sorted(Box::pin(merged), vec![number], &rows.context)?;
        let rows = in_order.map(move |batch| Ok(batch?.project(&columns)?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
