//! The command line of `annulus join`, as it was typed and checked.

use std::path::{self, PathBuf};

use annulus_datafusion::AnnulusConfig;
use annulus_dataset::{BadRows, ExistingPolicy, OutputFormat};
use annulus_join::Sides;
use anyhow::{Result, bail};

use super::{
    query::{Input, Query},
    values::{InputsArg, NearestArg, TypeArg},
};
use crate::{
    cluster::ClusterArgs,
    formats::{DatasetFormat, check_folder},
    objects::is_url,
    reading::ReadingArgs,
    units::{self, Setting},
};

const EXAMPLES: &str = "\
Examples:
  annulus join lineitem/ orders.parquet --on l_orderkey=o_orderkey -o joined
  annulus join a.parquet b.parquet --where 'a.t BETWEEN b.t - 5 AND b.t + 5' \\
    --output near --cluster 4
  annulus join t=trades/ q=quotes/ --on symbol --asof 't.time >= q.time' \\
    --type left --output out
  annulus join c=customers/ s=shops/ --output nearest \\
    --nearest '3 BY DISTANCE power(c.x - s.x, 2) + power(c.y - s.y, 2)'
  annulus join users.csv banned.csv --on id --type anti --output clean
  annulus join o=orders/ i=items/ --on id --output totals \\
    --select 'o.id, i.price * i.count AS total'
  annulus join a/ b/ --where 'levenshtein(a.name, b.name) <= 2' --explain
  annulus join /shared/a /shared/b --on id --output /shared/joined \\
    --workers 10.0.0.1:7500,10.0.0.2:7500 --certificates certs

A side is a file, a folder or a glob of Parquet, CSV, JSON, Arrow IPC, Avro or
page files, or a URL (s3:// and others, as in annulus sql). A predicate calls
the sides a and b, or by the names given (NAME=PATH). Column names are
case-sensitive.

--on and --where together are the join condition, as ON in SQL. With --type
left, rows of LEFT without a match are kept, with nulls for RIGHT. Null equals
nothing. The result has all columns of both sides; a column of RIGHT whose
name LEFT also has gets --suffix.

The join runs as a query of annulus sql: the same scans and the same joins.
--explain shows the plan. By default it runs in this process; with --workers
or --cluster, on workers, each of which writes a folder of the result.

The files of each worker are in DIR/host-00/, DIR/host-01/ and so on; those of
this process in DIR/host-00/. The last file is DIR/.annulus/manifest, with rows
and checksums. The folder can be the input of another command. If the join
fails or you press Ctrl-C, it removes its partial output. A second Ctrl-C ends
it at once.

More: annulus help joins";

#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct JoinArgs {
    /// Left side: a file, a folder or a glob, or NAME=PATH
    #[arg(value_name = "LEFT")]
    left: String,
    /// Right side, given like the left one
    #[arg(value_name = "RIGHT")]
    right: String,
    /// Columns that must be equal: LEFT=RIGHT, or one name for both
    ///
    /// Several pairs are separated by commas.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    on: Vec<String>,
    /// SQL predicate that pairs of rows must satisfy
    #[arg(long = "where", value_name = "PREDICATE", id = "condition")]
    condition: Option<String>,
    /// Nearest row of RIGHT in time, such as 't.time >= q.time'
    ///
    /// One row at most for each row of LEFT, among those with equal --on columns: with >= and > the
    /// last one before, with <= and < the first one after. Bounds may follow:
    /// 't.time >= q.time AND t.time <= q.time + INTERVAL '5 s''. The types are inner, left,
    /// semi and anti.
    #[arg(long, value_name = "COMPARISON", conflicts_with = "condition")]
    asof: Option<String>,
    /// Nearest rows of RIGHT: "[K] BY DISTANCE EXPRESSION" or BY SIMILARITY
    ///
    /// K rows at most for each row of LEFT (default 1): those with the smallest distance or the
    /// largest similarity, such as '10 BY SIMILARITY inner_product(a.v, b.v)'. Rows of which the
    /// expression is null are not near. The types are inner and left.
    #[arg(long, value_name = "NEAREST", conflicts_with_all = ["condition", "asof", "on"])]
    nearest: Option<NearestArg>,
    /// Join type: which rows without a match to keep
    #[arg(long = "type", value_name = "TYPE", default_value = "inner")]
    join: TypeArg,
    /// Output expressions, as in SQL [default: all columns]
    ///
    /// For example "a.id, b.price * 2 AS double, b.*". Only the columns that these and the
    /// condition need are read.
    #[arg(long, value_name = "EXPRESSIONS")]
    select: Option<String>,
    /// Folder for the result, or URL such as s3://bucket/joined
    #[arg(long, short, value_name = "DIR", required_unless_present = "explain")]
    output: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Whether workers share the input files
    #[arg(long, value_name = "MODE", default_value = "shared")]
    inputs: InputsArg,
    /// Another name of --retries, whose number may be left out
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1", conflicts_with = "retries")]
    #[arg(hide = true)]
    retry: Option<usize>,
    /// Threads, or partitions of a worker's tasks [default: cores]
    #[arg(long, value_name = "N", value_parser = units::parse_threads)]
    threads: Option<usize>,
    /// Memory for operators, such as 512M or 2G [default: unlimited]
    ///
    /// In this process, or in each worker of --cluster. Rows that do not fit go to disk, in the
    /// folder for temporary files.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    memory_limit: Option<usize>,
    /// Set an option of DataFusion or Annulus; can be repeated
    ///
    /// The same options as in annulus sql, where SHOW ALL lists them.
    #[arg(long, value_name = "KEY=VALUE", value_parser = units::parse_setting)]
    set: Vec<Setting>,
    /// Suffix for columns of RIGHT that LEFT also has
    #[arg(long, value_name = "TEXT", default_value = "_right")]
    suffix: String,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Format of the result's files [default: parquet, else arrow]
    ///
    /// Arrow is the default where Parquet has no type for a column.
    #[arg(long)]
    format: Option<DatasetFormat>,
    /// Replace a dataset in the output folder
    ///
    /// The old dataset is deleted first, so it is gone even if the join fails.
    #[arg(long)]
    overwrite: bool,
    /// Show the plan of the join, without running it
    #[arg(long)]
    explain: bool,
    /// Print the report as one JSON object, for programs
    #[arg(long)]
    json: bool,
}

/// A join to run or to explain.
pub struct JoinJob {
    pub query: Query,
    /// The folder of the result, unless the join is only explained or goes to a URL.
    pub output: Option<PathBuf>,
    /// The URL of the result.
    pub url: Option<String>,
    /// The format of the result's files, if it is given.
    pub format: Option<OutputFormat>,
    /// What to do if the folder has a dataset.
    pub existing: ExistingPolicy,
    /// Without workers, the join runs in this process.
    pub cluster: ClusterArgs,
    /// Whether each worker has input files of its own.
    pub inputs_each: bool,
    pub threads: Option<usize>,
    pub memory_bytes: Option<usize>,
    pub settings: Vec<Setting>,
    /// The number of restarts that are allowed, each on the workers that take queries then.
    pub retries: usize,
    pub explain: bool,
    pub json: bool,
}

impl JoinArgs {
    /// Checks that there is a condition, and where the join runs.
    fn check_places(&self) -> Result<()> {
        let is_pairing = self.condition.is_some() || self.asof.is_some() || self.nearest.is_some();
        if self.on.is_empty() && !is_pairing {
            bail!("no join condition: give --on COLUMNS, --where PREDICATE, or both");
        }
        if self.nearest.is_some() && !matches!(self.join, TypeArg::Inner | TypeArg::Left) {
            bail!("--nearest cannot be used with --type {}: expected inner or left", self.join.name());
        }
        if self.asof.is_some() && !matches!(self.join, TypeArg::Inner | TypeArg::Left | TypeArg::Semi | TypeArg::Anti) {
            bail!("--asof cannot be used with --type {}: expected inner, left, semi or anti", self.join.name());
        }
        let (inputs_each, is_remote) = (self.inputs == InputsArg::Each, self.cluster.is_given());
        if inputs_each && !is_remote {
            bail!("--inputs each needs --workers or --cluster");
        }
        self.cluster.check()?;
        if self.cluster.workers.is_some() && self.memory_limit.is_some() {
            bail!("--memory-limit cannot be used with --workers: each worker has a limit of its own");
        }
        if self.cluster.retries.is_some_and(|retries| retries > 0) && inputs_each {
            bail!("--retries cannot be used with --inputs each: without a lost worker, its rows would be missing");
        }
        Ok(())
    }

    /// Checks the arguments against each other.
    pub fn check(mut self) -> Result<JoinJob> {
        self.cluster.retries = self.cluster.retries.or(self.retry);
        self.check_places()?;
        let (inputs_each, is_remote) = (self.inputs == InputsArg::Each, self.cluster.is_given());
        self.output.as_deref().map_or(Ok(()), check_folder)?;
        let options = self.reading.options()?;
        if options.on_bad_row == BadRows::Quarantine {
            bail!("invalid --on-bad-row 'quarantine': only partition has it; expected fail or skip");
        }
        // Workers run in other folders, so relative paths become absolute.
        let is_relative = |path: &str| !is_url(path) && path != "-" && !path.starts_with('~');
        let path_of = |path: &str| if is_remote && is_relative(path) { absolute(path) } else { path.to_owned() };
        let input = |text: &str, name: &str| {
            let (name, path) = named(text).unwrap_or((name, text));
            Input { name: name.to_owned(), path: path_of(path), options: options.clone() }
        };
        // So that the rows are written where the command writes its manifest.
        let (url, output) = match self.output {
            Some(url) if is_url(&url.to_string_lossy()) => (Some(url.to_string_lossy().into_owned()), None),
            output if is_remote => (None, output.map(|output| PathBuf::from(absolute(&output.to_string_lossy())))),
            output => (None, output),
        };
        let sides = Sides { left: input(&self.left, "a"), right: input(&self.right, "b") };
        if sides.left.name == sides.right.name {
            bail!("LEFT and RIGHT are both named '{}': give one of them another name (NAME=PATH)", sides.left.name);
        }
        if inputs_each && sides.iter().any(|input| is_url(&input.path)) {
            bail!("--inputs each is for local files: all workers see the same objects");
        }
        let pair = |text: &String| {
            let (left, right) = text.split_once('=').unwrap_or((text, text));
            (left.trim().to_owned(), right.trim().to_owned())
        };
        let query = Query {
            sides,
            on: self.on.iter().map(pair).collect(),
            condition: self.condition,
            asof: self.asof,
            nearest: self.nearest,
            join: self.join,
            select: self.select,
            suffix: self.suffix,
        };
        // Without a lost worker, the rows of its files would be missing.
        let retries = if inputs_each { 0 } else { self.cluster.retries.unwrap_or(AnnulusConfig::default().retries) };
        self.cluster.retries = Some(retries);
        Ok(JoinJob {
            query,
            output,
            url,
            format: self.format.map(Into::into),
            existing: if self.overwrite { ExistingPolicy::Overwrite } else { ExistingPolicy::Refuse },
            cluster: self.cluster,
            inputs_each,
            threads: self.threads,
            memory_bytes: self.memory_limit,
            settings: self.set,
            retries,
            explain: self.explain,
            json: self.json,
        })
    }
}

fn absolute(path: &str) -> String {
    path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// Splits `NAME=PATH` if NAME is an SQL name that needs no quotes; a path may contain `=`, too.
fn named(text: &str) -> Option<(&str, &str)> {
    let (name, path) = text.split_once('=')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && !path.is_empty()).then_some((name, path))
}
