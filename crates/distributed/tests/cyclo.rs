//! Joins around a ring of workers have the answers that DataFusion has on one machine, in bounded
//! memory, and end cleanly.

mod common;

use std::{
    collections::{HashMap, hash_map::Entry},
    num::NonZeroUsize,
    sync::Arc,
    time::Duration,
};

use annulus_distributed::RingJoinOptions;
use common::{Cluster, analyzed, annulus, as_text, register, register_all, rows, stock, write_tables};
use datafusion::{
    execution::{
        memory_pool::{GreedyMemoryPool, TrackConsumersPool},
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    prelude::SessionContext,
};
use futures::StreamExt;
use tempfile::TempDir;
use tokio::time::timeout;

const ALWAYS: (&str, &str) = ("annulus.cyclo_join", "always");
/// The longest time for what should take a moment.
const LONG: Duration = Duration::from_secs(60);

/// Joins of all types, by all methods.
const JOINS: &[&str] = &[
    "SELECT b.id, s.name FROM big b JOIN small s ON b.k BETWEEN s.k - 1 AND s.k + 1",
    "SELECT b.id, s.k FROM big b LEFT JOIN small s ON b.id >= s.k AND b.id < s.k + 2 AND s.g <> b.n % 5",
    "SELECT b.id, s.k FROM big b RIGHT JOIN small s ON b.id > s.k * 13 AND b.id < s.k * 13 + 9",
    "SELECT b.id, s.k, b.t FROM big b FULL JOIN small s ON b.id > s.k * 20 AND b.id < s.k * 20 + 9",
    "SELECT id FROM big b WHERE EXISTS (SELECT 1 FROM small s WHERE b.id > s.k * 13 AND b.id < s.k * 13 + 9)",
    "SELECT id FROM big b WHERE NOT EXISTS (SELECT 1 FROM small s WHERE b.id > s.k * 13 AND b.id < s.k * 13 + 9)",
    "SELECT k FROM small s WHERE EXISTS (SELECT 1 FROM big b WHERE b.id > s.k * 13 AND b.id < s.k * 13 + 9)",
    "SELECT k FROM small s WHERE NOT EXISTS (SELECT 1 FROM big b WHERE b.id > s.k * 20 AND b.id < s.k * 20 + 9)",
    "SELECT a.id, b.id FROM big a JOIN big b ON a.k = b.k AND a.id < b.id AND b.id < a.id + 3000",
    "SELECT b.id, s.k FROM (SELECT * FROM big WHERE id < 500) b JOIN small s ON (b.k + s.k) % 97 = 0",
    "SELECT b.id, s.k FROM (SELECT * FROM big WHERE id < 300) b FULL JOIN small s ON (b.k * s.k) % 997 = 1",
    "SELECT b.id, s.k FROM (SELECT * FROM big WHERE id < 300) b LEFT JOIN small s ON (b.k * s.k) % 997 = 1",
    "SELECT b.id, s.k FROM (SELECT * FROM big WHERE id < 300) b RIGHT JOIN small s ON (b.k * s.k) % 997 = 1",
    "SELECT id FROM big b WHERE id < 300 AND EXISTS (SELECT 1 FROM small s WHERE (b.k * s.k) % 997 = 1)",
    "SELECT k FROM small s WHERE NOT EXISTS (SELECT 1 FROM big b WHERE b.id < 300 AND (b.k * s.k) % 997 = 1)",
    "SELECT b.id, s.k FROM big b JOIN small s ON b.t LIKE '%' || s.g || '%1' WHERE b.id < 20 AND s.k < 20",
    "SELECT b.id, s.k FROM (SELECT * FROM big WHERE id < 300) b JOIN small s ON strpos(b.t, cast(s.g AS varchar)) > 2",
    "SELECT b.id, s.name FROM big b JOIN small s ON b.k = s.k WHERE b.id % 3 = 0",
    "SELECT b.id, s.name FROM big b LEFT JOIN small s ON b.k = s.k AND s.g < 3",
    "SELECT b.id, s.k FROM small s RIGHT JOIN big b ON b.n = s.k",
    "SELECT b.id, s.k FROM big b FULL JOIN small s ON b.id = s.k",
    "SELECT a.t, b.x FROM big a JOIN big b ON a.t = b.t AND a.n = b.k",
    "SELECT id FROM big WHERE k IN (SELECT k FROM small WHERE g = 1)",
    "SELECT id FROM big b WHERE NOT EXISTS (SELECT 1 FROM small s WHERE s.k = b.k)",
    "SELECT id FROM big b WHERE EXISTS (SELECT 1 FROM small s WHERE s.k = b.k AND s.g <> b.n % 5)",
    "SELECT id FROM big WHERE id < 9000 AND (k IN (SELECT k FROM small WHERE g = 1) OR n = 3)",
    "SELECT id FROM big b WHERE EXISTS (SELECT 1 FROM small s WHERE b.id > s.k * 13 AND b.id < s.k * 13 + 9) OR n = 3",
    "SELECT k FROM small s WHERE EXISTS (SELECT 1 FROM big b WHERE b.id > s.k * 20 AND b.id < s.k * 20 + 9) OR g = 1",
    "SELECT k FROM small s WHERE EXISTS (SELECT 1 FROM big b WHERE b.id < 300 AND (b.k * s.k) % 997 = 1) OR g = 1",
    "SELECT id FROM big WHERE n NOT IN (SELECT n FROM none)",
    "SELECT * FROM none RIGHT JOIN big ON none.k > big.k",
    "SELECT count(*) FROM none JOIN big ON none.k > big.k",
];

/// Queries with such joins inside.
const AROUND: &[&str] = &[
    "SELECT s.g, count(*), sum(b.id) FROM big b JOIN small s ON b.k BETWEEN s.k - 1 AND s.k + 1 GROUP BY s.g",
    "SELECT count(*) FROM big b JOIN small s ON b.k > s.k",
    "SELECT b.id, s.k FROM big b JOIN small s ON b.id > s.k * 13 AND b.id < s.k * 13 + 9 ORDER BY 1, 2 LIMIT 20",
    "SELECT s.g, b.c FROM small s JOIN (SELECT k, count(*) AS c FROM big GROUP BY k) b ON b.k BETWEEN s.k AND s.k + 1",
    "SELECT b.id, s.k FROM (SELECT * FROM small ORDER BY k DESC LIMIT 3) s JOIN big b ON b.id < s.k - 1490",
    "SELECT b.id FROM big b JOIN small s ON b.k BETWEEN s.k - 1 AND s.k + 1 UNION ALL SELECT b.k FROM big b JOIN small \
     s ON b.id > s.k * 13 AND b.id < s.k * 13 + 9 UNION ALL SELECT k FROM small",
    "SELECT b.id, s.k, c.k FROM big b JOIN small s ON b.id > s.k * 13 AND b.id < s.k * 13 + 9 JOIN small c ON b.k \
     BETWEEN c.k - 1 AND c.k + 1",
    "SELECT b.t, row_number() OVER (PARTITION BY b.t ORDER BY b.id, s.k) FROM big b JOIN small s ON b.id > s.k * 13 \
     AND b.id < s.k * 13 + 9",
    "SELECT x.k, y.g FROM (SELECT b.k, s.g FROM big b JOIN small s ON b.id = s.k) x FULL JOIN small y ON x.k > y.k * 9 \
     AND x.k < y.k * 9 + 7",
    "SELECT s.k, u.k FROM small s JOIN (SELECT k FROM small WHERE g = 2 UNION ALL SELECT n FROM big WHERE id < 50) u \
     ON s.k BETWEEN u.k AND u.k + 4",
    "SELECT count(*) FROM (SELECT DISTINCT b.k FROM big b JOIN small s ON b.k BETWEEN s.k - 1 AND s.k + 1 LIMIT 900)",
    "SELECT count(*) FROM small a, small b",
];

async fn tables() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_tables(folder.path()).await;
    folder
}

async fn session(cluster: &Cluster, folder: &TempDir, settings: &[(&str, &str)]) -> SessionContext {
    let session = cluster.session(settings).await;
    register(&session, folder.path()).await;
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_one_machine() {
    let folder = tables().await;
    let one = stock();
    register(&one, folder.path()).await;
    let mut answers: HashMap<&str, Vec<String>> = HashMap::new();
    for (workers, settings) in [
        (3, &[][..]),
        (5, &[("datafusion.execution.batch_size", "100")][..]),
        (1, &[]),
        (2, &[("datafusion.execution.target_partitions", "1")]),
        (2, &[("distributed.dynamic_task_count", "true"), ("distributed.dynamic_bytes_per_partition", "10000")]),
        (3, &[("distributed.broadcast_joins", "false"), ("annulus.joins", "never")]),
        (
            3,
            &[
                ("datafusion.optimizer.hash_join_single_partition_threshold", "0"),
                ("datafusion.optimizer.hash_join_single_partition_threshold_rows", "0"),
            ],
        ),
    ] {
        // Of five workers, fragments do not go through shared memory.
        let cluster = if workers == 5 { Cluster::start_apart(workers).await } else { Cluster::start(workers).await };
        let many = session(&cluster, &folder, &[settings, &[ALWAYS]].concat()).await;
        let all = JOINS.iter().chain(AROUND);
        // Each number of workers and each setting has another share of the queries, the first one all.
        let some =
            all.enumerate().filter(|(number, _)| workers == 3 && settings.is_empty() || number % 3 == workers % 3);
        for (_, query) in some {
            let expected = match answers.entry(query) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => unknown.insert(rows(&one, query).await.unwrap()),
            };
            let found = timeout(LONG, rows(&many, query)).await.unwrap_or_else(|_| panic!("{query} hangs"));
            let found = found.unwrap_or_else(|error| panic!("{workers} {settings:?}: {query}: {error}"));
            assert!(*expected == found, "{workers} {settings:?}: {query}: {} and {} rows", expected.len(), found.len());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_run_around_the_ring() {
    let folder = tables().await;
    let cluster = Cluster::start(3).await;
    let many = session(&cluster, &folder, &[ALWAYS]).await;
    for query in JOINS.iter().chain(AROUND).filter(|query| !["small b", "NOT IN"].iter().any(|not| query.contains(not)))
    {
        let plan = rows(&many, &format!("EXPLAIN {query}")).await.unwrap().join("\n");
        assert!(plan.contains("CycloJoinExec") && plan.contains("tasks=3"), "{query}\n{plan}");
    }
    // Rows of 3 tasks visit each of them once, and the metrics say so.
    let query = "SELECT count(*) FROM big b JOIN small s ON b.k BETWEEN s.k - 1 AND s.k + 1";
    let plan = analyzed(&many, query).await;
    let line = plan.lines().find(|line| line.contains("CycloJoinExec")).unwrap();
    for part in ["rotating_rows=501", "probed_rows=1.50 K", "stationary_rows=20.00 K", "revolutions=3", "ring_bytes="] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cheapest_way_is_chosen() {
    let folder = tables().await;
    let cluster = Cluster::start(3).await;
    let plan = async |broadcast_limit: Option<usize>, settings: &[(&str, &str)], query: &str| {
        let many = session(&cluster, &folder, settings).await;
        if let Some(broadcast_limit) = broadcast_limit {
            let options = RingJoinOptions { broadcast_limit, ..RingJoinOptions::default() };
            many.state_ref().write().config_mut().options_mut().extensions.insert(options);
        }
        rows(&many, &format!("EXPLAIN {query}")).await.unwrap().join("\n")
    };
    // All pairs of two large sides: neither fits on all workers.
    let theta = "SELECT a.id, b.id FROM big a JOIN big b ON (a.id + b.id) % 1000 = 1";
    let ring = plan(Some(1000), &[], theta).await;
    assert!(ring.contains("CycloJoinExec") && ring.contains("around the ring"), "{ring}");
    assert!(!plan(Some(1000), &[("annulus.cyclo_join", "never")], theta).await.contains("CycloJoinExec"));
    // A few rows go to all workers, and equal keys divide both sides.
    for query in [
        "SELECT count(*) FROM big b JOIN small s ON b.k BETWEEN s.k - 1 AND s.k + 1",
        "SELECT count(*) FROM big a JOIN big b ON a.id = b.k",
    ] {
        let other = plan(None, &[], query).await;
        assert!(!other.contains("CycloJoinExec"), "{other}");
    }
}

/// All rows of a key would come to one worker if both sides were repartitioned.
#[tokio::test(flavor = "multi_thread")]
async fn joins_with_a_hot_key_go_around() {
    let (folder, one, cluster) = (tempfile::tempdir().unwrap(), stock(), Cluster::start(4).await);
    let names = ["hot", "even", "runs"];
    for (name, key) in names.into_iter().zip(["CASE WHEN value % 4 = 1 THEN 7 ELSE value END", "value", "value / 100"])
    {
        for part in 0..4 {
            let path = folder.path().join(name).join(format!("{part}.parquet"));
            let rows =
                format!("SELECT {key} AS k, value AS v FROM range({}, {})", part * 10_000, part * 10_000 + 10_000);
            one.sql(&format!("COPY ({rows}) TO '{}'", path.display())).await.unwrap().collect().await.unwrap();
        }
    }
    let many = cluster.session(&[]).await;
    let options = RingJoinOptions { broadcast_limit: 1000, hot_key_rows: 1000 };
    many.state_ref().write().config_mut().options_mut().extensions.insert(options);
    for session in [&one, &many] {
        register_all(session, folder.path(), &names).await;
    }
    let explained = async |query: &str| rows(&many, &format!("EXPLAIN {query}")).await.unwrap().join("\n");
    for query in [
        "SELECT count(*), sum(a.v) FROM hot a WHERE EXISTS (SELECT 1 FROM hot b WHERE b.k = a.k AND b.v > 3)",
        "SELECT count(*), sum(a.v) FROM hot a WHERE NOT EXISTS (SELECT 1 FROM hot b WHERE b.k = a.k AND b.v % 3 = 0)",
    ] {
        let plan = explained(query).await;
        assert!(plan.contains("CycloJoinExec") && plan.contains(", one key has 2"), "{plan}");
        assert_eq!(rows(&many, query).await.unwrap(), rows(&one, query).await.unwrap(), "{query}");
    }
    for query in [
        "SELECT count(*) FROM hot a JOIN even b ON a.k = b.k",
        "SELECT count(*) FROM even a JOIN even b ON a.k = b.k",
        "SELECT count(*) FROM runs a JOIN runs b ON a.k = b.k",
    ] {
        let plan = explained(query).await;
        assert!(!plan.contains("CycloJoinExec"), "{plan}");
    }
}

/// Texts and vectors that are alike: the index of the stationary rows stays, and the other rows visit it.
#[tokio::test(flavor = "multi_thread")]
async fn similar_rows_are_found_around_the_ring() {
    let (folder, one, cluster) = (tempfile::tempdir().unwrap(), annulus(), Cluster::start(3).await);
    rows(&one, "SET annulus.joins = never").await.unwrap();
    for part in 0..3 {
        let path = folder.path().join("alike").join(format!("{part}.parquet"));
        let rows = format!(
            "SELECT value AS id, nullif(value % 5, 3) AS g, concat('name ', value * 37 % 300) AS t, \
             make_array(CAST(value % 11 AS FLOAT), CAST(value % 13 AS FLOAT)) AS v FROM range({}, {})",
            part * 150,
            part * 150 + 150
        );
        one.sql(&format!("COPY ({rows}) TO '{}'", path.display())).await.unwrap().collect().await.unwrap();
    }
    let many = cluster.session(&[("annulus.cyclo_join", "always")]).await;
    for session in [&one, &many] {
        register_all(session, folder.path(), &["alike"]).await;
    }
    for condition in [
        "levenshtein(a.t, b.t) <= 1 AND a.id % 3 < 2",
        "levenshtein(b.t, a.t) < 2 AND a.g = b.g AND b.id > 100",
        "levenshtein(a.t, b.t) <= 1 AND a.id BETWEEN b.id - 20 AND b.id",
        "ngram_jaccard(a.t, b.t, 2) >= 0.8",
        "array_distance(a.v, b.v) < 1.5",
        "cosine_similarity(a.v, b.v) > 0.99 AND a.id < b.id + 100",
    ] {
        for join in ["JOIN", "LEFT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "RIGHT ANTI JOIN"] {
            let columns = match join {
                "LEFT SEMI JOIN" => "a.id, a.t",
                "RIGHT ANTI JOIN" => "b.id, b.t",
                _ => "a.id, a.t, b.id, b.g",
            };
            let query = format!("SELECT {columns} FROM alike a {join} alike b ON {condition}");
            let plan = rows(&many, &format!("EXPLAIN {query}")).await.unwrap().join("\n");
            assert!(plan.contains("CycloJoinExec") && plan.contains("similarity"), "{plan}");
            assert_eq!(rows(&many, &query).await.unwrap(), rows(&one, &query).await.unwrap(), "{query}");
        }
    }
}

/// The left rows stay with their lists, and all right rows visit them.
#[tokio::test(flavor = "multi_thread")]
async fn nearest_rows_are_found_around_the_ring() {
    let (folder, one, cluster) = (tempfile::tempdir().unwrap(), annulus(), Cluster::start(3).await);
    for (name, count, factor) in [("places", 400, 37), ("shops", 300, 53)] {
        for part in 0..3 {
            let path = folder.path().join(name).join(format!("{part}.parquet"));
            let (first, end) = (part * count / 3, (part + 1) * count / 3);
            let rows = format!(
                "SELECT value AS id, nullif(value * {factor} % 101, 7) AS x, value * {factor} % 89 / 2.0 AS y, \
                 concat('text ', value * {factor} % 60) AS t, \
                 make_array(CAST(value * {factor} % 11 AS FLOAT), CAST(value % 13 AS FLOAT)) AS v \
                 FROM range({first}, {end})"
            );
            one.sql(&format!("COPY ({rows}) TO '{}'", path.display())).await.unwrap().collect().await.unwrap();
        }
    }
    let many = cluster.session(&[("annulus.cyclo_join", "always")]).await;
    for session in [&one, &many] {
        register_all(session, folder.path(), &["places", "shops"]).await;
    }
    let answer = async |session: &SessionContext, query: &str| {
        as_text(&annulus_datafusion::sql(session, query).await.unwrap().collect().await.unwrap())
    };
    for by in [
        "DISTANCE abs(a.x - b.x)",
        "DISTANCE (a.y - b.y) * (a.y - b.y) + (CAST(a.x AS DOUBLE) - b.x) * (CAST(a.x AS DOUBLE) - b.x)",
        "SIMILARITY inner_product(a.v, b.v)",
        "SIMILARITY word_jaccard(a.t, b.t)",
        "DISTANCE levenshtein(a.t, b.t) + abs(a.id - b.id) % 3",
        "DISTANCE concat(a.t, b.t)",
    ] {
        for (join, k, columns) in
            [("JOIN", 3, "a.id, b.id, b.t"), ("LEFT JOIN", 1, "b.y, a.t, a.id"), ("JOIN", 500, "a.id, b.id")]
        {
            let query = format!("SELECT {columns} FROM places a {join} shops b EXACT NEAREST {k} BY {by}");
            let plan = answer(&many, &format!("EXPLAIN {query}")).await.join("\n");
            assert!(plan.contains("CycloJoinExec") && plan.contains("by=nearest"), "{plan}");
            assert_eq!(answer(&many, &query).await, answer(&one, &query).await, "{query}");
        }
    }
}

/// A small right side of a join with the nearest rows is sent to all workers. A larger one stays in one task, as few
/// left rows are not worth a ring.
#[tokio::test(flavor = "multi_thread")]
async fn nearest_rows_are_found_on_all_workers() {
    let folder = tables().await;
    let (one, cluster) = (stock(), Cluster::start(3).await);
    register(&one, folder.path()).await;
    let least = "SELECT sum(d) FROM (SELECT min(abs(b.id - s.k * 31)) AS d FROM big b, small s WHERE b.id < 3000 \
                 GROUP BY b.id)";
    let expected = rows(&one, least).await.unwrap();
    for (broadcast_limit, is_sent) in [(64 << 20, true), (1000, false)] {
        let many = session(&cluster, &folder, &[]).await;
        many.state_ref()
            .write()
            .config_mut()
            .options_mut()
            .extensions
            .insert(RingJoinOptions { broadcast_limit, ..RingJoinOptions::default() });
        let nearest = "SELECT sum(abs(b.id - s.k * 31)) FROM (SELECT id FROM big WHERE id < 3000) b \
                       JOIN small s EXACT NEAREST BY DISTANCE abs(b.id - s.k * 31)";
        let found = annulus_datafusion::sql(&many, nearest).await.unwrap().collect().await.unwrap();
        assert_eq!(as_text(&found), expected);
        let plan =
            annulus_datafusion::sql(&many, &format!("EXPLAIN {nearest}")).await.unwrap().collect().await.unwrap();
        let plan = as_text(&plan).join("\n");
        assert!(plan.contains("NearestJoinExec") && plan.contains("BroadcastExec") == is_sent, "{plan}");
    }
}

/// The sizes are those for which the cost model prefers it: eight tasks, and ten rows that stay for each other one.
#[tokio::test(flavor = "multi_thread")]
async fn large_rings_sort_equal_keys() {
    let folder = tempfile::tempdir().unwrap();
    let (one, cluster) = (stock(), Cluster::start(8).await);
    for (name, rows) in [("many", 200_000), ("few", 20_000)] {
        for part in 0..8 {
            let path = folder.path().join(name).join(format!("{part}.parquet"));
            let query = format!(
                "COPY (SELECT value * 7919 % 150001 AS k, value AS v FROM range({}, {})) TO '{}'",
                part * rows / 8,
                (part + 1) * rows / 8,
                path.display()
            );
            one.sql(&query).await.unwrap().collect().await.unwrap();
        }
    }
    let many = cluster.session(&[ALWAYS, ("datafusion.execution.target_partitions", "1")]).await;
    for session in [&one, &many] {
        register_all(session, folder.path(), &["many", "few"]).await;
    }
    let query = "SELECT count(*), sum(m.v), sum(f.v) FROM many m JOIN few f ON m.k = f.k";
    assert_eq!(rows(&many, query).await.unwrap(), rows(&one, query).await.unwrap());
    let plan = analyzed(&many, query).await;
    let line = plan.lines().find(|line| line.contains("CycloJoinExec")).unwrap();
    assert!(line.contains("merges=8"), "{line}");
}

/// Seven of a hundred rows of a side whose keys are unique: few rows rotate, whichever side is stationary.
#[tokio::test(flavor = "multi_thread")]
async fn few_rows_go_around_if_conditions_leave_few() {
    let (folder, cluster) = (tempfile::tempdir().unwrap(), Cluster::start_apart(3).await);
    let one = stock();
    for part in 0..3 {
        for (name, rows, columns) in [
            ("orders", 15_000, "value AS key, concat('order ', value) AS comment, value * 37 % 1000 AS price"),
            ("lines", 60_000, "value / 4 AS key, concat('line ', value % 97) AS comment, value % 50 AS quantity"),
        ] {
            let range = format!("range({}, {})", part * rows / 3, (part + 1) * rows / 3);
            let path = folder.path().join(format!("{name}/{part}.parquet"));
            let query = format!("COPY (SELECT {columns} FROM {range}) TO '{}'", path.display());
            one.sql(&query).await.unwrap().collect().await.unwrap();
        }
    }
    let many = cluster.session(&[ALWAYS]).await;
    for session in [&one, &many] {
        register_all(session, folder.path(), &["orders", "lines"]).await;
    }
    // A row of these has 8, 16 and 8 bytes.
    let line_bytes = 60_000.0 * 32.0;
    let query =
        "SELECT l.comment, l.quantity, o.comment FROM lines l JOIN orders o ON l.key = o.key WHERE o.price < 70";
    let plan = analyzed(&many, query).await;
    let line = plan.lines().find(|line| line.contains("CycloJoinExec")).unwrap();
    let bytes = metric(line, "ring_bytes") + metric(line, "filter_bytes");
    assert!(bytes > 0.0 && bytes <= line_bytes / 4.0, "{bytes} of {line_bytes}: {line}");
    assert!(rows(&many, query).await.unwrap() == rows(&one, query).await.unwrap(), "{query}");
}

/// Returns what `EXPLAIN ANALYZE` has for a metric.
fn value<'a>(line: &'a str, name: &str) -> &'a str {
    let (_, value) = line.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("no {name}: {line}"));
    value.split([',', ']']).next().unwrap()
}

fn duration(line: &str, name: &str) -> Duration {
    let value = value(line, name);
    let unit = value.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap();
    let seconds = match &value[unit..] {
        "ns" => 1e-9,
        "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => panic!("unit of {name}: {line}"),
    };
    Duration::from_secs_f64(value[..unit].parse::<f64>().unwrap() * seconds)
}

fn metric(line: &str, name: &str) -> f64 {
    let value = value(line, name);
    let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
    let unit = match unit {
        "" => 1.0,
        "K" => 1e3,
        "M" => 1e6,
        _ => panic!("unit of {name}: {line}"),
    };
    number.parse::<f64>().unwrap() * unit
}

/// Returns runtimes with this much memory, which spill below `folder`.
fn small_runtime(bytes: usize, folder: &TempDir) -> Arc<RuntimeEnv> {
    limited_runtime(bytes, folder, u64::MAX)
}

/// Returns such runtimes, which spill at most `disk_bytes`.
fn limited_runtime(bytes: usize, folder: &TempDir, disk_bytes: u64) -> Arc<RuntimeEnv> {
    let pool = TrackConsumersPool::new(GreedyMemoryPool::new(bytes), NonZeroUsize::MIN);
    let builder = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool)).with_temp_file_path(folder.path());
    Arc::new(builder.with_max_temp_directory_size(disk_bytes).build().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_side_that_is_larger_than_memory_goes_to_disk() {
    let (folder, spill) = (tables().await, tempfile::tempdir().unwrap());
    let one = stock();
    register(&one, folder.path()).await;
    let cluster = Cluster::start_with(3, |_| small_runtime(300_000, &spill)).await;
    let many = session(&cluster, &folder, &[ALWAYS]).await;
    for query in [
        "SELECT a.id, b.t, a.t FROM big a JOIN big b ON a.id BETWEEN b.id - 1 AND b.id + 1",
        "SELECT a.id, b.t, a.t FROM big a FULL JOIN big b ON a.id * 2 = b.id",
        "SELECT a.id, a.t FROM big a WHERE NOT EXISTS (SELECT 1 FROM big b WHERE b.id > a.id * 3 AND \
         b.id < a.id * 3 + 2)",
        "SELECT b.id, b.t FROM big b WHERE EXISTS (SELECT 1 FROM big a WHERE b.id = a.k * 3)",
    ] {
        let expected = rows(&one, query).await.unwrap();
        let found = timeout(LONG, rows(&many, query)).await.unwrap().unwrap();
        assert!(expected == found, "{query}: {} and {} rows", expected.len(), found.len());
    }
    let plan =
        analyzed(&many, "SELECT a.id, b.t, a.t FROM big a JOIN big b ON a.id BETWEEN b.id - 1 AND b.id + 1").await;
    let line = plan.lines().find(|line| line.contains("CycloJoinExec")).unwrap();
    assert!(!line.contains("spill_count=0") && metric(line, "revolutions") >= 6.0, "{line}");
    // The rotating side is prepared once, however many revolutions there are.
    let revolutions = metric(line, "revolutions");
    assert!(metric(line, "rotating_rows") == 20_000.0 && metric(line, "stationary_rows") == 20_000.0, "{line}");
    assert!(metric(line, "probed_rows") == 20_000.0 * revolutions, "{line}");
    // With many parts, most rows have a partner in one only, and go around once.
    let cluster = Cluster::start_with(3, |_| small_runtime(100_000, &spill)).await;
    let many = session(&cluster, &folder, &[ALWAYS, ("datafusion.execution.batch_size", "500")]).await;
    let equal = "SELECT a.id, b.t, a.t FROM big a JOIN big b ON a.id = b.id";
    let plan = analyzed(&many, equal).await;
    let line = plan.lines().find(|line| line.contains("CycloJoinExec")).unwrap();
    assert!(metric(line, "revolutions") >= 6.0 && metric(line, "rows_dropped") > 0.0, "{line}");
    assert!(metric(line, "bloom_filters") + metric(line, "exact_filters") == 3.0, "{line}");
    let [cost, saving] = ["expected_filter_cost", "expected_filter_saving"].map(|name| duration(line, name));
    assert!(cost > Duration::from_micros(1) && saving > cost, "{line}");
    assert!(rows(&many, equal).await.unwrap() == rows(&one, equal).await.unwrap());
    many.sql("SET datafusion.optimizer.enable_join_dynamic_filter_pushdown = false").await.unwrap();
    let plan = analyzed(&many, equal).await;
    let line = plan.lines().find(|line| line.contains("CycloJoinExec")).unwrap();
    assert!(line.contains("rows_dropped=0"), "{line}");
    let left: Vec<_> = walk(spill.path());
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_go_around_again_count_with_the_limit_of_the_disk() {
    let (folder, spill) = (tables().await, tempfile::tempdir().unwrap());
    let query = "SELECT a.id, b.t, a.t FROM big a JOIN big b ON a.id BETWEEN b.id - 1 AND b.id + 1";
    let mut errors = Vec::new();
    let mut limit = 50_000.0;
    loop {
        let cluster = Cluster::start_with(3, |_| limited_runtime(300_000, &spill, limit as u64)).await;
        let many = session(&cluster, &folder, &[ALWAYS]).await;
        match timeout(LONG, rows(&many, query)).await.unwrap() {
            Ok(found) => break assert!(!found.is_empty()),
            Err(error) => errors.push(error.to_string()),
        }
        limit *= 1.2;
    }
    // The stationary side goes to disk before.
    assert!(errors[0].contains("disk space"), "{errors:?}");
    let of_kept = errors.iter().filter(|error| error.contains("further revolutions"));
    assert!(of_kept.clone().count() > 0 && of_kept.clone().all(|error| error.contains("disk space")), "{errors:?}");
    let left: Vec<_> = walk(spill.path());
    assert!(left.is_empty(), "{left:?}");
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_fails_says_why() {
    let folder = tables().await;
    let cluster = Cluster::start(3).await;
    let many = session(&cluster, &folder, &[ALWAYS]).await;
    for query in [
        // In the stationary rows, in the rotating ones, and in the filter, on one worker each.
        "SELECT count(*) FROM (SELECT id / (id - 12345) AS d FROM big) b JOIN small s ON b.d BETWEEN s.k AND s.k + 1",
        "SELECT count(*) FROM big b JOIN (SELECT k / (k - 999) AS k FROM small) s ON b.id BETWEEN s.k AND s.k + 1",
        "SELECT count(*) FROM big b JOIN small s ON b.id BETWEEN s.k AND s.k + 1 AND b.id / (b.id - 1234) > s.g - 5",
    ] {
        let error = timeout(LONG, rows(&many, query)).await.unwrap().unwrap_err().to_string();
        assert!(error.contains("Divide by zero"), "{query}: {error}");
    }
    assert_eq!(
        rows(&many, "SELECT count(*) FROM big b JOIN small s ON b.id BETWEEN s.k AND s.k + 1").await.unwrap().len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_needs_no_more_rows_ends_on_all_workers() {
    let (folder, spill) = (tables().await, tempfile::tempdir().unwrap());
    let runtimes: Vec<_> = (0..3).map(|_| small_runtime(1 << 30, &spill)).collect();
    let cluster = Cluster::start_with(3, |worker| Arc::clone(&runtimes[worker])).await;
    let many = session(&cluster, &folder, &[ALWAYS]).await;
    let pairs = "SELECT a.id, b.id FROM big a JOIN big b ON (a.id + b.id) % 3 = 1";
    let limited = timeout(LONG, rows(&many, &format!("{pairs} LIMIT 10"))).await.unwrap().unwrap();
    assert_eq!(limited.len(), 10);
    for batches in 0..4 {
        let mut stream = many.sql(pairs).await.unwrap().execute_stream().await.unwrap();
        for _ in 0..batches {
            stream.next().await.unwrap().unwrap();
        }
        drop(stream);
    }
    // All memory is given back when the last thread has ended.
    let ended = async {
        while runtimes.iter().any(|runtime| runtime.memory_pool.reserved() > 0) {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, ended).await.expect("the tasks of queries that were dropped go on");
    assert_eq!(rows(&many, "SELECT count(*) FROM big a JOIN small b ON a.id < b.k").await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_at_once_do_not_mix() {
    let folder = tables().await;
    let one = stock();
    register(&one, folder.path()).await;
    let cluster = Cluster::start(3).await;
    let many = session(&cluster, &folder, &[ALWAYS]).await;
    let all = futures::future::join_all(JOINS[..8].iter().map(|query| rows(&many, query)));
    let found = timeout(LONG, all).await.unwrap();
    for (query, found) in JOINS.iter().zip(found) {
        assert!(found.unwrap() == rows(&one, query).await.unwrap(), "{query}");
    }
}
