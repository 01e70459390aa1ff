//! Ctrl-C and SIGTERM.

use std::{future::Future, io};

use anyhow::Result;

use crate::run::Outcome;

/// Runs `work` until it ends or the process is asked to end; then `work` is dropped, and with it all that it holds.
pub async fn until_interrupted(work: impl Future<Output = Result<Outcome>>) -> Result<Outcome> {
    tokio::select! {
        // The signals first, so that they are listened to before the work begins.
        biased;
        signal = signal() => Ok(Outcome::Interrupted(signal?)),
        outcome = work => outcome,
    }
}

/// Waits for a signal to end, and returns its number.
#[cfg(unix)]
async fn signal() -> io::Result<u8> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => Ok(2),
        _ = terminate.recv() => Ok(15),
    }
}

#[cfg(not(unix))]
async fn signal() -> io::Result<u8> {
    tokio::signal::ctrl_c().await?;
    Ok(2)
}
