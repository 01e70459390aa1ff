//! A query that has been planned, and runs when its rows are needed.

use std::{path::PathBuf, sync::Arc};

use annulus_cli::commands::sql::{OutputFile, checked, start};
use anyhow::Context;
use arrow::{
    array::{RecordBatch, RecordBatchReader},
    datatypes::SchemaRef,
};
use datafusion::{
    common::format::ExplainFormat,
    datasource::ViewTable,
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::{ExplainOption, LogicalPlan, LogicalPlanBuilder},
    physical_plan::{execute_stream, execute_stream_partitioned, execution_plan::ExecutionPlan},
    prelude::SessionContext,
};
use futures::TryStreamExt;
use pyo3::{prelude::*, types::PyCapsule};
use tokio::task::JoinSet;

use crate::{
    capsule,
    errors::{Failure, OptionError},
    handle::SessionHandle,
    profile::Profile,
    rows::{BatchStream, Rows, Schema},
    tables::Table,
    task::Task,
    work::Work,
};

/// The plan of a query.
#[pyclass(frozen, module = "annulus_data._internal")]
pub struct Query {
    session: SessionHandle,
    plan: LogicalPlan,
    /// The text of the query, in which errors have a place.
    sql: String,
    /// Whether it reads a stream that can be read once only.
    #[pyo3(get)]
    pub is_once: bool,
}

impl Query {
    pub fn new(session: SessionHandle, plan: LogicalPlan, sql: String, is_once: bool) -> Self {
        Self { session, plan, sql, is_once }
    }

    fn schema_ref(&self) -> SchemaRef {
        Arc::clone(self.plan.schema().inner())
    }

    /// Returns the plan of the first rows, or of all.
    fn first(&self, rows: Option<usize>) -> Result<LogicalPlan, Failure> {
        match rows {
            None => Ok(self.plan.clone()),
            Some(_) => Ok(LogicalPlanBuilder::from(self.plan.clone()).limit(0, rows)?.build()?),
        }
    }
}

/// Prepares a plan, whose operators `profile` gets to know.
async fn operators(
    ctx: &SessionContext,
    plan: LogicalPlan,
    profile: &Profile,
) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>), Failure> {
    let frame = start(ctx, plan).await?;
    let task = Arc::new(frame.task_ctx());
    let operators: Arc<dyn ExecutionPlan> = frame.create_physical_plan().await?;
    profile.begin(&operators);
    Ok((operators, task))
}

/// Starts a plan, whose rows come as they are made.
async fn run(ctx: &SessionContext, plan: LogicalPlan, profile: &Profile) -> Result<SendableRecordBatchStream, Failure> {
    let (operators, task) = operators(ctx, plan, profile).await?;
    Ok(checked(execute_stream(operators, task)?))
}

/// Runs a plan, and returns the rows of its first partition, then those of the second, and so on: in the order of
/// a table, if the query only drops rows and computes columns.
async fn collect(ctx: &SessionContext, plan: LogicalPlan, profile: &Profile) -> Result<Vec<RecordBatch>, Failure> {
    let (operators, task) = operators(ctx, plan, profile).await?;
    let mut running = JoinSet::new();
    for (partition, rows) in execute_stream_partitioned(operators, task)?.into_iter().enumerate() {
        let rows = checked(rows);
        running.spawn(async move { rows.try_collect().await.map(|batches: Vec<_>| (partition, batches)) });
    }
    let mut partitions = Vec::new();
    while let Some(collected) = running.join_next().await {
        partitions.push(collected.map_err(anyhow::Error::from)??);
    }
    partitions.sort_by_key(|(partition, _)| *partition);
    Ok(partitions.into_iter().flat_map(|(_, batches)| batches).collect())
}

#[pymethods]
impl Query {
    /// The columns of the rows.
    #[getter]
    fn schema(&self) -> Schema {
        Schema(self.schema_ref())
    }

    /// The query as a table, whose rows are made when they are needed.
    fn as_table(&self) -> Table {
        Table { provider: Arc::new(ViewTable::new(self.plan.clone(), None)), is_once: self.is_once }
    }

    /// Starts to collect the rows, or the first ones.
    #[pyo3(signature = (first=None))]
    fn collect(&self, first: Option<usize>) -> PyResult<Work> {
        let (ctx, plan) = (self.session.open()?.ctx(), self.first(first));
        let (profile, schema) = (Profile::default(), self.schema_ref());
        let seen = profile.clone();
        let work = Work::start(&self.session, Some(self.sql.clone()), async move {
            Ok(Rows::new(schema, collect(&ctx, plan?, &seen).await?))
        })?;
        Ok(work.with_progress(profile))
    }

    /// Starts to count the rows.
    fn count(&self) -> PyResult<Work> {
        let (ctx, plan) = (self.session.open()?.ctx(), self.plan.clone());
        Work::start(
            &self.session,
            Some(self.sql.clone()),
            async move { Ok(start(&ctx, plan).await?.count().await? as u64) },
        )
    }

    /// Returns the rows, batch by batch, as they are made.
    fn batches(&self, py: Python<'_>) -> PyResult<BatchStream> {
        let open = self.session.open()?;
        let (ctx, plan) = (open.ctx(), self.plan.clone());
        let planned = Task::start(&open.handle(), async move { run(&ctx, plan, &Profile::default()).await });
        planned.wait(py, || Ok(()))?;
        let stream = planned.end(Some(&self.sql))?;
        Ok(BatchStream::new(self.session.clone(), self.schema_ref(), stream))
    }

    /// Starts to write the rows to the file or object `path`, and counts them.
    fn write(&self, path: PathBuf, overwrite: bool) -> PyResult<Work> {
        let (ctx, plan, profile) = (self.session.open()?.ctx(), self.plan.clone(), Profile::default());
        let seen = profile.clone();
        let work = Work::start(&self.session, Some(self.sql.clone()), async move {
            let target = path.display().to_string();
            let file = OutputFile::create(path, overwrite).await?;
            let rows = run(&ctx, plan, &seen).await?;
            let count = file.write(rows, &ctx).await.with_context(|| format!("cannot write '{target}'"))?;
            Ok(count as u64)
        })?;
        Ok(work.with_progress(profile))
    }

    /// Starts to explain the query, or to run it and say what its operators did.
    fn explain(&self, analyze: bool, format: &str) -> PyResult<Work> {
        let format = match format {
            "tree" => ExplainFormat::Tree,
            "indent" => ExplainFormat::Indent,
            other => return Err(OptionError::new_err(format!("invalid format '{other}': expected tree or indent"))),
        };
        let (ctx, plan) = (self.session.open()?.ctx(), self.plan.clone());
        Work::start(&self.session, Some(self.sql.clone()), async move {
            let option = ExplainOption::default().with_analyze(analyze);
            let option = if analyze { option } else { option.with_format(format) };
            let explained = start(&ctx, plan).await?.explain_with_options(option)?;
            let batches = explained.collect().await?;
            Ok(crate::rows::last_texts(&batches))
        })
    }

    /// Starts to run the query, whose rows are dropped, and says as JSON what each operator did.
    fn profile(&self) -> PyResult<Work> {
        let (ctx, plan, profile) = (self.session.open()?.ctx(), self.plan.clone(), Profile::default());
        let seen = profile.clone();
        let work = Work::start(&self.session, Some(self.sql.clone()), async move {
            let mut rows = run(&ctx, plan, &seen).await?;
            while rows.try_next().await?.is_some() {}
            Ok(seen.json())
        })?;
        Ok(work.with_progress(profile))
    }

    /// Returns the rows as a stream of Arrow arrays, which are made when they are read.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer casts what it wants to have otherwise, as the interface allows.
        drop(requested_schema);
        let reader: Box<dyn RecordBatchReader + Send> = Box::new(self.batches(py)?.into_reader());
        capsule::stream(py, reader)
    }
}
