//! Carries out a checked job.

mod blocking;
pub mod partition;
mod shell;
mod spill;
mod sql;
mod tpch;
mod verify;

use std::{env, io, path::Path, time::Duration};

use annulus_bench::{join as bench_join, pages, reproduce, roundabout};
use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};

use self::spill::SpillFolder;
use crate::{bench, job::Job, join, node};

/// How a job that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// An answer of Annulus is not that of stock DataFusion, or could not be compared.
    Differs,
    /// By a signal, with its number.
    Interrupted(u8),
}

/// How long the tasks of an interrupted job may take to stop. One that computes without a pause
/// cannot be stopped; the end of the process does it.
const GRACE: Duration = Duration::from_secs(5);

/// Runs `job` to its end.
pub fn run(job: Job) -> Result<Outcome> {
    let runtime = runtime(&job).context("cannot start the worker threads")?;
    let mut spill = None;
    let outcome = runtime.block_on(async {
        match job {
            Job::Tpch(job) => tpch::run(job, spill_folder(&mut spill)?).await,
            Job::Sql(job) => sql::run(job, spill_folder(&mut spill)?).await,
            Job::Partition(job) => partition::run(job).await,
            Job::Join(job) => join::run(*job).await,
            Job::Host { coordinator } => join::serve_host(coordinator).await,
            Job::Node(args) => node::run(&args).await,
            Job::Verify(args) => verify::run(args).await,
            Job::Bench(args) => bench::run(args, spill_folder(&mut spill)?).await,
            Job::Pages(args) => blocking::run(move |stop| pages::run(&args, stop)).await,
            Job::Roundabout(args) => blocking::run(move |stop| roundabout::run(&args, stop)).await,
            Job::BenchJoin(args) => blocking::run(move |stop| bench_join::run(&args, stop)).await,
            Job::Reproduce(args) => blocking::run(move |stop| reproduce::pages::run(&args, stop)).await,
            Job::ReproduceCycloJoin(args) => blocking::run(move |stop| reproduce::cyclo::run(&args, stop)).await,
        }
    });
    // Spill files go last, when the tasks that write them have stopped.
    runtime.shutdown_timeout(GRACE);
    drop(spill);
    outcome
}

/// Only for what spills to it.
fn spill_folder(made: &mut Option<SpillFolder>) -> Result<&Path> {
    let folder = SpillFolder::create(&env::temp_dir())?;
    Ok(made.insert(folder).path())
}

/// A worker thread for each core, unless the job says how many.
fn runtime(job: &Job) -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if let Job::Bench(args) = job
        && let Some(threads) = args.threads
    {
        builder.worker_threads(threads);
    }
    builder.enable_all().build()
}
