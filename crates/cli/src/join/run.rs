//! Carries out a join, on hosts that are processes of this program.

use std::{
    env,
    io::{Write, stdin, stdout},
};

use annulus_cluster::{
    coordinator::{self, Cancel, Coordinator, LocalProcesses, Planned, Summary},
    error::ClusterError,
    host,
};
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
    let coordinator = Coordinator::new();
    let cancel = coordinator.cancel();
    let mut work = spawn_blocking(move || join(&command, coordinator).map(|done| (command, done)));
    let done = tokio::select! {
        biased;
        signal = signals.next() => {
            Cancel::cancel(&cancel);
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
    Ok(host::serve(stdin(), stdout())?)
}

fn join(command: &JoinCommandJob, coordinator: Coordinator) -> Result<(Planned, Summary)> {
    let planned = coordinator::plan(&command.job, command.hosts)?;
    let program = env::current_exe().context("cannot find this program, which hosts are processes of")?;
    let hosts = LocalProcesses::new(command.hosts, program, vec![HOST_COMMAND.to_owned()])?;
    let shown = Shown::new(&planned);
    let summary = coordinator.run(&command.job, &planned, &hosts, &shown);
    shown.clear();
    Ok((planned, summary?))
}

fn is_cancellation(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ClusterError::Cancelled))
}
