//! Shows what workers do: once, or as a page.

use std::{
    collections::BTreeMap,
    io::{Write, stderr, stdout},
};

use annulus_distributed::{ClusterReport, StatusServer};
use annulus_terminal::plain;
use anyhow::{Context, Error, Result};
use indicatif::HumanBytes;

use super::args::StatusArgs;
use crate::{errors, outcome::Outcome};

/// Prints what the workers do, or serves it as a page.
pub async fn run(args: &StatusArgs) -> Result<Outcome> {
    let remote = args.asked.remote()?;
    if let Some(address) = &args.page {
        let server = StatusServer::bind_all(address, remote.workers.clone(), remote.connections.clone());
        let server = server.await.context("--page")?;
        writeln!(stderr(), "a page of the workers is at http://{}", server.address()?).ok();
        server.serve().await.context("--page")?;
        return Ok(Outcome::Done);
    }
    let all = ClusterReport::ask(&remote.workers, &remote.connections).await;
    let text = if args.json { serde_json::to_string(&all)? } else { tables(&all) };
    writeln!(stdout(), "{text}").context("cannot print")?;
    match all.workers.iter().filter(|worker| worker.report.is_none()).count() {
        0 => Ok(Outcome::Done),
        missing => Err(errors::silent_workers(missing, all.workers.len())),
    }
}

/// A query on all of its workers.
#[derive(Default)]
struct Query {
    submitter: Option<String>,
    workers: usize,
    tasks: usize,
    restarts: usize,
    seconds: f64,
}

fn tables(all: &ClusterReport) -> String {
    let of = |used: u64, limit: Option<u64>| match limit {
        Some(limit) => format!("{} of {}", HumanBytes(used), HumanBytes(limit)),
        None => HumanBytes(used).to_string(),
    };
    let workers = all.workers.iter().map(|worker| match &worker.report {
        Some(report) => vec![
            worker.worker.clone(),
            if report.ready { "ready" } else { "stopping" }.to_owned(),
            report.queries.len().to_string(),
            report.queries_total.to_string(),
            of(report.memory_bytes, report.memory_limit_bytes),
            of(report.disk_bytes, Some(report.disk_limit_bytes)),
        ],
        None => {
            let error = Error::msg(worker.error.clone().unwrap_or_default());
            vec![worker.worker.clone(), errors::text(&error)]
        }
    });
    let workers = plain::table(&["worker", "state", "queries", "begun", "memory", "spilled"], &[0, 1], workers);
    let mut queries: BTreeMap<&str, Query> = BTreeMap::new();
    for report in all.workers.iter().filter_map(|worker| worker.report.as_ref()) {
        for part in &report.queries {
            let query = queries.entry(&part.id).or_default();
            query.submitter = query.submitter.take().or_else(|| part.submitter.clone());
            (query.workers, query.tasks) = (query.workers + 1, query.tasks + part.tasks);
            query.restarts = query.restarts.max(part.restarts);
            query.seconds = query.seconds.max(part.seconds);
        }
    }
    if queries.is_empty() {
        return format!("{workers}\nNo query runs.");
    }
    let queries = queries.iter().map(|(id, query)| {
        let submitter = query.submitter.clone().unwrap_or_default();
        let counts = [query.workers, query.tasks, query.restarts].map(|count| count.to_string());
        let numbers = counts.into_iter().chain([format!("{:.1}", query.seconds)]);
        [(*id).to_owned(), submitter].into_iter().chain(numbers).collect()
    });
    let queries = plain::table(&["query", "submitter", "workers", "tasks", "restarts", "seconds"], &[0, 1], queries);
    format!("{workers}\n{queries}")
}
