//! The command line of `annulus sql`, as it was typed and checked.

use std::{
    fs,
    io::{self, IsTerminal, Read},
    path::PathBuf,
};

use annulus_dataset::{BadRows, InputOptions};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use super::tables::TableSpec;
use crate::{reading::ReadingArgs, session::Limits, units};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  annulus sql \"SELECT count(*) FROM 'orders.parquet'\"
  annulus sql \"SELECT * FROM 'parts/'\"              a folder, as partition and join write them
  annulus sql -t o=orders.csv -t l=lines/ \"SELECT * FROM o JOIN l USING (id)\" --format csv
  annulus sql --file report.sql --output report.parquet
  annulus sql --set datafusion.execution.batch_size=4096 --strategy ring -t t=data.arrow
  echo 'SELECT 1' | annulus sql

Tables are files, folders or globs: .parquet, .csv, .tsv, .tbl, .json, .ndjson, .arrow, .avro, .pages (text also with .gz, .bz2, .xz, .zst).
Folders named key=value are columns. A dataset that partition or join wrote must be as its manifest.json says.
Without a query it reads statements from a pipe, or opens a shell on a terminal (\\? lists its commands).
With --output the result of the last statement goes to the file; .json files have one object a line.
Paths may be URLs: s3://, gs://, az://, http:// and https://. Credentials come from the environment, as AWS_ACCESS_KEY_ID,
GOOGLE_SERVICE_ACCOUNT or AZURE_STORAGE_ACCOUNT_KEY.
Without ORDER BY rows come in no particular order, except that a LIMIT on one table alone gives its first rows.
Ctrl-C cancels the query; an unfinished output file is removed.")]
pub struct SqlArgs {
    /// Statements to run, separated by semicolons
    pub query: Option<String>,
    /// Run the statements of a file
    #[arg(long, short, value_name = "FILE", conflicts_with = "query")]
    pub file: Option<PathBuf>,
    /// A table from a file or a folder
    #[arg(long = "table", short, value_name = "NAME=PATH")]
    pub tables: Vec<TableSpec>,
    /// How results are printed
    #[arg(long, default_value = "table", conflicts_with = "output")]
    pub format: Format,
    /// Rows of a table to print; 'inf' for all [default: 40 on a terminal, else all]
    #[arg(long, value_name = "N", value_parser = units::parse_max_rows)]
    pub maxrows: Option<usize>,
    /// File for the result: .parquet, .csv, .tsv, .json or .arrow
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub reading: ReadingArgs,
    #[command(flatten)]
    pub limits: Limits,
    /// Set an option of DataFusion or Annulus; `SHOW ALL` lists them
    #[arg(long, value_name = "KEY=VALUE", value_parser = units::parse_setting)]
    pub set: Vec<(String, String)>,
    /// How rows are repartitioned: short for --set annulus.strategy=...
    #[arg(long)]
    pub strategy: Option<Strategy>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Csv,
    Tsv,
    Json,
    #[value(alias = "nd-json", alias = "jsonl")]
    Ndjson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Strategy {
    Auto,
    Ring,
    Stock,
}

impl Strategy {
    /// The value of the option `annulus.strategy`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ring => "ring",
            Self::Stock => "stock",
        }
    }
}

/// SQL statements, or a shell.
pub struct SqlJob {
    pub source: Source,
    pub tables: Vec<TableSpec>,
    /// How the files of tables are read.
    pub input: InputOptions,
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

impl SqlArgs {
    /// Reads the statements, and checks the arguments against each other.
    pub fn check(self) -> Result<SqlJob> {
        let source = match (self.query, self.file) {
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
        if matches!(source, Source::Shell) && self.output.is_some() {
            bail!("--output needs a query: give one, or --file (in the shell, use COPY ... TO)");
        }
        let input = self.reading.options()?;
        if input.on_bad_row == BadRows::Quarantine {
            bail!("--on-bad-row quarantine is for partition; choose fail or skip");
        }
        let mut settings = self.set;
        settings.extend(self.strategy.map(|strategy| ("annulus.strategy".to_owned(), strategy.name().to_owned())));
        let default_rows = if io::stdout().is_terminal() { 40 } else { usize::MAX };
        Ok(SqlJob {
            source,
            tables: self.tables,
            input,
            format: self.format,
            max_rows: self.maxrows.unwrap_or(default_rows),
            output: self.output,
            limits: self.limits,
            settings,
        })
    }
}
