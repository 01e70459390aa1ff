//! The operator in the place of DataFusion's first step of a grouping.

use std::sync::Arc;

use datafusion::{
    common::{Statistics, tree_node::TreeNodeRecursion},
    config::ConfigOptions,
    error::Result,
    execution::TaskContext,
    physical_expr::PhysicalExpr,
    physical_plan::{
        ChildStats, ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode,
        PlanProperties, ReplaceChildrenOptions, SendableRecordBatchStream, StatisticsArgs,
        aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy},
        execution_plan::CardinalityEffect,
        filter_pushdown::{FilterDescription, FilterPushdownPhase},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, stream};

use super::step::FirstStep;
use crate::grouping::skips_cheaply;

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
    stock: AggregateExec,
    groups: Groups,
    explain_as_stock: bool,
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
    pub fn new(stock: AggregateExec, explain_as_stock: bool) -> Self {
        Self { stock, groups: Groups::All, explain_as_stock, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// Returns the grouping `single`, of one step, in two: the operator merges runs of its rows,
    /// and DataFusion's last step groups what is left. Nothing if it cannot, or if a row would be
    /// costly to pass on.
    ///
    /// # Errors
    /// If the aggregates do not fit the input.
    pub(crate) fn in_two_steps(
        single: &AggregateExec,
        explain_as_stock: bool,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
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
        let first = Self { groups: Groups::Few, ..Self::new(first, explain_as_stock) };
        Ok(Some(Arc::new(step(last, single.group_expr().as_final(), Arc::new(first))?)))
    }

    /// Returns the stock operator over the same child.
    pub fn stock(&self) -> &AggregateExec {
        &self.stock
    }

    /// Creates a new operator that replaces `plan`, or returns `plan` if it cannot be replaced.
    fn rewrap(&self, plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        match plan.downcast_ref::<AggregateExec>() {
            Some(stock) if Self::can_replace(stock) => {
                Arc::new(Self { groups: self.groups, ..Self::new(stock.clone(), self.explain_as_stock) })
            }
            _ => plan,
        }
    }
}

impl DisplayAs for RunAggregateExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        if !self.explain_as_stock && !matches!(format, DisplayFormatType::TreeRender) {
            // The stock text starts with the stock name; `Run` before it makes our name.
            f.write_str("Run")?;
        }
        self.stock.fmt_as(format, f)?;
        match format {
            _ if self.groups == Groups::All || self.explain_as_stock => Ok(()),
            DisplayFormatType::TreeRender => writeln!(f, "groups=few"),
            _ => f.write_str(", groups=few"),
        }
    }
}

impl ExecutionPlan for RunAggregateExec {
    fn name(&self) -> &str {
        if self.explain_as_stock { self.stock.name() } else { "RunAggregateExec" }
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(&self.stock)
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.stock.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.stock.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.stock.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let stock = Arc::new(self.stock.clone()).replace_children(children, options)?;
        Ok(self.rewrap(stock))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let stock = Arc::new(self.stock.clone()).reset_state()?;
        Ok(self.rewrap(stock))
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.stock.benefits_from_input_partitioning()
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

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.stock.child_stats_requests(partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.stock.statistics_from_inputs(inputs, args)
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.stock.cardinality_effect()
    }

    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        self.stock.gather_filters_for_pushdown(phase, parent_filters, config)
    }
}
