//! Runs queries one at a time, as standard input names them: another program can then time other
//! engines in turn, and compare their answers.

use std::{
    fs::File,
    io::{self, BufRead, Write, stdin, stdout},
    path::{Path, PathBuf},
    thread,
};

use anyhow::{Context, Result};
use arrow::ipc::writer::FileWriter;
use datafusion::prelude::SessionContext;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{
    answer::Order,
    engines::{Engine, Execution},
    run::{Benchmark, Query},
    variants::Variant,
};
use crate::{errors, outcome::Outcome};

/// The first line: the queries that can be requested.
#[derive(Serialize)]
struct Offers<'a> {
    queries: Vec<Offer<'a>>,
}

#[derive(Serialize)]
struct Offer<'a> {
    query: u8,
    sql: &'a str,
    order: &'a Order,
    witness: Option<OfferedWitness<'a>>,
}

impl<'a> Offer<'a> {
    fn new(query: &'a Query) -> Self {
        let witness = query.witness.as_ref().map(|(sql, order)| OfferedWitness { sql, order });
        Self { query: query.number, sql: &query.sql, order: &query.order, witness }
    }
}

#[derive(Serialize)]
struct OfferedWitness<'a> {
    sql: &'a str,
    order: &'a Order,
}

/// A line of standard input.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    query: u8,
    /// Whether to run the query's witness instead.
    #[serde(default)]
    witness: bool,
    /// The file for the answer, in Arrow's IPC format. It is written when the time has been taken.
    answer: Option<PathBuf>,
}

/// The line that answers a request.
#[derive(Serialize)]
struct Reply {
    query: u8,
    rows: Option<usize>,
    /// The time from the SQL text to the last row.
    ms: Option<f64>,
    error: Option<String>,
}

/// Prints the queries of `benchmark`, and runs those that standard input names in one `way` until
/// it ends.
///
/// # Errors
/// If a line cannot be read, is not a request, or names a query that was not offered. A query that
/// fails is reported as a reply.
pub async fn run(
    way: &Variant,
    benchmark: &Benchmark,
    open: impl AsyncFn(&Variant) -> Result<SessionContext>,
) -> Result<Outcome> {
    let engine = Engine::open(way, true, open).await?;
    print(&Offers { queries: benchmark.queries.iter().map(Offer::new).collect() })?;
    let mut lines = lines()?;
    while let Some(line) = lines.recv().await {
        let line = line.context("cannot read standard input")?;
        let request = parse(&line, &benchmark.queries);
        let (request, sql) = request.with_context(|| {
            format!("invalid request '{line}': expected JSON such as {{\"query\": 1, \"answer\": \"q1.arrow\"}}")
        })?;
        print(&reply(&engine, &request, sql).await)?;
    }
    Ok(Outcome::Done)
}

/// Starts to read standard input. A thread of its own does, so that a command which ends does not
/// wait for a line.
fn lines() -> Result<UnboundedReceiver<io::Result<String>>> {
    let (sender, lines) = unbounded_channel();
    let read = move || {
        for line in stdin().lock().lines() {
            if sender.send(line).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("requests".to_owned()).spawn(read).context("cannot read standard input")?;
    Ok(lines)
}

/// Returns a request and the text that it asks for.
fn parse<'a>(line: &str, queries: &'a [Query]) -> Result<(Request, &'a str)> {
    let request: Request = serde_json::from_str(line)?;
    let query = queries.iter().find(|query| query.number == request.query).context("the query is not offered")?;
    let sql = match request.witness {
        true => &query.witness.as_ref().context("the query has no witness")?.0,
        false => &query.sql,
    };
    Ok((request, sql))
}

async fn reply(engine: &Engine, request: &Request, sql: &str) -> Reply {
    let query = request.query;
    let done = async {
        let execution = engine.execute(sql).await?;
        if let Some(path) = &request.answer {
            write(path, &execution).with_context(|| format!("cannot write '{}'", path.display()))?;
        }
        anyhow::Ok(execution)
    };
    match done.await {
        Ok(execution) => {
            let rows = execution.batches.iter().map(|batch| batch.num_rows()).sum();
            Reply { query, rows: Some(rows), ms: Some(execution.time.as_secs_f64() * 1e3), error: None }
        }
        Err(error) => Reply { query, rows: None, ms: None, error: Some(errors::text(&error)) },
    }
}

fn write(path: &Path, execution: &Execution) -> Result<()> {
    let mut writer = FileWriter::try_new_buffered(File::create(path)?, &execution.plan.schema())?;
    for batch in &execution.batches {
        writer.write(batch)?;
    }
    writer.finish()?;
    Ok(writer.into_inner()?.flush()?)
}

fn print(line: &impl Serialize) -> Result<()> {
    writeln!(stdout(), "{}", serde_json::to_string(line)?).context("cannot print")
}
