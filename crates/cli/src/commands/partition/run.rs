//! Splits the dataset.

use std::{
    io::{Write, stdout},
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use annulus_dataset::{CancelToken, DatasetError, Existing, JobSpec, Progress, can_resume, split};
use annulus_terminal::progress;
use anyhow::{Context, Result};
use indicatif::{HumanCount, ProgressBar};
use tokio::task::spawn_blocking;

use super::{
    args::{PartitionArgs, PartitionJob},
    report::{self, Done},
};
use crate::{
    interrupt::Signals,
    objects::{Upload, fetch, is_url},
    outcome::Outcome,
    reading::{note_mixed, note_partial},
    runtime::{self, GRACE},
};

/// Splits the dataset that `args` name. A signal stops it at the next batch; finished partitions
/// stay.
pub fn run(args: PartitionArgs) -> Result<Outcome> {
    let job = args.check()?;
    match job.uses_objects() {
        true => runtime::run_with_spill(None, None, async |copies| split_objects(job, copies).await),
        false => runtime::run(async { split_until_interrupted(job, &mut Signals::all()?).await }),
    }
}

/// Splits objects, or into objects. They are copied to the folder `copies`, and from there.
async fn split_objects(mut job: PartitionJob, copies: &Path) -> Result<Outcome> {
    let mut signals = Signals::all()?;
    let existing = job.spec.output.existing;
    let upload = match &job.url {
        Some(url) => Some(Upload::prepare(url, existing).await?),
        None => None,
    };
    let fetched = async {
        for (number, input) in job.spec.inputs.iter_mut().enumerate().filter(|(_, input)| is_url(input)) {
            let copy = fetch(input, &copies.join(format!("input-{number}"))).await?;
            *input = copy.to_string_lossy().into_owned();
        }
        Ok::<_, anyhow::Error>(())
    };
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
        None => print(&Done { dir: upload.url().to_owned(), ..done }, json),
    }
}

async fn split_until_interrupted(job: PartitionJob, signals: &mut Signals) -> Result<Outcome> {
    let json = job.json;
    match split_or_interrupt(job, signals).await? {
        Ok(done) => print(&done, json),
        Err(signal) => Ok(Outcome::Interrupted(signal)),
    }
}

fn print(done: &Done, json: bool) -> Result<Outcome> {
    let text = if json { report::json(done)? } else { report::text(done) };
    writeln!(stdout(), "{text}").context("cannot print")?;
    Ok(Outcome::Done)
}

/// Splits the dataset, unless a signal arrives first, whose number is returned.
async fn split_or_interrupt(job: PartitionJob, signals: &mut Signals) -> Result<Result<Done, u8>> {
    let cancel = CancelToken::new();
    // What is written on the way to an object store does not stay.
    let (spec, stays) = (job.spec, job.url.is_none());
    let (dir, existing) = (spec.output.dir.clone(), spec.output.existing);
    let mut work = spawn_blocking({
        let cancel = cancel.clone();
        move || split_files(spec, &cancel)
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

fn split_files(spec: JobSpec, cancel: &CancelToken) -> Result<Done> {
    let start = Instant::now();
    let job = spec.plan()?;
    note_mixed(&job.dataset.mixed);
    note_partial(&job.dataset.partial);
    let input_bytes = job.dataset.total_bytes;
    let shown = Shown { bar: progress::bytes(input_bytes), rows: AtomicU64::new(0), start };
    let summary = split(&job, &shown, cancel);
    shown.bar.finish_and_clear();
    let (dir, appended) = (job.output.dir.display().to_string(), job.output.existing.appends());
    Ok(Done { summary: summary?, dir, appended, input_bytes, seconds: start.elapsed().as_secs_f64() })
}

fn is_cancellation(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(DatasetError::Cancelled))
}

fn is_refusal(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(DatasetError::Output(error)) if error.is_refusal())
}

/// Prints how to continue, and returns whether there are finished partitions.
fn say_how_to_go_on(dir: &Path, existing: Existing) -> bool {
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
        self.bar.set_message(format!("finishing {slots} partitions"));
    }
}
