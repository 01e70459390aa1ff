//! `row_number() = 1` against DataFusion's operator.

use datafusion::prelude::SessionContext;

mod common;
use common::queries::{Numbers, run, session, shown, sorted_rows};

const KEYS: [(&str, &[&str]); 4] = [
    ("BIGINT", &["1", "2", "-3", "4"]),
    ("VARCHAR", &["'a'", "''", "'a long text, which no view has inline'"]),
    ("DOUBLE", &["0.0", "-0.0", "'NaN'", "1.5"]),
    ("BIGINT[]", &["[1, 2]", "[1]", "[]"]),
];

/// Creates a table with two keys and a number that no other row has.
async fn create(context: &SessionContext, kinds: [usize; 2], numbers: &mut Numbers) {
    let rows: Vec<String> = (0..numbers.next(300))
        .map(|id| format!("({}, {}, {id})", numbers.literal(KEYS[kinds[0]].1), numbers.literal(KEYS[kinds[1]].1)))
        .collect();
    run(context, &format!("CREATE TABLE t (a {}, b {}, id BIGINT)", KEYS[kinds[0]].0, KEYS[kinds[1]].0)).await;
    if !rows.is_empty() {
        run(context, &format!("INSERT INTO t VALUES {}", rows.join(", "))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_rows_are_those_of_the_window() {
    for seed in 0..24 {
        let mut numbers = Numbers(seed);
        let kinds = [numbers.next(4) as usize, numbers.next(4) as usize];
        let context = session(1 + seed as usize % 3, None);
        create(&context, kinds, &mut numbers).await;
        for (over, filter) in [
            ("PARTITION BY a ORDER BY id", "n = 1"),
            ("PARTITION BY a, b ORDER BY id DESC", "n <= 1 AND id > 20"),
            ("PARTITION BY b, id % 7 ORDER BY id", "n < 2"),
            ("PARTITION BY id ORDER BY a", "1 = n"),
            ("ORDER BY id DESC", "n = 1"),
        ] {
            let query = format!(
                "SELECT a, id, n FROM (SELECT *, row_number() OVER ({over}) AS n FROM t WHERE id <> 7) WHERE {filter}"
            );
            run(&context, "SET annulus.groupings = 'never'").await;
            let expected = sorted_rows(&context, &query).await;
            assert!(!shown(&context, &query).await.contains("FirstRowsExec"));
            run(&context, "SET annulus.groupings = 'auto'").await;
            let plan = shown(&context, &query).await;
            assert!(plan.contains("FirstRowsExec"), "{query}\n{plan}");
            assert_eq!(sorted_rows(&context, &query).await, expected, "seed {seed}: {query}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_windows_stay() {
    let context = session(2, None);
    run(&context, "CREATE TABLE t (a BIGINT, id BIGINT)").await;
    let over = "OVER (PARTITION BY a ORDER BY id)";
    for (columns, filter) in [
        (format!("row_number() {over} AS n"), "n = 2"),
        (format!("row_number() {over} AS n"), "n <= 2"),
        (format!("row_number() {over} AS n"), "n = 1 OR id > 3"),
        (format!("rank() {over} AS n"), "n = 1"),
        (format!("sum(id) {over} AS n"), "n = 1"),
        (format!("row_number() {over} AS n, sum(id) {over} AS s"), "n = 1"),
        (format!("row_number() {over} + 1 AS n"), "n = 1"),
    ] {
        let query = format!("SELECT * FROM (SELECT *, {columns} FROM t) WHERE {filter}");
        let plan = shown(&context, &query).await;
        assert!(!plan.contains("FirstRowsExec"), "{query}\n{plan}");
    }
}
