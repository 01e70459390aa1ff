//! A query that starts again if a worker is lost.
//!
//! Its rows are held until it has ended, so nobody sees those of an attempt that fails. It starts again
//!
//! - on the workers that take queries, among them those that were lost before and are back,
//! - in this process, if none is left, but only if one has ever answered,
//! - `annulus.retries` times after a worker was lost. A worker that refuses its plan because it is about to end has
//!   done nothing for it, and does not count.
//!
//! An error of the query is returned at once. If it is not clear whose error it is, the workers are asked.

use std::{fmt, sync::Arc};

use annulus_datafusion::delegate;
use datafusion::{
    common::{
        exec_err, internal_datafusion_err,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    error::{DataFusionError, Result},
    execution::TaskContext,
    physical_expr::PhysicalExpr,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, ReplaceChildrenOptions,
        SendableRecordBatchStream,
        coalesce_partitions::CoalescePartitionsExec,
        execution_plan::{Boundedness, EmissionType},
        metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, SpillMetrics},
        stream::RecordBatchStreamAdapter,
    },
};
use datafusion_distributed::NetworkBoundaryExt;
use futures::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture, stream};
use parking_lot::Mutex;

use super::{attempt_rows::AttemptRows, live::LiveWorkers};
use crate::{
    error::{WorkerError, WorkerErrorKind},
    net::QueryRestarts,
    presence::Survey,
    skipped::tell_skipped,
};

/// The most times that a query starts again because a worker refused its plan.
const REFUSALS: usize = 20;

/// Plans the query again, for the workers that take queries then.
pub(super) type Replan = Arc<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn ExecutionPlan>>> + Send + Sync>;

/// Runs a query on workers, and starts it again if a worker is lost.
pub(super) struct RestartExec {
    first: Arc<dyn ExecutionPlan>,
    query: RepeatableQuery,
    properties: Arc<PlanProperties>,
}

/// A query that can be planned again.
#[derive(Clone)]
pub(super) struct RepeatableQuery {
    replan: Replan,
    workers: Arc<LiveWorkers>,
    retries: usize,
    metrics: ExecutionPlanMetricsSet,
    /// The plan of the last attempt.
    last: Arc<Mutex<Option<Arc<dyn ExecutionPlan>>>>,
}

impl RestartExec {
    /// Returns the operator that runs `first`, which has one partition, and then plans of `replan`.
    pub(super) fn new(
        first: Arc<dyn ExecutionPlan>,
        replan: Replan,
        workers: Arc<LiveWorkers>,
        retries: usize,
    ) -> Self {
        let metrics = ExecutionPlanMetricsSet::new();
        Self::with_query(first, RepeatableQuery { replan, workers, retries, metrics, last: Arc::default() })
    }

    fn with_query(first: Arc<dyn ExecutionPlan>, query: RepeatableQuery) -> Self {
        let properties = PlanProperties::new(
            first.equivalence_properties().clone(),
            first.output_partitioning().clone(),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { first, query, properties: Arc::new(properties) }
    }

    /// Returns the plan of the last attempt; the first one before there is any.
    pub(super) fn last(&self) -> Arc<dyn ExecutionPlan> {
        self.query.last.lock().clone().unwrap_or_else(|| Arc::clone(&self.first))
    }
}

/// A query that runs.
struct RunningAttempts {
    query: RepeatableQuery,
    context: Arc<TaskContext>,
    /// Restarts after a worker was lost, and after one refused a plan.
    lost: usize,
    refused: usize,
    counted: Count,
    spills: SpillMetrics,
}

/// An attempt that failed.
struct FailedAttempt {
    error: DataFusionError,
    /// The identifier of the execution on workers.
    execution: Option<String>,
}

impl RunningAttempts {
    /// Returns the rows of the first attempt that succeeds.
    async fn run(mut self, first: Arc<dyn ExecutionPlan>) -> Result<AttemptRows> {
        let mut plan = first;
        loop {
            *self.query.last.lock() = Some(Arc::clone(&plan));
            let failed = match self.attempt(&plan).await {
                Ok(rows) => {
                    tell_skipped(&plan).await?;
                    return Ok(rows);
                }
                Err(failed) => failed,
            };
            // Its tasks end when nobody reads them.
            plan = self.plan_again(failed).await?;
            self.counted.add(1);
        }
    }

    /// Runs a plan, and drops it if it fails.
    async fn attempt(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<AttemptRows, FailedAttempt> {
        let failed = |error| FailedAttempt { error, execution: None };
        let mut stream = plan.execute(0, self.context_of_attempt()).map_err(failed)?;
        let mut rows = AttemptRows::new(stream.schema(), &self.context, self.spills.clone());
        while let Some(batch) = stream.next().await {
            match batch {
                Ok(batch) => rows.add(batch).map_err(failed)?,
                Err(error) => return Err(FailedAttempt { error, execution: self.execution_of(plan) }),
            }
        }
        Ok(rows)
    }

    /// Returns the context of the attempt that begins, which tells workers how often the query has started again.
    fn context_of_attempt(&self) -> Arc<TaskContext> {
        let context = &self.context;
        let restarts = QueryRestarts(self.lost + self.refused);
        let with_restarts = TaskContext::new(
            context.task_id(),
            context.session_id(),
            context.session_config().clone().with_extension(Arc::new(restarts)),
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            context.runtime_env(),
        );
        Arc::new(with_restarts)
    }

    /// Returns the identifier by which workers know the execution of a plan, while it runs.
    fn execution_of(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
        let mut query = None;
        let found = plan.apply(|node| {
            query = node.as_network_boundary().map(|boundary| boundary.input_stage().query_id());
            Ok(if query.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        });
        found.ok().and(query).and_then(|query| self.query.workers.connections().execution_of(query.as_u128()))
    }

    /// Returns the plan of another attempt.
    ///
    /// # Errors
    /// The error of the attempt, if the query cannot or must not start again.
    async fn plan_again(&mut self, failed: FailedAttempt) -> Result<Arc<dyn ExecutionPlan>> {
        let FailedAttempt { error, execution } = failed;
        let fault = Fault::of_error(&error);
        if fault == Fault::Query {
            return Err(error);
        }
        let workers = Arc::clone(&self.query.workers);
        let (list, before) = (workers.list()?, workers.available()?);
        let suspect = WorkerError::find_in(&error).filter(|_| fault != Fault::Unclear);
        let suspect = suspect.map(|error| error.address.clone());
        let connections = workers.connections();
        let survey = Survey::after_failure(connections.silence(), suspect.as_deref(), execution.as_deref());
        connections.ask_all(&list, survey).await;
        let available = workers.available()?;
        if fault == Fault::Unclear && before.iter().all(|worker| available.contains(worker)) {
            return Err(error);
        }
        if !connections.lost().has_answer() {
            return Err(error);
        }
        let (count, most) = match fault {
            Fault::Stopping => (&mut self.refused, REFUSALS),
            _ => (&mut self.lost, self.query.retries),
        };
        if *count == most {
            return Err(error.context(format!("the query was started {} times", self.lost + self.refused + 1)));
        }
        *count += 1;
        let reason = WorkerError::find_in(&error).map_or_else(|| error.strip_backtrace(), ToString::to_string);
        let plan = (self.query.replan)().await.map_err(|again| again.context(reason.clone()))?;
        let place = match available.len() {
            0 => "in this process, since no worker answers".to_owned(),
            there => format!("on {there} of {} workers", list.len()),
        };
        connections.restarts().tell(&format!("{reason}; the query starts again {place}"));
        in_one_partition(plan)
    }
}

/// Returns a plan with one partition.
fn in_one_partition(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    match plan.output_partitioning().partition_count() {
        0 => exec_err!("a query without partitions cannot start again"),
        1 => Ok(plan),
        _ => Ok(Arc::new(CoalescePartitionsExec::new(plan))),
    }
}

/// Returns the child of an operator that has one.
///
/// # Errors
/// If it has none, or several.
pub(super) fn only_child(name: &str, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    let [child] = <[_; 1]>::try_from(children).map_err(|_| internal_datafusion_err!("{name} needs one child"))?;
    Ok(child)
}

/// What is at fault for an error of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The query: it would fail again.
    Query,
    /// A worker that does not answer, or whose connection broke.
    Lost,
    /// A worker that takes no more queries.
    Stopping,
    /// The query, or a worker that another one has missed.
    Unclear,
}

impl Fault {
    fn of_error(error: &DataFusionError) -> Self {
        match WorkerError::find_in(error).map(|error| error.kind) {
            Some(WorkerErrorKind::Lost) => return Self::Lost,
            Some(WorkerErrorKind::Stopping) => return Self::Stopping,
            Some(WorkerErrorKind::Query) | None => {}
        }
        let source = WorkerError::find_in(error).map_or(error, |error| &error.source);
        match source.find_root() {
            DataFusionError::ResourcesExhausted(_)
            | DataFusionError::ArrowError(..)
            | DataFusionError::ParquetError(_)
            | DataFusionError::ObjectStore(_)
            | DataFusionError::SQL(..)
            | DataFusionError::Plan(_)
            | DataFusionError::SchemaError(..)
            | DataFusionError::Configuration(_)
            | DataFusionError::NotImplemented(_) => Self::Query,
            _ => Self::Unclear,
        }
    }
}

impl fmt::Debug for RestartExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestartExec").field("first", &self.first).finish_non_exhaustive()
    }
}

impl DisplayAs for RestartExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "RestartExec: limit={}", self.query.retries)
    }
}

impl ExecutionPlan for RestartExec {
    delegate!(self.replace_children: with_new_children);

    fn name(&self) -> &'static str {
        "RestartExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.first]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::with_query(only_child(self.name(), children)?, self.query.clone())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition > 0 {
            return exec_err!("a query that may start again has one partition, but partition {partition} is read");
        }
        let attempts = RunningAttempts {
            query: self.query.clone(),
            context,
            lost: 0,
            refused: 0,
            counted: MetricBuilder::new(&self.query.metrics).global_counter("retries"),
            spills: SpillMetrics::new(&self.query.metrics, 0),
        };
        let first = Arc::clone(&self.first);
        let rows = async move { attempts.run(first).await?.into_stream() };
        let rows = stream::once(rows.boxed()).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.query.metrics.clone_inner())
    }
}
