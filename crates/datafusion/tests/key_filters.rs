//! Key filters above scans of files, against DataFusion's own joins.

mod common;

use std::sync::Arc;

use annulus_datafusion::{KeyFilterExec, SessionStateBuilderExt};
use common::lines;
use datafusion::{
    arrow::compute::SortOptions,
    common::tree_node::{TreeNode, TreeNodeRecursion},
    error::Result,
    execution::{
        SessionStateBuilder,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    physical_expr::{
        PhysicalExpr, PhysicalSortExpr,
        expressions::{Column, NegativeExpr, col},
        projection::ProjectionExpr,
    },
    physical_plan::{
        ExecutionPlan, collect, displayable, metrics::MetricValue, projection::ProjectionExec, sorts::sort::SortExec,
    },
    physical_planner::DefaultPhysicalPlanner,
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
const TABLES: [&str; 6] = [
    "CREATE EXTERNAL TABLE big (k BIGINT, v BIGINT, s STRING) STORED AS PARQUET LOCATION '{dir}/big/'",
    "CREATE EXTERNAL TABLE small STORED AS PARQUET LOCATION '{dir}/small.parquet'",
    "CREATE EXTERNAL TABLE parts (k BIGINT, s STRING, part BIGINT) STORED AS PARQUET PARTITIONED BY (part) \
     LOCATION '{dir}/parts/'",
    "CREATE EXTERNAL TABLE nulls STORED AS PARQUET LOCATION '{dir}/nulls.parquet'",
    "CREATE EXTERNAL TABLE known (k BIGINT NOT NULL) STORED AS PARQUET LOCATION '{dir}/small.parquet'",
    "CREATE EXTERNAL TABLE none STORED AS PARQUET LOCATION '{dir}/none.parquet'",
];
/// Ten row groups or folders, of which keys of two have partners: in their order; mixed, with Bloom
/// filters; and each in a folder of its own, by numbers and by texts.
const LISTED: [&str; 10] = [
    "COPY (SELECT value AS k, 'text ' || lpad(value::STRING, 4, '0') AS s FROM range(1000)) TO '{dir}/t.parquet' \
     OPTIONS ('format.max_row_group_size' '100')",
    "COPY (SELECT value * 37 % 1000 * 7 AS k, 'text ' || lpad((value * 37 % 1000 * 7)::STRING, 4, '0') AS s \
     FROM range(1000)) TO '{dir}/mixed.parquet' \
     OPTIONS ('format.max_row_group_size' '100', 'format.bloom_filter_on_write' 'true')",
    "COPY (SELECT value AS k, value % 10 AS part FROM range(1000)) TO '{dir}/parts' STORED AS PARQUET \
     PARTITIONED BY (part)",
    "COPY (SELECT value AS k, 'name ' || (value % 10) AS name FROM range(1000)) TO '{dir}/named' \
     STORED AS PARQUET PARTITIONED BY (name)",
    "COPY (SELECT value * 693 + 7 AS k, 'text ' || lpad((value * 693 + 7)::STRING, 4, '0') AS s, \
     value * 5 + 2 AS part, 'name ' || (value * 5 + 2) AS name FROM range(2)) TO '{dir}/few.parquet'",
    "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{dir}/t.parquet'",
    "CREATE EXTERNAL TABLE mixed STORED AS PARQUET LOCATION '{dir}/mixed.parquet'",
    "CREATE EXTERNAL TABLE parts (k BIGINT, part BIGINT) STORED AS PARQUET PARTITIONED BY (part) \
     LOCATION '{dir}/parts/'",
    "CREATE EXTERNAL TABLE named STORED AS PARQUET PARTITIONED BY (name) LOCATION '{dir}/named/'",
    "CREATE EXTERNAL TABLE few STORED AS PARQUET LOCATION '{dir}/few.parquet'",
];
/// A table of more than a megabyte with keys that are not dense, and one of which each fifth row has
/// a partner.
const WIDE: [&str; 4] = [
    "COPY (SELECT value * 1000 AS k, 'text ' || (value * 1000) AS s, repeat('wide' || value, 50) AS text \
     FROM range(4000)) TO '{dir}/wide.parquet'",
    "COPY (SELECT value * 200 AS k, 'text ' || (value * 200) AS s FROM range(20000)) TO '{dir}/t.parquet'",
    "CREATE EXTERNAL TABLE wide STORED AS PARQUET LOCATION '{dir}/wide.parquet'",
    "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{dir}/t.parquet'",
];
/// Joins with several columns of one name, of which a search by name would find another than the
/// key's.
const SAME_NAMES: [&str; 4] = [
    // A projection gives a null the name of the key.
    "SELECT b.k, b.v FROM small a LEFT JOIN (SELECT * FROM small ORDER BY v LIMIT 0) b ON true \
     WHERE a.v < (SELECT max(z.v) + 1 FROM small z WHERE z.k = a.k)",
    // The first of two columns has none of the keys.
    "SELECT x.* FROM (SELECT * FROM small WHERE k < 900) a JOIN (SELECT big.k, f.k AS other, count(*) \
     FROM (SELECT k + 10000 AS k, v FROM small) f JOIN big ON f.v = big.v GROUP BY f.k, big.k) x ON x.k = a.k",
    // The key of a grouping has the name of a column that it does not group by.
    "SELECT x.* FROM (SELECT * FROM small WHERE k < 900) a JOIN (SELECT v AS k, count(*) \
     FROM (SELECT k * 30 AS v, k + 10000 AS k FROM big) f GROUP BY v) x ON x.k = a.k",
    // The other side of a semi join has a column with the name of the key.
    "SELECT x.k FROM small JOIN (SELECT big.k FROM big WHERE big.k IN (SELECT v \
     FROM (SELECT v, k + 10000 AS k FROM nulls) f WHERE f.k IS DISTINCT FROM big.v)) x ON x.k = small.v",
];
/// All have one answer, whatever the order of the rows.
const QUERIES: [&str; 29] = [
    "SELECT * FROM small JOIN big ON small.k = big.k",
    "SELECT * FROM small JOIN big ON small.s = big.s",
    "SELECT * FROM small JOIN big ON small.k = big.k AND small.s = big.s",
    "SELECT * FROM small JOIN big ON small.k = big.k + 1 WHERE big.v > 2",
    "SELECT * FROM big JOIN small ON small.k = big.k JOIN nulls ON nulls.k = big.v JOIN parts ON parts.k = small.k",
    "SELECT count(*), sum(parts.k) FROM small JOIN parts ON small.v = parts.part",
    "SELECT count(*) FROM nulls a JOIN nulls b ON a.k = b.k JOIN small ON small.k = a.k",
    "SELECT count(*) FROM nulls a JOIN nulls b ON a.k IS NOT DISTINCT FROM b.k",
    "SELECT count(*) FROM small JOIN nulls ON small.k IS NOT DISTINCT FROM nulls.k",
    "SELECT count(*), sum(b.v) FROM nulls a JOIN nulls b \
     ON (a.k IS NOT DISTINCT FROM b.k) AND a.s = b.s AND a.v = b.v",
    "SELECT count(*) FROM (SELECT k, v FROM nulls WHERE v < 9 OR k < 70) a JOIN nulls b \
     ON (a.k IS NOT DISTINCT FROM b.k) AND (a.v IS NOT DISTINCT FROM b.v)",
    "SELECT k, s FROM big INTERSECT SELECT k, s FROM small",
    "SELECT k FROM nulls INTERSECT ALL SELECT k FROM small",
    "SELECT k FROM known WHERE k NOT IN (SELECT k FROM big)",
    "SELECT k FROM known WHERE k NOT IN (SELECT k + 2000 FROM nulls)",
    "SELECT * FROM big WHERE k IN (SELECT k FROM small WHERE v > 10)",
    "SELECT count(*) FROM big WHERE k NOT IN (SELECT k FROM nulls WHERE k IS NOT NULL)",
    "SELECT count(*) FROM big WHERE NOT EXISTS (SELECT 1 FROM small WHERE small.k = big.k)",
    "SELECT count(*), count(big.k) FROM small LEFT JOIN big ON small.k = big.k AND big.v = 3",
    "SELECT count(*), count(small.k) FROM small FULL JOIN big ON small.k = big.k",
    "SELECT * FROM none JOIN big ON none.k = big.k",
    "SELECT count(*) FROM none RIGHT JOIN big ON none.k = big.k",
    "SELECT big.k, count(*) FROM small JOIN big ON small.k = big.k GROUP BY big.k ORDER BY big.k DESC LIMIT 7",
    "SELECT b.m, small.v FROM (SELECT k, max(v) AS m FROM big GROUP BY k) b JOIN small ON small.k = b.k",
    "SELECT count(*), sum(b.k) FROM big a JOIN parts b ON a.v = b.part AND a.k < b.k JOIN small ON small.k = a.k",
    "SELECT count(*), sum(a.k) FROM big a JOIN parts b ON a.v = b.part AND a.k < b.k JOIN small ON small.k = b.k",
    "SELECT count(*), sum(a.k) FROM nulls a LEFT JOIN parts b ON a.k BETWEEN b.k - 3 AND b.k + 3 \
     JOIN small ON small.k = b.k OR small.k = a.k AND small.v = a.v",
    "SELECT count(*), sum(a.v) FROM nulls a RIGHT JOIN big b ON a.k < b.k AND a.v > b.v JOIN small ON small.k = b.k",
    "SELECT count(*) FROM big a JOIN nulls b ON a.v > b.v JOIN small ON small.k = a.k AND small.k < b.k",
];

/// Where the rows without partners are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FilterSite {
    /// In an operator above the scan.
    Above,
    /// In DataFusion's scan.
    StockScan,
    /// In the scan of Annulus, on codes.
    EncodedScan,
}

const FILTER_SITES: [FilterSite; 3] = [FilterSite::Above, FilterSite::StockScan, FilterSite::EncodedScan];

async fn session(ours: bool, site: FilterSite) -> Result<SessionContext> {
    session_on(Arc::default(), ours, site).await
}

async fn session_on(runtime: Arc<RuntimeEnv>, ours: bool, site: FilterSite) -> Result<SessionContext> {
    let pushdown = site == FilterSite::StockScan;
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
        let scans = if site == FilterSite::EncodedScan { "always" } else { "never" };
        context.sql(&format!("SET annulus.scans = '{scans}'")).await?;
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

/// Writes the files and returns their folder.
async fn files() -> TempDir {
    let dir = TempDir::new().unwrap();
    let writer = session(false, FilterSite::Above).await.unwrap();
    run(&writer, &dir, &FILES).await;
    dir
}

async fn run(context: &SessionContext, dir: &TempDir, statements: &[&str]) {
    for sql in statements {
        let sql = sql.replace("{dir}", &dir.path().display().to_string());
        context.sql(&sql).await.unwrap().collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_of_files_lose_no_row_that_has_a_partner() {
    let dir = files().await;
    for site in FILTER_SITES {
        let (stock, ours) = (session(false, site).await.unwrap(), session(true, site).await.unwrap());
        run(&stock, &dir, &TABLES).await;
        run(&ours, &dir, &TABLES).await;
        let mut all = 0;
        for query in QUERIES {
            let at = format!("{site:?}: {query}");
            let (expected, _) = rows(&stock, query).await.unwrap_or_else(|error| panic!("stock, {at}: {error}"));
            let (found, filters) = rows(&ours, query).await.unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_eq!(found, expected, "{at}");
            all += filters;
        }
        // A scan that filters itself needs no operator above it.
        assert!(all > 5 || site != FilterSite::Above, "{all} filters");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_reach_their_own_columns_where_others_have_their_names() {
    let dir = files().await;
    for site in FILTER_SITES {
        let (stock, ours) = (session(false, FilterSite::Above).await.unwrap(), session(true, site).await.unwrap());
        // DataFusion's own filters go astray.
        run(&stock, &dir, &["SET datafusion.optimizer.enable_dynamic_filter_pushdown = false"]).await;
        run(&stock, &dir, &TABLES).await;
        run(&ours, &dir, &TABLES).await;
        for query in SAME_NAMES {
            let (expected, _) = rows(&stock, query).await.unwrap();
            let (found, _) = rows(&ours, query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
            assert!(!expected.is_empty());
            assert_eq!(found, expected, "{site:?}: {query}");
        }
    }
}

/// Both sides of a band join have a column `k`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_pass_through_band_joins_to_the_side_of_their_column() {
    let dir = files().await;
    let ours = session(true, FilterSite::EncodedScan).await.unwrap();
    run(&ours, &dir, &TABLES).await;
    for (key, passed) in [("a.k", "big/1.parquet"), ("b.k", "parts/")] {
        let query = format!(
            "SELECT count(*) FROM (SELECT a.k AS l, b.k AS r, {key} AS key FROM big a \
             JOIN parts b ON a.v = b.part AND a.k < b.k) x JOIN small ON small.k = x.key"
        );
        let (plan, text) = executed(&ours, &query).await;
        assert!(text.contains("BandJoinExec"), "{text}");
        let filtered: Vec<_> = text.lines().filter(|line| line.contains("may_match")).collect();
        assert!(filtered.len() == 1 && filtered[0].contains(passed), "{text}");
        // Of the rows with partners, 60 at most are read.
        assert!(metric(&plan, passed, "output_rows") <= 60, "{text}");
    }
}

/// The filter of DataFusion's `TopK` goes to the other of two columns with one name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_that_went_astray_drop_no_rows() {
    let dir = files().await;
    let ours = session(true, FilterSite::Above).await.unwrap();
    run(&ours, &dir, &TABLES).await;
    let join = ours.sql("SELECT b.k FROM big a JOIN big b ON a.k = b.k").await.unwrap();
    let join = join.create_physical_plan().await.unwrap();
    let name = |expr: Arc<dyn PhysicalExpr>| ProjectionExpr::new(expr, "x");
    let k = col("k", &join.schema()).unwrap();
    let negative = Arc::new(NegativeExpr::new(Arc::clone(&k)));
    let twice = ProjectionExec::try_new([name(k), name(negative)], join).unwrap();
    let order = PhysicalSortExpr::new(Arc::new(Column::new("x", 0)), SortOptions::new(true, false));
    let top = SortExec::new([order].into(), Arc::new(twice)).with_fetch(Some(2));
    let planner = DefaultPhysicalPlanner::default();
    let plan = planner.optimize_physical_plan(Arc::new(top), &ours.state(), |_, _| {}).unwrap();
    let text = displayable(plan.as_ref()).indent(false).to_string();
    assert!(text.contains("KeyFilterExec") && text.contains("TopK"), "{text}");
    // The scan below the key filter keeps that of the join, for the row groups.
    assert_eq!(text.matches("DynamicFilter").count(), 2, "{text}");
    let mut lines = lines(&collect(plan, ours.task_ctx()).await.unwrap());
    lines.sort_unstable();
    assert_eq!(lines, ["3998|-3998", "3999|-3999"], "{text}");
}

/// In a tiny pool, a build side on disk has no set of its keys, but their bounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_that_spill_publish_the_bounds_of_their_keys() {
    let dir = files().await;
    let stock = session(false, FilterSite::Above).await.unwrap();
    run(&stock, &dir, &TABLES).await;
    // So little memory that each build side goes to disk.
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(1, 1.0).build_arc().unwrap();
    let ours = session_on(runtime, true, FilterSite::Above).await.unwrap();
    run(&ours, &dir, &TABLES).await;
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

/// Executes a query and returns its plan, with the filters that were published.
async fn executed(context: &SessionContext, query: &str) -> (Arc<dyn ExecutionPlan>, String) {
    let plan = context.sql(query).await.unwrap().create_physical_plan().await.unwrap();
    collect(Arc::clone(&plan), context.task_ctx()).await.unwrap_or_else(|error| panic!("{query}: {error}"));
    let text = displayable(plan.as_ref()).indent(false).to_string();
    (plan, text)
}

/// Returns the sum of a metric of all operators whose description has this text. Of one that counts what was pruned,
/// that.
fn metric(plan: &Arc<dyn ExecutionPlan>, operator: &str, name: &str) -> usize {
    let mut sum = 0;
    plan.apply(|node| {
        if displayable(node.as_ref()).one_line().to_string().contains(operator) {
            let metrics = node.metrics().unwrap();
            sum += metrics.sum(|metric| metric.value().name() == name).map_or(0, |value| match value {
                MetricValue::PruningMetrics { pruning_metrics, .. } => pruning_metrics.pruned(),
                value => value.as_usize(),
            });
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    sum
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_few_keys_prunes_what_their_bounds_do_not() {
    for site in [FilterSite::Above, FilterSite::EncodedScan] {
        a_list_of_few_keys_prunes(site).await;
    }
}

async fn a_list_of_few_keys_prunes(site: FilterSite) {
    let dir = TempDir::new().unwrap();
    let ours = session(true, site).await.unwrap();
    // Several partitions would write their rows in any order, at times with both keys in one row group.
    let threads = "datafusion.execution.target_partitions";
    run(&ours, &dir, &[&format!("SET {threads} = 1")]).await;
    run(&ours, &dir, &LISTED).await;
    run(&ours, &dir, &[&format!("SET {threads} = 3")]).await;
    // A file in two ranges would count twice.
    run(&ours, &dir, &["SET datafusion.optimizer.repartition_file_scans = false"]).await;
    let statistics = "row_groups_pruned_statistics";
    for (keys, pruned, by) in [
        ("few.k = t.k", 8, statistics),
        ("few.s = t.s", 8, statistics),
        ("few.s = t.s AND few.k = t.k", 8, statistics),
        ("few.k IS NOT DISTINCT FROM t.k", 8, statistics),
        ("few.k = mixed.k", 8, "row_groups_pruned_bloom_filter"),
        ("few.s = mixed.s", 8, "row_groups_pruned_bloom_filter"),
        ("few.part = parts.part", 8, "files_ranges_pruned_statistics"),
        ("few.part = parts.part AND few.k = parts.k", 8, "files_ranges_pruned_statistics"),
        ("few.name = named.name", 8, "files_ranges_pruned_statistics"),
    ] {
        let table = keys.split([' ', '.']).rev().nth(1).unwrap();
        let query = format!("SELECT count(*) FROM few JOIN {table} ON {keys}");
        let (plan, text) = executed(&ours, &query).await;
        assert!(text.contains("IN (SET)"), "{text}");
        assert_eq!(metric(&plan, "DataSourceExec", by), pruned, "{query}: {text}");
        for option in ["size", "distinct_values"] {
            let option = format!("datafusion.optimizer.hash_join_inlist_pushdown_max_{option}");
            run(&ours, &dir, &[&format!("SET {option} = 1")]).await;
            assert!(!executed(&ours, &query).await.1.contains("IN (SET)"), "{option}");
            run(&ours, &dir, &[&format!("RESET {option}")]).await;
        }
    }
}

/// Null keys pass where they match each other and the build side has one, or where one of the probe
/// side decides about all rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_keys_pass_filters_where_the_join_needs_them() {
    let dir = files().await;
    let ours = session(true, FilterSite::Above).await.unwrap();
    let encoded = session(true, FilterSite::EncodedScan).await.unwrap();
    run(&ours, &dir, &TABLES).await;
    run(&encoded, &dir, &TABLES).await;
    for (query, passes, kept) in [
        // Of 500 rows, 167 have a null key.
        ("SELECT * FROM (SELECT * FROM small WHERE k < 100) a JOIN nulls ON a.k = nulls.k", false, 2),
        (
            "SELECT * FROM (SELECT * FROM small WHERE k < 100) a JOIN nulls ON a.k IS NOT DISTINCT FROM nulls.k",
            false,
            2,
        ),
        (
            "SELECT * FROM (SELECT k FROM nulls WHERE v < 3) a JOIN nulls b ON a.k IS NOT DISTINCT FROM b.k",
            true,
            167 + 2,
        ),
        ("SELECT * FROM (SELECT k FROM known WHERE k < 100) a WHERE k NOT IN (SELECT k FROM nulls)", true, 167 + 2),
    ] {
        let (plan, text) = executed(&ours, query).await;
        assert_eq!(text.contains("IS NULL OR"), passes, "{query}: {text}");
        assert_eq!(metric(&plan, "KeyFilterExec", "output_rows"), kept, "{query}: {text}");
        let (plan, text) = executed(&encoded, query).await;
        assert_eq!(text.contains("IS NULL OR"), passes, "{query}: {text}");
        assert_eq!(metric(&plan, "keys=[", "pushdown_rows_matched"), kept, "{query}: {text}");
    }
}

/// Rows that have no partner are neither divided nor written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_that_spill_publish_a_set_of_their_keys() {
    let dir = TempDir::new().unwrap();
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(1 << 20, 1.0).build_arc().unwrap();
    run(&session(false, FilterSite::Above).await.unwrap(), &dir, &WIDE[..2]).await;
    for (site, operator, rows_kept) in [
        (FilterSite::Above, "KeyFilterExec", "output_rows"),
        (FilterSite::EncodedScan, "keys=[", "pushdown_rows_matched"),
    ] {
        let ours = session_on(Arc::clone(&runtime), true, site).await.unwrap();
        run(&ours, &dir, &WIDE[2..]).await;
        joins_that_spill(&ours, &runtime, operator, rows_kept).await;
    }
}

async fn joins_that_spill(ours: &SessionContext, runtime: &RuntimeEnv, operator: &str, rows_kept: &str) {
    for keys in ["wide.k = t.k", "wide.s = t.s", "wide.k = t.k AND wide.s = t.s", "wide.k IS NOT DISTINCT FROM t.k"] {
        let query = format!("SELECT count(wide.text) FROM wide JOIN t ON {keys}");
        let (plan, text) = executed(ours, &query).await;
        assert!(text.contains("may_match"), "{text}");
        assert!(metric(&plan, "SharedHashJoinExec", "spilled_parts") > 0, "{query}");
        let kept = metric(&plan, operator, rows_kept);
        // 4,000 of 20,000 have a partner.
        assert!((4000..5000).contains(&kept), "{query}: {kept} rows");
        assert_eq!(runtime.memory_pool.reserved(), 0, "{query}");
        let (found, _) = rows(ours, &query).await.unwrap();
        assert!(found[0].contains("4000"), "{found:?}");
    }
}
