//! Ctrl-C, SIGTERM and SIGHUP.
//!
//! A separate thread listens, because a query may keep all threads of the main runtime busy. A
//! signal must end it even then.

#[cfg(unix)]
use std::fs;
use std::{future::Future, io, thread};

use anyhow::{Context, Result};
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

use crate::outcome::Outcome;

/// The number of the signal that Ctrl-C sends.
const INTERRUPT: u8 = 2;
#[cfg(unix)]
const TERMINATE: u8 = 15;
/// The signal of a closed terminal.
#[cfg(unix)]
const HANG_UP: u8 = 1;

/// A queue of the signals that arrive from now on.
pub struct Signals(UnboundedReceiver<u8>);

impl Signals {
    /// Listens to Ctrl-C; other signals still end the process.
    pub fn interrupts() -> Result<Self> {
        Self::listen(false)
    }

    /// Listens to Ctrl-C, SIGTERM and SIGHUP.
    pub fn all() -> Result<Self> {
        Self::listen(true)
    }

    fn listen(terminate: bool) -> Result<Self> {
        let (sender, receiver) = unbounded_channel();
        let listen = || -> io::Result<()> {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            forward(runtime, sender, terminate)
        };
        listen().context("cannot listen to signals")?;
        Ok(Self(receiver))
    }

    /// Waits for the next signal and returns its number.
    pub async fn next(&mut self) -> u8 {
        match self.0.recv().await {
            Some(signal) => signal,
            // The listening thread has ended: no signal will come.
            None => std::future::pending().await,
        }
    }

    /// Discards the signals that have arrived.
    pub fn clear(&mut self) {
        while self.0.try_recv().is_ok() {}
    }
}

/// Runs `work` until it ends or a signal arrives; on a signal, `work` is dropped.
pub async fn until_interrupted(work: impl Future<Output = Result<Outcome>>) -> Result<Outcome> {
    let mut signals = Signals::all()?;
    tokio::select! {
        biased;
        signal = signals.next() => Ok(Outcome::Interrupted(signal)),
        outcome = work => outcome,
    }
}

/// Starts a thread that sends the numbers of signals. After this returns, signals no longer end the
/// process.
#[cfg(unix)]
fn forward(runtime: Runtime, sender: UnboundedSender<u8>, terminate: bool) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let context = runtime.enter();
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = terminate.then(|| signal(SignalKind::terminate())).transpose()?;
    let listens = terminate && !is_ignored(HANG_UP);
    let mut hang_ups = listens.then(|| signal(SignalKind::hangup())).transpose()?;
    drop(context);
    let next = async move {
        loop {
            let number = tokio::select! {
                Some(()) = interrupts.recv() => INTERRUPT,
                Some(()) = async { terminations.as_mut()?.recv().await } => TERMINATE,
                Some(()) = async { hang_ups.as_mut()?.recv().await } => HANG_UP,
                else => return,
            };
            if sender.send(number).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(next)).map(drop)
}

/// Returns whether this process was started to ignore a signal, as `nohup` does with SIGHUP. It then stays
/// ignored.
#[cfg(unix)]
fn is_ignored(signal: u8) -> bool {
    // Only Linux has this file.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(not(unix))]
fn forward(runtime: Runtime, sender: UnboundedSender<u8>, _terminate: bool) -> io::Result<()> {
    let next = async move { while tokio::signal::ctrl_c().await.is_ok() && sender.send(INTERRUPT).is_ok() {} };
    thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(next)).map(drop)
}
