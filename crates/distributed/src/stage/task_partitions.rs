//! The operator that gives each task of the next stage its own partitions.

use std::{fmt, sync::Arc};

use annulus_datafusion::{delegate, task_of_partition};
use datafusion::{
    common::{internal_err, tree_node::TreeNodeRecursion},
    error::Result,
    execution::TaskContext,
    physical_expr::{Partitioning, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, EmptyRecordBatchStream, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
        ReplaceChildrenOptions, SendableRecordBatchStream,
    },
};

/// Returns the partitions of its input for each of several tasks, one task after the other. A partition has rows for
/// one task alone, that which reads the partition of this number in tables.
///
/// ```text
/// input               0  1  2             partition p is for task p % tasks
///                     |  |  |
/// output, 2 tasks     0  -  2    -  1  -
///                     task 0     task 1
/// ```
#[derive(Debug)]
pub(crate) struct TaskPartitionsExec {
    input: Arc<dyn ExecutionPlan>,
    tasks: usize,
    properties: Arc<PlanProperties>,
}

impl TaskPartitionsExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, tasks: usize) -> Self {
        let own = input.properties();
        let partitions = Partitioning::UnknownPartitioning(own.output_partitioning().partition_count() * tasks);
        let properties = PlanProperties::clone(own).with_partitioning(partitions);
        Self { input, tasks, properties: Arc::new(properties) }
    }

    /// Returns the number of tasks that read the partitions.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks
    }
}

impl DisplayAs for TaskPartitionsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let partitions = self.input.output_partitioning().partition_count();
        write!(f, "TaskPartitionsExec: partitions={partitions}, tasks={}", self.tasks)
    }
}

impl ExecutionPlan for TaskPartitionsExec {
    fn name(&self) -> &'static str {
        "TaskPartitionsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self::new(input, self.tasks))),
            _ => internal_err!("TaskPartitionsExec needs one child"),
        }
    }

    delegate!(self.replace_children: with_new_children);

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.input.output_partitioning().partition_count().max(1);
        let (task, place) = (partition / partitions, partition % partitions);
        if task_of_partition(place, self.tasks) == task {
            return self.input.execute(place, context);
        }
        Ok(Box::pin(EmptyRecordBatchStream::new(self.schema())))
    }
}
