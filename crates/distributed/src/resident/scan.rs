//! The scan of a resident table.

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::{array::RecordBatch, datatypes::SchemaRef},
    common::{
        ColumnStatistics, Statistics, exec_datafusion_err, exec_err, stats::Precision, tree_node::TreeNodeRecursion,
    },
    error::Result,
    execution::TaskContext,
    physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, SendableRecordBatchStream,
        StatisticsArgs,
        execution_plan::{Boundedness, EmissionType},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
        stream::RecordBatchStreamAdapter,
    },
};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedTaskContext, NetworkBoundaryExt, RouteTasksEvent,
    RouteTasksEventResponse,
};
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    keep::KeepExec,
    rows::{RowsRequest, read_from},
};
use crate::{
    net::Connections,
    state::{Share, SharePart, TableInfo, TaskAccess},
};

/// The shares of a table, and their workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shares {
    pub(crate) table: TableInfo,
    /// The URLs of the workers, by the numbers of their shares.
    pub(crate) workers: Vec<String>,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// Reads the shares of a table. A task reads the share of its own number if there are as many tasks as shares.
/// If that share is not on its worker, the rows come from another one.
#[derive(Debug)]
pub(crate) struct ResidentScanExec {
    shares: Arc<Shares>,
    projection: Option<Vec<usize>>,
    schema: SchemaRef,
    partitions: usize,
    /// The connections of the coordinator.
    connections: Option<Connections>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ResidentScanExec {
    pub(crate) fn new(
        shares: Arc<Shares>,
        projection: Option<Vec<usize>>,
        partitions: usize,
        connections: Option<Connections>,
    ) -> Result<Self> {
        let all = shares.table.schema()?;
        let schema = match &projection {
            Some(columns) => Arc::new(all.project(columns)?),
            None => all,
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { shares, projection, schema, partitions, connections, properties: Arc::new(properties), metrics })
    }

    pub(crate) fn shares(&self) -> &Arc<Shares> {
        &self.shares
    }

    pub(crate) fn projection(&self) -> Option<&Vec<usize>> {
        self.projection.as_ref()
    }

    pub(crate) fn partitions(&self) -> usize {
        self.partitions
    }

    /// Returns the share that is the only one of a task, if it is on the task's worker.
    pub(crate) fn own_share(&self, context: &Arc<TaskContext>) -> Option<Arc<Share>> {
        let access = TaskAccess::from_context(context)?;
        let task = DistributedTaskContext::from_ctx(context);
        let is_own = task.task_count == self.shares.workers.len()
            && self.shares.workers.get(task.task_index).is_some_and(|worker| *worker == access.worker.as_str());
        let table = &self.shares.table;
        if is_own { access.state.resident.share(&table.name, &table.id).ok() } else { None }
    }
}

impl DisplayAs for ResidentScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let names: Vec<_> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let (name, shares) = (&self.shares.table.name, self.shares.workers.len());
        write!(f, "ResidentScanExec: table={name}, shares={shares}, projection=[{}]", names.join(", "))
    }
}

impl ExecutionPlan for ResidentScanExec {
    fn name(&self) -> &'static str {
        "ResidentScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let task = DistributedTaskContext::from_ctx(&context);
        let source = match (TaskAccess::from_context(&context), &self.connections) {
            (Some(access), _) => Source::Worker(access),
            (None, Some(connections)) => Source::Coordinator(connections.clone()),
            (None, None) => {
                return exec_err!("resident table '{}' needs a session with workers", self.shares.table.name);
            }
        };
        let numbers = (task.task_index..self.shares.workers.len()).step_by(task.task_count.max(1));
        let part = SharePart { index: partition, count: self.partitions };
        let shares = Arc::clone(&self.shares);
        let streams = stream::iter(numbers).then(move |number| {
            let (source, shares) = (source.clone(), Arc::clone(&shares));
            async move { source.read(&shares, number, part).await }
        });
        let (projection, metrics) = (self.projection.clone(), BaselineMetrics::new(&self.metrics, partition));
        let batches = streams.try_flatten().map(move |batch| {
            let batch: RecordBatch = batch?;
            metrics.record_output(batch.num_rows());
            Ok(match &projection {
                Some(columns) => batch.project(columns)?,
                None => batch,
            })
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let parts = if args.partition().is_some() { self.partitions.max(1) } else { 1 };
        let rows = self.shares.rows as usize / parts;
        let width = self.shares.table.schema()?.fields().len().max(1);
        let bytes = self.shares.bytes as usize / parts * self.schema.fields().len() / width;
        let precise = |value| if parts == 1 { Precision::Exact(value) } else { Precision::Inexact(value) };
        Ok(Arc::new(Statistics {
            num_rows: precise(rows),
            total_byte_size: Precision::Inexact(bytes),
            column_statistics: vec![ColumnStatistics::new_unknown(); self.schema.fields().len()],
        }))
    }
}

/// The process that reads shares.
#[derive(Clone)]
enum Source {
    Worker(Arc<TaskAccess>),
    Coordinator(Connections),
}

impl Source {
    /// Returns a part of a share, from this worker or another one.
    async fn read(
        &self,
        shares: &Shares,
        number: usize,
        part: SharePart,
    ) -> Result<stream::BoxStream<'static, Result<RecordBatch>>> {
        let worker = shares.workers.get(number).and_then(|worker| Url::parse(worker).ok());
        let worker = worker.ok_or_else(|| exec_datafusion_err!("share {number} has no worker"))?;
        let TableInfo { name, id, .. } = &shares.table;
        if let Self::Worker(access) = self
            && access.worker == worker
        {
            let share = access.state.resident.share(name, id)?;
            let batches: Vec<_> = share.part(part).cloned().map(Ok).collect();
            return Ok(stream::iter(batches).boxed());
        }
        let connections = match self {
            Self::Worker(access) => &access.connections,
            Self::Coordinator(connections) => connections,
        };
        read_from(connections, &worker, &RowsRequest { name: name.clone(), id: id.clone(), part }).await
    }
}

/// Sets the number of tasks of a stage that reads a resident table to the number of its shares, and of a stage
/// that keeps one to the number of workers.
pub(crate) fn with_shares(event: DesiredTaskCountEvent<'_>) -> Option<Result<DesiredTaskCountEventResponse>> {
    let scan = event.plan.downcast_ref::<ResidentScanExec>().map(|scan| scan.shares.workers.len());
    let count = scan.or_else(|| event.plan.downcast_ref().map(KeepExec::workers))?;
    Some(Ok(DesiredTaskCountEventResponse::desired(count)))
}

/// Places the tasks of a stage that reads a resident table on the workers of its shares.
pub(crate) fn route(event: RouteTasksEvent<'_>) -> Option<Result<RouteTasksEventResponse>> {
    let workers = workers_of(event.plan, event.task_count)?;
    let urls: Option<Vec<Url>> = workers.iter().map(|worker| Url::parse(worker).ok()).collect();
    urls.map(|urls| Ok(RouteTasksEventResponse::new(urls)))
}

/// Returns the workers of the first resident table of a stage that has a share for each task.
fn workers_of(plan: &Arc<dyn ExecutionPlan>, tasks: usize) -> Option<Vec<String>> {
    if plan.is_network_boundary() {
        return None;
    }
    if let Some(scan) = plan.downcast_ref::<ResidentScanExec>()
        && scan.shares.workers.len() == tasks
    {
        return Some(scan.shares.workers.clone());
    }
    plan.children().into_iter().find_map(|child| workers_of(child, tasks))
}
