//! Runs a join in this process or on workers, until it has ended or a signal arrives.

use std::{
    io::{Write, stdout},
    path::Path,
    process,
    time::Duration,
};

use annulus_distributed::{Workers, address_of};
use annulus_terminal::machine::{self, ResidentPeak};
use anyhow::{Context, Result};
use futures::future::join_all;
use tokio::time::timeout;

use super::{
    args::{JoinArgs, JoinJob},
    attempt::Attempt,
    counts::Counts,
    progress,
    report::{self, JoinResult},
};
use crate::{cluster::Remote, inputs::Inputs, interrupt::Signals, objects::Upload, outcome::Outcome, runtime};

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
    let (mut retries, mut first_member) = (job.retries, 0);
    loop {
        let planned = async {
            let attempt = Attempt::new(job, remote.as_ref(), first_member, threads, spill, &inputs).await?;
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
        let Some(workers) = &mut remote else { return Err(error) };
        let (lost, rest) = lost_of(workers).await;
        let Some(rest) = rest.filter(|_| !lost.is_empty()) else { return Err(error) };
        if retries == 0 {
            return Err(error.context("start it again, or allow the join to go on without a lost worker (--retry)"));
        }
        retries -= 1;
        first_member += workers.workers.urls().len();
        eprintln!("{} does not answer: {error}; restarting on the other {}", lost.join(", "), rest.urls().len());
        workers.workers = rest;
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

/// Returns the workers that do not answer, and the others, if there are any.
async fn lost_of(remote: &Remote) -> (Vec<String>, Option<Workers>) {
    let asked = remote.workers.urls().iter().map(async |url| {
        let answers = timeout(ANSWER, remote.connections.version_of(url)).await;
        (address_of(url), answers.is_ok_and(|answer| answer.is_ok()))
    });
    let (rest, lost): (Vec<_>, Vec<_>) = join_all(asked).await.into_iter().partition(|(_, answers)| *answers);
    let lost = lost.into_iter().map(|(worker, _)| worker).collect();
    (lost, Workers::new(rest.into_iter().map(|(worker, _)| worker)).ok())
}

/// The time in which a worker that is there says so.
const ANSWER: Duration = Duration::from_secs(5);

fn print(text: String) -> Result<()> {
    writeln!(stdout(), "{text}").context("cannot print")
}
