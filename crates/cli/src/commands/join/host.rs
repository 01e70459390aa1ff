//! Runs a process of this machine as a host of a join.

use std::{
    io::{stdin, stdout},
    process,
    time::Duration,
};

use annulus_cluster::{self as cluster, Stop};
use annulus_terminal::heap;
use anyhow::{Context, Result};
use tokio::{task::spawn_blocking, time::timeout};

use crate::{child, interrupt::Signals, outcome::Outcome, runtime};

/// The time that a host has to remove its files after a signal.
const GRACE: Duration = Duration::from_secs(10);

/// Returns the arguments that run this program as a host, whose coordinator is this process. A
/// `single` host may have a limit of its memory in bytes.
pub fn arguments(single: bool, memory_bytes: Option<u64>) -> Vec<String> {
    let mut arguments = vec!["host".to_owned(), process::id().to_string()];
    if single {
        arguments.push("--single".to_owned());
        arguments.extend(memory_bytes.map(|bytes| format!("--memory-bytes={bytes}")));
    }
    arguments
}

/// Makes the process of a single host keep little memory that it no longer needs.
pub fn spare_memory(memory_bytes: Option<usize>) {
    match memory_bytes {
        Some(bytes) => heap::limit(bytes),
        None => heap::serve_large_blocks(),
    }
}

/// Follows the orders on standard input until they end, the process `coordinator` ends, or a signal
/// arrives.
pub fn serve(coordinator: u32) -> Result<Outcome> {
    runtime::run(serve_until_interrupted(coordinator))
}

async fn serve_until_interrupted(coordinator: u32) -> Result<Outcome> {
    // From here on, a signal ends the process only after the host's files have been removed.
    let mut signals = Signals::all()?;
    let stop = Stop::default();
    let mut work = spawn_blocking({
        let stop = stop.clone();
        move || cluster::serve(stdin(), stdout(), stop)
    });
    // The pipe of orders closes with the coordinator, unless another process has inherited its other end.
    if !child::end_with(coordinator)? {
        stop.stop();
    }
    let signal = tokio::select! {
        done = &mut work => {
            done.context("the host has panicked")??;
            return Ok(Outcome::Done);
        }
        signal = signals.next() => signal,
    };
    stop.stop();
    match timeout(GRACE, work).await {
        Ok(done) => done.context("the host has panicked")??,
        // Waiting for the host is over.
        Err(_) => process::exit(128 + i32::from(signal)),
    }
    Ok(Outcome::Interrupted(signal))
}
