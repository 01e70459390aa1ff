//! `ASOF JOIN` against the same join as a window over all pairs.

use std::{fmt::Write, sync::Arc};

use annulus_datafusion::sql;
use arrow::{
    array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray},
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
    util::pretty::pretty_format_batches,
};
use datafusion::{
    catalog::streaming::StreamingTable,
    datasource::MemTable,
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool},
    },
    physical_plan::{collect, metrics::MetricsSet, stream::RecordBatchStreamAdapter, streaming::PartitionStream},
    prelude::SessionContext,
};

mod common;
use common::queries::{Numbers, error, metric, session};

/// Returns the rows of a query, sorted as texts.
async fn rows(context: &SessionContext, query: &str) -> Vec<String> {
    let batches = sql(context, query).await.expect(query).collect().await.expect(query);
    lines(&batches, true)
}

fn lines(batches: &[RecordBatch], is_sorted: bool) -> Vec<String> {
    let table = pretty_format_batches(batches).unwrap().to_string();
    let mut lines: Vec<String> =
        table.lines().filter(|line| line.starts_with('|')).skip(1).map(str::to_owned).collect();
    if is_sorted {
        lines.sort();
    }
    lines
}

const KEYS: [(&str, &[&str]); 6] = [
    ("BIGINT", &["1", "2", "-3"]),
    ("VARCHAR", &["'a'", "''", "'a long text, which no view has inline'"]),
    ("DOUBLE", &["0.0", "-0.0", "'NaN'", "1.5"]),
    ("DECIMAL(38, 2)", &["1.25", "-1.25"]),
    ("BOOLEAN", &["true", "false"]),
    ("BIGINT[]", &["[1, 2]", "[1]", "[]"]),
];

const TIMES: [(&str, &[&str]); 6] = [
    ("BIGINT", &["1", "2", "3", "4", "5", "-9223372036854775808", "9223372036854775807"]),
    ("TIMESTAMP", &["'2024-01-01'", "'2024-01-01T00:00:01'", "'1969-12-31'", "'2024-06-01'"]),
    ("DATE", &["'2024-01-01'", "'1969-01-02'", "'2024-01-03'"]),
    ("DOUBLE", &["0.0", "-0.0", "'NaN'", "'-inf'", "1.5", "2.5"]),
    ("DECIMAL(38, 3)", &["1.125", "2", "-3", "99999999999999999999999999999999999"]),
    ("SMALLINT", &["1", "2", "3", "4", "5"]),
];

async fn create(context: &SessionContext, name: &str, numbers: &mut Numbers, keys: &[usize], time: usize, count: u64) {
    let mut columns: String = (0..keys.len()).fold(String::new(), |mut text, key| {
        write!(text, "k{key} {}, ", KEYS[keys[key]].0).unwrap();
        text
    });
    write!(columns, "t {}, id BIGINT", TIMES[time].0).unwrap();
    let rows = (0..count).map(|id| {
        let keys = keys.iter().map(|&key| numbers.literal(KEYS[key].1));
        let mut values: Vec<String> = keys.collect();
        values.push(numbers.literal(TIMES[time].1));
        // The same number sometimes: rows that differ in nothing.
        values.push((id - numbers.next(2).min(id)).to_string());
        format!("({})", values.join(", "))
    });
    let rows: Vec<String> = rows.collect();
    context.sql(&format!("CREATE TABLE {name} ({columns})")).await.unwrap().collect().await.unwrap();
    if count > 0 {
        let insert = format!("INSERT INTO {name} VALUES {}", rows.join(", "));
        context.sql(&insert).await.expect(&insert).collect().await.unwrap();
    }
}

/// Two tables of random keys.
struct Case {
    keys: Vec<usize>,
    time: usize,
    is_bounded: bool,
    counts: [u64; 2],
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let keys = (0..numbers.next(3)).map(|_| numbers.next(KEYS.len() as u64) as usize).collect();
        let (time, is_bounded) = (numbers.next(TIMES.len() as u64) as usize, numbers.next(2) == 0);
        Self { keys, time, is_bounded, counts: [numbers.next(60), if seed % 10 == 9 { 0 } else { numbers.next(60) }] }
    }

    fn condition(&self, operator: &str) -> String {
        let bound = match TIMES[self.time].0 {
            "SMALLINT" if self.is_bounded => " AND l.t < r.t + 2 AND r.t < l.t + 2",
            "TIMESTAMP" if self.is_bounded => " AND l.t <= r.t + INTERVAL '1 day' AND r.t - INTERVAL '1 day' <= l.t",
            _ => "",
        };
        format!("l.t {operator} r.t{bound}")
    }

    fn equal(&self) -> String {
        (0..self.keys.len()).map(|key| format!("l.k{key} = r.k{key}")).collect::<Vec<_>>().join(" AND ")
    }

    /// Returns the time of the right side, with one zero.
    fn right_time(&self) -> &'static str {
        if TIMES[self.time].0 == "DOUBLE" { "r.t + 0.0" } else { "r.t" }
    }

    fn asof(&self, operator: &str) -> String {
        let (time, condition) = (self.right_time(), self.condition(operator));
        let on = if self.keys.is_empty() { String::new() } else { format!("ON {}", self.equal()) };
        format!("SELECT l.id, l.t, {time} AS rt, r.id AS rid FROM l ASOF JOIN r MATCH_CONDITION ({condition}) {on}")
    }

    /// Returns the same join as a window over all pairs. Of equal times the greatest row counts.
    fn window(&self, operator: &str) -> String {
        let time = self.right_time();
        let order = if operator.starts_with('>') { "DESC" } else { "ASC" };
        let equal = if self.keys.is_empty() { String::new() } else { format!(" AND {}", self.equal()) };
        format!(
            "WITH l AS (SELECT *, row_number() OVER () AS number FROM l) SELECT id, t, rt, rid FROM (
               SELECT l.id, l.t, {time} AS rt, r.id AS rid,
                 row_number() OVER (PARTITION BY number ORDER BY {time} {order}, r.id DESC) AS place
               FROM l LEFT JOIN r ON {}{equal}) WHERE place = 1",
            self.condition(operator)
        )
    }
}

/// Joins random tables in memory, and on disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_the_window() {
    for seed in 0..100 {
        let case = Case::new(seed);
        let partitions = 1 + seed as usize % 3;
        let contexts = [session(partitions, None), session(partitions, Some(Arc::new(FairSpillPool::new(500))))];
        for context in &contexts {
            let mut numbers = Numbers(seed + 1000);
            create(context, "l", &mut numbers, &case.keys, case.time, case.counts[0]).await;
            create(context, "r", &mut numbers, &case.keys, case.time, case.counts[1]).await;
        }
        for operator in [">=", ">", "<=", "<"] {
            let (asof, window) = (case.asof(operator), case.window(operator));
            let expected = rows(&contexts[0], &window).await;
            assert_eq!(expected.len() as u64, case.counts[0]);
            for (index, context) in contexts.iter().enumerate() {
                assert_eq!(rows(context, &asof).await, expected, "seed {seed}, session {index}\n{asof}\n{window}");
            }
        }
    }
}

fn build_rows(metrics: &MetricsSet) -> Option<usize> {
    metrics.sum_by_name("build_input_rows").map(|value| value.as_usize())
}

fn table(count: i64, step: i64) -> Arc<MemTable> {
    let numbers: Vec<i64> = (0..count).map(|row| row * step % count).collect();
    let symbols = numbers.iter().map(|number| format!("symbol number {}", number % 97));
    let columns: [(&str, ArrayRef); 3] = [
        ("symbol", Arc::new(StringViewArray::from_iter_values(symbols))),
        ("t", Arc::new(Int64Array::from_iter_values(numbers.iter().map(|number| number / 3)))),
        ("id", Arc::new(Int64Array::from(numbers.clone()))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let slices: Vec<RecordBatch> =
        (0..count as usize).step_by(1000).map(|start| batch.slice(start, 1000.min(count as usize - start))).collect();
    let (left, right) = slices.split_at(slices.len() / 2);
    Arc::new(MemTable::try_new(batch.schema(), vec![left.to_vec(), right.to_vec()]).unwrap())
}

const SUMS: &str = "SELECT count(*), sum(l.id), count(r.id), sum(r.id), sum(l.id * r.id % 1009)
                    FROM l ASOF JOIN r MATCH_CONDITION (l.t >= r.t) ON l.symbol = r.symbol";

/// A right side of several times the pool is sorted on disk, and leaves nothing there or in the pool.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_side_beyond_memory_is_sorted_on_disk() {
    let mut answers = Vec::new();
    for pool in [None, Some(1 << 20), Some(3 << 20)] {
        let pool = pool.map(|bytes| Arc::new(GreedyMemoryPool::new(bytes)) as Arc<dyn MemoryPool>);
        let context = session(2, pool.clone());
        context.register_table("l", table(100_000, 7919)).unwrap();
        context.register_table("r", table(90_000, 7927)).unwrap();
        let plan = sql(&context, SUMS).await.unwrap().create_physical_plan().await.unwrap();
        let batches = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
        answers.push(lines(&batches, false));
        assert_eq!(metric(&plan, MetricsSet::spill_count) > 0, pool.is_some());
        assert_eq!(metric(&plan, build_rows), 90_000);
        drop(plan);
        if let Some(pool) = pool {
            assert_eq!(pool.reserved(), 0);
            assert_eq!(context.runtime_env().disk_manager.used_disk_space(), 0);
        }
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
}

/// The merge of what a sort has in memory needs as much again, and gets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sorts_have_memory_for_their_merges() {
    let mut answers = Vec::new();
    for pool in [None, Some(260 << 20)] {
        let context = session(1, pool.map(|bytes| Arc::new(GreedyMemoryPool::new(bytes)) as Arc<dyn MemoryPool>));
        context.sql("SET datafusion.execution.batch_size = 8192").await.unwrap();
        let query = "SELECT count(*), sum(r.p) FROM (SELECT value AS t FROM range(1000)) l
                     ASOF JOIN (SELECT value * 7919 % 5500003 AS t, value AS p FROM range(5500000)) r
                     MATCH_CONDITION (l.t >= r.t)";
        answers.push(rows(&context, query).await);
    }
    assert_eq!(answers[0], answers[1]);
}

/// The output has the order of the left side, on disk as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_of_the_left_side_is_kept() {
    for pool in [None, Some(300_000)] {
        let pool = pool.map(|bytes| Arc::new(GreedyMemoryPool::new(bytes)) as Arc<dyn MemoryPool>);
        let context = session(1, pool.clone());
        let order = vec![vec![datafusion::prelude::col("id").sort(true, false)]];
        let columns: [(&str, ArrayRef); 2] = [
            ("id", Arc::new(Int64Array::from_iter_values(0..5000))),
            ("t", Arc::new(Int64Array::from_iter_values((0..5000).map(|row| row * 7919 % 5000)))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let ordered = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap().with_sort_order(order);
        context.register_table("l", Arc::new(ordered)).unwrap();
        context.register_table("r", table(20_000, 7927)).unwrap();
        let query = "SELECT l.id, r.id AS rid FROM l ASOF JOIN r MATCH_CONDITION (l.t >= r.t) ORDER BY l.id";
        let plan = sql(&context, query).await.unwrap().create_physical_plan().await.unwrap();
        let shown = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
        assert!(shown.contains("AsOfJoinExec") && !shown.contains("SortExec"), "{shown}");
        let batches = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
        let ids = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
        assert!(ids.eq(0..5000));
        assert_eq!(metric(&plan, MetricsSet::spill_count) > 0, pool.is_some());
    }
}

async fn trades() -> SessionContext {
    let context = session(2, None);
    for statement in [
        "CREATE TABLE trades (id INT, symbol VARCHAR, ts TIMESTAMP) AS VALUES
           (1, 'A', '2024-01-01T09:00:01'), (2, 'A', '2024-01-01T09:00:07'), (3, 'B', '2024-01-01T09:00:02'),
           (4, 'C', '2024-01-01T09:00:02'), (5, NULL, '2024-01-01T09:00:02'), (6, 'A', NULL)",
        "CREATE TABLE quotes (symbol VARCHAR, ts TIMESTAMP, price DOUBLE) AS VALUES
           ('A', '2024-01-01T09:00:00', 1.0), ('A', '2024-01-01T09:00:05', 2.0), ('A', '2024-01-01T09:00:05', 1.5),
           ('B', '2024-01-01T09:00:03', 3.0), (NULL, '2024-01-01T09:00:00', 9.0), ('A', NULL, 9.0)",
        "CREATE TABLE names (symbol VARCHAR, name VARCHAR) AS VALUES ('A', 'Anna'), ('B', 'Bert')",
        "CREATE TABLE days (day DATE, holiday BOOLEAN) AS VALUES ('2024-01-01', true)",
    ] {
        context.sql(statement).await.unwrap().collect().await.unwrap();
    }
    context
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_stands_wherever_a_join_does() {
    let context = trades().await;
    let on = "MATCH_CONDITION (t.ts >= q.ts) ON t.symbol = q.symbol";
    let prices = ["| 1 | 1.0 |", "| 2 | 2.0 |", "| 3 |     |", "| 4 |     |", "| 5 |     |", "| 6 |     |"];
    let expect = |expected: &[&str]| expected.iter().map(|line| line.replace(' ', "")).collect::<Vec<_>>();
    for (query, expected) in [
        (format!("SELECT t.id, q.price FROM trades t ASOF JOIN quotes q {on}"), &prices[..]),
        // The sides of the condition may be exchanged.
        (
            "SELECT t.id, q.price FROM trades t ASOF JOIN quotes q
             MATCH_CONDITION (q.ts <= t.ts) ON q.symbol = t.symbol"
                .to_owned(),
            &prices,
        ),
        (format!("SELECT * FROM (SELECT t.id, q.price FROM trades t ASOF JOIN quotes q {on}) x"), &prices),
        (format!("WITH x AS (SELECT t.id, q.price FROM trades t ASOF JOIN quotes q {on}) SELECT * FROM x"), &prices),
        (
            format!(
                "SELECT t.id, n.name FROM trades t JOIN names n ON t.symbol = n.symbol ASOF JOIN quotes q {on}
                 JOIN days d ON CAST(t.ts AS DATE) = d.day WHERE q.price IS NOT NULL"
            ),
            &["| 1 | Anna |", "| 2 | Anna |"],
        ),
        (
            format!(
                "SELECT t.id, q.price, b.price AS later FROM trades t ASOF JOIN quotes q {on}
                 ASOF JOIN quotes b MATCH_CONDITION (t.ts < b.ts) ON t.symbol = b.symbol WHERE t.id <= 3"
            ),
            &["| 1 | 1.0 | 2.0 |", "| 2 | 2.0 | |", "| 3 | | 3.0 |"],
        ),
        (
            "SELECT t.id, price FROM trades t ASOF JOIN quotes q MATCH_CONDITION (t.ts >= q.ts) USING (symbol)"
                .to_owned(),
            &prices,
        ),
        (
            "SELECT count(*) FROM (SELECT * FROM trades t ASOF JOIN quotes q MATCH_CONDITION (t.ts >= q.ts)
             USING (symbol) WHERE symbol = 'A')"
                .to_owned(),
            &["| 3 |"],
        ),
        // Dates are compared with timestamps.
        (
            "SELECT t.id, d.holiday FROM trades t ASOF JOIN days d MATCH_CONDITION (t.ts >= d.day)
             WHERE t.id IN (1, 6)"
                .to_owned(),
            &["| 1 | true |", "| 6 | |"],
        ),
        (
            "SELECT t.id, q.price FROM trades t ASOF JOIN quotes q
                     MATCH_CONDITION (t.ts >= q.ts AND t.ts - q.ts < INTERVAL '3 s') ON t.symbol = q.symbol
                     WHERE t.id < 3"
                .to_owned(),
            &["| 1 | 1.0 |", "| 2 | 2.0 |"],
        ),
        (
            "SELECT t.id, q.price FROM trades t ASOF JOIN quotes q
                     MATCH_CONDITION (t.ts >= q.ts AND t.ts - q.ts < INTERVAL '1 s') ON t.symbol = q.symbol
                     WHERE t.id < 3"
                .to_owned(),
            &["| 1 |   |", "| 2 |  |"],
        ),
    ] {
        let found: Vec<String> = rows(&context, &query).await.iter().map(|line| line.replace(' ', "")).collect();
        assert_eq!(found, expect(expected), "{query}");
    }
    // Parentheses are enough for DataFusion alone.
    let plain = format!("SELECT t.id, q.price FROM (trades t ASOF JOIN quotes q {on}) ORDER BY t.id");
    assert_eq!(context.sql(&plain).await.unwrap().count().await.unwrap(), 6);
    context.sql(&format!("CREATE VIEW v AS SELECT t.id FROM (trades t ASOF JOIN quotes q {on})")).await.unwrap();
    assert_eq!(rows(&context, "SELECT count(*) FROM v").await, ["| 6        |"]);
}

/// Arrays that are encoded as runs have no validity of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_null_where_there_is_no_partner() {
    let context = trades().await;
    let runs = "RunEndEncoded(\"run_ends\": non-null Int32, \"values\": Utf8)";
    for (bound, expected) in [
        ("", ["|1|A|", "|2|A|", "|3||", "|4||", "|5||", "|6||"]),
        (" AND t.ts - INTERVAL '1 s' <= q.ts", ["|1|A|", "|2||", "|3||", "|4||", "|5||", "|6||"]),
    ] {
        let query = format!(
            "SELECT t.id, q.x FROM trades t ASOF JOIN (SELECT *, arrow_cast(symbol, '{runs}') AS x FROM quotes) q
             MATCH_CONDITION (t.ts >= q.ts{bound}) ON t.symbol = q.symbol"
        );
        let found: Vec<String> = rows(&context, &query).await.iter().map(|line| line.replace(' ', "")).collect();
        assert_eq!(found, expected, "{query}");
    }
}

/// A predicate without columns is moved to the left side alone: there are right rows for all times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sample_of_the_output_leaves_the_right_side_whole() {
    let context = session(2, None);
    context.register_table("l", table(10_000, 7919)).unwrap();
    context.register_table("r", table(10_000, 7919)).unwrap();
    let query = "SELECT count(*) > 1000, count(*) < 9000, count(*) = count(r.id), bool_and(l.id = r.id) FROM l
                 ASOF JOIN r MATCH_CONDITION (l.t >= r.t) ON l.id = r.id WHERE random() < 0.5";
    let found = rows(&context, query).await;
    assert!(!found[0].contains("false"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_move_below_it() {
    let context = trades().await;
    let query =
        "EXPLAIN FORMAT INDENT SELECT t.id, q.price FROM trades t ASOF JOIN quotes q MATCH_CONDITION (t.ts >= q.ts)
                 ON t.symbol = q.symbol WHERE t.symbol = 'A' AND t.id > 1 AND q.price > 0 AND q.symbol = 'A'";
    let plan = rows_of_explain(&context, query).await;
    let (above, below) =
        plan.split_once("AsOfJoinExec: type=Left, on=[(symbol@1, symbol@0)], match=ts@2 >= ts@1").expect(&plan);
    let filters = |text: &str| text.matches("FilterExec").count();
    assert_eq!((filters(above), filters(below)), (1, 2), "{plan}");
    assert!(below.contains("symbol@1 = A AND id@0 > 1") && below.contains("symbol@0 = A"), "{plan}");
}

async fn rows_of_explain(context: &SessionContext, query: &str) -> String {
    let batches = sql(context, query).await.unwrap().collect().await.unwrap();
    let texts = batches.iter().flat_map(|batch| batch.column(1).as_string::<i32>().iter().flatten().map(str::to_owned));
    texts.collect::<Vec<_>>().join("\n")
}

/// A stream without an end.
#[derive(Debug)]
struct Endless(SchemaRef);

impl PartitionStream for Endless {
    fn schema(&self) -> &SchemaRef {
        &self.0
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let times: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let batch = RecordBatch::try_new(Arc::clone(&self.0), vec![times]).unwrap();
        let batches = futures::stream::repeat_with(move || Ok(batch.clone()));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.0), batches))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_left_side_may_be_endless_but_not_the_right_one() {
    let context = session(1, None);
    let schema = Arc::new(Schema::new(vec![Field::new("t", DataType::Int64, false)]));
    let endless = StreamingTable::try_new(Arc::clone(&schema), vec![Arc::new(Endless(schema))]).unwrap();
    context.register_table("endless", Arc::new(endless.with_infinite_table(true))).unwrap();
    context.register_table("r", table(1000, 7)).unwrap();
    let query = "SELECT l.t, r.t AS rt FROM endless l ASOF JOIN r MATCH_CONDITION (l.t >= r.t) LIMIT 5000";
    assert_eq!(rows(&context, query).await.len(), 5000);
    let found = error(&context, "SELECT * FROM r ASOF JOIN endless l MATCH_CONDITION (l.t >= r.t)").await;
    assert!(found.contains("Cannot execute pipeline breaking queries"), "{found}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_say_what_to_write() {
    let context = trades().await;
    for (clauses, expected) in [
        ("MATCH_CONDITION (t.ts = q.ts)", "begins with a comparison by '>=', '>', '<=' or '<' of both tables"),
        ("MATCH_CONDITION (t.ts >= t.ts)", "such as trades.time >= quotes.time, and not with 't.ts >= t.ts'"),
        ("MATCH_CONDITION (t.ts >= q.ts OR true)", "begins with a comparison"),
        ("MATCH_CONDITION (t.ts >= q.ts AND q.price > 1)", "'q.price > Int64(1)' has others"),
        ("MATCH_CONDITION (ts >= q.ts)", "Ambiguous reference to unqualified field ts"),
        ("MATCH_CONDITION (t.id + random() >= q.price)", "must not change their value with each call"),
        ("MATCH_CONDITION (t.ts >= q.ts) ON t.id < q.price", "ON of an as-of join takes comparisons by '='"),
        ("MATCH_CONDITION (t.ts >= q.ts) ON t.symbol = q.symbol OR true", "ON of an as-of join takes"),
        ("MATCH_CONDITION (t.ts >= q.ts) USING (nothing)", "nothing"),
        (
            "MATCH_CONDITION (t.symbol >= q.symbol)",
            "compares numbers, dates and times, and symbol@1 is of type Utf8View",
        ),
    ] {
        let query = format!("SELECT * FROM trades t ASOF JOIN quotes q {clauses}");
        let found = error(&context, &query).await;
        assert!(found.contains(expected), "{query}: {found}");
    }
}

/// With a pool of a tenth of the right side, a full disk, a row that fails, and a stream that is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_it_ends_nothing_is_left() {
    use common::endings::{Join, table};
    let join = Join {
        tables: &[table("l", 4000), table("r", 20000)],
        query: "SELECT l.id, r.id, r.s FROM l ASOF JOIN r MATCH_CONDITION (l.t >= r.t) ON l.k = r.k",
        failing: "SELECT l.id, r.id FROM l ASOF JOIN (SELECT id, k, s, 10 / (id - 19000) + t AS t \
                  FROM r) r MATCH_CONDITION (l.t >= r.t) ON l.k = r.k",
        pool_bytes: 100_000,
    };
    join.check().await;
}
