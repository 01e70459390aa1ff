//! The command line of `annulus partition`, as it was typed and checked.

use std::path::PathBuf;

use annulus_dataset::{
    Compression, DEFAULT_HOT_SHARE, DEFAULT_PAGE_BYTES, DatasetError, ExistingPolicy, JobSpec, OutputFormat,
    OutputOptions, PlacementChoice, PlacementSpec, SortColumn, parse_columns,
};
use annulus_terminal::machine;
use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::{
    formats::{DatasetFormat, check_folder},
    objects::is_url,
    reading::ReadingArgs,
    units,
};

const EXAMPLES: &str = "\
Examples:
  annulus partition events/ --by user --into 64 --output parts
  annulus partition 'logs/*.csv' --by host,day --into 16 --output parts
  annulus partition orders.parquet --by id --into 8 --output parts --resume
  annulus partition may.parquet --by id --into 8 --output parts --append
  annulus partition orders.parquet --by day --into 12 --output parts \\
    --ranges sample
  annulus partition visits/ --by site --into 32 --output parts \\
    --split-hot-keys
  annulus partition flights/ --by year,month --by-value --output parts \\
    --sort-by time,delay:desc

Inputs are files, folders or globs of Parquet, CSV, JSON, Arrow IPC, Avro or
page files. CSV and JSON files can be compressed (.gz, .bz2, .xz, .zst). The
input - is an Arrow IPC stream on standard input. A file is read once, even if
several inputs name it. Folders and wildcards skip names that begin with '.'
or '_'. URLs (s3://, gs://, az://, http://) are copied to the folder for
temporary files first, and an output with a URL is written there first.

By default a row goes to partition hash(key) % N, with DataFusion's hash,
whatever the files' format. DIR/part-00007.parquet has partition 7; an empty
partition has no file. A file gets its final name when it is complete. The last
file is DIR/.annulus/manifest, with the rows, key ranges and checksums (XXH64)
of all files.

A run that fails or is interrupted leaves its finished partitions, and
--resume continues it.

With --append, new files such as DIR/part-00007.append-1.parquet stand beside
those of the dataset. The dataset stays as it was until all of them are
complete.

A key is hot if it has at least --hot-key-share of an average partition's
rows. Hot keys are reported here and in the manifest, with bounds for their
rows, as only one row in 32 is examined. With --split-hot-keys, a sample finds
the hot keys first, all their rows are counted, and they are spread over extra
files, such as DIR/part-00007.hot-1.parquet.

With --by-value, the files of a value, such as
DIR/year=2013/month=1/part-00000.parquet, have the other columns. Null is
named __HIVE_DEFAULT_PARTITION__; characters that a folder name cannot have
are percent-encoded. With --by-value or --sort-by, rows are first written to
disk, and sorted there if they do not fit in memory.

More: annulus help partitioning";

#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct PartitionArgs {
    /// Files, folders, globs or URLs; - for standard input
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<String>,
    /// Columns of the key, separated by commas
    ///
    /// A name with a comma stands in double quotes: --by '"city, state",year'. A quote within them
    /// is written twice.
    #[arg(long, value_name = "COLUMNS", required_unless_present = "round_robin")]
    pub by: Vec<String>,
    /// Number of partitions, required unless --by-value is given
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub into: Option<usize>,
    /// Folder for the files, or URL such as s3://bucket/parts
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,
    #[command(flatten)]
    pub placing: PlacingArgs,
    /// Sort the rows of each file by these columns
    ///
    /// Readers that filter by them can then skip parts of the files.
    /// A column with :desc is sorted in descending order, with nulls first; otherwise nulls are
    /// last. Names in quotes are as with --by.
    #[arg(long, value_name = "COLUMNS")]
    pub sort_by: Vec<String>,
    /// Share of an average partition that makes a key hot
    #[arg(long, value_name = "SHARE", default_value_t = DEFAULT_HOT_SHARE, value_parser = units::parse_share)]
    pub hot_key_share: f64,
    /// Spread each partition's hot keys over K extra files
    ///
    /// Without K, the number of files is the hot keys' size divided by the average partition size.
    #[arg(
        long,
        value_name = "K",
        num_args = 0..=1,
        require_equals = true,
        value_parser = units::parse_count,
        conflicts_with = "round_robin"
    )]
    pub split_hot_keys: Option<Option<usize>>,
    /// Format of the files to write
    #[arg(long, default_value = "parquet")]
    pub format: DatasetFormat,
    /// Compression of the files [default: snappy for Parquet, else none]
    #[arg(long)]
    pub compression: Option<DatasetCompression>,
    /// Page size of --format pages, which a row must fit [default: 64K]
    ///
    /// A multiple of 4K, up to 64M.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub page_size: Option<usize>,
    /// Start another file of a partition at this size, such as 256M
    ///
    /// The files are named part-00007-00002.parquet and so on. A file may exceed the size by one
    /// batch.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub max_file_size: Option<usize>,
    /// Memory for rows and open files, at least 16M
    ///
    /// A size such as 512M or 2G. The process itself takes about 50M more.
    #[arg(long, default_value = "1G", value_name = "SIZE", value_parser = units::parse_size)]
    pub memory_limit: usize,
    /// Worker threads [default: number of cores]
    #[arg(long, value_name = "N", value_parser = units::parse_threads)]
    pub threads: Option<usize>,
    #[command(flatten)]
    pub reading: ReadingArgs,
    /// Write each file to disk (fsync) before it gets its final name
    ///
    /// Finished files then survive a power failure.
    #[arg(long)]
    pub sync: bool,
    /// Continue an earlier run of the same job that did not finish
    #[arg(long, conflicts_with = "overwrite")]
    pub resume: bool,
    /// Replace a dataset in the output folder
    ///
    /// The old dataset is deleted first, so it is gone even if this run fails.
    #[arg(long)]
    pub overwrite: bool,
    /// Add the rows to the dataset in the output folder
    ///
    /// The dataset must have the same columns, format and placement. With --resume, an append that
    /// did not finish continues.
    #[arg(long, conflicts_with = "overwrite")]
    pub append: bool,
    /// Print the report as one JSON object, for programs
    #[arg(long)]
    pub json: bool,
}

/// The placement of rows, if not by the hash of their key.
#[derive(clap::Args)]
#[group(multiple = false)]
pub struct PlacingArgs {
    /// Place rows by G key groups, so that N can change later
    ///
    /// The hash of a key selects its group, and each partition has a range of groups. If the number of
    /// partitions changes, whole groups move, and only between neighbouring partitions.
    #[arg(long, value_name = "G")]
    pub key_groups: Option<u32>,
    /// Place rows by the order of their keys
    ///
    /// POINTS are N - 1 split points, such as 10,20,30 (a,1;b,2 for a key of several columns), or
    /// 'sample' to find them.
    #[arg(allow_hyphen_values = true, long, value_name = "POINTS")]
    pub ranges: Option<String>,
    /// Place rows in turn, in partitions of equal size
    #[arg(long)]
    pub round_robin: bool,
    /// Write a folder for each value of the key, as Hive and Spark do
    ///
    /// With --by year,month the folders are named DIR/year=2013/month=1, as Hive, Spark and DuckDB
    /// name them.
    #[arg(long)]
    pub by_value: bool,
}

/// The compression of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DatasetCompression {
    None,
    Snappy,
    Lz4,
    Zstd,
}

/// A dataset to split, and the options of the report.
pub struct PartitionJob {
    pub spec: JobSpec,
    /// The URL of the output, if it is not a folder.
    pub url: Option<String>,
    pub json: bool,
}

impl PartitionArgs {
    /// Checks the arguments against each other.
    pub fn check(self) -> Result<PartitionJob> {
        if self.into.is_none() && !self.placing.by_value {
            bail!("give the number of partitions (--into), or --by-value for a folder for each value of the key");
        }
        check_folder(&self.output)?;
        let format = OutputFormat::from(self.format);
        let compression = match self.compression {
            None => format.default_compression(),
            Some(DatasetCompression::None) => Compression::None,
            Some(DatasetCompression::Snappy) => Compression::Snappy,
            Some(DatasetCompression::Lz4) => Compression::Lz4,
            Some(DatasetCompression::Zstd) => Compression::Zstd,
        };
        let existing = match (self.append, self.resume) {
            (true, true) => ExistingPolicy::ResumeAppend,
            (true, false) => ExistingPolicy::Append,
            (false, true) => ExistingPolicy::Resume,
            (false, false) if self.overwrite => ExistingPolicy::Overwrite,
            (false, false) => ExistingPolicy::Refuse,
        };
        if self.page_size.is_some() && format != OutputFormat::Pages {
            bail!("--page-size needs --format pages, and the format is {}", format.name());
        }
        let url = self.output.to_str().filter(|text| is_url(text)).map(str::to_owned);
        if url.is_some() && (self.resume || self.append) {
            bail!("--resume and --append need a folder as --output: a dataset in an object store appears as a whole");
        }
        let mut output = OutputOptions::new(self.output, format);
        output.compression = compression;
        output.max_file_bytes = self.max_file_size.map(|bytes| bytes as u64);
        output.page_bytes = self.page_size.unwrap_or(DEFAULT_PAGE_BYTES);
        output.sync = self.sync;
        output.existing = existing;
        let mut spec = JobSpec::new(self.inputs, output);
        spec.input = self.reading.options()?;
        spec.into = self.into;
        spec.by = concatenated(&self.by, parse_columns)?;
        spec.placing = placing(self.placing, spec.by.len());
        spec.sort_by = concatenated(&self.sort_by, SortColumn::parse_list)?;
        spec.hot_key_share = self.hot_key_share;
        spec.split_hot_keys = self.split_hot_keys;
        spec.threads = self.threads.unwrap_or_else(machine::cores);
        spec.memory_limit = self.memory_limit;
        Ok(PartitionJob { spec, url, json: self.json })
    }
}

/// Returns the items of all lists, for an option that may be given several times.
fn concatenated<T>(
    lists: &[String],
    parse: impl Fn(&str) -> Result<Vec<T>, DatasetError>,
) -> Result<Vec<T>, DatasetError> {
    Ok(lists.iter().map(|list| parse(list)).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn placing(args: PlacingArgs, keys: usize) -> PlacementChoice {
    let points = |text: &str| -> Vec<Vec<String>> {
        let values = |point: &str| point.split(',').map(str::to_owned).collect();
        match keys {
            1 => text.split([',', ';']).map(|point| vec![point.to_owned()]).collect(),
            _ => text.split(';').map(values).collect(),
        }
    };
    match args {
        PlacingArgs { key_groups: Some(groups), .. } => PlacementChoice::By(PlacementSpec::KeyGroups(groups)),
        PlacingArgs { ranges: Some(text), .. } if text == "sample" => PlacementChoice::SampledRanges,
        PlacingArgs { ranges: Some(text), .. } => PlacementChoice::By(PlacementSpec::Ranges(points(&text))),
        PlacingArgs { by_value: true, .. } => PlacementChoice::By(PlacementSpec::Values),
        PlacingArgs { round_robin: true, .. } => PlacementChoice::By(PlacementSpec::RoundRobin),
        _ => PlacementChoice::By(PlacementSpec::HashOfValues),
    }
}
