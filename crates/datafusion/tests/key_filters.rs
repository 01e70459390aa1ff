//! Key filters above scans of files, against DataFusion's own joins.

mod common;

use std::sync::Arc;

use annulus_datafusion::{KeyFilterExec, SessionStateBuilderExt};
use common::lines;
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    error::Result,
    execution::{
        SessionStateBuilder,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    physical_plan::{collect, displayable},
    prelude::{SessionConfig, SessionContext},
};
use tempfile::TempDir;

/// Tables as files: numbers in two widths, texts, a folder for each value, and one with many nulls.
const FILES: [&str; 6] = [
    "COPY (SELECT value AS k, value % 7 AS v, 'text ' || (value % 300) AS s FROM range(3000)) TO '{dir}/big/1.parquet'",
    "COPY (SELECT arrow_cast(value, 'Int32') AS k, value % 5 AS v, 'text ' || value AS s FROM range(2500, 4000)) \
     TO '{dir}/big/2.parquet'",
    "COPY (SELECT value * 37 AS k, value AS v, 'text ' || (value * 3) AS s FROM range(60)) TO '{dir}/small.parquet'",
    "COPY (SELECT value AS k, value % 4 AS part, 'text ' || value AS s FROM range(2000)) TO '{dir}/parts' \
     STORED AS PARQUET PARTITIONED BY (part)",
    "COPY (SELECT CASE WHEN value % 3 > 0 THEN value END AS k, value AS v, 'text' AS s FROM range(500)) \
     TO '{dir}/nulls.parquet'",
    "COPY (SELECT value AS k, value AS v, 'text ' || value AS s FROM range(1000) WHERE value < 0) \
     TO '{dir}/none.parquet'",
];
const TABLES: [&str; 5] = [
    "CREATE EXTERNAL TABLE big (k BIGINT, v BIGINT, s STRING) STORED AS PARQUET LOCATION '{dir}/big/'",
    "CREATE EXTERNAL TABLE small STORED AS PARQUET LOCATION '{dir}/small.parquet'",
    "CREATE EXTERNAL TABLE parts (k BIGINT, s STRING, part BIGINT) STORED AS PARQUET PARTITIONED BY (part) \
     LOCATION '{dir}/parts/'",
    "CREATE EXTERNAL TABLE nulls STORED AS PARQUET LOCATION '{dir}/nulls.parquet'",
    "CREATE EXTERNAL TABLE none STORED AS PARQUET LOCATION '{dir}/none.parquet'",
];
/// All have one answer, whatever the order of the rows.
const QUERIES: [&str; 17] = [
    "SELECT * FROM small JOIN big ON small.k = big.k",
    "SELECT * FROM small JOIN big ON small.s = big.s",
    "SELECT * FROM small JOIN big ON small.k = big.k AND small.s = big.s",
    "SELECT * FROM small JOIN big ON small.k = big.k + 1 WHERE big.v > 2",
    "SELECT * FROM big JOIN small ON small.k = big.k JOIN nulls ON nulls.k = big.v JOIN parts ON parts.k = small.k",
    "SELECT count(*), sum(parts.k) FROM small JOIN parts ON small.v = parts.part",
    "SELECT count(*) FROM nulls a JOIN nulls b ON a.k = b.k JOIN small ON small.k = a.k",
    "SELECT count(*) FROM nulls a JOIN nulls b ON a.k IS NOT DISTINCT FROM b.k",
    "SELECT * FROM big WHERE k IN (SELECT k FROM small WHERE v > 10)",
    "SELECT count(*) FROM big WHERE k NOT IN (SELECT k FROM nulls WHERE k IS NOT NULL)",
    "SELECT count(*) FROM big WHERE NOT EXISTS (SELECT 1 FROM small WHERE small.k = big.k)",
    "SELECT count(*), count(big.k) FROM small LEFT JOIN big ON small.k = big.k AND big.v = 3",
    "SELECT count(*), count(small.k) FROM small FULL JOIN big ON small.k = big.k",
    "SELECT * FROM none JOIN big ON none.k = big.k",
    "SELECT count(*) FROM none RIGHT JOIN big ON none.k = big.k",
    "SELECT big.k, count(*) FROM small JOIN big ON small.k = big.k GROUP BY big.k ORDER BY big.k DESC LIMIT 7",
    "SELECT b.m, small.v FROM (SELECT k, max(v) AS m FROM big GROUP BY k) b JOIN small ON small.k = b.k",
];

async fn session(ours: bool, pushdown: bool) -> Result<SessionContext> {
    session_on(Arc::default(), ours, pushdown).await
}

async fn session_on(runtime: Arc<RuntimeEnv>, ours: bool, pushdown: bool) -> Result<SessionContext> {
    let mut config = SessionConfig::new().with_target_partitions(3).with_batch_size(256);
    let options = config.options_mut();
    options.optimizer.repartition_file_min_size = 0;
    options.execution.parquet.pushdown_filters = pushdown;
    options.execution.parquet.reorder_filters = pushdown;
    let mut builder = SessionStateBuilder::new_with_default_features().with_config(config).with_runtime_env(runtime);
    if ours {
        builder = builder.with_annulus();
    }
    let context = SessionContext::new_with_state(builder.build());
    if ours {
        context.sql("SET annulus.joins = 'always'").await?;
    }
    Ok(context)
}

/// Returns the sorted rows of a query, and the number of key filters in its plan.
async fn rows(context: &SessionContext, query: &str) -> Result<(Vec<String>, usize)> {
    let plan = context.sql(query).await?.create_physical_plan().await?;
    let mut filters = 0;
    plan.apply(|node| {
        filters += usize::from(node.is::<KeyFilterExec>());
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut lines = lines(&collect(plan, context.task_ctx()).await?);
    lines.sort_unstable();
    Ok((lines, filters))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_of_files_lose_no_row_that_has_a_partner() {
    let dir = TempDir::new().unwrap();
    let at = |sql: &str| sql.replace("{dir}", &dir.path().display().to_string());
    let writer = session(false, false).await.unwrap();
    for sql in FILES {
        writer.sql(&at(sql)).await.unwrap().collect().await.unwrap();
    }
    for pushdown in [false, true] {
        let (stock, ours) = (session(false, pushdown).await.unwrap(), session(true, pushdown).await.unwrap());
        for sql in TABLES {
            stock.sql(&at(sql)).await.unwrap().collect().await.unwrap();
            ours.sql(&at(sql)).await.unwrap().collect().await.unwrap();
        }
        let mut all = 0;
        for query in QUERIES {
            let at = format!("pushdown {pushdown}: {query}");
            let (expected, _) = rows(&stock, query).await.unwrap_or_else(|error| panic!("stock, {at}: {error}"));
            let (found, filters) = rows(&ours, query).await.unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_eq!(found, expected, "{at}");
            all += filters;
        }
        // A scan that filters itself needs no operator above it.
        assert!(all > 5 || pushdown, "{all} filters");
    }
}

/// A build side on disk has no set of its keys, but their bounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_that_spill_publish_the_bounds_of_their_keys() {
    let dir = TempDir::new().unwrap();
    let at = |sql: &str| sql.replace("{dir}", &dir.path().display().to_string());
    let stock = session(false, false).await.unwrap();
    for sql in FILES.iter().chain(&TABLES) {
        stock.sql(&at(sql)).await.unwrap().collect().await.unwrap();
    }
    // So little memory that each build side goes to disk.
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(1, 1.0).build_arc().unwrap();
    let ours = session_on(runtime, true, false).await.unwrap();
    for sql in TABLES {
        ours.sql(&at(sql)).await.unwrap().collect().await.unwrap();
    }
    for query in QUERIES.iter().filter(|query| query.starts_with("SELECT *")) {
        let (expected, _) = rows(&stock, query).await.unwrap_or_else(|error| panic!("stock, {query}: {error}"));
        let (found, _) = rows(&ours, query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(found, expected, "{query}");
    }
    let plan = ours.sql(QUERIES[0]).await.unwrap().create_physical_plan().await.unwrap();
    collect(Arc::clone(&plan), ours.task_ctx()).await.unwrap();
    let text = displayable(plan.as_ref()).indent(false).to_string();
    // 59 * 37 is the greatest key of the small table.
    assert!(text.contains("k@0 >= 0 AND k@0 <= 2183") && !text.contains("may_match"), "{text}");
}
