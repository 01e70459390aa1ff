//! The operator that keeps the rows of a task in the memory of its worker.

use std::{fmt, sync::Arc};

use annulus_datafusion::delegate;
use datafusion::{
    arrow::array::RecordBatch,
    common::{exec_err, tree_node::TreeNodeRecursion, utils::memory::RecordBatchMemoryCounter},
    error::Result,
    execution::{TaskContext, memory_pool::MemoryConsumer},
    physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
        ReplaceChildrenOptions, SendableRecordBatchStream,
        execution_plan::{Boundedness, EmissionType},
        expressions::Column,
        stream::RecordBatchStreamAdapter,
    },
};
use datafusion_distributed::DistributedTaskContext;
use futures::{StreamExt, stream};

use crate::{
    inserts::{count_batch, count_schema},
    state::{ShareRows, TableInfo, TaskAccess},
    workers::address_of,
};

/// Keeps all rows of its input, and outputs the number of rows of each partition.
#[derive(Debug)]
pub(crate) struct KeepExec {
    input: Arc<dyn ExecutionPlan>,
    table: Arc<TableInfo>,
    /// The number of workers. There is a task on each.
    workers: usize,
    properties: Arc<PlanProperties>,
}

impl KeepExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, table: Arc<TableInfo>, workers: usize) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(count_schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { input, table, workers, properties: Arc::new(properties) }
    }

    pub(crate) fn table(&self) -> &Arc<TableInfo> {
        &self.table
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the columns by which rows are distributed over the workers: all columns if the table has no key.
    pub(crate) fn keys(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let schema = self.input.schema();
        let is_key = |name: &str| self.table.key.is_empty() || self.table.key.iter().any(|key| key == name);
        let keys = schema.fields().iter().enumerate().filter(|(_, field)| is_key(field.name()));
        keys.map(|(index, field)| Arc::new(Column::new(field.name(), index)) as _).collect()
    }
}

impl DisplayAs for KeepExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "KeepExec: table={}, partitioned_by=[{}]", self.table.name, self.table.key.join(", "))
    }
}

impl ExecutionPlan for KeepExec {
    fn name(&self) -> &'static str {
        "KeepExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::KeyPartitioned(self.keys())]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![true]
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
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Arc::new(Self::new(input, Arc::clone(&self.table), self.workers)))
    }

    delegate!(self.replace_children: with_new_children);

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let kept = keep(input, Arc::clone(&self.table), context);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::once(kept))))
    }
}

/// Keeps the rows, and returns their number.
async fn keep(
    mut input: SendableRecordBatchStream,
    table: Arc<TableInfo>,
    context: Arc<TaskContext>,
) -> Result<RecordBatch> {
    let Some(access) = TaskAccess::from_context(&context) else {
        return exec_err!(
            "resident table '{}' cannot be created here: its query must run on workers, which read files",
            table.name
        );
    };
    let memory = MemoryConsumer::new(format!("resident table '{}'", table.name)).register(context.memory_pool());
    let (mut counter, mut batches, mut rows) = (RecordBatchMemoryCounter::new(), Vec::new(), 0);
    while let Some(batch) = input.next().await.transpose()? {
        if batch.num_rows() == 0 {
            continue;
        }
        memory.try_grow(counter.count_batch(&batch)).map_err(|refused| {
            refused.context(format!(
                "resident table '{}' does not fit in the memory of worker {}: allow it more, use more workers, or \
                 drop other tables",
                table.name,
                address_of(&access.worker)
            ))
        })?;
        rows += batch.num_rows() as u64;
        batches.push(batch);
    }
    let index = DistributedTaskContext::from_ctx(&context).task_index;
    access.state.resident.add(&table.id, ShareRows { index, batches, memory }, access.query());
    count_batch(rows)
}
