//! Joins two tables on a band, by sorting and, if asked, with DataFusion's own operator.
//!
//! ```sh
//! cargo run --release -p annulus-datafusion --example band_join -- 1000000
//! cargo run --release -p annulus-datafusion --example band_join -- 20000 stock
//! ```
//! Each table has as many rows as the first argument says, in one batch for each partition. Each
//! row finds about ten. Prints the plan, and the time of each of five runs.

use std::{env, error::Error, sync::Arc, time::Instant};

use annulus_datafusion::{AnnulusConfig, SessionStateBuilderExt, config::Joins};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::{
    datasource::MemTable,
    execution::SessionStateBuilder,
    prelude::{SessionConfig, SessionContext},
};

const QUERY: &str = "SELECT count(*), sum(l.number), sum(r.number) FROM l JOIN r ON r.key BETWEEN l.key AND l.key + 9";
const BATCH_ROWS: i64 = 8192;

/// Returns a table of `rows` rows in two partitions, whose keys are 0 to `rows` - 1, mixed.
fn table(rows: i64, seed: i64) -> Result<MemTable, Box<dyn Error>> {
    let mut partitions = [Vec::new(), Vec::new()];
    for (index, start) in (0..rows).step_by(BATCH_ROWS as usize).enumerate() {
        let numbers = start..rows.min(start + BATCH_ROWS);
        // A prime, so each key is there once unless it divides the number of rows.
        let keys = numbers.clone().map(|row| (row + seed).wrapping_mul(15_485_863).rem_euclid(rows));
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(keys));
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
        partitions[index % 2].push(RecordBatch::try_from_iter([("key", keys), ("number", numbers)])?);
    }
    let schema = partitions[0][0].schema();
    Ok(MemTable::try_new(schema, partitions.into())?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let rows: i64 = arguments.next().as_deref().unwrap_or("100000").parse()?;
    let joins = if arguments.next().as_deref() == Some("stock") { Joins::Never } else { Joins::Always };
    let annulus = AnnulusConfig { joins, ..AnnulusConfig::default() };
    let config = SessionConfig::new().with_target_partitions(2).with_option_extension(annulus);
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    let context = SessionContext::new_with_state(builder.with_annulus().build());
    context.register_table("l", Arc::new(table(rows, 0)?))?;
    context.register_table("r", Arc::new(table(rows, 77)?))?;
    println!("{}", context.sql(&format!("EXPLAIN {QUERY}")).await?.to_string().await?);
    for _ in 0..5 {
        let start = Instant::now();
        let answer = context.sql(QUERY).await?.to_string().await?;
        println!("{:.3} s\n{answer}", start.elapsed().as_secs_f64());
    }
    println!("{}", context.sql(&format!("EXPLAIN ANALYZE {QUERY}")).await?.to_string().await?);
    Ok(())
}
