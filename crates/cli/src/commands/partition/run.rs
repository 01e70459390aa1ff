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
    outcome::Outcome,
    reading::note_mixed,
    runtime::{self, GRACE},
};

/// Splits the dataset that `args` name. A signal stops it at the next batch; finished partitions
/// stay.
pub fn run(args: PartitionArgs) -> Result<Outcome> {
    let job = args.check()?;
    runtime::run(split_until_interrupted(job))
}

async fn split_until_interrupted(job: PartitionJob) -> Result<Outcome> {
    let mut signals = Signals::all()?;
    let cancel = CancelToken::new();
    let PartitionJob { spec, json } = job;
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
                    if !say_how_to_go_on(&dir, existing) {
                        eprintln!("no partition was finished: the output of this run is removed");
                    }
                    return Ok(Outcome::Interrupted(signal));
                }
            }
        }
        done = &mut work => done.context("a worker panicked")?.inspect_err(|error| {
            if !is_refusal(error) {
                say_how_to_go_on(&dir, existing);
            }
        })?,
    };
    let text = if json { report::json(&done)? } else { report::text(&done) };
    writeln!(stdout(), "{text}").context("cannot print")?;
    Ok(Outcome::Done)
}

fn split_files(spec: JobSpec, cancel: &CancelToken) -> Result<Done> {
    let start = Instant::now();
    let job = spec.plan()?;
    note_mixed(&job.dataset.mixed);
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
