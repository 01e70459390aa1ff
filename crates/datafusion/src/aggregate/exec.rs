//! The operator in the place of DataFusion's first step of a grouping.

use std::sync::Arc;

use datafusion::{
    error::Result,
    execution::TaskContext,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, SendableRecordBatchStream,
        aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, stream};

use super::step::FirstStep;
use crate::{delegate, grouping::skips_cheaply};

/// The first step of a grouping, before the groups are repartitioned: DataFusion's `AggregateExec`
/// in mode `Partial`, which looks up rows of equal keys that stand next to each other once.
///
/// It contains the stock operator that it replaced, over the same child. As with
/// [`RingRepartitionExec`](crate::RingRepartitionExec), that one answers every question of the
/// optimizer, and a downcast finds it.
///
/// Before a step that needs no repartition, it looks up groups only if they are few. Of others it
/// merges runs, and passes the rest on.
#[derive(Debug)]
pub struct RunAggregateExec {
    stock: Arc<AggregateExec>,
    groups: Groups,
    metrics: ExecutionPlanMetricsSet,
}

/// Which groups a first step looks up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Groups {
    /// All, as long as that saves the repartition rows.
    All,
    /// Those of rows that are not in runs, if they are so few that the next step has next to nothing
    /// to do.
    Few,
}

impl RunAggregateExec {
    /// Returns whether the operator can replace `stock`: the first step of a grouping by one list
    /// of keys, whose input is in no order that DataFusion knows, without a limit, and with
    /// aggregates that keep the states of all groups together.
    pub fn can_replace(stock: &AggregateExec) -> bool {
        *stock.mode() == AggregateMode::Partial
            && *stock.input_order_mode() == InputOrderMode::Linear
            && stock.group_expr().is_single()
            && !stock.group_expr().is_empty()
            && stock.limit_options().is_none()
            && stock.aggr_expr().iter().all(|aggregate| aggregate.groups_accumulator_supported())
    }

    /// Creates the operator that replaces `stock`, for which [`can_replace`](Self::can_replace) is
    /// true.
    pub fn new(stock: AggregateExec) -> Self {
        Self { stock: Arc::new(stock), groups: Groups::All, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// Returns the grouping `single`, of one step, in two: the operator merges runs of its rows,
    /// and DataFusion's last step groups what is left. Nothing if it cannot, or if a row would be
    /// costly to pass on.
    ///
    /// # Errors
    /// If the aggregates do not fit the input.
    pub(crate) fn in_two_steps(single: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let last = match single.mode() {
            AggregateMode::Single => AggregateMode::Final,
            AggregateMode::SinglePartitioned => AggregateMode::FinalPartitioned,
            _ => return Ok(None),
        };
        let step = |mode, group_by: PhysicalGroupBy, input| {
            let (aggregates, filters) = (single.aggr_expr().to_vec(), single.filter_expr().to_vec());
            AggregateExec::try_new(mode, group_by, aggregates, filters, input, single.input_schema())
        };
        let first = step(AggregateMode::Partial, single.group_expr().clone(), Arc::clone(single.input()))?;
        if single.limit_options().is_some() || !Self::can_replace(&first) || !skips_cheaply(&first) {
            return Ok(None);
        }
        let first = Self { groups: Groups::Few, ..Self::new(first) };
        Ok(Some(Arc::new(step(last, single.group_expr().as_final(), Arc::new(first))?)))
    }

    /// Returns the stock operator over the same child.
    pub fn stock(&self) -> &AggregateExec {
        &self.stock
    }

    /// Creates a new operator that replaces `plan`, or returns `plan` if it cannot be replaced.
    fn rewrap(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match plan.downcast_ref::<AggregateExec>() {
            Some(stock) if Self::can_replace(stock) => {
                Arc::new(Self { groups: self.groups, ..Self::new(stock.clone()) })
            }
            _ => plan,
        })
    }
}

impl DisplayAs for RunAggregateExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        if !matches!(format, DisplayFormatType::TreeRender) {
            // The stock text starts with the stock name; `Run` before it makes our name.
            f.write_str("Run")?;
        }
        self.stock.fmt_as(format, f)?;
        match format {
            _ if self.groups == Groups::All => Ok(()),
            DisplayFormatType::TreeRender => writeln!(f, "groups=few"),
            _ => f.write_str(", groups=few"),
        }
    }
}

impl ExecutionPlan for RunAggregateExec {
    delegate!(self.stock:
        downcast_delegate,
        properties,
        children,
        apply_expressions,
        benefits_from_input_partitioning,
        child_stats_requests,
        statistics_from_inputs,
        cardinality_effect,
        gather_filters_for_pushdown,
    );
    delegate!(self.rewrap(self.stock): replace_children, reset_state);
    delegate!(self.replace_children: with_new_children);

    fn name(&self) -> &'static str {
        "RunAggregateExec"
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.stock.input().execute(partition, Arc::clone(&context))?;
        let step = FirstStep::new(&self.stock, self.groups, &context, partition, &self.metrics)?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let start = (Some(input), step, metrics);
        let rows = stream::try_unfold(start, |(mut input, mut step, metrics)| async move {
            loop {
                if let Some(batch) = step.next() {
                    return Ok(Some((batch.record_output(&metrics), (input, step, metrics))));
                }
                let Some(open) = &mut input else { return Ok(None) };
                let batch = open.next().await.transpose()?;
                let _timer = metrics.elapsed_compute().timer();
                match batch {
                    Some(batch) if batch.num_rows() == 0 => {}
                    Some(batch) => step.push(&batch)?,
                    None => {
                        input = None;
                        step.finish()?;
                    }
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
