//! `annulus-lab tpcds` as a process, at a hundredth of the smallest official scale. The queries are of
//! this file: those of the standard are not part of Annulus.

mod support;

use std::{fs, path::Path};

use serde_json::Value;
use support::{Annulus, expect_refused, names};

/// Queries, by number.
const QUERIES: [(u8, &str); 4] = [
    // Most rows tie with the last one.
    (1, "SELECT d_year, d_date_sk FROM date_dim ORDER BY d_year DESC LIMIT 5;\n"),
    // Ordered by an alias, by a column that is not in the answer, and then by one that is.
    (
        2,
        "SELECT i_category AS category, count(*) AS sold, sum(ss_net_paid) FROM store_sales, item \
         WHERE ss_item_sk = i_item_sk GROUP BY i_category ORDER BY sold, max(i_item_sk), category LIMIT 100",
    ),
    (3, "SELECT count(*) FROM customer_demographics"),
    (7, "SELECT no_such_column FROM store"),
];

/// Writes the queries into the folder `queries`.
fn write(folder: &Path) {
    fs::create_dir(folder.join("queries")).expect("a new folder");
    for (number, text) in QUERIES {
        fs::write(folder.join(format!("queries/q{number:02}.sql")), text).expect("write");
    }
}

#[test]
fn answers_are_compared_as_far_as_they_are_determined() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path());
    let tpcds = |more: &[&str]| {
        let fixed = ["tpcds", "--scale", "0.01", "--data", "data", "--queries-from", "queries"];
        Annulus::new(fixed.iter().chain(more)).at(folder.path())
    };
    let done = tpcds(&["--queries", "1-3", "--json", "--iterations", "1", "--target-partitions", "4"]).succeeds();
    let reports: Vec<Value> = done.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let rows: Vec<_> = reports.iter().map(|report| report["rows"].as_u64()).collect();
    // The demographics are all combinations of values: the same at every scale.
    assert!(rows[0] == Some(5) && rows[1] > Some(1) && rows[2] == Some(1), "{rows:?}");
    assert!(reports.iter().all(|report| report["equal"] == true), "{reports:?}");
    assert_eq!(names(&folder.path().join("data")), ["sf0.01"]);
    assert_eq!(names(&folder.path().join("data/sf0.01")).len(), 24);

    // What the plans say of the order, and the queries without their LIMIT.
    let requests = "{\"query\": 3}\n{\"query\": 1, \"witness\": true}\n{\"query\": 7}\n";
    let done = tpcds(&["--queries", "1-3,7", "--serve", "auto"]).input(requests);
    let lines: Vec<Value> = done.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let order = |query: usize| lines[0]["queries"][query]["order"].to_string();
    assert_eq!(order(0), r#"{"by":[0],"cut":{"limit":5,"offset":0}}"#);
    assert_eq!(order(1), r#"{"by":[1],"cut":{"limit":100,"offset":0}}"#);
    assert_eq!(order(2), r#"{"by":[],"cut":null}"#);
    let witness = &lines[0]["queries"][0]["witness"];
    assert_eq!(witness["sql"], "SELECT d_year, d_date_sk FROM date_dim ORDER BY d_year DESC");
    assert!(lines[0]["queries"][2]["witness"].is_null());
    assert_eq!(lines[1]["rows"], 1);
    assert_eq!(lines[2]["rows"], 73_049, "the days of two centuries");
    assert!(lines[3]["error"].as_str().is_some_and(|error| error.contains("no_such_column")), "{}", lines[3]);

    // In little memory, a query may only have an answer with its LIMIT.
    let done = tpcds(&["--queries", "1", "--serve", "stock", "--memory-limit", "1M"]).input("{\"query\": 1}\n");
    let lines: Vec<Value> = done.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(lines[0]["queries"][0]["witness"].is_null(), "{}", lines[0]);
    assert_eq!(lines[1]["rows"], 5, "{}", lines[1]);

    // A query without a plan fails, and the others are measured.
    let done = tpcds(&["--queries", "3,7", "--iterations", "1"]).fails();
    assert!(done.stderr.contains("query 7: on stock DataFusion: "), "{}", done.stderr);
    assert!(done.stdout.contains("NOT EQUAL OR FAILED: 7"), "{}", done.stdout);

    // Texts that are not a query are named.
    let done = tpcds(&["--queries", "4"]).fails();
    assert!(done.stderr.contains("no file 'queries/q04.sql': expected a folder with"), "{}", done.stderr);
    fs::write(folder.path().join("queries/q04.sql"), "SELECT 1; SELECT 2").expect("write");
    let done = tpcds(&["--queries", "4"]).fails();
    assert!(done.stderr.contains("cannot use 'queries/q04.sql': expected one query"), "{}", done.stderr);
}

#[test]
fn wrong_options_name_the_value() {
    let cases: [(&[&str], &str); 3] = [
        (&["--queries", "1"], "--queries-from <DIR>"),
        (&["--queries-from", ".", "--queries", "100"], "invalid query '100'"),
        (&["--queries-from", ".", "--scale", "0"], "invalid scale factor '0'"),
    ];
    expect_refused("tpcds", &cases);
}

#[cfg(unix)]
#[test]
fn interrupted_generation_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    // At this scale it would take hours.
    let arguments = ["tpcds", "--scale", "1000", "--data", ".", "--queries-from", "."];
    let mut running = Annulus::new(arguments).at(folder.path()).start();
    running.wait_until(|| names(folder.path()).iter().any(|name| name.starts_with(".making-")));
    running.signal("INT");
    assert_eq!(running.exit_code(), Some(130));
    assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
}
