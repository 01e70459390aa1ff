//! The worker threads of a command.

use std::{env, path::Path, time::Duration};

use anyhow::{Context, Result};
use tokio::runtime::Builder;

use crate::{outcome::Outcome, spill::SpillFolder};

/// The time that the tasks of an interrupted command have to stop. A task that does not yield ends
/// with the process.
pub const GRACE: Duration = Duration::from_secs(5);

/// Runs `work` to its end, with a worker thread for each core.
pub fn run(work: impl Future<Output = Result<Outcome>>) -> Result<Outcome> {
    run_on(None, work)
}

/// Runs `work`, which may spill to a folder, with `threads` worker threads, or one for each core.
/// With a limit of its memory in bytes, the process gives back early what it no longer needs.
pub fn run_with_spill(
    threads: Option<usize>,
    memory_bytes: Option<usize>,
    work: impl AsyncFnOnce(&Path) -> Result<Outcome>,
) -> Result<Outcome> {
    if let Some(bytes) = memory_bytes {
        annulus_alloc::limit(bytes);
    }
    // Removed last, when the tasks that write to it have stopped.
    let spill = SpillFolder::create(&env::temp_dir())?;
    run_on(threads, work(spill.path()))
}

/// Runs `work` to its end, with `threads` worker threads, or one for each core.
pub fn run_on(threads: Option<usize>, work: impl Future<Output = Result<Outcome>>) -> Result<Outcome> {
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    let runtime = builder.enable_all().build().context("cannot start the worker threads")?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(GRACE);
    outcome
}
