//! The operator in the place of DataFusion's window function `row_number()`, of which only the rows that get 1
//! are used.

use std::{fmt, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array},
    compute::{concat, partition, take_record_batch},
    datatypes::SchemaRef,
};
use datafusion::{
    common::Statistics,
    error::Result,
    execution::TaskContext,
    logical_expr::WindowUDF,
    physical_expr::{
        OrderingRequirements, PhysicalExpr,
        window::{StandardWindowExpr, WindowExpr},
    },
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, InputOrderMode,
        SendableRecordBatchStream, StatisticsArgs,
        execution_plan::CardinalityEffect,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput},
        stream::RecordBatchStreamAdapter,
        windows::{BoundedWindowAggExec, WindowUDFExpr},
    },
};
use futures::StreamExt;

use crate::{delegate, executions::cooperative};

/// A window with `row_number()` alone that only outputs the first row of each partition. Rows of a partition
/// follow each other.
///
/// DataFusion 55.2 keeps a state for each partition, which takes 2.8 microseconds; here a row is compared with
/// the one before. It contains the stock operator that it replaced, which answers every question of the
/// optimizer, and a downcast finds it.
#[derive(Debug)]
pub struct FirstRowsExec {
    stock: Arc<BoundedWindowAggExec>,
    metrics: ExecutionPlanMetricsSet,
}

impl FirstRowsExec {
    /// Returns whether the operator can replace `stock`, if only rows with the number 1 are used.
    pub(crate) fn can_replace(stock: &BoundedWindowAggExec) -> bool {
        let [window] = stock.window_expr() else { return false };
        stock.input_order_mode == InputOrderMode::Sorted
            && stock.state_observer().is_none()
            && function(window).is_some_and(|function| function.name() == "row_number")
    }

    /// Creates the operator that replaces `stock`, for which [`can_replace`](Self::can_replace) is true.
    pub(crate) fn new(stock: BoundedWindowAggExec) -> Self {
        Self { stock: Arc::new(stock), metrics: ExecutionPlanMetricsSet::new() }
    }

    /// Returns the expressions by which the rows are partitioned.
    fn partition_by(&self) -> &[Arc<dyn PhysicalExpr>] {
        self.stock.window_expr()[0].partition_by()
    }

    fn rewrap(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match plan.downcast_ref::<BoundedWindowAggExec>() {
            Some(stock) if Self::can_replace(stock) => Arc::new(Self::new(stock.clone())),
            _ => plan,
        })
    }
}

/// Returns the function of a window, if it is one that is not an aggregate.
fn function(window: &Arc<dyn WindowExpr>) -> Option<&Arc<WindowUDF>> {
    let standard = window.as_any().downcast_ref::<StandardWindowExpr>()?;
    Some(standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()?.fun())
}

impl DisplayAs for FirstRowsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let by: Vec<_> = self.partition_by().iter().map(ToString::to_string).collect();
        match format {
            DisplayFormatType::TreeRender => writeln!(f, "partition_by={}", by.join(", ")),
            _ => write!(f, "FirstRowsExec: partition_by=[{}]", by.join(", ")),
        }
    }
}

impl ExecutionPlan for FirstRowsExec {
    delegate!(self.stock:
        downcast_delegate,
        properties,
        children,
        apply_expressions,
        maintains_input_order,
        benefits_from_input_partitioning,
        child_stats_requests,
    );
    delegate!(self.rewrap(self.stock): replace_children, reset_state);
    delegate!(self.replace_children: with_new_children);

    fn name(&self) -> &'static str {
        "FirstRowsExec"
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.stock.input_distribution_requirements()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.stock.required_input_ordering()
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.stock.input().execute(partition, context)?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let (keys, schema) = (self.partition_by().to_vec(), self.schema());
        let mut first_rows = FirstRows { keys, before: None, schema: Arc::clone(&schema) };
        let rows = input.then(cooperative).filter_map(move |batch| {
            let _timer = metrics.elapsed_compute().timer();
            let found = batch.and_then(|batch| first_rows.find(&batch)).transpose();
            std::future::ready(found.map(|found| found.map(|batch| batch.record_output(&metrics))))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let of_all_rows = self.stock.statistics_from_inputs(inputs, args)?;
        Ok(Arc::new(of_all_rows.as_ref().clone().to_inexact()))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }
}

/// Finds the first row of each partition, batch by batch.
struct FirstRows {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// The keys of the last row, if there was one.
    before: Option<Vec<ArrayRef>>,
    /// The columns of the rows, then their number.
    schema: SchemaRef,
}

impl FirstRows {
    /// Returns the rows of a batch that are the first of their partitions, with the number 1. `None` if no row is.
    fn find(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        let keys = self.keys.iter().map(|key| key.evaluate(batch)?.into_array(batch.num_rows()));
        let keys: Vec<ArrayRef> = keys.collect::<Result<_>>()?;
        let mut starts = starts(&keys)?;
        let first: Vec<ArrayRef> = keys.iter().map(|key| key.slice(0, 1)).collect();
        if let Some(before) = self.before.replace(keys.iter().map(|key| key.slice(batch.num_rows() - 1, 1)).collect()) {
            let both = before.iter().zip(&first).map(|(before, first)| concat(&[before, first]));
            if self::starts(&both.collect::<Result<Vec<_>, _>>()?)?.len() == 1 {
                starts.remove(0);
            }
        }
        if starts.is_empty() {
            return Ok(None);
        }
        let (count, mut columns) = (starts.len(), batch.columns().to_vec());
        if count < batch.num_rows() {
            columns = take_record_batch(batch, &UInt32Array::from(starts))?.columns().to_vec();
        }
        columns.push(Arc::new(UInt64Array::from_value(1, count)));
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), columns)?))
    }
}

/// Returns the rows that begin a run of equal keys.
fn starts(keys: &[ArrayRef]) -> Result<Vec<u32>> {
    if keys.is_empty() {
        return Ok(vec![0]);
    }
    Ok(partition(keys)?.ranges().into_iter().map(|range| range.start as u32).collect())
}
