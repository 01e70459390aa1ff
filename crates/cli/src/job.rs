//! What a command line asks for, checked: files that must exist are there, and options fit each other.

use std::{
    fs,
    io::{self, IsTerminal, Read},
    path::PathBuf,
};

use anyhow::{Context, Result, bail};

use crate::{
    args::{Args, Command, EngineArgs, Format, SqlArgs, TpchArgs},
    bench::{BenchCommand, RepartitionArgs},
    session::Limits,
    sql::tables::TableSpec,
    units::QueryList,
};

/// One run of the command.
pub enum Job {
    Tpch(TpchJob),
    Sql(SqlJob),
    Bench(RepartitionArgs),
}

/// The TPC-H comparison.
pub struct TpchJob {
    pub scale: f64,
    pub queries: Vec<u8>,
    pub iterations: usize,
    pub limits: Limits,
    pub json: bool,
    pub html: Option<PathBuf>,
    /// Folder that holds a folder of tables for each scale.
    pub data: PathBuf,
}

/// SQL statements, or a shell.
pub struct SqlJob {
    pub source: Source,
    pub tables: Vec<TableSpec>,
    pub format: Format,
    /// Rows of a printed table.
    pub max_rows: usize,
    /// Where the result of the last statement goes, instead of the screen.
    pub output: Option<PathBuf>,
    pub limits: Limits,
    pub settings: Vec<(String, String)>,
}

/// Where statements come from.
pub enum Source {
    Text(String),
    Shell,
}

impl Job {
    /// Checks `args` against the file system and each other.
    pub fn check(args: Args) -> Result<Self> {
        match args.command {
            Command::Tpch(args) => TpchJob::check(args).map(Self::Tpch),
            Command::Sql(args) => SqlJob::check(args).map(Self::Sql),
            Command::Bench(BenchCommand::Repartition(args)) => Ok(Self::Bench(args)),
        }
    }
}

impl TpchJob {
    fn check(args: TpchArgs) -> Result<Self> {
        let data = match args.data {
            Some(folder) => folder,
            None => dirs::cache_dir()
                .context("this system names no cache folder; choose a folder for the tables with --data DIR")?
                .join("annulus")
                .join("tpch"),
        };
        Ok(Self {
            scale: args.scale,
            queries: args.queries.unwrap_or_else(QueryList::all).0,
            iterations: args.iterations,
            limits: args.engine.into(),
            json: args.json,
            html: args.html,
            data,
        })
    }
}

impl SqlJob {
    fn check(args: SqlArgs) -> Result<Self> {
        let source = match (args.query, args.file) {
            (Some(query), _) => Source::Text(query),
            (None, Some(file)) => {
                let text = fs::read_to_string(&file);
                Source::Text(text.with_context(|| format!("cannot read --file '{}'", file.display()))?)
            }
            (None, None) if io::stdin().is_terminal() => Source::Shell,
            (None, None) => {
                let mut text = String::new();
                io::stdin().read_to_string(&mut text).context("cannot read statements from the standard input")?;
                Source::Text(text)
            }
        };
        if matches!(source, Source::Shell) && args.output.is_some() {
            bail!("--output needs a query: give one, or --file (in the shell, use COPY ... TO)");
        }
        let mut settings = args.set;
        settings.extend(args.strategy.map(|strategy| ("annulus.strategy".to_owned(), strategy.name().to_owned())));
        let default_rows = if io::stdout().is_terminal() { 40 } else { usize::MAX };
        Ok(Self {
            source,
            tables: args.tables,
            format: args.format,
            max_rows: args.maxrows.unwrap_or(default_rows),
            output: args.output,
            limits: args.engine.into(),
            settings,
        })
    }
}

impl From<EngineArgs> for Limits {
    fn from(args: EngineArgs) -> Self {
        Self { target_partitions: args.target_partitions, memory_bytes: args.memory_limit }
    }
}
