//! The operator that hides orders which its input does not have.

use std::{fmt, sync::Arc};

use datafusion::{
    common::{Statistics, internal_err, tree_node::TreeNodeRecursion},
    error::Result,
    execution::TaskContext,
    physical_expr::{EquivalenceProperties, PhysicalExpr},
    physical_plan::{
        ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        SendableRecordBatchStream, StatisticsArgs, execution_plan::CardinalityEffect,
    },
};

use crate::delegate;

/// Passes rows on, without the orders and constant columns that its input claims to have.
///
/// In DataFusion 55.2, the first step of a grouping with `ROLLUP`, `CUBE` or `GROUPING SETS` claims those of its own
/// input. But it returns nulls in the place of keys: rows of `WHERE k = 1 GROUP BY ROLLUP (k)` are not all 1. The
/// last step would take groups for complete, and return some of them twice.
#[derive(Debug)]
pub struct UnorderedExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl UnorderedExec {
    /// Returns the operator above an input.
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let known = input.properties();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            known.partitioning.clone(),
            known.emission_type,
            known.boundedness,
        );
        Self { input, properties: Arc::new(properties) }
    }
}

impl DisplayAs for UnorderedExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        if let DisplayFormatType::TreeRender = format { Ok(()) } else { f.write_str("UnorderedExec") }
    }
}

impl ExecutionPlan for UnorderedExec {
    delegate!(self.replace_children: with_new_children);

    fn name(&self) -> &'static str {
        "UnorderedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(Self::new(input))),
            Err(_) => internal_err!("UnorderedExec needs one child"),
        }
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}
