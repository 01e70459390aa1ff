//! The operator that stands in for DataFusion's `RepartitionExec`.

use std::{fmt, sync::Arc};

use annulus_exchange::{
    choose,
    config::{DataPath, ExchangeConfig},
};
use datafusion::{
    common::{Statistics, tree_node::TreeNodeRecursion},
    config::ConfigOptions,
    error::Result,
    execution::{TaskContext, memory_pool::MemoryLimit},
    physical_expr::{PhysicalExpr, PhysicalSortExpr},
    physical_plan::{
        ChildStats, ChildrenPropertiesMode, EmptyRecordBatchStream, ExecutionPlan, ExecutionPlanProperties,
        Partitioning, PlanProperties, ReplaceChildrenOptions, SendableRecordBatchStream, SortOrderPushdownResult,
        StatisticsArgs,
        execution_plan::CardinalityEffect,
        filter_pushdown::{ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation},
        metrics::MetricsSet,
        projection::ProjectionExec,
        repartition::RepartitionExec,
    },
};

use parking_lot::Mutex;

use crate::{
    bridge::{Bridge, Setup},
    config::AnnulusConfig,
    error::from_exchange,
    metrics::NodeMetrics,
    report::ExchangeReport,
};

/// Hash repartition through the exchange.
///
/// It keeps the stock operator it replaced, over the same child: that one answers every question of the optimizer and
/// is what a downcast to `RepartitionExec` finds (plan encoders and distributed planners look for it), while execution
/// is the exchange's. The plan properties are the stock operator's own `Arc`, because ancestors compare them by pointer.
pub struct RingRepartitionExec {
    stock: RepartitionExec,
    options: AnnulusConfig,
    config: ExchangeConfig,
    path: DataPath,
    metrics: NodeMetrics,
    /// The execution under way, from the first executed partition on.
    bridge: Mutex<Option<Bridge>>,
}

impl RingRepartitionExec {
    /// Whether the exchange does what `stock` does: hash partitioning of bounded input without a merge.
    pub fn can_replace(stock: &RepartitionExec) -> bool {
        matches!(stock.partitioning(), Partitioning::Hash(exprs, outputs) if !exprs.is_empty() && *outputs > 0)
            && !stock.preserve_order()
            && !stock.properties().boundedness.is_unbounded()
    }

    /// The operator in the place of `stock`, for which [`can_replace`](Self::can_replace) holds.
    ///
    /// # Errors
    /// If an option is outside what is possible.
    pub fn try_new(stock: RepartitionExec, options: AnnulusConfig) -> Result<Self> {
        let inputs = stock.input().output_partitioning().partition_count();
        let config = ExchangeConfig {
            groups: options.groups,
            slots: options.slots,
            path: options.path.into(),
            overflow_bytes: if options.overflow_limit == 0 { usize::MAX } else { options.overflow_limit },
            // Without inputs there is nothing to exchange, and none is made.
            ..ExchangeConfig::new(inputs.max(1), stock.partitioning().partition_count())
        };
        config.check().map_err(from_exchange)?;
        let path = choose(&config, &stock.schema()).map_err(from_exchange)?;
        Ok(Self { stock, options, config, path, metrics: NodeMetrics::default(), bridge: Mutex::default() })
    }

    /// The stock operator over the same child.
    pub fn stock(&self) -> &RepartitionExec {
        &self.stock
    }

    /// The options that it was planned with.
    pub fn options(&self) -> &AnnulusConfig {
        &self.options
    }

    /// Which side copies the rows.
    pub fn path(&self) -> DataPath {
        self.path
    }

    /// What the exchange has done so far.
    pub fn report(&self) -> ExchangeReport {
        self.metrics.report()
    }

    /// This operator in the place of the stock operator that `plan` is, fresh; or `plan` if that cannot be replaced.
    fn rewrap(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        match plan.downcast_ref::<RepartitionExec>() {
            Some(stock) if Self::can_replace(stock) => {
                Ok(Arc::new(Self::try_new(stock.clone(), self.options.clone())?))
            }
            _ => Ok(plan),
        }
    }

    fn setup(&self, context: &TaskContext) -> Setup<'_> {
        let exprs = match self.stock.partitioning() {
            Partitioning::Hash(exprs, _) => exprs.as_slice(),
            _ => &[],
        };
        Setup {
            input: self.stock.input(),
            exprs,
            config: ExchangeConfig {
                batch_rows: context.session_config().batch_size(),
                // Only bounded inputs are replaced, and until they end full batches serve the plan better.
                full_batches: true,
                open_bytes: open_bytes(context, self.config.open_bytes),
                ..self.config.clone()
            },
            metrics: &self.metrics,
        }
    }
}

/// What open chunks may take: `usual`, but a small part of a pool that is limited, since a plan may have many exchanges and
/// its other operators need the pool, too.
fn open_bytes(context: &TaskContext, usual: usize) -> usize {
    match context.memory_pool().memory_limit() {
        MemoryLimit::Finite(limit) => usual.min(limit / 32),
        _ => usual,
    }
}

impl fmt::Debug for RingRepartitionExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingRepartitionExec").field("stock", &self.stock).finish_non_exhaustive()
    }
}

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
            closed => closed.insert(Bridge::open(&setup, &context)?),
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
