//! `annulus partition`: a dataset is split into files by key.

use std::{
    io::{Write, stdout},
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use annulus_bench::progress;
use annulus_dataset::{
    error::DatasetError,
    input::{BadRows, Dataset},
    output::is_unfinished,
    placement::{Placement, sample_ranges},
    split::{self, CancelToken, HotFiles, Job, Progress, Summary},
};
use anyhow::{Context, Result, bail};
use indicatif::{HumanCount, ProgressBar};
use tokio::task::spawn_blocking;

use super::{GRACE, Outcome};
use crate::{
    interrupt::Signals,
    job::{PartitionJob, Placing},
    report,
};

/// Splits the dataset that `job` names. A signal stops it at the next batch; what is finished by then stays.
pub async fn run(job: PartitionJob) -> Result<Outcome> {
    let mut signals = Signals::all()?;
    let cancel = CancelToken::new();
    let (dir, json) = (job.output.dir.clone(), job.json);
    let mut work = spawn_blocking({
        let cancel = cancel.clone();
        move || split_files(job, &cancel)
    });
    let done = tokio::select! {
        biased;
        signal = signals.next() => {
            cancel.cancel();
            match tokio::time::timeout(GRACE, work).await {
                // It was done already.
                Ok(Ok(Ok(done))) => done,
                Ok(Ok(Err(error))) if !is_cancellation(&error) => return Err(error),
                _ => {
                    if !say_how_to_go_on(&dir) {
                        eprintln!("no partition was finished: nothing of this run is kept");
                    }
                    return Ok(Outcome::Interrupted(signal));
                }
            }
        }
        done = &mut work => done.context("a worker panicked")?.inspect_err(|error| {
            if !is_refusal(error) {
                say_how_to_go_on(&dir);
            }
        })?,
    };
    let text = if json { report::partition::json(&done)? } else { report::partition::text(&done) };
    writeln!(stdout(), "{text}").context("cannot print")?;
    Ok(Outcome::Done)
}

/// What was done, and how long it took.
pub struct Done {
    pub summary: Summary,
    pub dir: String,
    pub input_bytes: u64,
    pub seconds: f64,
}

fn split_files(job: PartitionJob, cancel: &CancelToken) -> Result<Done> {
    let start = Instant::now();
    let dataset = Dataset::open(&job.inputs, &job.input)?;
    if let Some((column, _)) =
        job.input.types.columns.iter().find(|(column, _)| dataset.schema.field_with_name(column).is_err())
    {
        bail!("--types names a column '{column}', and the inputs have none of that name");
    }
    let (spec, placement_name) = match job.placing {
        Placing::SampledRanges => (sample_ranges(&dataset, &job.by, job.into)?, "sampled ranges".to_owned()),
        Placing::By(spec) => {
            let name = format!("{spec:?}");
            (spec, name)
        }
    };
    let placement = Placement::new(&spec, &dataset.schema, &job.by, job.into)?;
    let hot_files = match job.split_hot_keys {
        Some(files) => HotFiles::sample(&dataset, &spec, &job.by, job.into, job.hot_key_share, files)?,
        None => HotFiles::default(),
    };
    let input_bytes = dataset.total_bytes;
    let dir = job.output.dir.display().to_string();
    let shown = Shown { bar: progress::bytes(input_bytes), rows: AtomicU64::new(0), start };
    let job = Job {
        dataset,
        placement,
        by: job.by,
        placement_name,
        hot_files,
        hot_key_share: job.hot_key_share,
        output: job.output,
        threads: job.threads,
        memory_limit: job.memory_bytes,
        quarantine: job.input.on_bad_row == BadRows::Quarantine,
    };
    let summary = split::run(&job, &shown, cancel);
    shown.bar.finish_and_clear();
    Ok(Done { summary: summary?, dir, input_bytes, seconds: start.elapsed().as_secs_f64() })
}

fn is_cancellation(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(DatasetError::Cancelled))
}

fn is_refusal(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(DatasetError::Output(error)) if error.is_refusal())
}

/// Returns whether there is something to go on with.
fn say_how_to_go_on(dir: &Path) -> bool {
    let unfinished = is_unfinished(dir);
    if unfinished {
        eprintln!("'{}' has finished partitions; go on with --resume, or start again with --overwrite", dir.display());
    }
    unfinished
}

/// Progress as a bar over the bytes of the inputs, with rows a second.
struct Shown {
    bar: ProgressBar,
    rows: AtomicU64,
    start: Instant,
}

impl Progress for Shown {
    fn read(&self, rows: u64, input_bytes: u64) {
        let rows = self.rows.fetch_add(rows, Relaxed) + rows;
        self.bar.inc(input_bytes);
        let rate = rows as f64 / self.start.elapsed().as_secs_f64();
        self.bar.set_message(format!("{} rows, {}/s", HumanCount(rows), HumanCount(rate as u64)));
    }

    fn finishing(&self, slots: usize) {
        self.bar.set_message(format!("ending {slots} partitions"));
    }
}
