//! Splits the dataset.

use std::{
    io::{Write, stdout},
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use annulus_dataset::{CancelToken, DatasetError, ExistingPolicy, JobSpec, LocalCopy, Progress, can_resume, split};
use annulus_terminal::progress;
use anyhow::{Context, Result, bail};
use indicatif::{HumanCount, ProgressBar};
use tokio::task::spawn_blocking;

use super::{
    args::{PartitionArgs, PartitionJob},
    report::{self, SplitResult},
};
use crate::{
    inputs::{InputSource, Inputs},
    interrupt::Signals,
    objects::{Upload, fetch},
    outcome::Outcome,
    reading,
    runtime::{self, GRACE},
};

/// Splits the dataset that `args` name. A signal stops it at the next batch; finished partitions
/// stay.
pub fn run(args: PartitionArgs) -> Result<Outcome> {
    let job = args.check()?;
    runtime::run_with_spill(None, None, async |copies| split_inputs(job, copies).await)
}

/// Splits the inputs. Objects and pipes are copied to the folder `copies` first, and so is a result that goes to a
/// store.
async fn split_inputs(mut job: PartitionJob, copies: &Path) -> Result<Outcome> {
    let mut signals = Signals::all()?;
    let existing = job.spec.output.existing;
    let upload = match &job.url {
        Some(url) => Some(Upload::prepare(url, existing).await?),
        None => None,
    };
    let fetched = copy_inputs(&mut job.spec, copies);
    tokio::select! {
        biased;
        signal = signals.next() => return Ok(Outcome::Interrupted(signal)),
        fetched = fetched => fetched?,
    }
    let Some(upload) = upload else { return split_until_interrupted(job, &mut signals).await };
    let output = copies.join("result");
    job.spec.output.dir.clone_from(&output);
    let json = job.json;
    let done = match split_or_interrupt(job, &mut signals).await? {
        Ok(done) => done,
        Err(signal) => return Ok(Outcome::Interrupted(signal)),
    };
    match upload.send_until_interrupted(&output, &mut signals).await? {
        Some(signal) => Ok(Outcome::Interrupted(signal)),
        None => print(&SplitResult { dir: upload.url().to_owned(), ..done }, json),
    }
}

async fn split_until_interrupted(job: PartitionJob, signals: &mut Signals) -> Result<Outcome> {
    let json = job.json;
    match split_or_interrupt(job, signals).await? {
        Ok(done) => print(&done, json),
        Err(signal) => Ok(Outcome::Interrupted(signal)),
    }
}

fn print(done: &SplitResult, json: bool) -> Result<Outcome> {
    let text = if json { report::json(done)? } else { report::text(done) };
    writeln!(stdout(), "{text}").context("cannot print")?;
    Ok(Outcome::Done)
}

/// Copies the inputs that are not local files to the folder `copies`.
pub(super) async fn copy_inputs(spec: &mut JobSpec, copies: &Path) -> Result<()> {
    let inputs = Inputs::new(copies);
    let (mut paths, mut found) = (vec![], Vec::new());
    for (number, input) in spec.inputs.iter().enumerate() {
        match inputs.find(input, &spec.input, None).await? {
            InputSource::Paths(more, options) => {
                paths.extend(more);
                found.push(*options);
            }
            InputSource::Parquet(url) => {
                let copy = fetch(&url, &copies.join(format!("parquet-{number}"))).await?;
                let path = copy.to_string_lossy().into_owned();
                found.push(spec.input.clone().with_copy(LocalCopy { path: path.clone(), name: url }));
                paths.push(path);
            }
        }
    }
    let copied = found.iter_mut().flat_map(|options| std::mem::take(&mut options.copies)).collect();
    if found.windows(2).any(|pair| pair[0] != pair[1]) {
        bail!("options behind '?' need a single input: several are read as one dataset; give flags instead");
    }
    if let Some(options) = found.pop() {
        spec.input = options;
        spec.input.copies = copied;
    }
    spec.inputs = paths;
    Ok(())
}

/// Splits the dataset, unless a signal arrives first, whose number is returned.
async fn split_or_interrupt(job: PartitionJob, signals: &mut Signals) -> Result<Result<SplitResult, u8>> {
    let cancel = CancelToken::new();
    // What is written on the way to an object store does not stay.
    let (spec, stays) = (job.spec, job.url.is_none());
    let (dir, existing) = (spec.output.dir.clone(), spec.output.existing);
    let mut work = spawn_blocking({
        let cancel = cancel.clone();
        move || split_files(spec, &cancel, &BarProgress::new())
    });
    let done = tokio::select! {
        biased;
        signal = signals.next() => {
            cancel.cancel();
            match tokio::time::timeout(GRACE, work).await {
                // It ended before the signal.
                Ok(Ok(Ok(done))) => done,
                Ok(Ok(Err(error))) if !is_cancellation(&error) => return Err(error),
                _ => {
                    if !(stays && say_how_to_go_on(&dir, existing)) {
                        eprintln!("no partition was finished: the output of this run is removed");
                    }
                    return Ok(Err(signal));
                }
            }
        }
        done = &mut work => done.context("a worker panicked")?.inspect_err(|error| {
            if stays && !is_refusal(error) {
                say_how_to_go_on(&dir, existing);
            }
        })?,
    };
    Ok(Ok(done))
}

/// The progress of a split whose inputs become known when it begins.
pub trait SplitProgress: Progress {
    /// All inputs have this many bytes.
    fn begin(&self, input_bytes: u64);
}

pub(super) fn split_files(spec: JobSpec, cancel: &CancelToken, shown: &impl SplitProgress) -> Result<SplitResult> {
    let start = Instant::now();
    let job = spec.plan()?;
    reading::note_surprises(&job.dataset);
    reading::note_partial(&job.dataset.partial);
    let input_bytes = job.dataset.total_bytes;
    shown.begin(input_bytes);
    let summary = split(&job, shown, cancel);
    let (dir, appended) = (job.output.dir.display().to_string(), job.output.existing.appends());
    Ok(SplitResult { summary: summary?, dir, appended, input_bytes, seconds: start.elapsed().as_secs_f64() })
}

fn is_cancellation(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(DatasetError::Cancelled))
}

fn is_refusal(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(DatasetError::Output(error)) if error.is_refusal())
}

/// Prints how to continue, and returns whether there are finished partitions.
fn say_how_to_go_on(dir: &Path, existing: ExistingPolicy) -> bool {
    let (dir_shown, unfinished) = (dir.display(), can_resume(dir));
    if unfinished && existing.appends() {
        eprintln!(
            "'{dir_shown}' is unchanged: continue with --append --resume, or start the append again without --resume"
        );
    } else if unfinished {
        eprintln!("'{dir_shown}' has finished partitions: continue with --resume, or start again with --overwrite");
    }
    unfinished
}

/// A progress bar over the bytes of the inputs, with rows per second.
struct BarProgress {
    bar: OnceLock<ProgressBar>,
    rows: AtomicU64,
    start: Instant,
}

impl BarProgress {
    fn new() -> Self {
        Self { bar: OnceLock::new(), rows: AtomicU64::new(0), start: Instant::now() }
    }
}

impl SplitProgress for BarProgress {
    fn begin(&self, input_bytes: u64) {
        self.bar.get_or_init(|| progress::bytes(input_bytes));
    }
}

impl Drop for BarProgress {
    fn drop(&mut self) {
        self.bar.get().inspect(|bar| bar.finish_and_clear());
    }
}

impl Progress for BarProgress {
    fn read(&self, rows: u64, input_bytes: u64) {
        let rows = self.rows.fetch_add(rows, Relaxed) + rows;
        let Some(bar) = self.bar.get() else { return };
        bar.inc(input_bytes);
        let rate = rows as f64 / self.start.elapsed().as_secs_f64();
        bar.set_message(format!("{} rows, {}/s", HumanCount(rows), HumanCount(rate as u64)));
    }

    fn finishing(&self, slots: usize) {
        let Some(bar) = self.bar.get() else { return };
        bar.set_message(format!("finishing {slots} partitions"));
    }
}
