//! Subplans that run once for several places of a plan, against DataFusion's own plans.

mod common;

use std::sync::Arc;

use annulus_datafusion::SessionStateBuilderExt;
use common::{eventually, lines};
use datafusion::{
    error::Result,
    execution::{
        SessionStateBuilder,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    physical_plan::{ExecutionPlan, collect, displayable, execute_stream},
    prelude::{SessionConfig, SessionContext},
};
use futures::StreamExt;
use tempfile::TempDir;

const TABLES: [&str; 5] = [
    "COPY (SELECT value AS id, value % 700 AS k, value % 12 AS month, (value * 7919) % 1000 AS amount \
     FROM range(20000)) TO '{dir}/sales/1.parquet'",
    "COPY (SELECT value AS id, value % 700 AS k, value % 12 AS month, (value * 104729) % 1000 AS amount \
     FROM range(20000, 30000)) TO '{dir}/sales/2.parquet'",
    "COPY (SELECT value AS k, 'name ' || value AS name, value % 9 AS class FROM range(700)) TO '{dir}/names.parquet'",
    "CREATE EXTERNAL TABLE sales STORED AS PARQUET LOCATION '{dir}/sales/'",
    "CREATE EXTERNAL TABLE names STORED AS PARQUET LOCATION '{dir}/names.parquet'",
];

const REVENUE: &str = "\
     WITH revenue AS (SELECT k, sum(amount) AS total, count(*) AS n FROM sales WHERE month < 5 GROUP BY k), \
     classes AS (SELECT class, count(*) AS members FROM names GROUP BY class)";

/// With the number of operators that the plan has.
const QUERIES: [(&str, usize); 12] = [
    // A view, and a subquery of it.
    (
        "SELECT name, total FROM names, revenue WHERE names.k = revenue.k AND total = (SELECT max(total) FROM revenue)",
        2,
    ),
    ("SELECT a.k, b.total FROM revenue a CROSS JOIN revenue b WHERE a.total % 97 + b.k < 5", 2),
    ("SELECT * FROM revenue UNION ALL SELECT * FROM revenue UNION ALL SELECT k, total, 0 FROM revenue WHERE n > 2", 3),
    (
        "SELECT k, total, rank() OVER (ORDER BY total DESC, k) FROM revenue WHERE total > (SELECT avg(total) \
         FROM revenue)",
        2,
    ),
    // Two different views, each twice.
    (
        "SELECT * FROM revenue UNION ALL SELECT class, members, 0 FROM classes UNION ALL SELECT members, class, \
         1 FROM classes \
      UNION ALL SELECT k, total, 2 FROM revenue WHERE n > 3",
        4,
    ),
    // One reads more rows than the other.
    (
        "SELECT * FROM revenue r JOIN (SELECT k, sum(amount) AS total FROM sales WHERE month < 6 GROUP BY k) s \
      ON r.k = s.k AND r.total < s.total",
        0,
    ),
    // Other functions, other groups, and other columns.
    (
        "SELECT * FROM (SELECT k, min(amount) AS a FROM sales GROUP BY k) a \
      JOIN (SELECT k, max(amount) AS a FROM sales GROUP BY k) b ON a.k = b.k \
      JOIN (SELECT month AS k, min(amount) AS a FROM sales GROUP BY month) c ON c.k = a.k \
      JOIN (SELECT k, min(id) AS a FROM sales GROUP BY k) d ON d.k = a.k",
        0,
    ),
    // Another value each time.
    (
        "SELECT count(*) FROM (SELECT k, count(*) FROM sales WHERE random() < 2.0 GROUP BY k) a \
      JOIN (SELECT k, count(*) FROM sales WHERE random() < 2.0 GROUP BY k) b ON a.k = b.k",
        0,
    ),
    // Joins tell the scans of one that they need few rows.
    ("SELECT a.k, b.n FROM revenue a JOIN revenue b ON a.total = b.total AND a.k < b.k", 0),
    ("SELECT count(*) FROM revenue a WHERE EXISTS (SELECT 1 FROM revenue b WHERE a.k = b.k + 1)", 0),
    (
        "SELECT * FROM revenue a, names WHERE a.k = names.k AND class = 3 AND a.total > (SELECT avg(total) FROM \
         revenue)",
        0,
    ),
    // A single reader ends before it has all rows.
    ("SELECT count(a.total), count(b.total) FROM (SELECT * FROM revenue LIMIT 5) a CROSS JOIN revenue b", 2),
];

async fn session(runtime: Arc<RuntimeEnv>, ours: bool) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(3).with_batch_size(64);
    config.options_mut().optimizer.repartition_file_min_size = 0;
    let builder = SessionStateBuilder::new_with_default_features().with_config(config).with_runtime_env(runtime);
    let builder = if ours { builder.with_annulus() } else { builder };
    SessionContext::new_with_state(builder.build())
}

async fn run(context: &SessionContext, dir: &TempDir, statements: &[&str]) {
    for sql in statements {
        let sql = sql.replace("{dir}", &dir.path().display().to_string());
        context.sql(&sql).await.unwrap().collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

/// Returns the sessions with the tables: DataFusion's, and that of Annulus.
async fn sessions(runtime: Arc<RuntimeEnv>) -> (SessionContext, SessionContext, TempDir) {
    let dir = TempDir::new().unwrap();
    let (stock, ours) = (session(Arc::default(), false).await, session(runtime, true).await);
    run(&stock, &dir, &TABLES).await;
    run(&ours, &dir, &TABLES[3..]).await;
    (stock, ours, dir)
}

async fn plan(context: &SessionContext, query: &str) -> Arc<dyn ExecutionPlan> {
    context.sql(&format!("{REVENUE} {query}")).await.unwrap().create_physical_plan().await.unwrap()
}

/// Returns the sorted rows of a plan.
async fn rows(context: &SessionContext, plan: Arc<dyn ExecutionPlan>) -> Result<Vec<String>> {
    let mut lines = lines(&collect(plan, context.task_ctx()).await?);
    lines.sort_unstable();
    Ok(lines)
}

fn operators(plan: &Arc<dyn ExecutionPlan>) -> usize {
    displayable(plan.as_ref()).indent(false).to_string().matches("CommonSubplanExec").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_separate_subplans() {
    let (stock, ours, _dir) = sessions(Arc::default()).await;
    for (query, expected) in QUERIES {
        let plan = plan(&ours, query).await;
        let text = displayable(plan.as_ref()).indent(false).to_string();
        assert_eq!(operators(&plan), expected, "{query}\n{text}");
        let answer = rows(&stock, self::plan(&stock, query).await).await.unwrap();
        assert!(!answer.is_empty(), "{query}");
        assert_eq!(rows(&ours, plan).await.unwrap(), answer, "{query}\n{text}");
    }
}

/// Returns the rows that the scans of a plan have read.
fn rows_read(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let own =
        if plan.name() == "DataSourceExec" { plan.metrics().and_then(|metrics| metrics.output_rows()) } else { None };
    own.unwrap_or_default() + plan.children().into_iter().map(rows_read).sum::<usize>()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subplan_runs_once() {
    let (_, ours, _dir) = sessions(Arc::default()).await;
    for (query, readers) in QUERIES.iter().take(5) {
        let plan = plan(&ours, query).await;
        rows(&ours, Arc::clone(&plan)).await.unwrap();
        // 12,500 rows of sales are in the first five months, and there are 700 names.
        let read = rows_read(&plan);
        assert!((12_500..=13_200).contains(&read), "{readers} readers, {read} rows: {query}");
    }
}

/// With too little memory for the rows, readers run their own copies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn little_memory_fails_no_query_and_all_of_it_comes_back() {
    let (stock, ours, _dir) = sessions(Arc::default()).await;
    for (query, _) in QUERIES {
        let answer = rows(&stock, plan(&stock, query).await).await.unwrap();
        let (mut succeeded, mut bytes) = (false, 1 << 14);
        while !succeeded {
            let runtime = RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).build_arc().unwrap();
            // The tables and rules of our session, with this memory.
            let state = SessionStateBuilder::new_from_existing(ours.state()).with_runtime_env(Arc::clone(&runtime));
            let limited = SessionContext::new_with_state(state.build());
            let plan = plan(&limited, query).await;
            match rows(&limited, plan).await {
                Ok(found) => {
                    assert_eq!(found, answer, "{query} with {bytes} bytes");
                    succeeded = true;
                }
                Err(error) => assert!(error.to_string().contains("Resources exhausted"), "{query}: {error}"),
            }
            // Tasks of a query that has failed end a little later.
            eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
            bytes += bytes / 3;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_is_dropped_leaves_nothing() {
    let (_, ours, _dir) = sessions(Arc::default()).await;
    for (query, _) in QUERIES.iter().filter(|(_, readers)| *readers > 0) {
        let plan = plan(&ours, query).await;
        let mut rows = execute_stream(Arc::clone(&plan), ours.task_ctx()).unwrap();
        rows.next().await.unwrap().unwrap();
        drop((rows, plan));
        eventually("nothing is reserved", || ours.runtime_env().memory_pool.reserved() == 0).await;
    }
}
