//! The answers to DataFusion's questions. The stock operator gives them, except for execution and
//! metrics.

use std::sync::Arc;

use datafusion::{
    config::ConfigOptions,
    error::Result,
    execution::TaskContext,
    physical_expr::PhysicalSortExpr,
    physical_plan::{
        EmptyRecordBatchStream, ExecutionPlan, ExecutionPlanProperties, SendableRecordBatchStream,
        SortOrderPushdownResult, metrics::MetricsSet,
    },
};

use super::RingRepartitionExec;
use crate::{bridge::Bridge, delegate};

impl ExecutionPlan for RingRepartitionExec {
    delegate!(self.stock:
        downcast_delegate,
        properties,
        children,
        apply_expressions,
        benefits_from_input_partitioning,
        maintains_input_order,
        child_stats_requests,
        statistics_from_inputs,
        cardinality_effect,
        gather_filters_for_pushdown,
        handle_child_pushdown_result,
    );
    delegate!(self.rewrap(self.stock): replace_children, reset_state, try_swapping_with_projection);
    delegate!(self.replace_children: with_new_children);

    fn name(&self) -> &'static str {
        "RingRepartitionExec"
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
        Some(self.metrics.snapshot())
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
