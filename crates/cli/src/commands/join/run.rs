//! Runs a join, on local host processes or on a ring.

use std::{
    env,
    io::{Write, stdout},
    process,
    time::Duration,
};

use annulus_cluster::{
    self as cluster, Cancel, ClusterError, Launch, LocalProcesses, Planned, RemoteHosts, RingFile, Summary,
};
use annulus_roundabout::secure::Identity;
use anyhow::{Context, Result, bail};
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};

use super::{
    args::{JoinArgs, JoinCommandJob},
    host,
    progress::Shown,
    report, workers,
};
use crate::{interrupt::Signals, outcome::Outcome, reading::note_mixed, runtime};

/// The time that a join has to kill its hosts.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Runs the join, or explains it. A signal ends all hosts and removes the partial output.
pub fn run(args: JoinArgs) -> Result<Outcome> {
    let command = args.check()?;
    match &command.workers {
        Some(on) => {
            runtime::run_with_spill(None, on.limits.memory_bytes, async |spill| workers::run(&command, on, spill).await)
        }
        None => runtime::run(run_command(command)),
    }
}

async fn run_command(command: JoinCommandJob) -> Result<Outcome> {
    if command.explain {
        let planned = plan(&command, command.hosts)?;
        let text =
            if command.json { report::plan_json(&command, &planned)? } else { report::plan_text(&command, &planned) };
        writeln!(stdout(), "{text}").context("cannot print")?;
        return Ok(Outcome::Done);
    }
    let mut signals = Signals::all()?;
    let cancel = Cancel::default();
    let mut work = spawn_blocking({
        let cancel = cancel.clone();
        move || join(&command, &cancel).map(|done| (command, done))
    });
    let done = tokio::select! {
        biased;
        signal = signals.next() => {
            cancel.cancel();
            eprintln!("cancelling: the hosts remove their files; press Ctrl-C again to end at once");
            match cancelled(work, &mut signals, &cancel).await? {
                // It ended before the signal.
                Ok(done) => done,
                Err(error) => return said(error, signal),
            }
        }
        done = &mut work => done.context("the join has panicked")??,
    };
    let (command, (planned, summary)) = done;
    let text = if command.json {
        report::json(&command, &planned, &summary)?
    } else {
        report::text(&command, &planned, &summary)
    };
    writeln!(stdout(), "{text}").context("cannot print")?;
    Ok(Outcome::Done)
}

/// Plans the join on `hosts` hosts, and says what the inputs' files let the user know.
fn plan(command: &JoinCommandJob, hosts: usize) -> Result<Planned, ClusterError> {
    let planned = cluster::plan(&command.job, hosts)?;
    note_mixed(&planned.mixed.left);
    note_mixed(&planned.mixed.right);
    Ok(planned)
}

/// Runs the join, and restarts it without a lost host as often as is allowed.
fn join(command: &JoinCommandJob, cancel: &Cancel) -> Result<(Planned, Summary)> {
    let (mut hosts, mut ring, mut retries) = (command.hosts, command.ring.clone(), command.retries);
    loop {
        match join_on(command, hosts, ring.as_ref(), cancel) {
            Err(ClusterError::Host { host, name, reason, lost: true }) if retries > 0 && hosts > 1 => {
                (hosts, retries) = (hosts - 1, retries - 1);
                eprintln!("{name} has failed: {reason}; restarting on the other {hosts}");
                if let Some((file, _)) = &mut ring {
                    file.hosts.remove(host);
                }
            }
            Err(error @ ClusterError::Host { lost: true, .. }) if ring.is_some() && retries == 0 && hosts > 1 => {
                bail!("{error}; start it again, or allow the join to go on without it (--retry)")
            }
            done => return Ok(done?),
        }
    }
}

fn join_on(
    command: &JoinCommandJob,
    hosts: usize,
    ring: Option<&(RingFile, Identity)>,
    cancel: &Cancel,
) -> Result<(Planned, Summary), ClusterError> {
    let planned = plan(command, hosts)?;
    let launch: Box<dyn Launch> = match ring {
        Some((file, identity)) => {
            Box::new(RemoteHosts::new(file.clone(), identity.clone(), command.job.options.timeout))
        }
        // The hosts are processes of this program.
        None => {
            let arguments = host::arguments(planned.is_single, command.job.options.memory_bytes);
            Box::new(LocalProcesses::new(hosts, env::current_exe()?, arguments)?)
        }
    };
    let shown = Shown::new(&planned, command.job.options.wait);
    let summary = cluster::run(&command.job, &planned, &*launch, &shown, cancel);
    shown.clear();
    Ok((planned, summary?))
}

/// Waits for a cancelled join to end. A second signal ends it at once.
async fn cancelled<T>(mut work: JoinHandle<Result<T>>, signals: &mut Signals, cancel: &Cancel) -> Result<Result<T>> {
    let again = tokio::select! {
        done = &mut work => return done.context("the join has panicked"),
        again = signals.next() => again,
    };
    cancel.cancel_at_once();
    match timeout(AT_ONCE, work).await {
        Ok(done) => done.context("the join has panicked"),
        Err(_) => {
            eprintln!("ended at once: the hosts remove their files when they notice");
            process::exit(128 + i32::from(again))
        }
    }
}

/// Reports the state of the output after a signal.
fn said(error: anyhow::Error, signal: u8) -> Result<Outcome> {
    match error.downcast_ref() {
        Some(ClusterError::Cancelled) => eprintln!("cancelled: the partial output is removed"),
        Some(unconfirmed @ ClusterError::Unconfirmed { .. }) => eprintln!("{unconfirmed}"),
        _ => return Err(error),
    }
    Ok(Outcome::Interrupted(signal))
}
