//! Carries out a join, on hosts that are processes of this program.

use std::{
    env,
    io::{Write, stdin, stdout},
};

use annulus_cluster::{
    coordinator::{self, Cancel, Launch, LocalProcesses, Planned, RemoteHosts, Summary},
    error::ClusterError,
    host,
    ring_file::RingFile,
};
use annulus_roundabout::secure::Identity;
use anyhow::{Context, Result};
use tokio::task::spawn_blocking;

use super::{JoinCommandJob, progress::Shown, report};
use crate::{interrupt::Signals, run::Outcome};

/// The command by which this program is a host.
pub const HOST_COMMAND: &str = "host";

/// Joins, or says how. A signal ends all hosts, and nothing is left.
pub async fn run(command: JoinCommandJob) -> Result<Outcome> {
    if command.explain {
        let planned = coordinator::plan(&command.job, command.hosts)?;
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
            match work.await.context("the join has panicked")? {
                // It was done already.
                Ok(done) => done,
                Err(error) if is_cancellation(&error) => {
                    eprintln!("cancelled: nothing of this join is left");
                    return Ok(Outcome::Interrupted(signal));
                }
                Err(error) => return Err(error),
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

/// This process is a host: orders come on the standard input.
pub fn serve_host() -> Result<()> {
    Ok(host::serve(stdin(), stdout(), None)?)
}

/// Joins, if it has to be several times, each time without the host that was lost.
fn join(command: &JoinCommandJob, cancel: &Cancel) -> Result<(Planned, Summary)> {
    let (mut hosts, mut ring, mut retries) = (command.hosts, command.ring.clone(), command.retries);
    loop {
        match join_on(command, hosts, ring.as_ref(), cancel) {
            Err(ClusterError::Host { host, name, reason, lost: true }) if retries > 0 && hosts > 1 => {
                (hosts, retries) = (hosts - 1, retries - 1);
                eprintln!("{name} has failed: {reason}; starting over on the other {hosts}");
                if let Some((file, _)) = &mut ring {
                    file.hosts.remove(host);
                }
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
    let planned = coordinator::plan(&command.job, hosts)?;
    let launch: Box<dyn Launch> = match ring {
        Some((file, identity)) => {
            Box::new(RemoteHosts::new(file.clone(), identity.clone(), command.job.options.timeout))
        }
        // Hosts are processes of this program.
        None => Box::new(LocalProcesses::new(hosts, env::current_exe()?, vec![HOST_COMMAND.to_owned()])?),
    };
    let shown = Shown::new(&planned);
    let summary = coordinator::run(&command.job, &planned, &*launch, &shown, cancel);
    shown.clear();
    Ok((planned, summary?))
}

fn is_cancellation(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ClusterError::Cancelled))
}
