//! The answers to DataFusion's questions. The stock operator gives them, except those about the
//! distribution of the inputs, execution and metrics.

use std::sync::Arc;

use datafusion::{
    config::ConfigOptions,
    error::Result,
    execution::TaskContext,
    physical_expr::PhysicalExpr,
    physical_plan::{
        Distribution, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
        filter_pushdown::{FilterDescription, FilterPushdownPhase},
        metrics::MetricsSet,
        projection::ProjectionExec,
    },
};

use super::{Method, MorselJoinExec};
use crate::{
    delegate,
    join::{key_filter::describe, properties::JoinShape},
};

impl<M: Method> ExecutionPlan for MorselJoinExec<M> {
    delegate!(self.stock:
        children,
        apply_expressions,
        maintains_input_order,
        child_stats_requests,
        statistics_from_inputs,
        cardinality_effect,
        handle_child_pushdown_result,
    );
    delegate!(self.rewrap(self.stock): replace_children);
    delegate!(self.replace_children: with_new_children);

    fn name(&self) -> &str {
        M::NAMES.operator
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::UnspecifiedDistribution; 2]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        // The left side is read from as many partitions as it has, and prepared on all threads.
        vec![false, true]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.executions.execute(&self.method, &self.stock, partition, &context, &self.metrics)
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        describe(&JoinShape::from(self.stock.as_ref()), &parent_filters, Vec::new(), config)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let swapped = self.stock.try_swapping_with_projection(projection)?;
        Ok(swapped.map(|plan| Self::replace_in(plan, &self.why)).transpose()?.flatten())
    }
}
