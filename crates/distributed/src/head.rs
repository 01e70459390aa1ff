//! The operator at the head of a stage that other workers read by key.

use std::{fmt, sync::Arc};

use annulus_datafusion::replace_in_stage;
use datafusion::{
    common::tree_node::TreeNodeRecursion,
    config::ConfigOptions,
    error::Result,
    execution::TaskContext,
    physical_expr::{Partitioning, PhysicalExpr},
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        SendableRecordBatchStream, metrics::MetricsSet, repartition::RepartitionExec,
    },
};

use crate::windows::restore_order;

/// The repartition at the head of a stage.
///
/// datafusion-distributed removes a `RepartitionExec` from the head of a stage when the stage is
/// executed, and puts a stock one in its place. It does not find the one in here, and
/// [`Channels`](crate::Channels) ask for no other.
#[derive(Debug)]
pub(crate) struct StageHeadExec {
    /// The repartition, which is on the exchange of Annulus if it can be.
    inner: Arc<dyn ExecutionPlan>,
}

/// Returns the plan of a stage with the operators of Annulus. If the stage `keeps_head`, a hash
/// repartition at its head is put into a [`StageHeadExec`].
///
/// # Errors
/// If DataFusion cannot walk the plan.
pub(crate) fn rewrite_stage(
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
    keeps_head: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let is_head = |stock: &RepartitionExec| matches!(stock.partitioning(), Partitioning::Hash(..));
    let has_head = plan.downcast_ref::<RepartitionExec>().is_some_and(is_head);
    let inner = replace_in_stage(restore_order(plan)?, config)?;
    Ok(if has_head && keeps_head { Arc::new(StageHeadExec { inner }) } else { inner })
}

impl DisplayAs for StageHeadExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.inner.fmt_as(format, f)
    }
}

impl ExecutionPlan for StageHeadExec {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inner.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let inner = Arc::clone(&self.inner).replace_children(children, options)?;
        Ok(Arc::new(Self { inner }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.inner.execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.inner.metrics()
    }
}
