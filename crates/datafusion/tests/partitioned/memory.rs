//! The memory of queries over partitioned tables.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use annulus_datafusion::{AnnulusConfig, SessionStateBuilderExt};
use arrow::{
    array::{ArrayRef, AsArray, Int64Array, RecordBatch},
    datatypes::Int64Type,
};
use datafusion::{
    execution::{
        SessionStateBuilder,
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        runtime_env::RuntimeEnvBuilder,
    },
    prelude::{SessionConfig, SessionContext},
};

use crate::{
    peak::PeakPool,
    support::{Tables, by, count, plan, register},
};

/// The rows, each of which is a group.
const ROWS: i64 = 200_000;
const PARTITIONS: usize = 32;

/// Returns a session whose operators share `bytes` of memory, and cannot spill.
fn session(bytes: usize) -> SessionContext {
    session_with(PeakPool::new(bytes), DiskManagerMode::Disabled)
}

fn session_with(pool: Arc<PeakPool>, disk: DiskManagerMode) -> SessionContext {
    let disk = DiskManagerBuilder::default().with_mode(disk);
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).with_disk_manager_builder(disk);
    let config = SessionConfig::new().with_target_partitions(2).with_option_extension(AnnulusConfig::default());
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    let builder = builder.with_runtime_env(Arc::new(runtime.build().expect("a runtime")));
    SessionContext::new_with_state(builder.with_annulus().build())
}

/// Returns a key and a value that are different in each row.
fn rows() -> RecordBatch {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row * 7)));
    RecordBatch::try_from_iter([("k", keys), ("v", values)]).expect("rows")
}

/// A grouping of all rows, and a join: each takes the memory of two partitions of thirty-two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_some_partitions_are_in_memory() {
    let (rows, tables) = (rows(), Tables::new());
    let path = tables.split("a", &rows, &by(&["k"], PARTITIONS));
    let other = tables.split("b", &rows, &by(&["k"], PARTITIONS));
    for query in [
        "SELECT count(*), sum(n) FROM (SELECT k, sum(v) n FROM a GROUP BY k)",
        "SELECT count(*), sum(n) FROM (SELECT a.k, sum(a.v) n FROM a JOIN b ON a.k = b.k GROUP BY a.k)",
    ] {
        let context = session(4 << 20);
        register(&context, "a", &path).await;
        register(&context, "b", &other).await;
        let shown = plan(&context, query).await;
        assert_eq!(count(&shown, "InTurnExec: partitions=32, at_a_time=2"), 1, "{shown}");
        let sum = ROWS * (ROWS - 1) / 2 * 7;
        let told = context.sql(query).await.expect(query).to_string().await.expect(query);
        assert!(told.contains(&format!("| {ROWS}   | {sum} |")), "{told}");
        context.sql("SET annulus.partitioned_tables = false").await.expect("an option");
        let whole = context.sql(query).await.expect(query).collect().await;
        let error = whole.expect_err("all groups at once").to_string();
        assert!(error.contains("Resources exhausted"), "{error}");
    }
}

/// A partition of the build side takes more memory than there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_that_are_larger_than_memory_spill() {
    const POOL: usize = 500_000;
    let (rows, tables) = (rows(), Tables::new());
    let path = tables.split("a", &rows, &by(&["k"], 4));
    let other = tables.split("b", &rows, &by(&["k"], 4));
    let sum = ROWS * (ROWS - 1) / 2 * 7;
    for kind in ["JOIN", "LEFT JOIN", "FULL JOIN"] {
        // Nothing above the joins needs memory: they take what they cannot do without though the pool is full.
        let query = format!("SELECT a.v, b.v FROM a {kind} b ON a.k = b.k");
        let pool = PeakPool::new(POOL);
        let context = session_with(Arc::clone(&pool), DiskManagerMode::OsTmpDirectory);
        register(&context, "a", &path).await;
        register(&context, "b", &other).await;
        let shown = plan(&context, &query).await;
        assert_eq!(count(&shown, "InTurnExec: partitions=4, at_a_time=2"), 1, "{shown}");
        assert_eq!(count(&shown, "SharedHashJoinExec: mode=Partitioned"), 1, "{shown}");
        assert_eq!(count(&shown, "RepartitionExec"), 0, "{shown}");
        let batches = context.sql(&query).await.expect(&query).collect().await.expect(&query);
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), ROWS as usize, "{query}");
        for column in 0..2 {
            let values = batches.iter().flat_map(|batch| batch.column(column).as_primitive::<Int64Type>().values());
            assert_eq!(values.sum::<i64>(), sum, "{query}");
        }
        drop(batches);
        // The rows of a partition alone are 800,000 bytes.
        let peak = pool.peak.load(Relaxed);
        assert!(peak > POOL / 4 && peak < 2 * POOL, "{peak}");
        assert_eq!(context.runtime_env().memory_pool.reserved(), 0);
        assert_eq!(context.runtime_env().disk_manager.used_disk_space(), 0);
        context.sql("SET annulus.joins = never").await.expect("an option");
        let stock = context.sql(&query).await.expect(&query).collect().await;
        let error = stock.expect_err("a whole partition").to_string();
        assert!(error.contains("Resources exhausted"), "{error}");
    }
}
