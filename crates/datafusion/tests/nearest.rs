//! `JOIN ... NEAREST` against the same join as a window over all pairs.

use std::{fmt::Write, sync::Arc};

use annulus_datafusion::sql;
use datafusion::{
    execution::memory_pool::{GreedyMemoryPool, MemoryPool},
    physical_plan::{collect, metrics::MetricsSet},
    prelude::SessionContext,
};
use futures::StreamExt;

mod common;
use common::{
    eventually, lines,
    queries::{Numbers, error, metric, rows, session, sorted_rows},
};

fn tiny() -> Option<Arc<dyn MemoryPool>> {
    Some(Arc::new(GreedyMemoryPool::new(4096)))
}

const INTEGERS: &[&str] = &["0", "1", "2", "3", "5", "-7", "100"];
const DOUBLES: &[&str] = &["0.0", "-0.0", "'NaN'", "1.5", "2.5", "-3.25", "'inf'", "1e300"];
const VECTORS: &[&str] = &["[1, 2]", "[2, 1]", "[0, 0]", "[-1, 3]", "[1, NULL]", "[2, 4]"];
const TEXTS: &[&str] = &["'a'", "''", "'abc'", "'abd'", "'a long text, which no view has inline'"];

/// Expressions by which rows are near, and the method that the plan shows.
const EXPRESSIONS: [(&str, &str, &str); 16] = [
    ("DISTANCE", "abs(l.i - r.i)", "line"),
    ("DISTANCE", "abs(r.d - l.d)", "line"),
    ("DISTANCE", "abs(l.i + 1 - r.i * 2)", "line"),
    ("DISTANCE", "sqrt((l.d - r.d) * (l.d - r.d) + (l.e - r.e) * (l.e - r.e))", "plane"),
    ("DISTANCE", "power(l.d - r.d, 2) + power(r.e - l.e, 2)", "plane"),
    ("DISTANCE", "array_distance(l.v, r.v)", "vectors"),
    ("DISTANCE", "cosine_distance(r.v, l.v)", "vectors"),
    ("SIMILARITY", "inner_product(l.v, r.v)", "vectors"),
    ("SIMILARITY", "cosine_similarity(arrow_cast(l.v, 'List(Float32)'), r.v)", "vectors"),
    ("SIMILARITY", "array_distance(l.v, r.v)", "all pairs"),
    ("DISTANCE", "l.i * r.i", "all pairs"),
    ("SIMILARITY", "l.i - r.i", "all pairs"),
    ("SIMILARITY", "l.d * r.d", "all pairs"),
    ("DISTANCE", "levenshtein(l.s, r.s)", "all pairs"),
    ("DISTANCE", "l.s || r.s", "all pairs"),
    ("SIMILARITY", "CAST(l.i AS DECIMAL(30, 2)) * r.i", "all pairs"),
];

async fn create(context: &SessionContext, name: &str, numbers: &mut Numbers, count: u64) {
    let create = format!("CREATE TABLE {name} (id BIGINT, i BIGINT, d DOUBLE, e DOUBLE, s VARCHAR, v DOUBLE[])");
    context.sql(&create).await.unwrap().collect().await.unwrap();
    let mut values = String::new();
    for id in 0..count {
        let (i, s) = (numbers.literal(INTEGERS), numbers.literal(TEXTS));
        let floats = if numbers.next(2) == 0 { DOUBLES } else { &["1.0", "2.0", "4.0"] };
        let (d, e) = (numbers.literal(floats), numbers.literal(DOUBLES));
        let v = numbers.literal(VECTORS);
        write!(values, "{}({id}, {i}, {d}, {e}, {s}, {v})", if id == 0 { "" } else { ", " }).unwrap();
    }
    if count > 0 {
        let insert = format!("INSERT INTO {name} VALUES {values}");
        context.sql(&insert).await.expect(&insert).collect().await.unwrap();
    }
}

/// Returns an expression with one zero.
fn shown(by: &str) -> String {
    if by.contains(".d") { format!("nullif({by}, 0.0)") } else { by.to_owned() }
}

/// Returns the distances that a window over all pairs finds. NaN is the farthest.
fn model(order: &str, by: &str, k: u64, keeps_left: bool) -> String {
    let nearest = if order == "DISTANCE" { "ASC" } else { "DESC" };
    let is_nan = if by.contains(".d") { format!("isnan({by})") } else { "false".to_owned() };
    let pairs = format!(
        "SELECT l.id AS l, {by} AS score, row_number() OVER (PARTITION BY l.id ORDER BY {is_nan}, {by} {nearest}) AS n \
         FROM l CROSS JOIN r WHERE {by} IS NOT NULL"
    );
    let join = if keeps_left { "LEFT JOIN" } else { "JOIN" };
    let score = if by.contains(".d") { "nullif(score, 0.0)" } else { "score" };
    format!("SELECT l.id, {score} FROM l {join} (SELECT * FROM ({pairs}) WHERE n <= {k}) AS p ON l.id = p.l")
}

#[tokio::test]
async fn nearest_rows_are_those_of_a_window() {
    for seed in 0..20 {
        let mut numbers = Numbers(seed);
        let (in_memory, on_disk) = (session(3, None), session(2, tiny()));
        let counts = [numbers.next(40), if seed % 10 == 9 { 0 } else { numbers.next(90) }];
        for context in [&in_memory, &on_disk] {
            let mut numbers = Numbers(seed + 1000);
            create(context, "l", &mut numbers, counts[0]).await;
            create(context, "r", &mut numbers, counts[1]).await;
        }
        for (order, by, method) in EXPRESSIONS {
            let (k, keeps_left) = (1 + numbers.next(5), numbers.next(2) == 0);
            let join = if keeps_left { "LEFT JOIN" } else { "INNER JOIN" };
            let from = format!("FROM l {join} r EXACT NEAREST {k} BY {order} {by}");
            let query = format!("SELECT l.id, {} AS score {from}", shown(by));
            let expected = sorted_rows(&in_memory, &model(order, by, k, keeps_left)).await;
            assert_eq!(sorted_rows(&in_memory, &query).await, expected, "seed {seed}: {query}");
            let plan = rows(&in_memory, &format!("EXPLAIN {query}")).await.concat();
            assert!(plan.contains(&format!("method={method}")), "{plan}");
            // Ties are decided in the same way, too.
            let whole = format!("SELECT l.id, r.* {from}");
            let expected = sorted_rows(&in_memory, &whole).await;
            assert_eq!(sorted_rows(&on_disk, &whole).await, expected, "seed {seed}: {whole}");
        }
    }
}

#[tokio::test]
async fn neighbours_come_in_the_order_of_the_left_side_and_the_nearest_first() {
    let context = session(1, None);
    sql(&context, "CREATE TABLE l (x BIGINT) AS VALUES (10), (0), (30)").await.unwrap();
    sql(&context, "CREATE TABLE r (y BIGINT) AS VALUES (31), (1), (2), (12), (11), (29)").await.unwrap();
    let query = "SELECT x, y FROM l JOIN r EXACT NEAREST 2 BY DISTANCE abs(x - y)";
    let found = rows(&context, query).await;
    assert_eq!(found[..4], ["10|11", "10|12", "0|1", "0|2"]);
    // 29 and 31 are as far: either comes first.
    assert!(found[4..].iter().all(|row| ["30|29", "30|31"].contains(&row.as_str())), "{found:?}");
    let one = "SELECT x, y FROM l JOIN r NEAREST BY SIMILARITY x * y";
    assert_eq!(rows(&context, one).await.len(), 3);
    let ordered = "SELECT * FROM (SELECT * FROM l ORDER BY x) JOIN r EXACT NEAREST BY DISTANCE abs(x - y) ORDER BY x";
    let plan = rows(&context, &format!("EXPLAIN {ordered}")).await.concat();
    assert_eq!(plan.matches("SortExec").count(), 1, "{plan}");
}

#[tokio::test]
async fn nearest_joins_stand_wherever_joins_do() {
    let context = session(2, None);
    sql(&context, "CREATE TABLE l (x BIGINT) AS VALUES (10), (20)").await.unwrap();
    sql(&context, "CREATE TABLE r (y BIGINT) AS VALUES (12), (19)").await.unwrap();
    let join = "l JOIN r EXACT NEAREST 1 BY DISTANCE abs(l.x - r.y)";
    for query in [
        format!("SELECT x, y FROM {join}"),
        format!("WITH c AS (SELECT x, y FROM {join}) SELECT * FROM c"),
        format!("SELECT * FROM (SELECT x, y FROM {join}) AS q"),
        format!("SELECT x, y FROM ({join})"),
        format!("SELECT l.x, r.y FROM {join} JOIN l AS other ON other.x = l.x"),
        format!("SELECT x, y FROM {join} WHERE x > 0 AND y > 0"),
        "SELECT x, y FROM l /* all */ LEFT OUTER JOIN r -- near\n exact nearest 1 by distance (abs(x - y))".to_owned(),
    ] {
        assert_eq!(sorted_rows(&context, &query).await, ["10|12", "20|19"], "{query}");
    }
    let twice = format!("SELECT l.x, r.y, s.y FROM {join} JOIN r AS s EXACT NEAREST 1 BY SIMILARITY s.y - r.y");
    assert_eq!(sorted_rows(&context, &twice).await, ["10|12|19", "20|19|19"]);
}

#[tokio::test]
async fn filters_on_the_left_side_go_below_the_join() {
    let context = session(2, None);
    sql(&context, "CREATE TABLE l (x BIGINT) AS VALUES (10), (20)").await.unwrap();
    sql(&context, "CREATE TABLE r (y BIGINT) AS VALUES (12), (19)").await.unwrap();
    let query = "SELECT * FROM l JOIN r EXACT NEAREST BY DISTANCE abs(x - y) WHERE x > 15 AND y > 15";
    let plan = rows(&context, &format!("EXPLAIN {query}")).await.concat();
    let (above, below) = plan.split_once("NearestJoin:").expect(&plan);
    assert!(above.contains("y > Int64(15)") && below.contains("x > Int64(15)"), "{plan}");
    assert_eq!(rows(&context, query).await, ["20|19"]);
    // The nearest row is chosen before the filter.
    assert!(
        rows(&context, "SELECT * FROM l JOIN r EXACT NEAREST BY DISTANCE abs(x - y) WHERE x = 10 AND y > 15")
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn errors_say_what_to_write() {
    let context = session(2, None);
    sql(&context, "CREATE TABLE l (x BIGINT, v DOUBLE[]) AS VALUES (10, [1.0])").await.unwrap();
    sql(&context, "CREATE TABLE r (y BIGINT, w DOUBLE[]) AS VALUES (12, [2.0])").await.unwrap();
    for (join, expected) in [
        ("JOIN r EXACT NEAREST BY DISTANCE abs(x - y) AND x > 1", "one expression"),
        ("JOIN r EXACT NEAREST BY DISTANCE x < y", "one expression"),
        ("RIGHT JOIN r EXACT NEAREST BY DISTANCE x - y", "INNER or a LEFT JOIN"),
        ("JOIN r EXACT NEAREST 0 BY DISTANCE x - y", "from 1 to 100000, not 0"),
        ("JOIN r EXACT NEAREST 100001 BY DISTANCE x - y", "from 1 to 100000"),
        ("JOIN r EXACT NEAREST BY DISTANCE random() * x", "must not change its value"),
        ("JOIN r EXACT NEAREST BY DISTANCE w", "has no order"),
        ("JOIN r EXACT NEAREST BY DISTANCE x - z", "z"),
    ] {
        let error = error(&context, &format!("SELECT * FROM l {join}")).await;
        assert!(error.contains(expected), "{join}: {error}");
    }
}

#[tokio::test]
async fn a_right_side_larger_than_memory_is_read_from_disk() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(64 << 10));
    let (small, large) = (session(2, Some(Arc::clone(&pool))), session(2, None));
    for context in [&small, &large] {
        for (name, rows) in [("l", 3_000), ("r", 60_000)] {
            let create = format!(
                "CREATE TABLE {name} AS SELECT value AS id, value * 7919 % 10007 AS x,
                 'the text of the row with the number ' || value AS s FROM generate_series(1, {rows})"
            );
            sql(context, &create).await.unwrap().collect().await.unwrap();
        }
    }
    let query = "SELECT l.id, r.id, r.s FROM l JOIN r EXACT NEAREST 3 BY DISTANCE abs(l.x - r.x)";
    let plan = sql(&small, query).await.unwrap().create_physical_plan().await.unwrap();
    let mut rows = lines(&collect(Arc::clone(&plan), small.task_ctx()).await.unwrap());
    rows.sort();
    let expected = sorted_rows(&large, query).await;
    assert!(rows == expected, "{} rows", rows.len());
    assert!(metric(&plan, MetricsSet::spill_count) > 1);
    drop(plan);
    assert_eq!(pool.reserved(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_stream_ends_its_search() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
    let context = session(2, Some(Arc::clone(&pool)));
    let query = "SELECT count(*) FROM generate_series(1, 10000000) AS l(x)
                 JOIN generate_series(1, 100000) AS r(y) EXACT NEAREST BY DISTANCE x * y % 1000";
    let mut stream = sql(&context, query).await.unwrap().execute_stream().await.unwrap();
    assert!(futures::poll!(stream.next()).is_pending());
    eventually("a search has begun", || pool.reserved() > 0).await;
    drop(stream);
    eventually("no memory is held", || pool.reserved() == 0).await;
}

/// With a pool of a tenth of the right side, a full disk, a row that fails, and a stream that is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_it_ends_nothing_is_left() {
    use common::endings::{Join, table};
    let join = Join {
        tables: &[table("l", 4000), table("r", 20000)],
        query: "SELECT l.id, r.id, r.s FROM l JOIN r EXACT NEAREST 2 BY DISTANCE abs(l.t - r.t)",
        failing: "SELECT l.id, r.id FROM l JOIN (SELECT id, s, 10 / (id - 19000) + t AS t FROM r) r \
                  EXACT NEAREST 2 BY DISTANCE abs(l.t - r.t)",
        pool_bytes: 100_000,
    };
    join.check().await;
}
