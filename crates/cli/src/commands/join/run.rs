//! Runs a join in this process or on workers, until it has ended or a signal arrives.

use std::{
    io::{Write, stdout},
    path::Path,
    process,
};

use annulus_terminal::machine::{self, ResidentPeak};
use anyhow::{Context, Result};

use super::{
    args::{JoinArgs, JoinJob},
    attempt::Attempt,
    counts::Counts,
    progress,
    report::{self, JoinResult},
    restarts::Restarts,
};
use crate::{inputs::Inputs, interrupt::Signals, objects::Upload, outcome::Outcome, runtime};

/// Runs the join, or explains it. A signal ends it, and removes what was written.
pub fn run(args: JoinArgs) -> Result<Outcome> {
    let job = args.check()?;
    if job.memory_bytes.is_none() {
        annulus_alloc::serve_large_blocks();
    }
    let threads = job.threads.filter(|_| !job.cluster.is_given());
    runtime::run_with_spill(threads, job.memory_bytes, async |spill| run_job(job, spill).await)
}

async fn run_job(mut job: JoinJob, spill: &Path) -> Result<Outcome> {
    let started = job.cluster.start(job.memory_bytes)?;
    let mut remote = started.remote().cloned();
    let mut signals = Signals::all()?;
    let inputs = Inputs::new(spill);
    let upload = match &job.url {
        Some(url) if !job.explain => Some(Upload::prepare(url, job.existing).await?),
        _ => None,
    };
    if upload.is_some() {
        // Written here first.
        job.output = Some(spill.join("result"));
    }
    let job = &job;
    let threads = job.threads.unwrap_or_else(machine::cores);
    let mut restarts = Restarts::new(job.retries, remote.as_ref());
    loop {
        let planned = async {
            let attempt = Attempt::new(job, remote.as_ref(), restarts.first_member(), threads, spill, &inputs).await?;
            if job.explain {
                print(report::plan(job, remote.as_ref(), &attempt.columns(), attempt.explain().await?))?;
                return Ok(None);
            }
            let planned = attempt.plan().await?;
            Ok::<_, anyhow::Error>(Some((attempt, planned)))
        };
        let planned = tokio::select! {
            biased;
            signal = signals.next() => return Ok(Outcome::Interrupted(signal)),
            planned = planned => planned?,
        };
        let Some((attempt, (plan, counts))) = planned else { return Ok(Outcome::Done) };
        let peak = remote.is_none().then(ResidentPeak::start).flatten();
        let shown = progress::show(counts.as_ref(), remote.as_ref());
        let done = tokio::select! {
            biased;
            signal = signals.next() => Err(signal),
            done = attempt.write(plan) => Ok(done),
            never = shown.follow() => match never {},
        };
        shown.clear();
        let error = match done {
            Ok(Ok(written)) => {
                if let (Some(upload), Some(output)) = (&upload, &job.output)
                    && let Some(signal) = upload.send_until_interrupted(output, &mut signals).await?
                {
                    return Ok(Outcome::Interrupted(signal));
                }
                let counted = counts.as_ref().map(Counts::now);
                let peak_bytes = peak.and_then(|peak| peak.bytes());
                let done = JoinResult { written, counted, rows_bad: attempt.rows_bad(), peak_bytes };
                print(report::result(job, remote.as_ref(), &done))?;
                return Ok(Outcome::Done);
            }
            Ok(Err(error)) => error,
            Err(signal) => return Ok(cancel(&attempt, upload.is_some(), &mut signals, signal).await),
        };
        remote = restarts.after(remote, error).await?;
    }
}

/// Removes what an interrupted join has written. A second signal ends the process.
async fn cancel(attempt: &Attempt, is_uploaded: bool, signals: &mut Signals, signal: u8) -> Outcome {
    eprintln!("cancelling: partial output is being removed; press Ctrl-C again to end at once");
    tokio::select! {
        is_complete = attempt.abandon() => {
            if is_complete && !is_uploaded {
                eprintln!("the join had ended before: its result is complete");
                return Outcome::Done;
            }
            eprintln!("cancelled: the partial output is removed");
        }
        _ = signals.next() => {
            eprintln!("ended at once: the next join removes what is left");
            process::exit(128 + i32::from(signal));
        }
    }
    Outcome::Interrupted(signal)
}

fn print(text: String) -> Result<()> {
    writeln!(stdout(), "{text}").context("cannot print")
}
