//! The operator above a scan that drops rows which no join above needs.

use std::sync::Arc;

use datafusion::{
    common::{
        Statistics, internal_err,
        tree_node::{TreeNodeIterator, TreeNodeRecursion},
    },
    config::ConfigOptions,
    error::Result,
    execution::TaskContext,
    physical_expr::{PhysicalExpr, expressions::DynamicFilterPhysicalExpr},
    physical_plan::{
        ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, ReplaceChildrenOptions, SendableRecordBatchStream,
        StatisticsArgs,
        execution_plan::CardinalityEffect,
        filter_pushdown::{
            ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
        },
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, stream};

use super::dropping::RowFilter;
use crate::delegate;

/// Drops rows that joins above do not need, by the dynamic filters which DataFusion pushes down to
/// here. It passes them on to the scan, which prunes files and row groups by them, but by default
/// looks at no row. A filter that keeps most rows is given up.
#[derive(Debug)]
pub struct KeyFilterExec {
    input: Arc<dyn ExecutionPlan>,
    filters: Vec<Arc<dyn PhysicalExpr>>,
    metrics: ExecutionPlanMetricsSet,
}

impl KeyFilterExec {
    /// Creates the operator without filters: DataFusion's rule for filters gives them to it.
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        Self { input, filters: Vec::new(), metrics: ExecutionPlanMetricsSet::new() }
    }

    /// Returns what takes the operator's place with only the filters that stay: its input if none
    /// does, and nothing if all do.
    pub(crate) fn only(&self, stays: impl Fn(&Arc<dyn PhysicalExpr>) -> bool) -> Option<Arc<dyn ExecutionPlan>> {
        let filters: Vec<_> = self.filters.iter().filter(|filter| stays(filter)).cloned().collect();
        if filters.is_empty() {
            return Some(Arc::clone(&self.input));
        }
        let fewer = filters.len() < self.filters.len();
        fewer.then(|| Arc::new(Self { filters, ..Self::new(Arc::clone(&self.input)) }) as _)
    }

    /// Returns the operator below.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// Returns the filters, over the columns of the operator below.
    pub(crate) fn filters(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.filters
    }

    /// Returns whether it drops any rows.
    pub fn has_filters(&self) -> bool {
        !self.filters.is_empty()
    }
}

impl DisplayAs for KeyFilterExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let filters: Vec<_> = self.filters.iter().map(ToString::to_string).collect();
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "KeyFilterExec: {}", filters.join(" AND "))
            }
            DisplayFormatType::TreeRender => writeln!(f, "filters={}", filters.join(" AND ")),
        }
    }
}

impl ExecutionPlan for KeyFilterExec {
    delegate!(self.input: properties);
    delegate!(self.replace_children: with_new_children);

    fn name(&self) -> &'static str {
        "KeyFilterExec"
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.filters.iter().apply_until_stop(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[_; 1]>::try_from(children) else { return internal_err!("KeyFilterExec has one child") };
        Ok(Arc::new(Self { input, filters: self.filters.clone(), metrics: ExecutionPlanMetricsSet::new() }))
    }

    /// Returns the operator without filters: those of an earlier execution may drop too much.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(Arc::clone(&self.input))))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batch_rows = context.session_config().batch_size();
        let input = self.input.execute(partition, context)?;
        if self.filters.is_empty() {
            return Ok(input);
        }
        let dropping = RowFilter::new(&self.filters, self.schema(), batch_rows);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let stream = stream::try_unfold((input, dropping, metrics), |(mut input, mut dropping, metrics)| async move {
            loop {
                if let Some(batch) = dropping.next() {
                    let batch = batch.record_output(&metrics);
                    return Ok(Some((batch, (input, dropping, metrics))));
                }
                if dropping.has_ended() {
                    return Ok(None);
                }
                let batch = input.next().await.transpose()?;
                let _timer = metrics.elapsed_compute().timer();
                dropping.push(batch)?;
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let input = inputs[0].as_ref().clone();
        Ok(Arc::new(if self.has_filters() { input.to_inexact() } else { input }))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        if self.has_filters() { CardinalityEffect::LowerEqual } else { CardinalityEffect::Equal }
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(parent_filters, &[&self.input])
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let mut filters = self.filters.clone();
        let mut take = |filter: &Arc<dyn PhysicalExpr>, below: PushedDown| {
            let takes = phase == FilterPushdownPhase::Post && filter.is::<DynamicFilterPhysicalExpr>();
            if matches!(below, PushedDown::Yes) || !takes {
                return below;
            }
            filters.push(Arc::clone(filter));
            PushedDown::Yes
        };
        let results = child_pushdown_result.parent_filters;
        let results = results.iter().map(|result| take(&result.filter, result.all())).collect();
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(results);
        if filters.len() == self.filters.len() {
            return Ok(propagation);
        }
        let (input, metrics) = (Arc::clone(&self.input), ExecutionPlanMetricsSet::new());
        Ok(propagation.with_updated_node(Arc::new(Self { input, filters, metrics })))
    }
}
