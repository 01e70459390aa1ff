//! Answers queries on standard input, each in a session of its own: lines of JSON name the tables,
//! the options, the memory and the query. Another program can so compare the answers of many
//! sessions with those of another engine. With `--workers N`, the queries of Annulus run on workers in
//! this process.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Write, stdin, stdout},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use annulus_datafusion::SessionStateBuilderExt as _;
use annulus_distributed::{AnnulusWorker, Connections, RingJoinOptions, Server, SessionStateBuilderExt as _, Workers};
use anyhow::{Context, Result};
use clap::Parser;
use datafusion::{
    arrow::{compute::BatchCoalescer, ipc::writer::StreamWriter, record_batch::RecordBatch},
    common::tree_node::{TreeNode, TreeNodeRecursion},
    datasource::MemTable,
    error::DataFusionError,
    execution::{
        SessionStateBuilder,
        memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool, UnboundedMemoryPool},
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    physical_plan::{ExecutionPlan, collect},
    prelude::{ParquetReadOptions, SessionConfig, SessionContext, col},
};
use serde::{Deserialize, Serialize};

#[derive(Parser)]
struct Args {
    /// Run the queries of Annulus on N workers
    #[arg(long, value_name = "N", default_value = "0")]
    workers: usize,
}

/// The workers of all sessions, if there are any, and the connections to them.
type Remote = Option<(Workers, Connections)>;

/// A line of standard input.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// The tables, by name.
    tables: BTreeMap<String, Table>,
    /// Options of DataFusion and Annulus.
    settings: BTreeMap<String, String>,
    /// Whether to leave Annulus out.
    stock: bool,
    /// The memory pool; none is without a bound.
    memory: Option<Memory>,
    sql: String,
    /// The file for the answer, as a stream in Arrow's IPC format.
    answer: PathBuf,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// A Parquet file.
    path: PathBuf,
    /// If given, the table is read into memory, in partitions of these numbers of rows in each
    /// batch.
    batches: Option<Vec<Vec<usize>>>,
    /// A column by which the rows are sorted, ascending and with nulls last. The session declares
    /// this order.
    order: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    bytes: usize,
    /// Whether operators that spill share the pool in equal parts.
    is_fair: bool,
}

/// The line that answers a request.
#[derive(Default, Serialize)]
struct Reply {
    rows: Option<usize>,
    error: Option<String>,
    /// Whether the error is a refusal of memory.
    refused: bool,
    /// The operators of the plan and how often each occurs.
    operators: BTreeMap<String, usize>,
    /// Bytes that are still reserved though the query has ended.
    leaked_bytes: usize,
}

/// The time after which memory that is still reserved counts as leaked.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> Result<()> {
    let remote = start(Args::parse().workers).await?;
    // Requests come one at a time, so this thread may wait for them.
    for line in stdin().lines() {
        let request: Request = serde_json::from_str(&line.context("cannot read standard input")?)?;
        let reply = match tokio::spawn(reply(request, remote.clone())).await {
            Ok(reply) => reply?,
            Err(error) => Reply { error: Some(format!("panicked: {error}")), ..Default::default() },
        };
        writeln!(stdout(), "{}", serde_json::to_string(&reply)?).context("cannot print")?;
    }
    Ok(())
}

/// Starts workers, which end with this process.
async fn start(count: usize) -> Result<Remote> {
    let mut addresses = Vec::new();
    for _ in 0..count {
        let worker = AnnulusWorker::new(Arc::new(RuntimeEnv::default()), Connections::default());
        let server = Server::bind("127.0.0.1:0", worker).await?;
        addresses.push(server.address()?.to_string());
        tokio::spawn(server.serve(std::future::pending(), Duration::ZERO));
    }
    Ok(if count == 0 { None } else { Some((Workers::new(addresses)?, Connections::default())) })
}

async fn reply(request: Request, remote: Remote) -> Result<Reply> {
    let pool: Arc<dyn MemoryPool> = match &request.memory {
        None => Arc::new(UnboundedMemoryPool::default()),
        Some(Memory { bytes, is_fair: true }) => Arc::new(FairSpillPool::new(*bytes)),
        Some(Memory { bytes, .. }) => Arc::new(GreedyMemoryPool::new(*bytes)),
    };
    let mut reply = Reply::default();
    match answer(&request, Arc::clone(&pool), remote, &mut reply.operators).await {
        Ok(batches) => {
            reply.rows = Some(batches.iter().map(RecordBatch::num_rows).sum());
        }
        Err(error) => {
            let root = error.downcast_ref::<DataFusionError>().map(DataFusionError::find_root);
            reply.refused = matches!(root, Some(DataFusionError::ResourcesExhausted(_)));
            reply.error = Some(format!("{error:#}"));
        }
    }
    // Aborted tasks are dropped when the runtime gets to them.
    let end = Instant::now() + PATIENCE;
    while pool.reserved() > 0 && Instant::now() < end {
        tokio::task::yield_now().await;
    }
    reply.leaked_bytes = pool.reserved();
    Ok(reply)
}

/// Returns the answer, after it has been written. `operators` gets the operators of the plan.
async fn answer(
    request: &Request,
    pool: Arc<dyn MemoryPool>,
    remote: Remote,
    operators: &mut BTreeMap<String, usize>,
) -> Result<Vec<RecordBatch>> {
    let context = session(request, pool, remote).await?;
    let plan = context.sql(&request.sql).await?.create_physical_plan().await?;
    plan.apply(|node: &Arc<dyn ExecutionPlan>| {
        *operators.entry(node.name().to_owned()).or_default() += 1;
        Ok(TreeNodeRecursion::Continue)
    })?;
    let schema = plan.schema();
    let batches = collect(plan, context.task_ctx()).await?;
    let mut writer = StreamWriter::try_new_buffered(File::create(&request.answer)?, &schema)?;
    // A batch of few rows may hold the text of all, and is written with it. The coalescer copies what
    // is used.
    let mut coalescer = BatchCoalescer::new(schema, 8192);
    batches.iter().try_for_each(|batch| coalescer.push_batch(batch.clone()))?;
    coalescer.finish_buffered_batch()?;
    while let Some(batch) = coalescer.next_completed_batch() {
        writer.write(&batch)?;
    }
    writer.finish()?;
    writer.into_inner()?.flush()?;
    Ok(batches)
}

async fn session(request: &Request, pool: Arc<dyn MemoryPool>, remote: Remote) -> Result<SessionContext> {
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
    // Small sides, too, are too large for each worker, so that `auto` chooses rings.
    let config = SessionConfig::new()
        .with_option_extension(RingJoinOptions { broadcast_limit: 1000, ..RingJoinOptions::default() });
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    let builder = builder.with_runtime_env(runtime);
    let builder = match remote {
        _ if request.stock => builder,
        None => builder.with_annulus(),
        Some((workers, connections)) => builder.with_annulus_workers(workers, connections),
    };
    let context = SessionContext::new_with_state(builder.build());
    // The tables are read before the options count.
    for (name, table) in &request.tables {
        let path = table.path.to_str().context("a path that is not UTF-8")?;
        let order: Vec<_> = table.order.iter().map(|order| vec![col(order).sort(true, false)]).collect();
        let Some(batches) = &table.batches else {
            context.register_parquet(name, path, ParquetReadOptions::default().file_sort_order(order)).await?;
            continue;
        };
        // Read without the memory limit.
        let reader = SessionContext::new();
        let read = reader.read_parquet(path, ParquetReadOptions::default()).await?;
        let schema = Arc::clone(read.schema().inner());
        let rows = datafusion::arrow::compute::concat_batches(&schema, &read.collect().await?)?;
        let table = MemTable::try_new(schema, partitions(&rows, batches)?)?.with_sort_order(order);
        context.register_table(name, Arc::new(table))?;
    }
    for (key, value) in &request.settings {
        context.sql(&format!("SET {key} = '{value}'")).await.with_context(|| format!("SET {key} = '{value}'"))?;
    }
    Ok(context)
}

/// Returns slices of `rows` of these lengths, which must add up to all rows.
fn partitions(rows: &RecordBatch, lengths: &[Vec<usize>]) -> Result<Vec<Vec<RecordBatch>>> {
    let asked: usize = lengths.iter().flatten().sum();
    anyhow::ensure!(asked == rows.num_rows(), "batches of {asked} rows, and a table of {}", rows.num_rows());
    let mut from = 0;
    let mut next = |length: &usize| {
        from += length;
        rows.slice(from - length, *length)
    };
    Ok(lengths.iter().map(|partition| partition.iter().map(&mut next).collect()).collect())
}
