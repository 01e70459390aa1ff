//! The command line of `annulus partition`, as it was typed and checked.

use std::path::PathBuf;

use annulus_dataset::{
    hot_keys::DEFAULT_HOT_SHARE,
    output::{Compression, DEFAULT_PAGE_BYTES, Existing, OutputFormat, OutputOptions},
    placement::PlacementSpec,
    split::{JobSpec, Placing},
};
use annulus_terminal::machine;
use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::{formats::DatasetFormat, reading::ReadingArgs, units};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  annulus partition events/ --by user --into 64 --output parts
  annulus partition 'logs/*.csv' --by host,day --into 16 --output parts --on-bad-row quarantine
  annulus partition orders.parquet --by id --into 8 --output parts --format arrow --memory-limit 256M
  annulus partition orders.parquet --by id --into 8 --output parts --resume
  annulus partition orders-of-may.parquet --by id --into 8 --output parts --append
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
With --append the files of the run, DIR/part-00007.append-1.parquet and so on, stand beside those of the dataset, whose
format, placement, columns and order of rows they share. The dataset stays as it was until all of them are complete.
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
    /// Add the rows to the dataset in the folder, which must have the same columns, format and
    /// placement; with --resume, go on with an append that did not finish
    #[arg(long, conflicts_with = "overwrite")]
    pub append: bool,
    /// Print one JSON object instead of a table
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DatasetCompression {
    None,
    Snappy,
    Lz4,
    Zstd,
}

/// A dataset to be split.
pub struct PartitionJob {
    pub spec: JobSpec,
    pub json: bool,
}

impl PartitionArgs {
    /// Checks the arguments against each other.
    pub fn check(self) -> Result<PartitionJob> {
        let format = OutputFormat::from(self.format);
        let compression = match self.compression {
            None => format.default_compression(),
            Some(DatasetCompression::None) => Compression::None,
            Some(DatasetCompression::Snappy) => Compression::Snappy,
            Some(DatasetCompression::Lz4) => Compression::Lz4,
            Some(DatasetCompression::Zstd) => Compression::Zstd,
        };
        let existing = match (self.append, self.resume) {
            (true, true) => Existing::ResumeAppend,
            (true, false) => Existing::Append,
            (false, true) => Existing::Resume,
            (false, false) if self.overwrite => Existing::Overwrite,
            (false, false) => Existing::Refuse,
        };
        if self.page_size.is_some() && format != OutputFormat::Pages {
            bail!("--page-size is for --format pages, and the format is {}; leave one of them out", format.name());
        }
        let page_bytes = self.page_size.unwrap_or(DEFAULT_PAGE_BYTES);
        let max_file_bytes = self.max_file_size.map(|bytes| bytes as u64);
        let spec = JobSpec {
            inputs: self.inputs,
            input: self.reading.options()?,
            into: self.into,
            placing: placing(self.placing, self.by.len(), format),
            by: self.by,
            sort_by: self.sort_by.iter().map(|column| column.parse()).collect::<Result<_, _>>()?,
            hot_key_share: self.hot_key_share,
            split_hot_keys: self.split_hot_keys,
            output: OutputOptions {
                dir: self.output,
                format,
                compression,
                max_file_bytes,
                page_bytes,
                sync: self.sync,
                existing,
            },
            threads: self.threads.unwrap_or_else(machine::cores),
            memory_limit: self.memory_limit,
        };
        Ok(PartitionJob { spec, json: self.json })
    }
}

fn placing(args: PlacingArgs, keys: usize, format: OutputFormat) -> Placing {
    let points = |text: &str| -> Vec<Vec<String>> {
        let values = |point: &str| point.split(',').map(str::to_owned).collect();
        match keys {
            1 => text.split([',', ';']).map(|point| vec![point.to_owned()]).collect(),
            _ => text.split(';').map(values).collect(),
        }
    };
    match args {
        PlacingArgs { key_groups: Some(groups), .. } => Placing::By(PlacementSpec::KeyGroups(groups)),
        PlacingArgs { ranges: Some(text), .. } if text == "sample" => Placing::SampledRanges,
        PlacingArgs { ranges: Some(text), .. } => Placing::By(PlacementSpec::Ranges(points(&text))),
        PlacingArgs { by_value: true, .. } => Placing::By(PlacementSpec::Values),
        PlacingArgs { round_robin: true, .. } => Placing::By(PlacementSpec::RoundRobin),
        _ => Placing::By(PlacementSpec::hash_for(format)),
    }
}
