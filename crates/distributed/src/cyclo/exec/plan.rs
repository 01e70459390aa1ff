//! The answers of the operator to DataFusion.

use std::{fmt, sync::Arc};

use annulus_datafusion::{NearestJoinExec, delegate, executions::OutputPartition};
use datafusion::{
    common::internal_datafusion_err,
    error::Result,
    execution::TaskContext,
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, PlanProperties,
        ReplaceChildrenOptions, SendableRecordBatchStream,
        joins::{NestedLoopJoinExec, utils::JoinFilter},
        metrics::{BaselineMetrics, MetricsSet},
        projection::ProjectionExec,
    },
};

use super::{CycloJoinExec, RingPlan};

impl CycloJoinExec {
    /// Returns `plan`, a stock join or a projection of one, with our operator in its place.
    ///
    /// # Errors
    /// If it is neither, or a ring cannot run the join.
    pub(in crate::cyclo) fn replace_stock(
        plan: Arc<dyn ExecutionPlan>,
        ring: &RingPlan,
        why: &Arc<str>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.is::<ProjectionExec>() {
            let inputs = plan.children().into_iter().map(|input| Self::replace_stock(Arc::clone(input), ring, why));
            let inputs = inputs.collect::<Result<_>>()?;
            return plan.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute));
        }
        let ours = Self::try_new(plan, ring.clone(), Arc::clone(why))?;
        let ours = ours.ok_or_else(|| internal_datafusion_err!("a ring cannot run a join with these children"))?;
        Ok(Arc::new(ours))
    }

    fn rewrap(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Self::replace_stock(plan, &self.ring, &self.why)
    }
}

impl DisplayAs for CycloJoinExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let (loops, nearest) =
            (self.stock.downcast_ref::<NestedLoopJoinExec>(), self.stock.downcast_ref::<NearestJoinExec>());
        let filter = loops.and_then(NestedLoopJoinExec::filter).map(JoinFilter::expression);
        let kind = match (loops, nearest) {
            (Some(loops), _) => format!("join_type={:?}", loops.join_type()),
            (_, Some(nearest)) => nearest.facts(),
            _ => String::new(),
        };
        if format == DisplayFormatType::TreeRender {
            writeln!(f, "{kind}")?;
            filter.map_or(Ok(()), |filter| writeln!(f, "condition={filter}"))?;
            return writeln!(f, "by={}", self.join.method());
        }
        write!(f, "CycloJoinExec: {kind}, by={}", self.join.method())?;
        filter.map_or(Ok(()), |filter| write!(f, ", condition={filter}"))?;
        let projection = loops.and_then(|loops| loops.projection().as_deref());
        if let Some(projection) = projection.or_else(|| nearest.and_then(NearestJoinExec::projection)) {
            let schema = self.stock.schema();
            let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            write!(f, ", projection={projection:?} [{}]", names.join(", "))?;
        }
        write!(f, ", stationary=left, rotating=right, why={}", self.why)
    }
}

impl ExecutionPlan for CycloJoinExec {
    delegate!(self.stock:
        children,
        apply_expressions,
        child_stats_requests,
        statistics_from_inputs,
        cardinality_effect,
    );
    delegate!(self.rewrap(self.stock): replace_children, try_swapping_with_projection);
    delegate!(self.replace_children: with_new_children);

    fn name(&self) -> &'static str {
        "CycloJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::UnspecifiedDistribution; 2]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false; 2]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties.partitioning.partition_count();
        let (running, ticket) =
            self.executions
                .share(OutputPartition { index: partition, count: partitions }, &context, || self.start(&context))?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        Ok(ticket.stream(running.stream(self.schema(), metrics)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
