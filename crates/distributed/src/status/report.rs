//! The activity of a worker.

use std::{collections::BTreeMap, sync::Arc};

use annulus_roundabout::secure::Role;
use datafusion::{
    error::Result,
    execution::{memory_pool::MemoryLimit, runtime_env::RuntimeEnv},
    physical_plan::{ExecutionPlan, displayable},
};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::{
    net::{Ask, AskService, Connections},
    state::{QueryActivity, TaskPlan, Totals, WorkerActivity, WorkerQueries, counters_of},
};

/// The activity of a worker at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkerReport {
    /// The version of Annulus.
    pub version: String,
    /// Whether it accepts queries, because it is not stopping.
    pub ready: bool,
    /// The seconds since it began to serve.
    pub uptime_seconds: f64,
    /// The queries that have begun.
    pub queries_total: u64,
    /// The tasks that have begun.
    pub tasks_total: u64,
    /// The tasks that were refused.
    pub refused_total: u64,
    /// The memory that operators have reserved, in bytes.
    pub memory_bytes: u64,
    /// The memory for operators, in bytes; none without a limit.
    pub memory_limit_bytes: Option<u64>,
    /// The bytes on disk that operators have spilled.
    pub disk_bytes: u64,
    /// The most bytes that operators may spill.
    pub disk_limit_bytes: u64,
    /// The queries that run.
    pub queries: Vec<QueryReport>,
}

/// A query that runs on a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QueryReport {
    /// The query: the same on all of its workers.
    pub id: String,
    /// The name in the submitter's certificate, if connections are encrypted.
    pub submitter: Option<String>,
    /// The seconds since its first task began here.
    pub seconds: f64,
    /// The number of times that it has started again because a worker was lost or took no more queries.
    #[serde(default)]
    pub restarts: usize,
    /// Its tasks here.
    pub tasks: usize,
    /// The plans of these tasks.
    pub plans: Vec<TaskReport>,
}

/// A task of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskReport {
    /// The task's number in its stage, from 0.
    pub task: usize,
    /// The number of tasks of its stage, on all workers.
    pub of: usize,
    /// Its operators, from the head of the stage downwards.
    pub operators: Vec<OperatorReport>,
}

/// An operator of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OperatorReport {
    /// The number of operators above it.
    pub depth: usize,
    /// The operator, as `EXPLAIN` shows it.
    pub text: String,
    /// Its counters at this moment. Times are in seconds.
    pub metrics: BTreeMap<String, f64>,
}

/// A handle of a worker, for reports about it.
#[derive(Clone, Debug)]
pub struct WorkerStatus {
    queries: WorkerQueries,
    runtime: Arc<RuntimeEnv>,
}

/// A request for a report.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct ReportRequest;

impl Ask for ReportRequest {
    const NAME: &'static str = "Report";
    type Answer = WorkerReport;

    fn needed_role(&self) -> Option<(Role, &'static str)> {
        Some((Role::Submitter, "see queries"))
    }
}

/// Lets a worker answer requests for reports.
pub(crate) fn serve(asks: AskService, status: WorkerStatus) -> AskService {
    asks.with(move |_: ReportRequest, _| std::future::ready(Ok(status.report())))
}

impl WorkerReport {
    /// Returns the report of the worker at `url`. With certificates, submitters alone may ask.
    ///
    /// # Errors
    /// If it cannot be reached, or refuses. The error names it.
    pub async fn ask(connections: &Connections, url: &Url) -> Result<Self> {
        connections.ask(url, &ReportRequest).await
    }
}

impl WorkerStatus {
    pub(crate) fn new(queries: WorkerQueries, runtime: Arc<RuntimeEnv>) -> Self {
        Self { queries, runtime }
    }

    /// Returns whether the worker accepts queries.
    pub(super) fn is_ready(&self) -> bool {
        self.queries.is_ready()
    }

    /// Returns the report.
    pub fn report(&self) -> WorkerReport {
        self.with_totals().0
    }

    /// Returns the report, and the counters of all operators.
    pub(super) fn with_totals(&self) -> (WorkerReport, Totals) {
        let Self { queries, runtime } = self;
        let WorkerActivity { is_ending, uptime, queries, counts, totals } = queries.activity();
        let memory_limit = match runtime.memory_pool.memory_limit() {
            MemoryLimit::Finite(bytes) => Some(bytes as u64),
            MemoryLimit::Infinite | MemoryLimit::Unknown => None,
        };
        let report = WorkerReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ready: !is_ending,
            uptime_seconds: uptime.as_secs_f64(),
            queries_total: counts.queries,
            tasks_total: counts.tasks,
            refused_total: counts.refused,
            memory_bytes: runtime.memory_pool.reserved() as u64,
            memory_limit_bytes: memory_limit,
            disk_bytes: runtime.disk_manager.used_disk_space(),
            disk_limit_bytes: runtime.disk_manager.max_temp_directory_size(),
            queries: queries.into_iter().map(|(id, running)| QueryReport::new(id, &running)).collect(),
        };
        (report, totals)
    }
}

impl QueryReport {
    fn new(id: String, running: &QueryActivity) -> Self {
        let task = |TaskPlan { task, count, plan }: &TaskPlan| {
            let mut operators = Vec::new();
            walk(plan, 0, &mut operators);
            TaskReport { task: *task, of: *count, operators }
        };
        Self {
            id,
            submitter: running.submitter.clone(),
            seconds: running.since.elapsed().as_secs_f64(),
            restarts: running.restarts,
            tasks: running.tasks,
            plans: running.plans.iter().map(task).collect(),
        }
    }
}

/// Adds the operators of a plan.
fn walk(plan: &Arc<dyn ExecutionPlan>, depth: usize, into: &mut Vec<OperatorReport>) {
    let text = displayable(plan.as_ref()).one_line().to_string().trim_end().to_owned();
    into.push(OperatorReport { depth, text, metrics: counters_of(plan).into_iter().collect() });
    plan.children().into_iter().for_each(|child| walk(child, depth + 1, into));
}
