//! The executions of a join, whose output partitions share the build side.

use std::sync::Arc;

use datafusion::{
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_plan::{ExecutionPlanProperties, joins::NestedLoopJoinExec, metrics::ExecutionPlanMetricsSet},
};

use super::{
    build::{BuildFuture, BuildInput},
    method::Method,
    probe::ProbeInput,
    shared_inputs::SharedInputs,
};
use crate::{
    executions::{Executions, OutputPartition},
    join::collect::threads,
};

/// The executions of a plan, of which several may run at once.
pub(super) struct MorselExecutions<M: Method>(Executions<BuildAndInputs<M>>);

type BuildAndInputs<M> = (BuildFuture<M>, Option<Arc<SharedInputs>>);

impl<M: Method> Default for MorselExecutions<M> {
    fn default() -> Self {
        Self(Executions::default())
    }
}

impl<M: Method> MorselExecutions<M> {
    /// Returns the stream of an output partition of a join of the same sides as `stock`.
    ///
    /// # Errors
    /// Those of the sides.
    pub(super) fn execute(
        &self,
        method: &Arc<M>,
        stock: &NestedLoopJoinExec,
        partition: usize,
        context: &Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<SendableRecordBatchStream> {
        let (left, right) = (stock.left(), stock.right());
        let probes = right.output_partitioning().partition_count();
        let own = right.execute(partition, Arc::clone(context))?;
        let start = || {
            let build = BuildInput::new(Arc::clone(method), left, probes, context, metrics)?.start();
            Ok((build, SharedInputs::for_input(right, threads(context))))
        };
        let ((build, shared), ticket) =
            self.0.share(OutputPartition { index: partition, count: probes }, context, start)?;
        let input = match shared {
            Some(shared) => shared.open(partition, own),
            None => own,
        };
        let probe = ProbeInput { method: Arc::clone(method), build, input };
        Ok(ticket.stream(probe.stream(partition, context, metrics)))
    }
}
