//! The operator that replaces DataFusion's `HashJoinExec`.

use std::{fmt, sync::Arc};

use annulus_join::Side;
use datafusion::{
    common::JoinType,
    config::ConfigOptions,
    error::Result,
    execution::TaskContext,
    physical_expr::PhysicalExpr,
    physical_plan::{
        ChildrenPropertiesMode, Distribution, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
        PlanProperties, ReplaceChildrenOptions, SendableRecordBatchStream,
        filter_pushdown::{ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation},
        joins::{HashJoinExec, PartitionMode},
        metrics::{ExecutionPlanMetricsSet, MetricsSet},
        stream::RecordBatchStreamAdapter,
    },
};

use super::{layout::Layout, metrics::ProbeMetrics, setup::Setup, start::Execution, stream};
use crate::{
    delegate,
    executions::{Executions, OutputPartition},
    join::{key_filter::describe, properties::JoinShape},
};

/// A hash join with one table, which all partitions of the build side fill and all those of the
/// probe side read. So neither side is repartitioned, and the output has the probe side's
/// partitions and order. If matching partitions of both sides have equal keys, it can have a table
/// for each partition instead, and holds those of the partitions that run.
///
/// It contains the stock operator that it replaces, in its mode `CollectLeft` or `Partitioned` and
/// over the same children. The stock operator answers the optimizer's questions. Only the partitions
/// that the build side may have, and execution, are this one's own. A plan can be executed several
/// times, and several times at once with contexts of their own.
pub struct SharedHashJoinExec {
    stock: Arc<HashJoinExec>,
    why: Arc<str>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    executions: Executions<Execution>,
}

impl SharedHashJoinExec {
    /// Returns why `stock` cannot be replaced, or nothing if it can: both sides must end, and keys
    /// be of types that can be hashed.
    pub fn obstacle(stock: &HashJoinExec) -> Option<&'static str> {
        let is_unbounded = |side: &Arc<dyn ExecutionPlan>| side.boundedness().is_unbounded();
        if is_unbounded(stock.left()) || is_unbounded(stock.right()) {
            return Some("unbounded input");
        }
        if stock.null_aware && stock.mode == PartitionMode::Partitioned {
            return Some("null-aware join of partitions");
        }
        let has_keys = |layout: Layout| Side::BOTH.iter().all(|&side| layout.keys(side).is_ok());
        if stock.on().is_empty() || !Layout::new(stock).is_ok_and(has_keys) {
            return Some("type of a key");
        }
        None
    }

    /// Creates the operator that replaces `stock`, which has no [`obstacle`](Self::obstacle).
    ///
    /// # Errors
    /// If DataFusion refuses the stock operator in its mode `CollectLeft`.
    pub fn try_new(stock: &HashJoinExec, why: impl Into<Arc<str>>) -> Result<Self> {
        Self::in_mode(PartitionMode::CollectLeft, stock, why.into())
    }

    /// Returns a plan with the operator in the place of `stock`, with the other side as its build side.
    ///
    /// # Errors
    /// If DataFusion refuses to swap the sides.
    pub fn swapped(stock: &HashJoinExec, why: impl Into<Arc<str>>) -> Result<Arc<dyn ExecutionPlan>> {
        Self::replace_in(stock.swap_inputs(PartitionMode::CollectLeft)?, &why.into())
    }

    /// Creates the operator with a table for each partition. Both sides must be partitioned by the
    /// keys, and alike.
    ///
    /// # Errors
    /// If DataFusion refuses the stock operator in its mode `Partitioned`.
    pub fn try_partitioned(stock: &HashJoinExec, why: impl Into<Arc<str>>) -> Result<Self> {
        Self::in_mode(PartitionMode::Partitioned, stock, why.into())
    }

    fn in_mode(mode: PartitionMode, stock: &HashJoinExec, why: Arc<str>) -> Result<Self> {
        let stock = stock.builder().with_partition_mode(mode).recompute_properties().build()?;
        Self::from_stock(Arc::new(stock), why)
    }

    fn from_stock(stock: Arc<HashJoinExec>, why: Arc<str>) -> Result<Self> {
        let properties = JoinShape::from(stock.as_ref()).properties(stock.properties())?;
        let (metrics, executions) = (ExecutionPlanMetricsSet::new(), Executions::default());
        Ok(Self { stock, why, properties, metrics, executions })
    }

    /// Returns the stock operator over the same children.
    pub fn stock(&self) -> &HashJoinExec {
        &self.stock
    }

    /// Returns whether each partition has a table of its own.
    pub fn is_partitioned(&self) -> bool {
        self.stock.mode == PartitionMode::Partitioned
    }

    /// Returns the reason for the choice of this operator, as `EXPLAIN` prints it.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Puts a stock operator into a new one of these: `plan` is one, or a projection of one.
    fn replace_in(plan: Arc<dyn ExecutionPlan>, why: &Arc<str>) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(stock) = plan.downcast_ref::<HashJoinExec>() {
            return Ok(Arc::new(Self::from_stock(Arc::new(stock.builder().build()?), Arc::clone(why))?));
        }
        let children = plan.children().into_iter().map(|child| Self::replace_in(Arc::clone(child), why));
        let children = children.collect::<Result<Vec<_>>>()?;
        plan.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn rewrap(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Self::replace_in(plan, &self.why)
    }
}

impl fmt::Debug for SharedHashJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedHashJoinExec").field("stock", &self.stock).field("why", &self.why).finish_non_exhaustive()
    }
}

impl ExecutionPlan for SharedHashJoinExec {
    delegate!(self.stock:
        children,
        apply_expressions,
        dynamic_expressions_produced,
        child_stats_requests,
        statistics_from_inputs,
        cardinality_effect,
    );
    delegate!(self.rewrap(self.stock): replace_children, reset_state, try_swapping_with_projection);
    delegate!(self.replace_children: with_new_children);

    fn name(&self) -> &'static str {
        "SharedHashJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        if self.is_partitioned() {
            return self.stock.input_distribution_requirements();
        }
        InputDistributionRequirements::new(vec![Distribution::UnspecifiedDistribution; 2])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        // If the build side is read whole, it does not matter how it is partitioned.
        vec![self.is_partitioned(), true]
    }

    /// Returns whether a sort may move from above to the probe side. DataFusion takes the columns
    /// of an operator that it does not know for those of all inputs, one after the other. So
    /// only a join that outputs all of them says yes, though others keep the order, too.
    fn maintains_input_order(&self) -> Vec<bool> {
        let outputs_all = *self.stock.join_type() == JoinType::Inner && !self.stock.contains_projection();
        vec![false, outputs_all]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let own = OutputPartition { index: partition, count: self.properties.partitioning.partition_count() };
        let start = || Execution::start(&self.stock, &self.metrics, &context);
        let (execution, ticket) = self.executions.share(own, &context, start)?;
        let (layout, batch_rows) = (Arc::clone(&execution.layout), context.session_config().batch_size());
        let setup = Setup {
            output: Arc::new(layout.output(batch_rows)?),
            build: Some(execution.table(&self.stock, partition, &context)?),
            is_ordered: self.properties.output_ordering().is_some(),
            finder: None,
            shown: Arc::clone(&layout),
            layout,
            probe: self.stock.right().execute(partition, context)?,
            batch_rows,
            fetch: self.stock.fetch(),
            metrics: ProbeMetrics::new(&self.metrics, partition),
        };
        Ok(ticket.stream(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::join(setup)))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn supports_limit_pushdown(&self) -> bool {
        self.stock.supports_limit_pushdown()
    }

    fn fetch(&self) -> Option<usize> {
        self.stock.fetch()
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        self.rewrap(self.stock.with_fetch(limit)?).ok()
    }

    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let own = match self.is_partitioned() {
            // No partition knows the keys of the others.
            true => Vec::new(),
            false => self.stock.gather_filters_for_pushdown(phase, Vec::new(), config)?.self_filters(),
        };
        describe(&JoinShape::from(self.stock.as_ref()), &parent_filters, own, config)
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let FilterPushdownPropagation { filters, updated_node } =
            self.stock.handle_child_pushdown_result(phase, child_pushdown_result, config)?;
        let updated_node = updated_node.map(|stock| self.rewrap(stock)).transpose()?;
        Ok(FilterPushdownPropagation { filters, updated_node })
    }
}
