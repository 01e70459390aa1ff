//! Measures the two ways to join on equal keys and a band.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use annulus_datafusion::{SessionStateBuilderExt, profile::JoinCosts};
use annulus_terminal::statistics::median;
use anyhow::{Context, Result, ensure};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::{
    datasource::MemTable,
    execution::SessionStateBuilder,
    physical_plan::{ExecutionPlan, collect},
    prelude::{SessionConfig, SessionContext},
};

/// The rows of a side for each of its keys, so the pairs for each of them.
const ROWS_OF_A_KEY: usize = 1000;
/// The most rows of a side of the hash join, whose pairs are a thousand times as many; the band
/// join has ten times as many rows.
const MOST_ROWS: usize = 40_000;
const QUERY: &str = "SELECT count(*) FROM a JOIN b ON a.k = b.k AND a.v BETWEEN b.v - 2 AND b.v + 2";

/// Measures both on `threads` partitions, in turn, for about `time` and three times at least. First
/// both join the same rows, and their answers are compared.
///
/// # Errors
/// If a join fails, or the answers differ.
pub async fn measure(threads: usize, most_rows: usize, time: Duration) -> Result<JoinCosts> {
    let keys = (MOST_ROWS.min(most_rows) / ROWS_OF_A_KEY).max(1);
    let rows = keys * ROWS_OF_A_KEY;
    let (few, many) = (tables(rows)?, tables(rows * 10)?);
    let hashed = plan("never", &few, threads).await?;
    let sorted = plan("always", &many, threads).await?;
    let expected = timed(&hashed).await?;
    let found = timed(&plan("always", &few, threads).await?).await?;
    ensure!(found.1 == expected.1, "a band join finds {} pairs, and a hash join {}", found.1, expected.1);
    let (began, mut pairs, mut sorts) = (Instant::now(), Vec::new(), Vec::new());
    while pairs.len() < 3 || began.elapsed() < time {
        pairs.push(timed(&hashed).await?.0 / (rows * ROWS_OF_A_KEY) as f64);
        sorts.push(timed(&sorted).await?.0 / (rows * 20) as f64);
    }
    Ok(JoinCosts { pair_ns: median(&pairs), row_ns: median(&sorts) })
}

/// Returns two tables of `rows` rows, a multiple of [`ROWS_OF_A_KEY`]: keys in turn, and as values
/// the numbers below that, for each key in another order.
fn tables(rows: usize) -> Result<[RecordBatch; 2]> {
    let keys = rows / ROWS_OF_A_KEY;
    let table = |step: usize| -> Result<RecordBatch> {
        let value = |row: usize| (row / keys + row % keys) * step % ROWS_OF_A_KEY;
        let values: ArrayRef = Arc::new((0..rows).map(|row| value(row) as i64).collect::<Int64Array>());
        let keys: ArrayRef = Arc::new((0..rows).map(|row| (row % keys) as i64).collect::<Int64Array>());
        Ok(RecordBatch::try_from_iter([("k", keys), ("v", values)])?)
    };
    // Neither has a factor in common with the rows of a key.
    Ok([table(373)?, table(619)?])
}

/// Returns the plan of [`QUERY`] with a value of `annulus.keyed_bands`.
async fn plan(keyed_bands: &str, tables: &[RecordBatch; 2], threads: usize) -> Result<(SessionContext, Plan)> {
    let config = SessionConfig::new().with_target_partitions(threads);
    let state = SessionStateBuilder::new_with_default_features().with_config(config).with_annulus().build();
    let context = SessionContext::new_with_state(state);
    context.sql("SET annulus.joins = 'always'").await?;
    context.sql("SET annulus.profile = 'none'").await?;
    context.sql(&format!("SET annulus.keyed_bands = '{keyed_bands}'")).await?;
    for (name, table) in ["a", "b"].into_iter().zip(tables) {
        let part = table.num_rows().div_ceil(threads);
        let parts = (0..threads).map(|index| {
            let begin = (index * part).min(table.num_rows());
            vec![table.slice(begin, part.min(table.num_rows() - begin))]
        });
        context.register_table(name, Arc::new(MemTable::try_new(table.schema(), parts.collect())?))?;
    }
    let plan = context.sql(QUERY).await?.create_physical_plan().await?;
    Ok((context, plan))
}

type Plan = Arc<dyn ExecutionPlan>;

/// Returns the nanoseconds that a plan takes, and what it counts.
async fn timed((context, plan): &(SessionContext, Plan)) -> Result<(f64, i64)> {
    let began = Instant::now();
    let batches = collect(Arc::clone(plan), context.task_ctx()).await?;
    let ns = began.elapsed().as_secs_f64() * 1e9;
    let counts = batches.iter().find(|batch| batch.num_rows() > 0).context("a count has a row")?;
    let counts = counts.column(0).as_any().downcast_ref::<Int64Array>().context("a count is a number")?;
    Ok((ns, counts.value(0)))
}
