//! What DataFusion asks of the operator. The stock operator answers, but for execution and metrics.

use std::sync::Arc;

use datafusion::{
    common::{Statistics, tree_node::TreeNodeRecursion},
    config::ConfigOptions,
    error::Result,
    execution::TaskContext,
    physical_expr::{PhysicalExpr, PhysicalSortExpr},
    physical_plan::{
        ChildStats, ChildrenPropertiesMode, EmptyRecordBatchStream, ExecutionPlan, ExecutionPlanProperties,
        PlanProperties, ReplaceChildrenOptions, SendableRecordBatchStream, SortOrderPushdownResult, StatisticsArgs,
        execution_plan::CardinalityEffect,
        filter_pushdown::{ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation},
        metrics::MetricsSet,
        projection::ProjectionExec,
    },
};

use super::RingRepartitionExec;
use crate::bridge::Bridge;

impl ExecutionPlan for RingRepartitionExec {
    fn name(&self) -> &str {
        if self.options.explain_as_stock { self.stock.name() } else { "RingRepartitionExec" }
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
        self.rewrap(stock)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let stock = Arc::new(self.stock.clone()).reset_state()?;
        self.rewrap(stock)
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.stock.benefits_from_input_partitioning()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.stock.maintains_input_order()
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if self.stock.input().output_partitioning().partition_count() == 0 {
            return Ok(Box::pin(EmptyRecordBatchStream::new(self.schema())));
        }
        let setup = self.setup(&context);
        let mut bridge = self.bridge.lock();
        let bridge = match &mut *bridge {
            Some(bridge) => bridge,
            closed => {
                let context = self.skip.map_or_else(|| Arc::clone(&context), |skip| skip.apply(&context));
                closed.insert(Bridge::open(&setup, &context)?)
            }
        };
        bridge.take(partition, &setup)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.snapshot(self.options.explain_as_stock))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.stock.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.stock.statistics_from_inputs(input_stats, args)
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.stock.cardinality_effect()
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let swapped = self.stock.try_swapping_with_projection(projection)?;
        swapped.map(|stock| self.rewrap(stock)).transpose()
    }

    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        self.stock.gather_filters_for_pushdown(phase, parent_filters, config)
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        self.stock.handle_child_pushdown_result(phase, child_pushdown_result, config)
    }

    fn try_pushdown_sort(&self, order: &[PhysicalSortExpr]) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        self.stock.try_pushdown_sort(order)?.try_map(|stock| self.rewrap(stock))
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        config: &ConfigOptions,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let stock = self.stock.repartitioned(target_partitions, config)?;
        stock.map(|stock| self.rewrap(stock)).transpose()
    }
}
