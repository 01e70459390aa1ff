//! Carries out a checked job.

mod shell;
mod sql;
mod tpch;

use std::time::Duration;

use anyhow::{Context, Result};

use crate::job::Job;

/// How a job that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// An answer of Annulus is not that of stock DataFusion, or could not be compared.
    Differs,
    /// By a signal, with its number.
    Interrupted(u8),
}

/// How long an interrupted job may take to let go of its files.
const GRACE: Duration = Duration::from_secs(10);

/// Runs `job` to its end.
pub fn run(job: Job) -> Result<Outcome> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the worker threads")?;
    let outcome = runtime.block_on(async {
        match job {
            Job::Tpch(job) => tpch::run(job).await,
            Job::Sql(job) => sql::run(job).await,
        }
    });
    // Tasks may still hold spill files or write tables: wait until they have let go.
    runtime.shutdown_timeout(GRACE);
    outcome
}
