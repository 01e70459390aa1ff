//! `EXPLAIN ANALYZE` of a query that may start again.

use std::{sync::Arc, time::Instant};

use annulus_datafusion::delegate;
use datafusion::{
    arrow::{
        array::{RecordBatch, StringArray},
        datatypes::SchemaRef,
    },
    common::tree_node::TreeNodeRecursion,
    error::Result,
    execution::TaskContext,
    physical_expr::PhysicalExpr,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, SendableRecordBatchStream,
        display::DisplayableExecutionPlan, stream::RecordBatchStreamAdapter,
    },
};
use datafusion_distributed::{DistributedMetricsFormat, display_plan_ascii, rewrite_distributed_plan_with_metrics};
use futures::{StreamExt, stream};

use super::restart::{RestartExec, only_child};

/// Runs a query, and outputs what its operators have counted, on the workers of the attempt that succeeded. As the
/// operator of datafusion-distributed does it (`explain_analyze.rs`), with the operators above the stages.
#[derive(Debug)]
pub(super) struct RestartAnalyzeExec {
    input: Arc<dyn ExecutionPlan>,
    is_verbose: bool,
    properties: Arc<PlanProperties>,
}

impl RestartAnalyzeExec {
    /// Returns the operator in the place of `engine`, which has another input.
    pub(super) fn new(engine: &dyn ExecutionPlan, input: Arc<dyn ExecutionPlan>, is_verbose: bool) -> Self {
        Self { input, is_verbose, properties: Arc::clone(engine.properties()) }
    }
}

/// Returns the lines of a plan with the counters of all workers.
async fn counted(plan: &Arc<dyn ExecutionPlan>, format: DistributedMetricsFormat) -> Result<String> {
    let (mut lines, mut indent, mut node) = (String::new(), String::new(), plan);
    loop {
        let line = DisplayableExecutionPlan::with_metrics(node.as_ref()).one_line().to_string();
        lines.push_str(&format!("{indent}{}\n", line.trim_end()));
        if let Some(restart) = node.downcast_ref::<RestartExec>() {
            let last = rewrite_distributed_plan_with_metrics(restart.last(), format).await?;
            return Ok(lines + &display_plan_ascii(last.as_ref(), true));
        }
        let Some(below) = node.children().into_iter().next() else { return Ok(lines) };
        node = below;
        indent.push_str("  ");
    }
}

/// Runs the query, and returns the rows of `EXPLAIN ANALYZE`.
async fn analyzed(
    input: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    is_verbose: bool,
    schema: SchemaRef,
) -> Result<RecordBatch> {
    let (start, mut rows) = (Instant::now(), 0);
    let mut stream = input.execute(0, context)?;
    while let Some(batch) = stream.next().await.transpose()? {
        rows += batch.num_rows();
    }
    let mut lines = vec![("Plan with Metrics", counted(&input, DistributedMetricsFormat::Aggregated).await?)];
    if is_verbose {
        lines.push(("Plan with Full Metrics", counted(&input, DistributedMetricsFormat::PerTask).await?));
        lines.push(("Output Rows", rows.to_string()));
        lines.push(("Duration", format!("{:?}", start.elapsed())));
    }
    let (kinds, texts): (Vec<_>, Vec<_>) = lines.into_iter().unzip();
    let columns = vec![Arc::new(StringArray::from(kinds)) as _, Arc::new(StringArray::from(texts)) as _];
    Ok(RecordBatch::try_new(schema, columns)?)
}

impl DisplayAs for RestartAnalyzeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "RestartAnalyzeExec: verbose={}", self.is_verbose)
    }
}

impl ExecutionPlan for RestartAnalyzeExec {
    delegate!(self.replace_children: with_new_children);

    fn name(&self) -> &'static str {
        "RestartAnalyzeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = only_child(self.name(), children)?;
        Ok(Arc::new(Self { input, is_verbose: self.is_verbose, properties: Arc::clone(&self.properties) }))
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (input, schema) = (Arc::clone(&self.input), self.schema());
        let rows = analyzed(input, context, self.is_verbose, Arc::clone(&schema));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(rows))))
    }
}
