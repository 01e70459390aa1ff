//! The operator for subplans that a plan has several times.

mod rows;

use std::{
    fmt,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use datafusion::{
    common::{Statistics, internal_datafusion_err, internal_err, runtime::SpawnedTask, tree_node::TreeNodeRecursion},
    error::Result,
    execution::{TaskContext, memory_pool::MemoryConsumer},
    physical_expr::PhysicalExpr,
    physical_plan::{
        ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
        SendableRecordBatchStream, StatisticsArgs,
        execution_plan::CardinalityEffect,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use self::rows::{CommonRows, Role};
use crate::{
    delegate,
    executions::{Executions, OutputPartition},
};

/// Runs a subplan that a plan has several times once for all of them.
///
/// ```text
/// CommonSubplanExec, reader 0 ─┐
///                              ├─ the rows of the input of the reader that begins first
/// CommonSubplanExec, reader 1 ─┘
/// ```
/// Each has its own copy of the subplan as its input, but only that of the first one runs. Batches are kept until all
/// readers have read them, in memory that is accounted for. If there is none for a batch, the readers that have not
/// begun run their own copies. A rule inserts the operator above groupings, whose rows were in memory already.
///
/// Dynamic filters of operators above stay above: the other readers may need the rows.
#[derive(Debug)]
pub struct CommonSubplanExec {
    input: Arc<dyn ExecutionPlan>,
    subplan: Arc<CommonSubplan>,
    reader: usize,
    metrics: ExecutionPlanMetricsSet,
}

/// What the operators with the same subplan share.
#[derive(Debug)]
pub(crate) struct CommonSubplan {
    number: usize,
    readers: AtomicUsize,
    executions: Executions<Arc<Execution>>,
}

impl CommonSubplan {
    /// Creates a subplan that no operator has. `EXPLAIN` shows its number.
    pub fn new(number: usize) -> Self {
        Self { number, readers: AtomicUsize::new(0), executions: Executions::default() }
    }

    fn readers(&self) -> usize {
        // It is set while the plan is made.
        self.readers.load(Ordering::Relaxed)
    }
}

/// An execution of the subplan for all readers.
#[derive(Debug)]
struct Execution {
    rows: CommonRows,
    /// What runs for all: the copy of a reader that has begun.
    input: OnceLock<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)>,
    /// The writers of the partitions that were begun. They end with the last reader.
    writers: Mutex<Vec<Option<SpawnedTask<()>>>>,
}

impl CommonSubplanExec {
    /// Returns the operator that reads what `subplan` is, with a copy of it as its input.
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, subplan: Arc<CommonSubplan>) -> Self {
        let reader = subplan.readers.fetch_add(1, Ordering::Relaxed);
        Self { input, subplan, reader, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl Execution {
    fn new(readers: usize, partitions: usize, context: &TaskContext) -> Self {
        let reservation = MemoryConsumer::new("CommonSubplanExec").register(context.memory_pool());
        let writers = (0..partitions).map(|_| None).collect();
        Self {
            rows: CommonRows::new(readers, partitions, reservation),
            input: OnceLock::new(),
            writers: Mutex::new(writers),
        }
    }

    /// Starts the writer of a partition, unless it has been started.
    fn start(self: &Arc<Self>, partition: usize) -> Result<()> {
        let mut writers = self.writers.lock();
        if writers[partition].is_some() {
            return Ok(());
        }
        let Some((input, context)) = self.input.get() else {
            return internal_err!("a common subplan has begun without an input");
        };
        let rows = input.execute(partition, Arc::clone(context))?;
        let writer = Writer { execution: Arc::downgrade(self), partition };
        writers[partition] = Some(SpawnedTask::spawn(writer.write(rows)));
        Ok(())
    }
}

/// Writes the rows of a partition, as long as there are readers. It ends the partition in any case.
struct Writer {
    execution: Weak<Execution>,
    partition: usize,
}

impl Writer {
    async fn write(self, mut rows: SendableRecordBatchStream) {
        while let Some(batch) = rows.next().await {
            let Some(execution) = self.execution.upgrade() else { return };
            match batch {
                Ok(batch) => execution.rows.append(self.partition, batch).await,
                Err(error) => return execution.rows.end(self.partition, Some(error)),
            }
        }
        if let Some(execution) = self.execution.upgrade() {
            execution.rows.end(self.partition, None);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Not the first end, unless the subplan has panicked.
        if let Some(execution) = self.execution.upgrade() {
            let error = internal_datafusion_err!("a common subplan did not end");
            execution.rows.end(self.partition, Some(error));
        }
    }
}

/// A reader's part in a partition, from its execution on.
struct Part {
    execution: Arc<Execution>,
    input: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    reader: usize,
    partition: usize,
}

impl Part {
    /// Returns the rows of the partition.
    fn read(self) -> Result<SendableRecordBatchStream> {
        let execution = Arc::clone(&self.execution);
        if execution.rows.begin(self.reader) == Role::Alone {
            let (input, context, partition) = (Arc::clone(&self.input), Arc::clone(&self.context), self.partition);
            drop(self);
            return input.execute(partition, context);
        }
        execution.input.get_or_init(|| (Arc::clone(&self.input), Arc::clone(&self.context)));
        execution.start(self.partition)?;
        let schema = self.input.schema();
        let rows = stream::try_unfold(self, |part| async move {
            let batch = part.execution.rows.next(part.reader, part.partition).await?;
            Ok(batch.map(|batch| (batch, part)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.execution.rows.leave(self.reader, self.partition);
    }
}

impl DisplayAs for CommonSubplanExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let (number, readers) = (self.subplan.number, self.subplan.readers());
        match format {
            DisplayFormatType::TreeRender => writeln!(f, "subplan={number}\nreaders={readers}"),
            _ => write!(f, "CommonSubplanExec: subplan={number}, readers={readers}"),
        }
    }
}

impl ExecutionPlan for CommonSubplanExec {
    delegate!(self.input: properties);
    delegate!(self.replace_children: with_new_children);

    fn name(&self) -> &str {
        "CommonSubplanExec"
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
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => {
                let (subplan, metrics) = (Arc::clone(&self.subplan), ExecutionPlanMetricsSet::new());
                Ok(Arc::new(Self { input, subplan, reader: self.reader, metrics }))
            }
            _ => internal_err!("CommonSubplanExec needs one child"),
        }
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (readers, partitions) = (self.subplan.readers(), self.input.output_partitioning().partition_count());
        let output = OutputPartition { index: self.reader * partitions + partition, count: readers * partitions };
        let start = || Ok(Arc::new(Execution::new(readers, partitions, &context)));
        let (execution, ticket) = self.subplan.executions.share(output, &context, start)?;
        let part = Part {
            execution,
            input: Arc::clone(&self.input),
            context: Arc::clone(&context),
            reader: self.reader,
            partition,
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        // It begins when it is asked for rows: a reader that has not begun can still run its own copy.
        let rows = stream::once(async move { part.read() }).try_flatten();
        let rows = rows.map_ok(move |batch| batch.record_output(&metrics));
        Ok(ticket.stream(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
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
