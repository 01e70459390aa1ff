//! Joins two tables on a band, by sorting, or with DataFusion's own operator if asked.
//!
//! ```sh
//! cargo run --release -p annulus-datafusion --example band_join -- 1000000
//! cargo run --release -p annulus-datafusion --example band_join -- 20000 20000 never
//! cargo run --release -p annulus-datafusion --example band_join -- 100 1000000 auto \
//!     "SELECT count(*) FROM l JOIN r ON l.key < r.key AND l.number > r.number"
//! ```
//! The arguments are the rows of the tables `l` and `r`, the value of `annulus.joins`, and the
//! query. Each table has the columns `key` and `number`, in two partitions. Prints the plan, the
//! time of each of five runs with its result, and what `EXPLAIN ANALYZE` shows.

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
    let left = arguments.next().unwrap_or("100000".to_owned());
    let right = arguments.next().unwrap_or(left.clone());
    let joins: Joins = arguments.next().as_deref().unwrap_or("auto").parse()?;
    let query = arguments.next().unwrap_or(QUERY.to_owned());
    let annulus = AnnulusConfig { joins, ..AnnulusConfig::default() };
    let config = SessionConfig::new().with_target_partitions(2).with_option_extension(annulus);
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    let context = SessionContext::new_with_state(builder.with_annulus().build());
    context.register_table("l", Arc::new(table(left.parse()?, 0)?))?;
    context.register_table("r", Arc::new(table(right.parse()?, 77)?))?;
    println!("{}", context.sql(&format!("EXPLAIN {query}")).await?.to_string().await?);
    for _ in 0..5 {
        let start = Instant::now();
        let answer = context.sql(&query).await?.to_string().await?;
        println!("{:.3} s\n{answer}", start.elapsed().as_secs_f64());
    }
    println!("{}", context.sql(&format!("EXPLAIN ANALYZE {query}")).await?.to_string().await?);
    Ok(())
}
