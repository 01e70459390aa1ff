//! The command line of `annulus sql`, as it was typed and checked.

use std::{
    fs,
    io::{self, IsTerminal, Read},
    path::PathBuf,
};

use annulus_dataset::{BadRows, InputOptions};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use super::{script::Script, tables::TableSpec};
use crate::{
    cluster::ClusterArgs,
    reading::ReadingArgs,
    session::Limits,
    units::{self, Setting},
};

const EXAMPLES: &str = "\
Examples:
  annulus sql \"SELECT count(*) FROM 'orders.parquet'\"
  annulus sql \"SELECT * FROM 'parts/'\"
  annulus sql -t o=orders.csv -t l=lines/ \"SELECT * FROM o JOIN l USING (id)\"
  annulus sql --file report.sql --output report.parquet
  annulus sql --set datafusion.execution.batch_size=4096 -t t=data.arrow
  echo 'SELECT 1' | annulus sql --format csv
  annulus sql --workers 10.0.0.1:7500,10.0.0.2:7500 --file report.sql

Without a query, statements are read from a pipe; on a terminal a shell opens
(\\? lists its commands).

A table is a file, a folder or a glob of Parquet, CSV (.csv, .tsv, .tbl), JSON
(.json, .ndjson), Arrow IPC (.arrow), Avro or page files (.pages). CSV and
JSON files can be compressed (.gz, .bz2, .xz, .zst). Folders named key=value
become columns. A dataset that partition or join wrote must match its
manifest. Joins and groupings on the key of partition need no exchange.

A path can be a URL: s3://, gs://, az://, http:// or https://. Credentials
come from the environment: AWS_ACCESS_KEY_ID, GOOGLE_SERVICE_ACCOUNT or
AZURE_STORAGE_ACCOUNT_KEY.

Without ORDER BY, rows come in no particular order, except that LIMIT on a
single table returns its first rows. Ctrl-C cancels the query and removes an
unfinished output file.

More: annulus help queries";

#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct SqlArgs {
    /// Statements to run, separated by semicolons
    pub query: Option<String>,
    /// File with the statements to run
    #[arg(long, short, value_name = "FILE", conflicts_with = "query")]
    pub file: Option<PathBuf>,
    /// Table name for a file, a folder or a glob; can be repeated
    #[arg(long = "table", short, value_name = "NAME=PATH")]
    pub tables: Vec<TableSpec>,
    /// Format of printed results
    #[arg(long, default_value = "table", conflicts_with = "output")]
    pub format: Format,
    /// Print the results as JSON; short for --format json
    #[arg(long, conflicts_with_all = ["format", "output"])]
    pub json: bool,
    /// Rows to print of a table, or inf [default: 40 on a terminal]
    #[arg(long, value_name = "N", value_parser = units::parse_max_rows)]
    pub maxrows: Option<usize>,
    /// File or URL for the result of the last statement
    ///
    /// The extension sets the format: .parquet, .csv, .tsv, .json (one object per line) or .arrow.
    /// A file, or an object such as s3://bucket/name.parquet, has its name when it is complete.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file or object of --output if it exists
    #[arg(long)]
    pub overwrite: bool,
    #[command(flatten)]
    pub reading: ReadingArgs,
    /// Threads, and partitions of a query [default: cores]
    #[arg(long, alias = "target-partitions", value_name = "N", value_parser = units::parse_threads)]
    pub threads: Option<usize>,
    /// Memory for operators, such as 512M or 2G [default: unlimited]
    ///
    /// For sorts, joins, aggregates and repartitions. Operators that need more spill to disk or
    /// fail. Memory for reading files and for batches in transit is not counted.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub memory_limit: Option<usize>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Set an option of DataFusion or Annulus; can be repeated
    ///
    /// SHOW ALL lists the options. The statement SET changes them later.
    #[arg(long, value_name = "KEY=VALUE", value_parser = units::parse_setting)]
    pub set: Vec<Setting>,
}

/// The format of printed results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Csv,
    Tsv,
    /// One array of objects
    Json,
    /// One object per line
    #[value(alias = "nd-json", alias = "jsonl")]
    Ndjson,
}

/// The smallest memory limit. A batch of 8,192 rows of one integer column takes this much.
const LEAST_MEMORY_BYTES: usize = 64 << 10;

/// A checked command: what to run, and how to print it.
pub struct SqlJob {
    pub source: Source,
    pub tables: Vec<TableSpec>,
    /// Options for reading the files of tables.
    pub input: InputOptions,
    pub format: Format,
    /// Most rows of a table to print.
    pub max_rows: usize,
    /// File for the result of the last statement; without it, the result is printed.
    pub output: Option<PathBuf>,
    /// Whether the file is replaced if it exists.
    pub overwrite: bool,
    pub limits: Limits,
    pub cluster: ClusterArgs,
    pub settings: Vec<Setting>,
}

/// The source of statements.
pub enum Source {
    Text(Script),
    Shell,
}

impl SqlArgs {
    /// Reads the statements and checks the arguments against each other.
    pub fn check(self) -> Result<SqlJob> {
        let source = match (self.query, self.file) {
            (Some(query), _) => Source::Text(Script::typed(query)),
            (None, Some(file)) => {
                let text = fs::read_to_string(&file);
                let text = text.with_context(|| format!("cannot read --file '{}'", file.display()))?;
                Source::Text(Script { text, file: Some(file) })
            }
            (None, None) if io::stdin().is_terminal() => Source::Shell,
            (None, None) => {
                let mut text = String::new();
                io::stdin().read_to_string(&mut text).context("cannot read statements from standard input")?;
                Source::Text(Script::typed(text))
            }
        };
        if matches!(source, Source::Shell) && self.output.is_some() {
            bail!("--output needs a query: give one, or --file (in the shell, use \\o FILE or COPY)");
        }
        self.cluster.check()?;
        let input = self.reading.options()?;
        if input.on_bad_row == BadRows::Quarantine {
            bail!("invalid --on-bad-row 'quarantine': only partition has it; expected fail or skip");
        }
        if let Some(bytes) = self.memory_limit.filter(|bytes| *bytes < LEAST_MEMORY_BYTES) {
            let least = LEAST_MEMORY_BYTES >> 10;
            bail!("--memory-limit is {bytes} bytes, less than one batch of rows takes: allow at least {least}K");
        }
        let default_rows = if io::stdout().is_terminal() { 40 } else { usize::MAX };
        Ok(SqlJob {
            source,
            tables: self.tables,
            input,
            format: if self.json { Format::Json } else { self.format },
            max_rows: self.maxrows.unwrap_or(default_rows),
            output: self.output,
            overwrite: self.overwrite,
            limits: Limits { target_partitions: self.threads, memory_bytes: self.memory_limit, disk_bytes: None },
            cluster: self.cluster,
            settings: self.set,
        })
    }
}
