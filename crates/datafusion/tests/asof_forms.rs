//! As-of joins that are written in other words, against the same queries with DataFusion's joins.

use datafusion::prelude::SessionContext;

mod common;
use common::queries::{Numbers, run, session, shown, sorted_rows};

async fn own_operators(context: &SessionContext, word: &str) {
    run(context, &format!("SET annulus.joins = '{word}'")).await;
    run(context, &format!("SET annulus.groupings = '{word}'")).await;
}

/// Creates a table of random keys and times. With `is_unique`, times are different.
async fn create(context: &SessionContext, name: &str, time: &str, is_unique: bool, numbers: &mut Numbers) {
    let count = numbers.next(50);
    let rows: Vec<String> = (0..count)
        .map(|id| {
            let key = if numbers.next(8) == 0 { "NULL".to_owned() } else { numbers.next(4).to_string() };
            let t = if is_unique { id * 7 % 53 } else { numbers.next(12) };
            let t = match time {
                _ if numbers.next(10) == 0 => "NULL".to_owned(),
                "TIMESTAMP" => format!("TIMESTAMP '2024-01-01T00:00:{t:02}'"),
                "DATE" => format!("DATE '2024-01-{:02}'", 1 + t % 28),
                _ => t.to_string(),
            };
            format!("({key}, {t}, {})", id / (1 + numbers.next(3)))
        })
        .collect();
    run(context, &format!("CREATE TABLE {name} (k BIGINT, t {time}, id BIGINT)")).await;
    if count > 0 {
        run(context, &format!("INSERT INTO {name} VALUES {}", rows.join(", "))).await;
    }
}

/// Returns queries that use the pairs nearest in time alone, and return no other value of equal pairs.
fn forms(time: &str, operator: &str, numbers: &mut Numbers) -> Vec<String> {
    let (is_last, keyed) = (operator.starts_with('>'), numbers.next(4) > 0);
    let (order, back, extreme) = if is_last { ("DESC", "ASC", "max") } else { ("ASC", "DESC", "min") };
    let bound = match (time, is_last, numbers.next(3)) {
        ("TIMESTAMP", true, 0) => " AND l.t <= r.t + INTERVAL '3 s'",
        ("TIMESTAMP", false, 0) => " AND r.t - INTERVAL '3 s' < l.t",
        ("BIGINT", true, 0) => " AND r.t >= l.t - 3",
        ("BIGINT", true, 1) => " AND r.t + 3 > l.t",
        ("BIGINT", false, 0 | 1) => " AND r.t BETWEEN l.t AND l.t + 3",
        _ => "",
    };
    let on = format!("l.t {operator} r.t{bound}{}", if keyed { " AND l.k = r.k" } else { "" });
    let group = ["l.id", "l.id, l.k", "l.k", "l.id, l.t"][numbers.next(4) as usize];
    let joins = ["l JOIN r", "r JOIN l", "l LEFT JOIN r", "r RIGHT JOIN l"];
    let mut queries = Vec::new();
    for join in joins.map(|join| format!("{join} ON {on}")) {
        queries.extend([
            format!(
                "SELECT {group}, rt FROM (SELECT l.*, r.t AS rt, row_number() OVER (PARTITION BY {group} ORDER BY \
                 r.t {order}) AS place FROM {join}) l WHERE place = 1"
            ),
            format!("SELECT {group}, {extreme}(r.t), min(l.t), max(l.k + 1) FROM {join} GROUP BY {group}"),
            format!("SELECT {group}, first_value(r.t ORDER BY r.t {order}) FROM {join} GROUP BY {group}"),
            format!(
                "SELECT {group}, last_value(r.t ORDER BY r.t {back}), {extreme}(r.t) FILTER (WHERE l.id > 3) FROM \
                 {join} GROUP BY {group}"
            ),
            format!("SELECT DISTINCT ON ({group}) {group}, r.t FROM {join} ORDER BY {group}, r.t {order}"),
        ]);
    }
    // A filter of both sides is the condition of a join.
    queries.push(format!("SELECT {group}, {extreme}(r.t) FROM l, r WHERE {on} AND l.id < 20 GROUP BY {group}"));
    queries
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_words_for_as_of_joins_have_the_same_answers() {
    for seed in 0..24 {
        let mut numbers = Numbers(seed);
        let time = ["BIGINT", "TIMESTAMP", "DATE"][numbers.next(3) as usize];
        let context = session(1 + seed as usize % 3, None);
        for name in ["l", "r"] {
            create(&context, name, time, false, &mut numbers).await;
        }
        for query in forms(time, [">=", ">", "<=", "<"][seed as usize % 4], &mut numbers) {
            own_operators(&context, "never").await;
            let expected = sorted_rows(&context, &query).await;
            assert!(!shown(&context, &query).await.contains("AsOfJoinExec"));
            own_operators(&context, "auto").await;
            let plan = shown(&context, &query).await;
            assert!(plan.contains("AsOfJoinExec"), "seed {seed}\n{query}\n{plan}");
            assert_eq!(sorted_rows(&context, &query).await, expected, "seed {seed}\n{query}\n{plan}");
        }
    }
}

/// Values of the other side come from the same pair.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_columns_are_of_the_nearest_row() {
    for seed in 0..20 {
        let mut numbers = Numbers(seed);
        let context = session(2, None);
        create(&context, "l", "BIGINT", false, &mut numbers).await;
        create(&context, "r", "BIGINT", true, &mut numbers).await;
        run(&context, "CREATE TABLE numbered AS SELECT row_number() OVER (ORDER BY id, k, t) AS number, * FROM l")
            .await;
        for query in [
            "SELECT * FROM (SELECT l.*, r.t AS rt, r.id AS rid,
               row_number() OVER (PARTITION BY number ORDER BY r.t DESC) AS place
               FROM numbered l LEFT JOIN r ON l.k = r.k AND l.t >= r.t) WHERE place <= 1 AND id > 2",
            "SELECT number, first_value(r.id ORDER BY r.t), first_value(r.k ORDER BY r.t) FROM r
               JOIN numbered l ON l.k = r.k AND l.t < r.t GROUP BY number",
            "SELECT l.*, r.id FROM numbered l JOIN
               (SELECT l.number AS n, max(r.t) AS last FROM numbered l JOIN r ON l.k = r.k AND l.t > r.t GROUP BY n)
               ON n = number JOIN r ON r.k = l.k AND r.t = last",
            "SELECT DISTINCT ON (number) l.*, r.* FROM numbered l LEFT JOIN r ON l.k = r.k AND l.t <= r.t
               ORDER BY number, r.t",
        ] {
            own_operators(&context, "never").await;
            let expected = sorted_rows(&context, query).await;
            own_operators(&context, "auto").await;
            assert!(shown(&context, query).await.contains("AsOfJoinExec"), "{query}");
            assert_eq!(sorted_rows(&context, query).await, expected, "seed {seed}\n{query}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_needs_more_pairs_is_left_as_it_is() {
    let context = session(2, None);
    for name in ["l", "r"] {
        run(
            &context,
            &format!("CREATE TABLE {name} (k BIGINT, t BIGINT, ts TIMESTAMP, d DOUBLE, x BIGINT, s VARCHAR)"),
        )
        .await;
    }
    let ranked = |call: &str, over: &str, join: &str, filter: &str| {
        format!("SELECT * FROM (SELECT l.k, r.t, {call} OVER ({over}) AS place FROM {join}) WHERE {filter}")
    };
    let (number, over, join) = ("row_number()", "PARTITION BY l.k ORDER BY r.t DESC", "l JOIN r ON l.t >= r.t");
    let days = "l JOIN r ON l.ts >= r.ts AND r.ts + INTERVAL '30 days' >= l.ts";
    for query in [
        ranked(number, over, join, "place = 1"),
        ranked(number, over, "l JOIN r ON l.t >= r.t AND l.t <= r.t + 5 AND r.t >= l.t - 9", "place = 1"),
        ranked(number, "PARTITION BY l.k ORDER BY r.ts DESC", days, "place = 1"),
        ranked(number, "PARTITION BY r.k + 1 ORDER BY r.t DESC", "l JOIN r ON l.k = r.k AND l.t >= r.t", "place = 1"),
    ] {
        assert!(shown(&context, &query).await.contains("AsOfJoinExec"), "{query}");
    }
    for query in [
        ranked(number, over, join, "place = 2"),
        ranked(number, over, join, "place <= 2"),
        ranked(number, over, join, "place >= 1"),
        ranked("rank()", over, join, "place = 1"),
        ranked(number, "PARTITION BY l.k ORDER BY r.t", join, "place = 1"),
        ranked(number, "PARTITION BY l.k ORDER BY r.t DESC, r.x", join, "place = 1"),
        ranked(number, "PARTITION BY l.k, r.x ORDER BY r.t DESC", join, "place = 1"),
        ranked(number, "PARTITION BY l.k ORDER BY l.t DESC", join, "place = 1"),
        ranked(number, "PARTITION BY l.k ORDER BY r.t + 1 DESC", join, "place = 1"),
        // Equal zeros of floats differ in an order.
        ranked(number, "PARTITION BY l.k ORDER BY r.d DESC", "l JOIN r ON l.d >= r.d", "place = 1"),
        ranked(number, "PARTITION BY l.k ORDER BY r.s DESC", "l JOIN r ON l.s >= r.s", "place = 1"),
        ranked(number, over, "l JOIN r ON l.t >= r.t AND l.x <> r.x", "place = 1"),
        ranked(number, over, "l JOIN r ON l.t >= r.t AND l.t + 1 >= r.t", "place = 1"),
        ranked(number, over, "l JOIN r ON l.t >= r.t AND l.x >= r.x", "place = 1"),
        // Months have several lengths.
        ranked(
            number,
            "PARTITION BY l.k ORDER BY r.ts DESC",
            "l JOIN r ON l.ts >= r.ts AND r.ts + INTERVAL '1 month' >= l.ts",
            "place = 1",
        ),
        // Equal zeros of floats differ in an expression.
        ranked(
            number,
            "PARTITION BY l.k, CAST(r.d AS VARCHAR) ORDER BY r.t DESC",
            "l JOIN r ON l.d = r.d AND l.t >= r.t",
            "place = 1",
        ),
        ranked(number, over, "l RIGHT JOIN r ON l.t >= r.t", "place = 1"),
        ranked(number, over, "l FULL JOIN r ON l.t >= r.t", "place = 1"),
        ranked(number, over, "l JOIN r ON l.k = r.k", "place = 1"),
        format!("SELECT *, count(*) OVER (PARTITION BY k) FROM ({})", ranked(number, over, join, "place > 0")),
        ranked(&format!("count(*) OVER ({over}) + {number}"), over, join, "place = 1"),
        format!("SELECT l.k, max(r.t), count(*) FROM {join} GROUP BY l.k"),
        format!("SELECT l.k, min(r.t) FROM {join} GROUP BY l.k"),
        format!("SELECT l.k, max(r.t), max(r.x) FROM {join} GROUP BY l.k"),
        format!("SELECT r.x, max(r.t) FROM {join} GROUP BY r.x"),
        format!("SELECT l.k, max(r.t) FILTER (WHERE r.x > 1) FROM {join} GROUP BY l.k"),
        format!("SELECT l.k, first_value(r.x ORDER BY l.x) FROM {join} GROUP BY l.k"),
        format!("SELECT l.k, first_value(r.x ORDER BY r.t DESC) IGNORE NULLS FROM {join} GROUP BY l.k"),
        format!("SELECT l.k, first_value(r.x ORDER BY r.t DESC), max(r.x) FROM {join} GROUP BY l.k"),
    ] {
        let plan = shown(&context, &query).await;
        assert!(!plan.contains("AsOfJoinExec"), "{query}\n{plan}");
    }
}
