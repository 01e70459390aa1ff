//! Runs a join in this process or on workers, until it has ended or a signal arrives.

use std::{
    io::{Write, stdout},
    path::Path,
    thread::available_parallelism,
    time::Duration,
};

use annulus_distributed::{Workers, address_of};
use annulus_terminal::{heap, machine::ResidentPeak};
use anyhow::{Context, Result};
use futures::future::join_all;
use tokio::time::timeout;

use super::{
    args::{JoinArgs, JoinJob},
    attempt::Attempt,
    counts::Counts,
    progress,
    report::{self, Done},
};
use crate::{cluster::Remote, interrupt::Signals, outcome::Outcome, runtime};

/// Runs the join, or explains it. A signal ends it, and removes what was written.
pub fn run(args: JoinArgs) -> Result<Outcome> {
    let job = args.check()?;
    if job.memory_bytes.is_none() {
        heap::serve_large_blocks();
    }
    let threads = job.threads.filter(|_| !job.cluster.is_given());
    runtime::run_with_spill(threads, job.memory_bytes, async |spill| run_job(&job, spill).await)
}

async fn run_job(job: &JoinJob, spill: &Path) -> Result<Outcome> {
    let mut signals = Signals::all()?;
    let started = job.cluster.start(job.memory_bytes)?;
    let mut remote = started.remote().cloned();
    let threads = job.threads.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
    let (mut retries, mut first_member) = (job.retries, 0);
    loop {
        let attempt = tokio::select! {
            biased;
            signal = signals.next() => return Ok(Outcome::Interrupted(signal)),
            attempt = Attempt::new(job, remote.as_ref(), first_member, threads, spill) => attempt?,
        };
        if job.explain {
            print(report::plan(job, remote.as_ref(), &attempt.columns(), attempt.explain().await?))?;
            return Ok(Outcome::Done);
        }
        let (plan, counts) = attempt.plan().await?;
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
                let counted = counts.as_ref().map(Counts::now);
                let peak_bytes = peak.and_then(|peak| peak.bytes());
                let done = Done { written, counted, rows_bad: attempt.rows_bad(), peak_bytes };
                print(report::result(job, remote.as_ref(), &done))?;
                return Ok(Outcome::Done);
            }
            Ok(Err(error)) => error,
            Err(signal) => {
                eprintln!("cancelling: partial output is being removed; press Ctrl-C again to end at once");
                tokio::select! {
                    () = attempt.abandon() => eprintln!("cancelled: the partial output is removed"),
                    _ = signals.next() => eprintln!("ended at once: the next join removes what is left"),
                }
                return Ok(Outcome::Interrupted(signal));
            }
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

/// Returns the workers that do not answer, and the others, if there are any.
async fn lost_of(remote: &Remote) -> (Vec<String>, Option<Workers>) {
    let asked = remote.workers.urls().iter().map(async |url| {
        let answers = timeout(ANSWER, remote.channels.version_of(url)).await;
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
