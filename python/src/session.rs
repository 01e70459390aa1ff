//! A session: its threads, its tables, and its statements.

use std::{
    collections::HashMap,
    env,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use annulus_cli::{
    cluster::{ClusterArgs, parse_workers},
    commands::{
        partition::{self, SplitProgress},
        sql::{Script, ScriptStatement, SessionSpec, checked, explain, plan, start, table_of},
    },
    program,
    session::Limits,
    spill::SpillFolder,
    units::{Setting, parse_size},
};
use annulus_dataset::{BadRows, CancelToken, InputOptions};
use anyhow::{Result, bail};
use datafusion::{
    catalog::MemTable,
    common::{ParamValues, TableReference},
    config::ConfigOptions,
    logical_expr::LogicalPlan,
    prelude::SessionContext,
};
use futures::TryStreamExt;
use pyo3::prelude::*;
use tokio::runtime::Builder;

use crate::{
    bound::{BoundTables, state_with},
    closing::Closing,
    errors::{Failure, OptionError},
    functions,
    handle::{SessionHandle, SessionParts, WorkerProcesses},
    parameters,
    query::Query,
    tables::Table,
    task::Task,
    work::{Progress, Work},
};

/// A session.
#[pyclass(frozen, module = "annulus_data._internal")]
pub struct Session(SessionHandle);

/// What a session is opened with, as it was given.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    threads: Option<usize>,
    memory_limit: Option<String>,
    disk_limit: Option<String>,
    spill_folder: Option<PathBuf>,
    settings: Vec<Setting>,
    workers: Option<String>,
    local_workers: Option<usize>,
    certificates: Option<PathBuf>,
    silence: Option<f64>,
    retries: Option<usize>,
}

impl Options {
    fn limits(&self) -> Result<Limits, String> {
        let size = |name: &str, text: &Option<String>| {
            text.as_deref().map(parse_size).transpose().map_err(|error| format!("{name}: {error}"))
        };
        Ok(Limits {
            target_partitions: self.threads,
            memory_bytes: size("memory_limit", &self.memory_limit)?,
            disk_bytes: size("disk_limit", &self.disk_limit)?,
        })
    }

    fn cluster(&self) -> Result<ClusterArgs, String> {
        let workers = self.workers.as_deref().map(parse_workers).transpose();
        let silence = self.silence.map(Duration::try_from_secs_f64).transpose();
        Ok(ClusterArgs {
            workers: workers.map_err(|error| format!("workers: {error}"))?,
            cluster: self.local_workers,
            certificates: self.certificates.clone(),
            name: None,
            silence: silence.map_err(|error| format!("silence: {error}"))?,
            retries: self.retries,
        })
    }
}

impl Session {
    pub fn handle(&self) -> SessionHandle {
        self.0.clone()
    }
}

#[pymethods]
impl Session {
    #[new]
    fn new(py: Python<'_>, options: Options) -> PyResult<Self> {
        let limits = options.limits().map_err(OptionError::new_err)?;
        let cluster = options.cluster().map_err(OptionError::new_err)?;
        // A session is idle for seconds, as a program is.
        program::keep_freed();
        let made = py.detach(|| -> Result<_> {
            let folder = options.spill_folder.clone().unwrap_or_else(env::temp_dir);
            let spill = SpillFolder::create(&folder)?;
            let mut builder = Builder::new_multi_thread();
            if let Some(threads) = options.threads {
                builder.worker_threads(threads);
            }
            let runtime = builder.thread_name("annulus").enable_all().build()?;
            let workers = match cluster.is_given() {
                true => Some(WorkerProcesses::start(cluster, limits.memory_bytes)?),
                false => None,
            };
            Ok((spill, runtime, workers))
        });
        let (spill, runtime, workers) = made.map_err(|error| Failure::new(&error).into_python(None))?;
        let remote = workers.as_ref().and_then(WorkerProcesses::remote).cloned();
        let (path, settings) = (spill.path().to_owned(), options.settings);
        let (signal, closing) = Closing::new();
        let opened = Task::start(runtime.handle(), closing.clone(), async move {
            let mut config = ConfigOptions::from_env()?;
            config.sql_parser.collect_spans = true;
            let input = InputOptions::default();
            let spec = SessionSpec { options: config, types: None, limits, input: &input, remote: remote.as_ref() };
            spec.open(&path, &settings).await.map_err(|error| Failure::new(&error).of_option())
        });
        opened.wait(py, || Ok(()))?;
        let (ctx, inputs) = opened.end(None)?;
        ctx.state_ref().write().config_mut().set_extension(Arc::new(closing));
        Ok(Self(SessionHandle::new(SessionParts {
            contexts: Arc::new(ctx.clone()),
            ctx,
            inputs,
            closing: signal,
            runtime,
            workers,
            spill,
        })))
    }

    /// Returns the names of tables in statements that stand alone, as `orders` in `FROM orders`.
    fn names(&self, sql: &str) -> PyResult<Vec<String>> {
        let ctx = self.0.open()?.ctx();
        // What cannot be parsed is reported when it is run.
        let statements = Script::typed(sql).parse(&ctx).unwrap_or_default();
        let state = ctx.state();
        let mut names = Vec::new();
        for placed in statements {
            let ScriptStatement::Stock(statement) = placed.statement else { continue };
            let tables = state.resolve_table_references(&statement).unwrap_or_default();
            names.extend(tables.into_iter().filter_map(|table| match table {
                TableReference::Bare { table } => Some(table.to_string()),
                _ => None,
            }));
        }
        Ok(names)
    }

    /// Returns whether the session has a table of this name.
    fn has_table(&self, name: &str) -> PyResult<bool> {
        let ctx = self.0.open()?.ctx();
        Ok(ctx.table_exist(TableReference::bare(name)).unwrap_or(false))
    }

    /// Starts statements, in which tables have the names under which they were `given`, and `found` as variables
    /// of the caller, and placeholders the values of `params`. The last one becomes a query, if it is one.
    #[pyo3(signature = (sql, given, found, params=None))]
    fn sql(
        &self,
        py: Python<'_>,
        sql: String,
        given: HashMap<String, Py<Table>>,
        found: HashMap<String, Py<Table>>,
        params: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Work> {
        let ctx = self.0.open()?.ctx();
        let params = params.map(parameters::values_of).transpose()?;
        let providers = |tables: HashMap<String, Py<Table>>| {
            tables.into_iter().map(|(name, table)| (name, Arc::clone(&table.get().provider))).collect()
        };
        let tables = Arc::new(BoundTables { given: providers(given), found: providers(found) });
        let (session, text) = (self.0.clone(), sql.clone());
        py.detach(|| {
            Work::start(&self.0, Some(text.clone()), async move {
                let rows = run_all(&ctx, &text, &tables, params.as_ref()).await?;
                rows.map(|plan| Query::new(session, plan, text)).transpose()
            })
        })
    }

    /// Starts to open files, which become a query.
    fn read(&self, paths: Vec<String>, options: Vec<(String, String)>) -> PyResult<Work> {
        let open = self.0.open()?;
        let (ctx, inputs, session) = (open.ctx(), open.inputs(), self.0.clone());
        let mut input = InputOptions::default();
        for (name, value) in &options {
            input.set(name, value).map_err(|error| OptionError::new_err(error.to_string()))?;
        }
        if input.on_bad_row == BadRows::Quarantine {
            return Err(OptionError::new_err(
                "on_bad_row is quarantine, which only partition has: expected fail or skip",
            ));
        }
        Work::start(&self.0, None, async move {
            let table = table_of(&ctx.state(), &inputs, &paths, &input).await;
            let table = table.map_err(|error| Failure::new(&error).of_input())?;
            Query::new(session, ctx.read_table(table)?.into_unoptimized_plan(), String::new())
        })
    }

    /// Gives a table a name until it is dropped. Another table of this name is replaced.
    fn register(&self, name: &str, table: &Table) -> PyResult<()> {
        let ctx = self.0.open()?.ctx();
        let named = TableReference::bare(name);
        let registered = ctx.deregister_table(named.clone());
        let registered = registered.and_then(|_| ctx.register_table(named, Arc::clone(&table.provider)));
        registered.map(drop).map_err(|error| Failure::from(error).into_python(None))
    }

    /// Takes a table's name away, and returns whether it had one.
    fn deregister(&self, name: &str) -> PyResult<bool> {
        let ctx = self.0.open()?.ctx();
        let found = ctx.deregister_table(TableReference::bare(name));
        found.map(|found| found.is_some()).map_err(|error| Failure::from(error).into_python(None))
    }

    /// Adds a function over columns.
    fn create_function(
        &self,
        name: &str,
        function: Py<PyAny>,
        arguments: Vec<Bound<'_, PyAny>>,
        returns: &Bound<'_, PyAny>,
        is_volatile: bool,
    ) -> PyResult<()> {
        let ctx = self.0.open()?.ctx();
        ctx.register_udf(functions::scalar(name, function, &arguments, returns, is_volatile)?);
        Ok(())
    }

    /// Adds a function over the rows of a group.
    fn create_aggregate(
        &self,
        name: &str,
        class: Py<PyAny>,
        arguments: Vec<Bound<'_, PyAny>>,
        returns: &Bound<'_, PyAny>,
        state: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let ctx = self.0.open()?.ctx();
        ctx.register_udaf(functions::aggregate(name, class, &arguments, returns, &state)?);
        Ok(())
    }

    /// Starts to split the dataset that the words of a command line name; the result is the report as JSON.
    fn partition(&self, words: Vec<String>) -> PyResult<Work> {
        let copies = self.0.open()?.spill();
        let (cancel, read) = (CancelToken::new(), Arc::new(BytesRead::default()));
        let (token, seen) = (cancel.clone(), Arc::clone(&read));
        let work = Work::start(&self.0, None, async move {
            let report = partition::split(&words, &copies, token, seen).await;
            report.map_err(|error| Failure::new(&error))
        })?;
        Ok(work.with_progress(read).with_cancel(cancel))
    }

    /// Whether the session is closed.
    #[getter]
    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Ends what runs, and removes the session's files. In a process that was forked, nothing happens.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}

/// The bytes of inputs that were read.
#[derive(Default)]
struct BytesRead {
    done: AtomicU64,
    all: AtomicU64,
}

impl annulus_dataset::Progress for BytesRead {
    fn read(&self, _rows: u64, input_bytes: u64) {
        self.done.fetch_add(input_bytes, Relaxed);
    }
}

impl SplitProgress for BytesRead {
    fn begin(&self, input_bytes: u64) {
        self.all.store(input_bytes, Relaxed);
    }
}

impl Progress for Arc<BytesRead> {
    fn so_far(&self) -> (u64, Option<u64>) {
        let all = self.all.load(Relaxed);
        (self.done.load(Relaxed).min(all), (all > 0).then_some(all))
    }
}

/// Runs statements, and returns the plan of the rows of the last one, if it has rows.
async fn run_all(
    ctx: &SessionContext,
    sql: &str,
    tables: &Arc<BoundTables>,
    params: Option<&ParamValues>,
) -> Result<Option<LogicalPlan>, Failure> {
    let statements = Script::typed(sql).parse(ctx)?;
    let (count, mut last) = (statements.len(), None);
    for (index, placed) in statements.into_iter().enumerate() {
        let is_last = index + 1 == count;
        let run = run(ctx, placed.statement, tables, params, is_last && placed.is_query).await;
        match run {
            Ok(rows) => last = rows,
            Err(error) => {
                let failure = Failure::new(&error);
                return Err(failure.with_message(&explain(ctx, error).await).of_input());
            }
        }
    }
    Ok(last)
}

/// Runs a statement, or only plans it if it `is_lazy`. Returns the plan of its rows, if it has rows.
async fn run(
    ctx: &SessionContext,
    statement: ScriptStatement,
    tables: &Arc<BoundTables>,
    params: Option<&ParamValues>,
    is_lazy: bool,
) -> Result<Option<LogicalPlan>> {
    let mut planned = plan(ctx, &state_with(ctx, tables), statement, true).await?;
    if let Some(params) = params {
        planned = parameters::with_values(planned, params)?;
    }
    if let LogicalPlan::Dml(change) = &planned
        && tables.have(ctx, change.table_name.table())
    {
        bail!(
            "'{0}' is a table of the caller, which SQL does not change: make one of the session first, as in CREATE \
             TABLE copied AS SELECT * FROM {0}",
            change.table_name.table()
        );
    }
    if is_lazy {
        return Ok(Some(planned));
    }
    let stream = checked(start(ctx, planned).await?.execute_stream().await?);
    let schema = stream.schema();
    let batches = stream.try_collect().await?;
    if schema.fields().is_empty() {
        return Ok(None);
    }
    let rows = Arc::new(MemTable::try_new(schema, vec![batches])?);
    Ok(Some(ctx.read_table(rows)?.into_unoptimized_plan()))
}
