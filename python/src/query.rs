//! A query that has been planned, and runs when its rows are needed.

use std::{path::PathBuf, sync::Arc};

use annulus_cli::commands::sql::{OutputFile, ResultFormat, checked, start};
use annulus_dataset::number_duplicates;
use anyhow::Context;
use arrow::{
    array::{RecordBatch, RecordBatchReader},
    datatypes::SchemaRef,
};
use datafusion::{
    common::format::ExplainFormat,
    dataframe::DataFrame,
    datasource::{MemTable, ViewTable, source_as_provider},
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::{ExplainOption, Expr, LogicalPlan, LogicalPlanBuilder},
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
    tables::{Table, reads_once},
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
    /// Returns the query of a plan. Columns of the same name are numbered.
    ///
    /// # Errors
    /// If the engine cannot rename them.
    pub fn new(session: SessionHandle, plan: LogicalPlan, sql: String) -> Result<Self, Failure> {
        let is_once = reads_once(&plan);
        Ok(Self { session, plan: with_distinct_names(plan)?, sql, is_once })
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

/// Returns a plan with a name of its own for each column: `x`, `x_1`. Tables and data frames know columns by name.
fn with_distinct_names(plan: LogicalPlan) -> Result<LogicalPlan, Failure> {
    let names: Vec<_> = plan.schema().fields().iter().map(|field| field.name().clone()).collect();
    let numbered = number_duplicates(names.iter().cloned());
    if numbered == names || matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_)) {
        return Ok(plan);
    }
    let columns = plan.schema().columns().into_iter().zip(numbered);
    let columns: Vec<_> = columns.map(|(column, name)| Expr::Column(column).alias(name)).collect();
    Ok(LogicalPlanBuilder::from(plan).project(columns)?.build()?)
}

/// Returns whether the rows of a plan are in an order that an operator below the last one has made.
fn is_sorted_below(plan: &LogicalPlan) -> bool {
    fn is_sorted(plan: &LogicalPlan) -> bool {
        match plan {
            LogicalPlan::Sort(_) => true,
            LogicalPlan::Projection(projection) => is_sorted(&projection.input),
            LogicalPlan::Filter(filter) => is_sorted(&filter.input),
            LogicalPlan::SubqueryAlias(alias) => is_sorted(&alias.input),
            LogicalPlan::Limit(limit) => is_sorted(&limit.input),
            _ => false,
        }
    }
    !matches!(plan, LogicalPlan::Sort(_)) && is_sorted(plan)
}

/// Returns whether a plan has the columns of a table in memory, and computes nothing.
fn is_memory_alone(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_))) && is_memory_alone(&projection.input)
        }
        LogicalPlan::SubqueryAlias(alias) => is_memory_alone(&alias.input),
        LogicalPlan::TableScan(scan) => source_as_provider(&scan.source).is_ok_and(|table| table.is::<MemTable>()),
        _ => false,
    }
}

/// Prepares a plan, whose operators `profile` gets to know.
async fn operators(
    ctx: &SessionContext,
    plan: LogicalPlan,
    profile: &Profile,
) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>), Failure> {
    let (is_sorted, is_memory) = (is_sorted_below(&plan), is_memory_alone(&plan));
    let mut frame = start(ctx, plan).await?;
    if is_sorted || is_memory {
        // DataFusion would spread the rows over threads, and then they come in no order.
        let (mut state, plan) = frame.into_parts();
        let options = state.config_mut().options_mut();
        options.optimizer.enable_round_robin_repartition = false;
        if is_memory {
            options.execution.target_partitions = 1;
        }
        frame = DataFrame::new(state, plan);
    }
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
        Table { provider: Arc::new(ViewTable::new(self.plan.clone(), None)) }
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
        let planned = open.start(async move { run(&ctx, plan, &Profile::default()).await });
        planned.wait(py, || Ok(()))?;
        let stream = planned.end(Some(&self.sql))?;
        Ok(BatchStream::new(self.session.clone(), self.schema_ref(), stream))
    }

    /// Starts to write the rows to the file or object `path`, and counts them. Without a `format`, its name says it.
    fn write(&self, path: PathBuf, format: Option<&str>, overwrite: bool) -> PyResult<Work> {
        let format = format.map(str::parse::<ResultFormat>).transpose();
        let format = format.map_err(|error| OptionError::new_err(error.to_string()))?;
        let (ctx, plan, profile) = (self.session.open()?.ctx(), self.plan.clone(), Profile::default());
        let seen = profile.clone();
        let work = Work::start(&self.session, Some(self.sql.clone()), async move {
            let target = path.display().to_string();
            let file = OutputFile::create(path, format, overwrite).await;
            let file = file.map_err(|error| Failure::new(&error).of_input())?;
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
