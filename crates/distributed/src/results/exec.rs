//! The operator that writes the rows of a task to files.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{
            AtomicU64, AtomicUsize,
            Ordering::{AcqRel, Acquire},
        },
    },
};

use annulus_datafusion::{
    delegate,
    executions::{Executions, OutputPartition},
};
use annulus_dataset::{Collection, OutputError, OutputOptions, WholeDataset, with_plain_text};
use datafusion::{
    common::{exec_datafusion_err, tree_node::TreeNodeRecursion},
    error::{DataFusionError, Result},
    execution::{
        TaskContext,
        memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation},
    },
    physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, ReplaceChildrenOptions,
        SendableRecordBatchStream,
        execution_plan::{Boundedness, EmissionType},
        stream::RecordBatchReceiverStream,
    },
};
use datafusion_distributed::DistributedTaskContext;
use futures::StreamExt;
use parking_lot::{Mutex, RwLock};
use tokio::task::spawn_blocking;

use crate::{
    files::WorkerFiles,
    inserts::{count_batch, count_schema},
    state::{ResultStore, Target, TaskAccess, Writer},
};

/// The memory of each file. A row group that takes as much has enough rows.
const FILE_BYTES: usize = 32 << 20;
/// The files of a task take at most this share of the memory limit.
const MEMORY_SHARE: usize = 8;

/// Writes all rows of its input, and outputs the number of rows of each partition. The files of a task are
/// hidden until the coordinator publishes them.
///
/// Each task writes its own rows, unless the rows are [gathered](Self::gathering) in the coordinator.
#[derive(Debug)]
pub(crate) struct WriteExec {
    input: Arc<dyn ExecutionPlan>,
    target: Arc<Target>,
    /// The parts that the process of the coordinator writes.
    own: Option<ResultStore>,
    gathers: bool,
    properties: Arc<PlanProperties>,
    executions: Executions<Arc<TaskFiles>>,
}

impl WriteExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, target: Arc<Target>, own: Option<ResultStore>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(count_schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let (properties, executions) = (Arc::new(properties), Executions::default());
        Self { input, target, own, gathers: false, properties, executions }
    }

    /// Lets the process of the coordinator write all rows, if `gathers`.
    #[must_use]
    pub(crate) fn gathering(self, gathers: bool) -> Self {
        Self { gathers, ..self }
    }

    pub(crate) fn gathers(&self) -> bool {
        self.gathers
    }

    pub(crate) fn target(&self) -> &Arc<Target> {
        &self.target
    }

    /// Begins the files of a task: one for each partition.
    fn start(&self, context: &Arc<TaskContext>) -> Result<Arc<TaskFiles>> {
        let access = TaskAccess::from_context(context);
        let results = access.as_ref().map(|access| &access.state.results).or(self.own.as_ref()).cloned();
        let results = results.ok_or_else(|| exec_datafusion_err!("a dataset is written without its coordinator"))?;
        let task = DistributedTaskContext::from_ctx(context).task_index;
        let (member, dir) = self.target.member(task);
        if access.is_some() {
            let files = context.session_config().get_extension::<WorkerFiles>().unwrap_or_default();
            // The task's own folder may exist already, as a link.
            files.check_output(&self.target.dir)?;
            files.check_output(&dir)?;
        }
        let partitions = self.properties.partitioning.partition_count();
        let limit = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(limit) => limit / MEMORY_SHARE,
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        let memory = MemoryConsumer::new("WriteExec").register(context.memory_pool());
        let bytes = (FILE_BYTES * partitions).min(limit);
        // A pool that refuses so little does not end the query: files have no other memory.
        memory.try_grow(bytes).ok();
        let writer = results.begin(&self.target, access.map(|access| access.query()))?;
        let Target { format, compression, existing, session, dictionaries, .. } = self.target.as_ref();
        let mut options = OutputOptions::new(dir, *format);
        (options.compression, options.existing) = (*compression, *existing);
        let settings = Collection::member_settings(member, *session);
        let dictionary = |column: usize| dictionaries.get(column).copied().unwrap_or(true);
        let schema = with_plain_text(&self.input.schema());
        let files = WholeDataset::create(&options, settings, schema, partitions, bytes, &dictionary);
        Ok(Arc::new(TaskFiles {
            files: RwLock::new(Some(files.map_err(external)?)),
            target: Arc::clone(&self.target),
            task,
            member,
            results,
            rows: AtomicU64::new(0),
            left: AtomicUsize::new(partitions),
            _memory: memory,
            writer: Mutex::new(writer),
        }))
    }
}

/// The files of a task. They are removed if this is dropped before all partitions have ended.
struct TaskFiles {
    /// `None` after the last partition has completed them.
    files: RwLock<Option<WholeDataset>>,
    target: Arc<Target>,
    task: usize,
    member: usize,
    results: ResultStore,
    rows: AtomicU64,
    /// The partitions that have not written all of their rows.
    left: AtomicUsize,
    _memory: MemoryReservation,
    /// Dropped after the files.
    writer: Mutex<Writer>,
}

impl TaskFiles {
    /// Writes a partition, and returns the number of its rows. The last partition completes the files.
    async fn write(self: Arc<Self>, partition: usize, mut input: SendableRecordBatchStream) -> Result<u64> {
        let mut rows = 0;
        while let Some(batch) = input.next().await.transpose()? {
            // Encodes on the thread that has joined the rows.
            self.with_files(|files| files.write(partition, &batch))?;
            rows += batch.num_rows() as u64;
        }
        self.rows.fetch_add(rows, AcqRel);
        if self.left.fetch_sub(1, AcqRel) == 1 {
            let sealed = spawn_blocking(move || self.seal()).await;
            sealed.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        }
        Ok(rows)
    }

    fn with_files(&self, act: impl FnOnce(&WholeDataset) -> Result<(), OutputError>) -> Result<()> {
        self.files.read().as_ref().map_or(Ok(()), act).map_err(external)
    }

    fn seal(&self) -> Result<()> {
        if self.task == 0 && self.rows.load(Acquire) == 0 {
            // Readers of a result without rows find its columns in this file.
            self.with_files(|files| files.write_columns(0))?;
        }
        let Some(files) = self.files.write().take() else { return Ok(()) };
        self.results.add(&self.target, self.member, files.seal().map_err(external)?, &mut self.writer.lock())
    }
}

impl fmt::Debug for TaskFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskFiles").field("target", &self.target).field("member", &self.member).finish_non_exhaustive()
    }
}

fn external(error: OutputError) -> DataFusionError {
    DataFusionError::External(error.into())
}

impl DisplayAs for WriteExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "WriteExec: output={}, format={}", self.target.dir.display(), self.target.format.name())
    }
}

impl ExecutionPlan for WriteExec {
    fn name(&self) -> &'static str {
        "WriteExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
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
        Ok(Arc::new(Self::new(input, Arc::clone(&self.target), self.own.clone()).gathering(self.gathers)))
    }

    delegate!(self.replace_children: with_new_children);

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties.partitioning.partition_count();
        // First, so that a failure leaves nothing that others would join.
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let (writing, ticket) =
            self.executions
                .share(OutputPartition { index: partition, count: partitions }, &context, || self.start(&context))?;
        let mut stream = RecordBatchReceiverStream::builder(self.schema(), 1);
        let counts = stream.tx();
        stream.spawn(async move {
            let rows = writing.write(partition, input).await?;
            // If nobody waits for it, the query has ended.
            counts.send(count_batch(rows)).await.ok();
            Ok(())
        });
        Ok(ticket.stream(stream.build()))
    }
}
