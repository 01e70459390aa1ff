//! The end of a query, when the coordinator tells how many rows workers have left out.

use std::sync::Arc;

use annulus_datafusion::delegate;
use datafusion::{
    common::tree_node::TreeNodeRecursion,
    error::Result,
    execution::TaskContext,
    physical_expr::PhysicalExpr,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, SendableRecordBatchStream,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, stream};

use super::restart::only_child;
use crate::skipped::{may_skip, tell_skipped};

/// Returns a plan that [tells the skipped rows](tell_skipped) at the end of its rows, if a scan of the query in stages
/// `plan` may leave out rows.
pub(super) fn telling_skipped(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match may_skip(&plan) {
        true => Arc::new(SkippedRowsExec { input: plan }),
        false => plan,
    }
}

/// Passes rows on, and tells at their end which rows were skipped.
#[derive(Debug)]
struct SkippedRowsExec {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for SkippedRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "SkippedRowsExec")
    }
}

impl ExecutionPlan for SkippedRowsExec {
    delegate!(self.replace_children: with_new_children);

    fn name(&self) -> &'static str {
        "SkippedRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { input: only_child(self.name(), children)? }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (rows, input) = (self.input.execute(partition, context)?, Arc::clone(&self.input));
        let told = stream::once(async move { tell_skipped(&input).await.err().map(Err) });
        let rows = rows.chain(told.filter_map(std::future::ready));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
