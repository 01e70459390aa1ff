//! Runs a join on workers, each of which writes what it has joined.

use std::{
    io::{Write, stdout},
    path::Path,
    sync::Arc,
    time::Duration,
};

use annulus_cluster::JoinQuery;
use annulus_datafusion::AnnulusConfig;
use annulus_distributed::{NewDataset, Workers, Written, address_of};
use annulus_terminal::{progress, report::plain};
use anyhow::{Context, Result, bail};
use comfy_table::CellAlignment;
use datafusion::{
    arrow::array::AsArray,
    logical_expr::{LogicalPlan, LogicalPlanBuilder},
    prelude::{SessionConfig, SessionContext},
};
use futures::future::join_all;
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};
use tokio::{task::spawn_blocking, time::timeout};

use super::{
    args::{JoinCommandJob, OnWorkers},
    report,
};
use crate::{
    cluster::Remote,
    interrupt::Signals,
    outcome::Outcome,
    reading::note_mixed,
    session::{self, Engine},
    stores::Stores,
};

/// Runs the join, or explains it. A signal ends it, and removes what was written.
pub async fn run(command: &JoinCommandJob, on: &OnWorkers, spill: &Path) -> Result<Outcome> {
    let mut signals = Signals::all()?;
    let started = on.cluster.start(on.limits.memory_bytes)?;
    let Some(remote) = started.remote() else { bail!("missing argument: give --workers LIST or --cluster N") };
    let mut remote = remote.clone();
    let (mut retries, mut first_member) = (command.retries, 0);
    loop {
        let attempt = tokio::select! {
            biased;
            signal = signals.next() => return Ok(Outcome::Interrupted(signal)),
            attempt = Attempt::new(command, on, &remote, first_member, spill) => attempt?,
        };
        if command.explain {
            let plan = attempt.explain().await?;
            print(if command.json { plan.json(command, &remote) } else { plan.text })?;
            return Ok(Outcome::Done);
        }
        let working = progress::working(format!("joining on {} workers", remote.workers.urls().len()));
        let done = tokio::select! {
            biased;
            signal = signals.next() => Err(signal),
            done = attempt.write() => Ok(done),
        };
        working.finish_and_clear();
        let error = match done {
            Ok(Ok(written)) => {
                print(if command.json {
                    result_json(command, &remote, &written)
                } else {
                    result_text(command, &written)
                })?;
                return Ok(Outcome::Done);
            }
            Ok(Err(error)) => error,
            Err(signal) => {
                eprintln!("cancelling: the workers remove their files; press Ctrl-C again to end at once");
                tokio::select! {
                    () = attempt.output.abandon() => eprintln!("cancelled: the partial output is removed"),
                    _ = signals.next() => eprintln!("ended at once: the workers remove their files when they notice"),
                }
                return Ok(Outcome::Interrupted(signal));
            }
        };
        let (lost, rest) = lost_of(&remote).await;
        let Some(rest) = rest.filter(|_| !lost.is_empty()) else { return Err(error) };
        if retries == 0 {
            return Err(error.context("start it again, or allow the join to go on without a lost worker (--retry)"));
        }
        retries -= 1;
        first_member += remote.workers.urls().len();
        eprintln!("{} does not answer: {error}; restarting on the other {}", lost.join(", "), rest.urls().len());
        remote.workers = rest;
    }
}

/// Returns the workers that do not answer, and the others, if there are any.
async fn lost_of(remote: &Remote) -> (Vec<String>, Option<Workers>) {
    let asked = remote.workers.urls().iter().map(async |url| {
        let answers = timeout(ANSWER, remote.channels.version_of(url)).await;
        (address_of(url), answers.is_ok_and(|answer| answer.is_ok()))
    });
    let (rest, lost): (Vec<_>, Vec<_>) = join_all(asked).await.into_iter().partition(|(_, answers)| *answers);
    let lost = lost.into_iter().map(|(worker, _)| worker).collect();
    (lost, Workers::new(rest.into_iter().map(|(worker, _)| worker)).ok())
}

/// The time in which a worker that is there says so.
const ANSWER: Duration = Duration::from_secs(5);

/// A run of the join, on workers of which none is known to be lost.
struct Attempt {
    session: SessionContext,
    plan: LogicalPlan,
    output: NewDataset,
}

/// How a join would run.
struct Explained {
    text: String,
    columns: Value,
}

impl Attempt {
    async fn new(
        command: &JoinCommandJob,
        on: &OnWorkers,
        remote: &Remote,
        first_member: usize,
        spill: &Path,
    ) -> Result<Self> {
        let job = command.job.clone();
        let opened = spawn_blocking(move || JoinQuery::open(&job.query, &job.output, job.format)).await;
        let query = opened.context("the inputs cannot be opened")??;
        let mixed = query.mixed();
        note_mixed(mixed.left);
        note_mixed(mixed.right);
        let mut config = SessionConfig::new();
        // A file for each task, however many partitions the tables have.
        config.options_mut().extensions.insert(AnnulusConfig { partitioned_tables: false, ..AnnulusConfig::default() });
        let stores = Arc::new(Stores::default());
        let session = session::open(Engine::Annulus, on.limits, spill, config, Some(stores), Some(remote))?;
        session::set_options(&session, &on.settings).await?;
        let Remote { workers, channels } = remote.clone();
        let job = &command.job;
        let output = NewDataset::new(&job.output, job.format, workers, channels)
            .with_existing(job.existing)
            .with_settings(query.settings())
            .with_dictionaries(query.dictionaries())
            .with_first_member(first_member);
        let plan = query.into_plan(session.state().config(), job.options.inputs)?;
        Ok(Self { session, plan, output })
    }

    async fn write(&self) -> Result<Written> {
        Ok(self.output.write(&self.session, self.plan.clone()).await?)
    }

    /// Returns the stages of the join, as `EXPLAIN` shows them.
    async fn explain(&self) -> Result<Explained> {
        let plan = LogicalPlanBuilder::from(self.output.plan(self.plan.clone())?).explain(false, false)?.build()?;
        let rows = self.session.execute_logical_plan(plan).await?.collect().await?;
        let mut text = String::new();
        for batch in &rows {
            let (kinds, plans) = (batch.column(0).as_string::<i32>(), batch.column(1).as_string::<i32>());
            let physical = kinds.iter().zip(plans).filter(|(kind, _)| *kind == Some("physical_plan"));
            text.extend(physical.flat_map(|(_, plan)| plan));
        }
        let columns = report::columns(self.plan.schema().fields());
        Ok(Explained { text: text.trim_end().to_owned(), columns })
    }
}

fn print(text: String) -> Result<()> {
    writeln!(stdout(), "{text}").context("cannot print")
}

impl Explained {
    fn json(&self, command: &JoinCommandJob, remote: &Remote) -> String {
        let workers = remote.workers.urls().iter().map(address_of).collect::<Vec<_>>();
        let kind = command.job.query.join.name();
        json!({ "type": kind, "workers": workers, "columns": self.columns, "plan": self.text }).to_string()
    }
}

/// The workers' folders of a result, with their workers, rows and bytes.
fn parts(written: &Written) -> impl Iterator<Item = (usize, String, u64, u64)> {
    written.manifest.partitions.iter().zip(&written.workers).map(|(part, worker)| {
        let worker = worker.as_ref().map_or_else(|| "this process".to_owned(), address_of);
        (part.partition, worker, part.rows, part.bytes)
    })
}

fn result_json(command: &JoinCommandJob, remote: &Remote, written: &Written) -> String {
    let manifest = &written.manifest;
    let parts = parts(written).map(|(folder, worker, rows, bytes)| {
        json!({ "worker": worker, "folder": format!("host-{folder:02}"), "rows": rows, "bytes": bytes })
    });
    json!({
        "type": command.job.query.join.name(),
        "workers": remote.workers.urls().iter().map(address_of).collect::<Vec<_>>(),
        "output": command.job.output,
        "rows_out": manifest.rows,
        "bytes_out": manifest.bytes,
        "files": manifest.file_names().count(),
        "seconds": (written.elapsed.as_secs_f64() * 1e3).round() / 1e3,
        "parts": parts.collect::<Vec<_>>(),
    })
    .to_string()
}

fn result_text(command: &JoinCommandJob, written: &Written) -> String {
    let mut table = plain::list();
    let manifest = &written.manifest;
    let mut row = |name: &str, value: String| {
        table.add_row([name, &value]);
    };
    row("output", command.job.output.display().to_string());
    row("rows", HumanCount(manifest.rows).to_string());
    row("files", format!("{}, {}", manifest.file_names().count(), HumanBytes(manifest.bytes)));
    row("time", format!("{:.2} s", written.elapsed.as_secs_f64()));
    let mut workers = plain::list();
    workers.set_header(["", "folder", "rows", "bytes"]);
    for (folder, worker, rows, bytes) in parts(written) {
        let (rows, bytes) = (HumanCount(rows).to_string(), HumanBytes(bytes).to_string());
        workers.add_row([worker, format!("host-{folder:02}"), rows, bytes]);
    }
    for column in workers.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{}\n\n{}", table.trim_fmt(), workers.trim_fmt())
}
