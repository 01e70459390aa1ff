//! Splitting a dataset by key into files, in one pass and in bounded memory.
//!
//! ```text
//! unit -> batches -> partitions -> slots (rows of hot keys take turns)
//!      -> wave (one per worker) --full--> each slot's rows, gathered -> its open file
//!      or, if that many files do not fit: spill, then file by file
//! ```
//! Rows are spilled if they are sorted within their files, or if each value has a folder and there
//! are more values than files can be open (values.rs). They are then sorted slot by slot (sort/),
//! so rows of one value follow each other and one file is open at a time. There are no queues: a
//! worker writes the rows that it has read, and waits only for the lock of the file.
//!
//! Memory: a fifth of the limit for waves, a quarter for open files, but no more than is of use
//! (output/memory.rs), a sixteenth for dictionaries, the rest for decoded and gathered rows. If a
//! decoded row group of the input is larger than that rest, the run exceeds the limit.

mod codes;
mod files;
mod first_error;
mod hot_files;
mod hot_report;
mod large_rows;
mod plan;
mod progress;
mod sort;
mod spill;
mod split_points;
mod values;
mod wave;
mod worker;

use std::{
    num::NonZeroUsize,
    sync::OnceLock,
    sync::atomic::{
        AtomicBool, AtomicUsize,
        Ordering::{Relaxed, Release},
    },
};

use parking_lot::Mutex;

use annulus_sync::CancelToken;
pub use hot_files::HotFiles;
pub use plan::{JobSpec, PlacementChoice};
pub use progress::{NoProgress, Progress};
pub use split_points::sample_ranges;

use crate::{
    codes::Codes,
    error::{DatasetError, DatasetOption, OutputError},
    hot_keys::DEFAULT_HOT_SHARE,
    input::Dataset,
    manifest::{Manifest, OutputFormat, PartitionSettings, Settings, SortColumn},
    output::{OpenOutcome, Output, OutputOptions, OutputSpec, Slot, memory::Shares},
    placement::Placement,
};
use first_error::FirstError;
use sort::Order;
use spill::Spill;
use values::OpenValues;
use worker::{ReadingResult, Shared};

/// The memory that a job may use by default, in bytes.
const DEFAULT_MEMORY: usize = 1 << 30;

/// A job: the inputs, the placement and the output of a split. [`JobSpec::plan`] makes one from a user's request.
#[derive(Debug)]
#[non_exhaustive]
pub struct Job {
    /// The dataset to read.
    pub dataset: Dataset,
    /// The partition of each row.
    pub placement: Placement,
    /// The key columns.
    pub by: Vec<String>,
    /// The columns that the rows of each file are sorted by. If empty, their order is undefined.
    pub sort_by: Vec<SortColumn>,
    /// The keys whose rows are spread over extra files of their partition.
    pub hot_files: HotFiles,
    /// The share of an average partition's rows that makes a key hot, so that it is reported; see
    /// [`DEFAULT_HOT_SHARE`](crate::DEFAULT_HOT_SHARE).
    pub hot_key_share: f64,
    /// The options of the output: its folder, format and settings.
    pub output: OutputOptions,
    /// The number of worker threads, at least one.
    pub threads: usize,
    /// The memory that the run may use, in bytes.
    pub memory_limit: usize,
    /// Whether rows that could not be read are kept in a file.
    pub quarantine: bool,
}

impl Job {
    /// Returns a job on one thread, with 1 GiB of memory, whose rows are not sorted and whose hot
    /// keys are not spread. `by` are the columns that `placement` was made for.
    pub fn new(dataset: Dataset, placement: Placement, by: Vec<String>, output: OutputOptions) -> Self {
        Self {
            dataset,
            placement,
            by,
            sort_by: Vec::new(),
            hot_files: HotFiles::default(),
            hot_key_share: DEFAULT_HOT_SHARE,
            output,
            threads: 1,
            memory_limit: DEFAULT_MEMORY,
            quarantine: false,
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// The manifest of the dataset in the folder.
    pub manifest: Manifest,
    /// Whether the dataset contained this run already, and nothing was written.
    pub was_complete: bool,
    /// The number of rows read, good and bad. That of the earlier run if nothing was written.
    pub rows_in: u64,
    /// The number of partitions (and hot keys' shares) that an earlier run had finished.
    pub slots_kept: usize,
    /// The bytes that were spilled to disk because not all files could be open or rows were sorted.
    pub bytes_spilled: u64,
}

/// Runs a job: writes all rows of the dataset to the files of their partitions. See [`JobSpec`] for
/// an example.
///
/// After an error or a cancellation, the folder keeps the finished files and the journal, so that
/// [`ExistingPolicy::Resume`](crate::ExistingPolicy::Resume) can continue. Everything else is removed. A
/// dataset that was to be appended to stays unchanged.
///
/// # Errors
/// If inputs cannot be read, the output cannot be written, or `cancel` asked to stop
/// ([`DatasetError::Cancelled`]).
pub fn split(job: &Job, progress: &dyn Progress, cancel: &CancelToken) -> Result<Summary, DatasetError> {
    let slots = slots_of(job);
    let slots_count = slots.len();
    if job.output.existing.resumes() && job.dataset.fingerprint.is_none() {
        return Err(OutputError::ResumeOnce { remedy: job.output.existing.start_again() }.into());
    }
    job.dataset.refuse_inputs_in(&job.output.dir)?;
    let shares = Shares::new(job.memory_limit, job.threads);
    let schema = job.dataset.schema.clone();
    let keys: Vec<_> = job.by.iter().filter_map(|key| Some((key.clone(), schema.index_of(key).ok()?))).collect();
    let order = order_of(job, &keys)?;
    let opened = Output::open(OutputSpec {
        options: &job.output,
        settings: settings_of(job),
        schema,
        keys,
        slots,
        writers_bytes: shares.writers,
        dictionary: &|column| job.dataset.hints.dictionary(column).unwrap_or(true),
        hashed: job.placement.hashed_types(),
        by_value: job.placement.is_by_value(),
        whole: false,
    })?;
    match opened {
        OpenOutcome::Complete { manifest, rows_in } => {
            let slots_kept = if job.placement.is_by_value() { manifest.partitions.len() } else { slots_count };
            Ok(Summary { manifest: *manifest, was_complete: true, rows_in, slots_kept, bytes_spilled: 0 })
        }
        OpenOutcome::Writing { output, kept, kept_count } => {
            let (manifest, rows_in, bytes_spilled) = write(job, order, shares, *output, &kept, progress, cancel)?;
            Ok(Summary { manifest, was_complete: false, rows_in, slots_kept: kept_count, bytes_spilled })
        }
    }
}

/// Returns the order in which a slot's rows are written to its files; `None` if any order will do.
fn order_of(job: &Job, keys: &[(String, usize)]) -> Result<Option<Order>, DatasetError> {
    let groups: Vec<usize> = keys.iter().map(|(_, column)| *column).filter(|_| job.placement.is_by_value()).collect();
    let any = !groups.is_empty() || !job.sort_by.is_empty();
    any.then(|| Order::new(&job.dataset.schema, &groups, &job.sort_by)).transpose()
}

/// Writes all rows. Returns the manifest of the dataset in the folder, the number of rows read and
/// the number of bytes spilled.
fn write(
    job: &Job,
    order: Option<Order>,
    shares: Shares,
    mut output: Output,
    kept: &[Option<u64>],
    progress: &dyn Progress,
    cancel: &CancelToken,
) -> Result<(Manifest, u64, u64), DatasetError> {
    let written = OpenValues::most(job, &output, shares).and_then(|open| {
        if let Some(most) = open {
            output.keep_values_open(most, shares.writers);
        }
        let files = open.unwrap_or(kept.len());
        let spill = spill_if_needed(job, order.is_some(), open.is_some(), shares, &output)?;
        let codes = spill.get().is_none().then(|| codes::codes_of(job, &output, shares, files));
        let shared = Shared {
            job,
            codes: codes.filter(Codes::any),
            output: &output,
            open: open.map(OpenValues::new),
            kept,
            progress,
            cancel,
            stop: AtomicBool::new(false),
            next: AtomicUsize::new(0),
            shares,
            spill,
            beginning_spill: Mutex::new(()),
            order,
        };
        read_and_finish(shared)
    });
    match written {
        Ok((ended, bytes_spilled)) => {
            let hot_keys = ended.hot_keys(job, &output);
            let manifest = output.complete(ended.rows_bad, hot_keys)?;
            Ok((manifest, ended.rows_in, bytes_spilled))
        }
        Err(error) => {
            // The first error is the one to report, so an error of the cleanup is ignored.
            output.abandon().ok();
            Err(error)
        }
    }
}

/// Pages and buffers of spilled rows may take the memory limit divided by this.
const SPILL_SHARE: usize = 2;
/// Pages and buffers may take this many bytes under any limit. It is little beside the memory of
/// the process itself.
const SMALL_SPILL_BYTES: usize = 16 << 20;

/// Creates the spill that rows go to first if they are sorted or not all files can be open at once. If values are
/// open, the spill is created when there are more of them.
fn spill_if_needed(
    job: &Job,
    sorts: bool,
    opens_values: bool,
    shares: Shares,
    output: &Output,
) -> Result<OnceLock<Spill>, DatasetError> {
    let slots = output.slots();
    if !sorts && slots <= files::most(output.floor_bytes(), shares.writers) {
        return Ok(OnceLock::new());
    }
    check_spill(job, slots)?;
    if opens_values {
        return Ok(OnceLock::new());
    }
    // No output file is open while rows are spilled, so the memory for open files is free.
    create_spill(job, output, shares.writers).map(OnceLock::from)
}

/// Creates the spill, whose pages take about `memory_bytes`.
fn create_spill(job: &Job, output: &Output, memory_bytes: usize) -> Result<Spill, DatasetError> {
    let folder = |name: &str| output.scratch_path(name);
    Spill::create(folder, &job.dataset.schema, output.slots(), job.threads, memory_bytes)
}

/// Checks that the memory limit allows the spill's pages and buffers. Their size depends on the
/// number of files, not on the rows.
fn check_spill(job: &Job, slots: usize) -> Result<(), DatasetError> {
    let least = Spill::least_bytes(slots, job.threads);
    if least <= (job.memory_limit / SPILL_SHARE).max(SMALL_SPILL_BYTES) {
        return Ok(());
    }
    let mib = |bytes: usize| format!("{}M", bytes.div_ceil(1 << 20));
    let (workers, takes, allow) = (job.threads, mib(least), mib(least * SPILL_SHARE));
    Err(DatasetError::Config {
        option: DatasetOption::MemoryLimit,
        value: mib(job.memory_limit),
        remedy: format!(
            "{slots} files cannot be open within it, and spilling for them with {workers} threads takes {takes}, \
             at most half of the limit; allow {allow}, or use fewer partitions ({}) or threads ({})",
            DatasetOption::Into,
            DatasetOption::Threads
        ),
    })
}

/// Reads all inputs and finishes all slots. Returns the result of the reading and the number of
/// bytes spilled.
fn read_and_finish(mut shared: Shared<'_>) -> Result<(ReadingResult, u64), DatasetError> {
    let ended = on_threads(&shared, |worker| shared.read(worker))?;
    let ended = ended.into_iter().reduce(ReadingResult::merge).unwrap_or_default();
    ended.check(&shared)?;
    shared.progress.finishing(shared.unfinished());
    if shared.open.is_some() {
        // Open files of values take memory that sorting needs.
        shared.next.store(0, Relaxed);
        on_threads(&shared, |_| shared.seal_values())?;
    }
    let spilled = shared.spill.take().map(Spill::seal).transpose()?;
    shared.next.store(0, Relaxed);
    let in_runs: u64 = on_threads(&shared, |_| shared.finish(spilled.as_ref()))?.into_iter().sum();
    Ok((ended, in_runs + spilled.map_or(0, |spilled| spilled.bytes())))
}

/// Runs `work` on every thread. The first error stops all threads and is returned.
///
/// The threads are those of this run alone, and no pool's: they wait for files, each keeps its buffers
/// for the whole run, and fewer of them do if the system refuses some.
fn on_threads<T: Send>(
    shared: &Shared<'_>,
    work: impl Fn(usize) -> Result<T, DatasetError> + Sync,
) -> Result<Vec<T>, DatasetError> {
    let first_error = FirstError::default();
    let done = Mutex::new(Vec::new());
    let one = |worker| match work(worker) {
        Ok(result) => done.lock().push(result),
        Err(error) => {
            // The error comes before the flag: a thread that sees the flag fails too, but must not
            // be first.
            first_error.add(error);
            shared.stop.store(true, Release);
        }
    };
    std::thread::scope(|scope| {
        for worker in 1..shared.job.threads {
            let builder = std::thread::Builder::new().name(format!("split-{worker}"));
            // If a thread cannot be started, the others do its work, which takes longer.
            let one = &one;
            if builder.spawn_scoped(scope, move || one(worker)).is_err() {
                break;
            }
        }
        one(0);
    });
    match first_error.into_inner() {
        Some(error) => Err(error),
        None => Ok(done.into_inner()),
    }
}

/// Returns the slots of the partitions' own files, then those for hot keys.
fn slots_of(job: &Job) -> Vec<Slot> {
    let own = (0..job.placement.partitions()).map(|partition| Slot { partition, hot: None });
    own.chain(job.hot_files.slots()).collect()
}

/// Returns everything that decides which rows go to which file, and how files are written.
fn settings_of(job: &Job) -> Settings {
    let Job { dataset, placement, by, output, .. } = job;
    Settings::Partition(Box::new(PartitionSettings {
        by: by.clone(),
        placement: placement.recorded(),
        // With a folder for each value, the number of partitions is not an option.
        into: NonZeroUsize::new(placement.partitions()).filter(|_| !placement.is_by_value()),
        format: output.format,
        compression: output.compression,
        page_size: (output.format == OutputFormat::Pages).then_some(output.page_bytes),
        max_file_size: output.max_file_bytes,
        sort_by: job.sort_by.clone(),
        quarantine: job.quarantine,
        input: dataset.fingerprint.clone(),
        split_hot_keys: job.hot_files.recorded(),
        key_types: Vec::new(),
        append: None,
    }))
}
