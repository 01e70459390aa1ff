//! A process of this machine that is a host of a join.

use std::{
    io::{stdin, stdout},
    process,
    time::Duration,
};

use annulus_cluster::{self as cluster, Stop};
use anyhow::{Context, Result};
use tokio::{task::spawn_blocking, time::timeout};

use crate::{interrupt::Signals, outcome::Outcome, runtime};

/// The command by which this program is a host. Its argument is the process that gives the orders.
pub const HOST_COMMAND: &str = "host";

/// How long a host that was asked to end may take to remove what it has written.
const GRACE: Duration = Duration::from_secs(10);

/// Carries out the orders on the standard input until they end, or `coordinator` does, or a signal
/// comes.
pub fn serve(coordinator: u32) -> Result<Outcome> {
    runtime::run(serve_until_interrupted(coordinator))
}

async fn serve_until_interrupted(coordinator: u32) -> Result<Outcome> {
    // From here on a signal does not end the process before the host's files are gone.
    let mut signals = Signals::all()?;
    let stop = Stop::default();
    let mut work = spawn_blocking({
        let stop = stop.clone();
        move || cluster::serve(stdin(), stdout(), stop)
    });
    end_with(coordinator, &stop)?;
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
        // Whatever it is at, nobody waits for it.
        Err(_) => process::exit(128 + i32::from(signal)),
    }
    Ok(Outcome::Interrupted(signal))
}

/// Has the system send a signal when the coordinator's thread that started this process ends. The
/// closed pipe of orders says the same, unless another process has inherited its other end.
#[cfg(target_os = "linux")]
fn end_with(coordinator: u32, stop: &Stop) -> Result<()> {
    use nix::sys::{prctl::set_pdeathsig, signal::Signal};
    set_pdeathsig(Signal::SIGTERM).context("cannot end with the coordinator")?;
    // It may have ended before: then no signal comes.
    if std::os::unix::process::parent_id() != coordinator {
        stop.stop();
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn end_with(_: u32, _: &Stop) -> Result<()> {
    Ok(())
}
