//! The command line as it was typed. [`crate::job`] checks it.

use std::{ffi::OsString, path::PathBuf};

use annulus_bench::reproduce::{cyclo::CycloJoinArgs, pages::ReproduceArgs};
use annulus_dataset::hot_keys::DEFAULT_HOT_SHARE;
use clap::{Parser, Subcommand, ValueEnum};

use crate::{
    bench::BenchCommand,
    join::JoinArgs,
    node::NodeArgs,
    sql::tables::TableSpec,
    units::{self, QueryList},
};

/// SQL, datasets and benchmarks on a lock-free ring-buffer exchange, plugged into Apache
/// DataFusion.
#[derive(Parser)]
#[command(name = "annulus", version, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "Examples:
  annulus tpch                                      compare stock DataFusion with Annulus on TPC-H
  annulus sql \"SELECT count(*) FROM 'orders.parquet'\"
  annulus partition events/ --by user --into 64 --output parts
                                                    split a dataset into files by key
  annulus join lineitem/ orders/ --on l_orderkey=o_orderkey --output joined
                                                    join two datasets on hosts that each need memory for their share
  annulus bench repartition                         compare the repartition operators alone
  annulus bench pages                               compare ways to shuffle tuples onto pages
  annulus bench roundabout                          measure how fast buffers go from host to host
  annulus bench join                                join two tables around rings of different sizes
  annulus reproduce cyclo-join                      draw the figures of the cyclo-join paper
  annulus sql -t o=orders/                          a shell, with the files of a folder as table o

Exit codes: 0 done, 1 failed (or an answer differs), 130 interrupted (143 by SIGTERM, 129 by SIGHUP).")]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

/// Puts a space before an argument that is SQL and begins with a comment, which no option does: `--
/// like this`.
pub fn protect_comment(argument: OsString) -> OsString {
    let is_comment = argument
        .to_str()
        .and_then(|text| text.strip_prefix("--"))
        .is_some_and(|rest| rest.starts_with(char::is_whitespace));
    if !is_comment {
        return argument;
    }
    let mut protected = OsString::from(" ");
    protected.push(argument);
    protected
}

#[derive(Subcommand)]
pub enum Command {
    /// Run the TPC-H queries on stock DataFusion and on Annulus, compare the answers and the times
    Tpch(TpchArgs),
    /// Run SQL on Annulus: one query, a file of statements, or a shell
    Sql(Box<SqlArgs>),
    /// Split a dataset into files by key, in one pass and bounded memory
    Partition(PartitionArgs),
    /// Check the files of a dataset against its manifest
    Verify(VerifyArgs),
    /// Join two datasets around a ring of hosts, on equal keys, bands or any condition
    Join(Box<JoinArgs>),
    /// Be a host of a join, which is told what to do on the standard input
    #[command(hide = true)]
    Host {
        /// The process that gives the orders
        coordinator: u32,
    },
    /// Say which hosts belong to a ring, or be one of them
    Node(NodeArgs),
    /// Measure parts of Annulus against their rivals
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Measure again what a paper's figures show
    #[command(subcommand)]
    Reproduce(ReproduceCommand),
}

#[derive(Subcommand)]
pub enum ReproduceCommand {
    /// The shuffle of tuples onto pages: the paper's ways and that of Annulus
    Pages(ReproduceArgs),
    /// Joins around a ring of hosts: the paper's figures on this machine
    CycloJoin(CycloJoinArgs),
}

/// What bounds a query, on every engine.
#[derive(clap::Args)]
pub struct EngineArgs {
    /// Partitions that the optimizer aims at [default: the number of cores]
    #[arg(long, value_name = "P", value_parser = units::parse_count)]
    pub target_partitions: Option<usize>,
    /// Memory for sorts, joins and aggregates, like 512M or 2G, before they spill or fail; what is
    /// read and on its way comes on top [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub memory_limit: Option<usize>,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  annulus tpch
  annulus tpch --scale 10 --queries 1,3-5 --iterations 5
  annulus tpch --target-partitions 64 --memory-limit 2G --json
  annulus tpch --html tpch.html

The tables are made once, as Parquet in the user's cache folder, and used again. Each query first runs on
both engines to compare the answers, then in turn for the times: from the SQL text to the last row, medians.
Decimal literals are read as decimals, as the SQL standard has it; query 15 uses a common table expression for its view.
The exit code is 1 when an answer differs.")]
pub struct TpchArgs {
    /// Scale factor: 1 is about 1 GB of raw data
    #[arg(long, default_value = "1", value_name = "SF", value_parser = units::parse_scale)]
    pub scale: f64,
    /// Queries to run, like 1,3-5 [default: all 22]
    #[arg(long, value_name = "LIST")]
    pub queries: Option<QueryList>,
    /// Timed runs of each query on each engine
    #[arg(long, default_value = "3", value_name = "N", value_parser = units::parse_count)]
    pub iterations: usize,
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write a page with the bars drawn
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Folder for the tables, instead of the cache folder
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

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
    pub engine: EngineArgs,
    /// Set an option of DataFusion or Annulus; `SHOW ALL` lists them
    #[arg(long, value_name = "KEY=VALUE", value_parser = units::parse_setting)]
    pub set: Vec<(String, String)>,
    /// How rows are repartitioned: short for --set annulus.strategy=...
    #[arg(long)]
    pub strategy: Option<Strategy>,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  annulus partition events/ --by user --into 64 --output parts
  annulus partition 'logs/*.csv' --by host,day --into 16 --output parts --on-bad-row quarantine
  annulus partition orders.parquet --by id --into 8 --output parts --format arrow --memory-limit 256M
  annulus partition orders.parquet --by id --into 8 --output parts --resume
  annulus partition orders.parquet --by day --into 12 --output parts --ranges sample
  annulus partition visits/ --by site --into 32 --output parts --split-hot-keys
  annulus partition flights/ --by year,month --by-value --sort-by time,delay:desc --output parts

Inputs are files, folders or globs of Parquet, CSV, JSON, Arrow IPC, Avro or page files (text also as .gz, .bz2, .xz, .zst), or - for an Arrow IPC stream on standard input. A file is read
once, whatever leads to it; names that begin with . or _ are passed over in folders, and where a glob has wildcards.
By default rows go to partition hash(key) % N, where Apache DataFusion puts them too when it reads
the files with its default options. DIR/part-00007.parquet has partition 7; a file
gets its name when it is whole (with --sync: and on disk), and manifest.json, with the rows, key ranges and checksums (XXH64) of all files,
comes last. A partition without rows has no file.
Interrupted or failed runs leave the partitions that they finished; --resume goes on with the others.
Hot keys, which have at least --hot-key-share of an average partition's rows, are reported here and in manifest.json; their
rows are told from one row in 32, so they lie between two bounds. With --split-hot-keys their rows go by turns to extra files
of their partition, DIR/part-00007.hot-1.parquet and so on, and all are counted. Which keys these are is found in a sample first.
With --by-value there is a folder for each value, and the files in it, DIR/year=2013/part-00000.parquet and so on, have the other
columns. Null is __HIVE_DEFAULT_PARTITION__, and characters that folder names cannot have are percent-encoded. Rows that are sorted
or placed by value go to disk first, and are sorted there if they do not fit into memory.")]
pub struct PartitionArgs {
    /// Files, folders or globs; - for an Arrow IPC stream on standard input
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<String>,
    /// Columns of the key, separated by commas
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', required_unless_present = "round_robin")]
    pub by: Vec<String>,
    /// Number of partitions
    #[arg(long, value_name = "N", value_parser = units::parse_count, required_unless_present = "by_value")]
    pub into: Option<usize>,
    /// Folder for the files
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,
    #[command(flatten)]
    pub placing: PlacingArgs,
    /// Sort the rows of each file by these columns, each with :desc for the greatest values first;
    /// nulls then come first, else last
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub sort_by: Vec<String>,
    /// Share of an average partition's rows from which on a key is hot
    #[arg(long, value_name = "SHARE", default_value_t = DEFAULT_HOT_SHARE, value_parser = units::parse_share)]
    pub hot_key_share: f64,
    /// Spread the rows of each partition's hot keys over K extra files [default K: the average
    /// partitions that they fill]
    #[arg(long, value_name = "K", num_args = 0..=1, require_equals = true, value_parser = units::parse_count, conflicts_with = "round_robin")]
    pub split_hot_keys: Option<Option<usize>>,
    /// Format of the files
    #[arg(long, default_value = "parquet")]
    pub format: DatasetFormat,
    /// Compression of the files [default: snappy for Parquet, none for others]
    #[arg(long)]
    pub compression: Option<DatasetCompression>,
    /// Size of the pages of --format pages, on one of which a row must fit: a multiple of 4K up to
    /// 64M [default: 64K]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub page_size: Option<usize>,
    /// Begin a further file of a partition, like part-00007-00002.parquet, when one has reached
    /// this size; it may be larger by a batch
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub max_file_size: Option<usize>,
    /// Memory for rows and open files, like 512M or 2G, at least 16M; the process takes some 50M
    /// more
    #[arg(long, default_value = "1G", value_name = "SIZE", value_parser = units::parse_size)]
    pub memory_limit: usize,
    /// Worker threads [default: the number of cores]
    #[arg(long, value_name = "T", value_parser = units::parse_count)]
    pub threads: Option<usize>,
    #[command(flatten)]
    pub reading: ReadingArgs,
    /// Put each file on disk before it gets its name, so that it outlasts a power failure, too
    #[arg(long)]
    pub sync: bool,
    /// Keep the finished partitions of an earlier run of the same job
    #[arg(long, conflicts_with = "overwrite")]
    pub resume: bool,
    /// Delete a dataset that is in the folder, and then begin: it is gone also if this run fails
    #[arg(long)]
    pub overwrite: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  annulus verify parts
  annulus verify parts --json

Reads every file of a folder that partition or join wrote, and compares it with the size and the checksum (XXH64) in manifest.json. Files that
are missing, differ or are not in the manifest are named, and the exit code is 1.")]
pub struct VerifyArgs {
    /// The folder of the dataset
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Print one JSON object instead of a line for each bad file
    #[arg(long)]
    pub json: bool,
}

/// Where rows go, if not to the partition that the hash of their key names.
#[derive(clap::Args)]
#[group(multiple = false)]
pub struct PlacingArgs {
    /// Place by G key groups, and ranges of groups to partitions: another N then moves whole
    /// groups, and only between neighbours
    #[arg(long, value_name = "G")]
    pub key_groups: Option<u32>,
    /// Place by order of the keys: N - 1 split points, like 10,20,30 (for several columns a,1;b,2),
    /// or 'sample' to find them
    #[arg(long, value_name = "POINTS")]
    pub ranges: Option<String>,
    /// Place by turns
    #[arg(long)]
    pub round_robin: bool,
    /// Place each value in a folder of its own, like DIR/year=2013/month=1 for --by year,month, as
    /// Hive, Spark and DuckDB do
    #[arg(long)]
    pub by_value: bool,
}

/// How input files are read.
#[derive(clap::Args)]
pub struct ReadingArgs {
    /// Format of the inputs: parquet, csv, json, arrow, avro or pages [default: by the names of the
    /// files]
    #[arg(long, value_name = "FORMAT")]
    pub input_format: Option<String>,
    /// Types of columns of CSV and JSON files and of key=value folders, like
    /// zip=text,price=decimal(10,2): text, int, float, bool, date, timestamp, timestamptz,
    /// decimal, or an Arrow type [default: what fits a sample of all files]
    #[arg(long, value_name = "COLUMN=TYPE,..")]
    pub types: Option<String>,
    /// Read all other columns of CSV and JSON files and of folders as text
    #[arg(long)]
    pub all_text: bool,
    /// Character between the fields of a CSV file [default: a comma, a tab in .tsv, | in .tbl, or
    /// what divides the lines]
    #[arg(long, value_name = "CHAR")]
    pub delimiter: Option<char>,
    /// The first line of a CSV file has values, not names
    #[arg(long)]
    pub no_header: bool,
    /// Text that stands for null in a CSV file
    #[arg(long, value_name = "TEXT")]
    pub null: Option<String>,
    /// What to do with a line that cannot be read as its columns' types: fail, skip, or, in
    /// partition, quarantine (to quarantine.jsonl)
    #[arg(long, value_name = "ACTION", default_value = "fail")]
    pub on_bad_row: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DatasetFormat {
    Parquet,
    Arrow,
    /// Annulus page files: sealed pages of one size
    Pages,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DatasetCompression {
    None,
    Snappy,
    Lz4,
    Zstd,
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
