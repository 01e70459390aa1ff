//! Splits files by key, to measure the library without the command, as bench/partition/run does:
//!
//! ```text
//! cargo bench -p annulus-dataset --bench split -- FORMAT BY N DIR [key=value ...] -- INPUT...
//! N: the number of partitions, or "values" for a folder for each value
//! keys: threads, memory (bytes), max-file (bytes), page (bytes), sync (true, false), hot (files),
//!       batch (rows), existing (refuse, overwrite, resume), compression (none, zstd)
//! ```

use std::{env, error::Error, time::Instant};

use annulus_dataset::{
    CancelToken, Compression, DEFAULT_HOT_SHARE, Dataset, ExistingPolicy, HotFiles, InputOptions, Job, NoProgress,
    OutputFormat, OutputOptions, Placement, PlacementSpec, VALUE_BUCKETS, split,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    // Cargo adds one `--bench`.
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let (options, inputs) = arguments.split_at(arguments.iter().position(|a| a == "--").ok_or("give -- INPUT...")?);
    let [format, by, into, dir, settings @ ..] = options else { return Err("give FORMAT BY N DIR".into()) };
    let format = match format.as_str() {
        "parquet" => OutputFormat::Parquet,
        "arrow" => OutputFormat::Ipc,
        "pages" => OutputFormat::Pages,
        other => return Err(format!("format {other}").into()),
    };
    let mut output = OutputOptions::new(dir, format);
    let mut input = InputOptions::default();
    let (mut threads, mut memory_limit, mut hot) = (2, 1 << 30, None);
    for setting in settings {
        match setting.split_once('=').ok_or("write key=value")? {
            ("threads", value) => threads = value.parse()?,
            ("memory", value) => memory_limit = value.parse()?,
            ("max-file", value) => output.max_file_bytes = Some(value.parse()?),
            ("page", value) => output.page_bytes = value.parse()?,
            ("hot", value) => hot = Some(value.parse()?),
            ("sync", value) => output.sync = value.parse()?,
            ("batch", value) => input.batch_rows = value.parse()?,
            ("existing", "overwrite") => output.existing = ExistingPolicy::Overwrite,
            ("existing", "resume") => output.existing = ExistingPolicy::Resume,
            ("compression", "none") => output.compression = Compression::None,
            ("compression", "zstd") => output.compression = Compression::Zstd,
            _ => return Err(format!("setting {setting}").into()),
        }
    }
    let by: Vec<String> = by.split(',').map(str::to_owned).collect();
    let dataset = Dataset::open(&inputs[1..], &input)?;
    let (spec, into) = match into.as_str() {
        "values" => (PlacementSpec::Values, VALUE_BUCKETS),
        into => (PlacementSpec::HashOfValues, into.parse()?),
    };
    let placement = Placement::new(&spec, &dataset.schema, &by, into)?;
    let hot_files = match hot {
        None => HotFiles::default(),
        files => HotFiles::sample(&dataset, &spec, &by, into, DEFAULT_HOT_SHARE, files)?,
    };
    let mut job = Job::new(dataset, placement, by, output);
    (job.hot_files, job.threads, job.memory_limit) = (hot_files, threads, memory_limit);
    let summary = split(&job, &NoProgress, &CancelToken::new())?;
    println!(
        "{} rows in, {} out, {} bytes, {} kept, {} spilled, {:.3} s",
        summary.rows_in,
        summary.manifest.rows,
        summary.manifest.bytes,
        summary.slots_kept,
        summary.bytes_spilled,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
