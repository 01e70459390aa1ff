//! What a command line asks for, checked: files that must exist are there, and options fit each
//! other.

use std::{
    fs,
    io::{self, IsTerminal, Read},
    path::PathBuf,
};

use annulus_bench::{
    join::JoinArgs,
    pages::PagesArgs,
    reproduce::{cyclo::CycloJoinArgs, pages::ReproduceArgs},
    roundabout::RoundaboutArgs,
};
use annulus_dataset::{
    input::{BadRows, ColumnTypes, CsvOptions, InputOptions},
    output::{Compression, DEFAULT_PAGE_BYTES, Existing, OutputFormat, OutputOptions},
    placement::PlacementSpec,
    split::{JobSpec, Placing},
};
use annulus_terminal::machine;
use anyhow::{Context, Result, bail};

use crate::{
    args::{
        Args, Command, DatasetCompression, DatasetFormat, EngineArgs, Format, PartitionArgs, PlacingArgs, ReadingArgs,
        ReproduceCommand, SqlArgs, TpchArgs, VerifyArgs,
    },
    bench::{BenchCommand, RepartitionArgs},
    join::JoinCommandJob,
    node::NodeArgs,
    session::Limits,
    sql::tables::TableSpec,
    units::QueryList,
};

/// One run of the command.
pub enum Job {
    Tpch(TpchJob),
    Sql(SqlJob),
    Partition(PartitionJob),
    Join(Box<JoinCommandJob>),
    Host {
        /// The process that gives the orders.
        coordinator: u32,
    },
    Node(NodeArgs),
    Verify(VerifyArgs),
    Bench(RepartitionArgs),
    Pages(PagesArgs),
    Roundabout(RoundaboutArgs),
    BenchJoin(JoinArgs),
    Reproduce(ReproduceArgs),
    ReproduceCycloJoin(CycloJoinArgs),
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

/// A dataset to be split.
pub struct PartitionJob {
    pub spec: JobSpec,
    pub json: bool,
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
            Command::Sql(args) => SqlJob::check(*args).map(Self::Sql),
            Command::Verify(args) => Ok(Self::Verify(args)),
            Command::Partition(args) => PartitionJob::check(args).map(Self::Partition),
            Command::Join(args) => args.check().map(|job| Self::Join(Box::new(job))),
            Command::Host { coordinator } => Ok(Self::Host { coordinator }),
            Command::Node(args) => Ok(Self::Node(args)),
            Command::Bench(BenchCommand::Repartition(args)) => Ok(Self::Bench(args)),
            Command::Bench(BenchCommand::Pages(args)) => Ok(Self::Pages(args)),
            Command::Bench(BenchCommand::Roundabout(args)) => Ok(Self::Roundabout(args)),
            Command::Bench(BenchCommand::Join(args)) => Ok(Self::BenchJoin(args)),
            Command::Reproduce(ReproduceCommand::Pages(args)) => Ok(Self::Reproduce(args)),
            Command::Reproduce(ReproduceCommand::CycloJoin(args)) => Ok(Self::ReproduceCycloJoin(args)),
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
        let input = input_options(args.reading)?;
        if input.on_bad_row == BadRows::Quarantine {
            bail!("--on-bad-row quarantine is for partition; choose fail or skip");
        }
        let mut settings = args.set;
        settings.extend(args.strategy.map(|strategy| ("annulus.strategy".to_owned(), strategy.name().to_owned())));
        let default_rows = if io::stdout().is_terminal() { 40 } else { usize::MAX };
        Ok(Self {
            source,
            tables: args.tables,
            input,
            format: args.format,
            max_rows: args.maxrows.unwrap_or(default_rows),
            output: args.output,
            limits: args.engine.into(),
            settings,
        })
    }
}

impl PartitionJob {
    fn check(args: PartitionArgs) -> Result<Self> {
        let format = OutputFormat::from(args.format);
        let compression = match args.compression {
            None => format.default_compression(),
            Some(DatasetCompression::None) => Compression::None,
            Some(DatasetCompression::Snappy) => Compression::Snappy,
            Some(DatasetCompression::Lz4) => Compression::Lz4,
            Some(DatasetCompression::Zstd) => Compression::Zstd,
        };
        let existing = match (args.resume, args.overwrite) {
            (true, _) => Existing::Resume,
            (_, true) => Existing::Overwrite,
            _ => Existing::Refuse,
        };
        if args.page_size.is_some() && format != OutputFormat::Pages {
            bail!("--page-size is for --format pages, and the format is {}; leave one of them out", format.name());
        }
        let page_bytes = args.page_size.unwrap_or(DEFAULT_PAGE_BYTES);
        let max_file_bytes = args.max_file_size.map(|bytes| bytes as u64);
        let spec = JobSpec {
            inputs: args.inputs,
            input: input_options(args.reading)?,
            into: args.into,
            placing: placing(args.placing, args.by.len(), format),
            by: args.by,
            sort_by: args.sort_by.iter().map(|column| column.parse()).collect::<Result<_, _>>()?,
            hot_key_share: args.hot_key_share,
            split_hot_keys: args.split_hot_keys,
            output: OutputOptions {
                dir: args.output,
                format,
                compression,
                max_file_bytes,
                page_bytes,
                sync: args.sync,
                existing,
            },
            threads: args.threads.unwrap_or_else(machine::cores),
            memory_limit: args.memory_limit,
        };
        Ok(Self { spec, json: args.json })
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

/// How inputs are read.
pub fn input_options(args: ReadingArgs) -> Result<InputOptions> {
    let delimiter = match args.delimiter {
        Some(c) if !c.is_ascii() => bail!("--delimiter is '{c}'; choose a character of ASCII"),
        delimiter => delimiter.map(|c| c as u8),
    };
    let types = match &args.types {
        Some(text) => ColumnTypes::parse(text, args.all_text)?,
        None => ColumnTypes { all_text: args.all_text, ..ColumnTypes::default() },
    };
    Ok(InputOptions {
        types,
        format: args.input_format.map(|name| name.parse()).transpose()?,
        csv: CsvOptions { delimiter, header: !args.no_header, null: args.null, ..CsvOptions::default() },
        on_bad_row: args.on_bad_row.parse::<BadRows>()?,
        ..InputOptions::default()
    })
}

impl From<DatasetFormat> for OutputFormat {
    fn from(format: DatasetFormat) -> Self {
        match format {
            DatasetFormat::Parquet => Self::Parquet,
            DatasetFormat::Arrow => Self::Ipc,
            DatasetFormat::Pages => Self::Pages,
        }
    }
}

impl From<EngineArgs> for Limits {
    fn from(args: EngineArgs) -> Self {
        Self { target_partitions: args.target_partitions, memory_bytes: args.memory_limit }
    }
}
