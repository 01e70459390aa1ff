//! `annulus-lab tpch` as a process, at a hundredth of the smallest official scale.

mod support;

use std::{
    collections::HashMap,
    fs::{self, File},
};

use arrow::ipc::reader::FileReader;
use serde_json::Value;
use support::{Annulus, expect_refused, names};

const FIELDS: [&str; 10] =
    ["query", "rows", "stock_ms", "annulus_ms", "ratio", "shuffled_rows", "shuffled_bytes", "peak_mb", "equal", "set"];

#[test]
fn all_answers_are_equal_and_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let tpch = |more: &[&str]| {
        let fixed = ["tpch", "--scale", "0.01", "--iterations", "1", "--data", "data"];
        Annulus::new(fixed.iter().chain(more)).at(folder.path())
    };

    let done = tpch(&["--json", "--target-partitions", "4"]).succeeds();
    let reports: Vec<Value> = done.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(reports.len(), 22);
    for (index, report) in reports.iter().enumerate() {
        let fields = report.as_object().expect("an object");
        assert_eq!(fields.len(), FIELDS.len(), "{report}");
        assert!(FIELDS.iter().all(|name| fields.contains_key(*name)), "{report}");
        assert_eq!(report["query"], index + 1);
        assert_eq!(report["equal"], true, "{report}");
        assert!(report["stock_ms"].as_f64() > Some(0.0) && report["ratio"].as_f64() > Some(0.0), "{report}");
    }
    // Numbers of rows that a number of groups or a limit fixes at any scale.
    let rows: HashMap<_, _> = reports.iter().map(|r| (r["query"].as_u64(), r["rows"].as_u64())).collect();
    for (query, expected) in [(1, 4), (3, 10), (4, 5), (5, 5), (6, 1), (7, 4), (8, 2), (10, 20), (12, 2)] {
        assert_eq!(rows[&Some(query)], Some(expected), "query {query}");
    }
    for (query, expected) in [(14, 1), (15, 1), (17, 1), (19, 1), (22, 7)] {
        assert_eq!(rows[&Some(query)], Some(expected), "query {query}");
    }

    // The tables are complete under their name, nothing else is in the folder, and the next run
    // uses them.
    assert_eq!(names(&data), ["sf0.01"]);
    let file = data.join("sf0.01/lineitem/lineitem-00001.parquet");
    let made = fs::metadata(&file).and_then(|file| file.modified()).expect("a table file");
    let done = tpch(&["--queries", "6,3-4", "--html", "page.html"]).succeeds();
    assert_eq!(fs::metadata(&file).and_then(|file| file.modified()).expect("a table file"), made);
    assert!(done.stdout.contains("3 queries: stock ") && done.stdout.contains("all answers equal"), "{}", done.stdout);

    let page = fs::read_to_string(folder.path().join("page.html")).expect("the page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"), "{page}");
    assert_eq!(page.matches("fill=\"#1768C4\" stroke=").count(), 1 + 3, "a legend and one bar for each query");
    assert!(!page.contains("http") && !page.contains("src="), "the page needs nothing else");

    // Options are set and reported.
    let set = ["--set", "annulus.joins=never", "--set", "datafusion.execution.batch_size=1000", "--groups", "3"];
    let done = tpch(&[&["--queries", "4", "--json", "--strategies", "ring"], &set[..]].concat()).succeeds();
    assert!(done.stdout.contains(r#""set":["annulus.joins=never","datafusion.execution.batch_size=1000","groups=3"]"#));
    let done = tpch(&[&["--queries", "4"], &set[..]].concat()).succeeds();
    assert!(
        done.stdout.contains("; set: annulus.joins=never, datafusion.execution.batch_size=1000, groups=3; all answers")
    );

    // A query that runs out of memory is named and fails the run; the others are still measured.
    let done = tpch(&["--queries", "6,18", "--memory-limit", "200K", "--target-partitions", "2"]).fails();
    assert!(done.stderr.contains("query 18:") && done.stderr.contains("Resources exhausted"), "{}", done.stderr);
    assert!(done.stdout.contains("NOT EQUAL OR FAILED: 18"), "{}", done.stdout);

    fs::remove_dir_all(data.join("sf0.01/nation")).expect("remove");
    let done = tpch(&[]).fails();
    assert!(done.stderr.contains("no table nation: delete the folder"), "{}", done.stderr);
}

#[test]
fn queries_are_run_on_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let serve = |way: &str| {
        let fixed = ["tpch", "--scale", "0.001", "--data", "data", "--queries", "1,6", "--serve", way];
        Annulus::new(fixed).at(folder.path())
    };
    let requests = "{\"query\": 6}\n{\"query\": 1, \"answer\": \"q1.arrow\"}\n{\"query\": 6}\n";
    for way in ["stock", "ring+cluster"] {
        let done = serve(way).input(requests);
        let lines: Vec<Value> = done.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        assert_eq!(lines.len(), 4, "{}", done.stdout);
        assert_eq!(lines[0]["queries"][0]["order"]["by"], serde_json::json!([0, 1]));
        let expected = [(6, 1), (1, 4), (6, 1)];
        for (line, (query, rows)) in lines[1..].iter().zip(expected) {
            assert_eq!((&line["query"], &line["rows"]), (&query.into(), &rows.into()), "{way}: {line}");
            assert!(line["ms"].as_f64() > Some(0.0) && line["error"].is_null(), "{way}: {line}");
        }
        let answer = FileReader::try_new(File::open(folder.path().join("q1.arrow")).expect("a file"), None);
        let counted: usize = answer.expect("Arrow").map(|batch| batch.expect("rows").num_rows()).sum();
        assert_eq!(counted, 4);
        fs::remove_file(folder.path().join("q1.arrow")).expect("the answer");
    }

    // A file that cannot be written fails its request alone.
    let done = serve("auto").input("{\"query\": 1, \"answer\": \"none/q1.arrow\"}\n{\"query\": 1}\n");
    let lines: Vec<_> = done.stdout.lines().skip(1).collect();
    assert!(lines[0].contains("cannot write 'none/q1.arrow'") && lines[1].contains("\"error\":null"), "{lines:?}");

    for (request, named) in [
        (&b"{\"query\": 2}\n"[..], "invalid request '{\"query\": 2}': expected JSON such as"),
        (b"{\"query\": 2}\n", "the query is not offered"),
        (b"{\"query\": 1, \"witness\": true}\n", "the query has no witness"),
        (b"{\"query\": 1, \"fast\": true}\n", "unknown field `fast`"),
        (b"\xff\n", "cannot read standard input"),
    ] {
        fs::write(folder.path().join("requests"), request).expect("write");
        let done = serve("auto").reads(&folder.path().join("requests")).fails();
        assert!(done.stderr.contains(named), "{}", done.stderr);
    }
}

#[test]
fn wrong_options_name_the_value() {
    let cases: [(&[&str], &str); 14] = [
        (&["--queries", "23"], "invalid query '23'"),
        (&["--scale", "0"], "invalid scale factor '0'"),
        (&["--iterations", "0"], "invalid count '0'"),
        (&["--serve", "rign"], "invalid strategy 'rign'"),
        (&["--serve", "ring", "--json"], "cannot be used with"),
        (&["--html", "none/page.html"], "'none'"),
        (&["--data", "file/data", "--scale", "0.001"], "name another folder with --data"),
        // Settings are checked before there is a table.
        (
            &["--set", "annulus.jions=4", "--data", ".", "--scale", "0.001"],
            "--set annulus.jions=4 (SHOW ALL lists the options)",
        ),
        (&["--set", "datafusion.no.such=1", "--data", ".", "--scale", "0.001"], "--set datafusion.no.such=1"),
        (&["--set", "annulus.joins=many", "--data", ".", "--scale", "0.001"], "--set annulus.joins=many"),
        (&["--groups", "65", "--data", ".", "--scale", "0.001"], "invalid groups '65'"),
        (&["--set", "annulus.profile=none.json", "--data", ".", "--scale", "0.001"], "'none.json'"),
        (&["--set", "annulus.joins"], "expected KEY=VALUE"),
        (&["--set", "annulus.strategy=ring"], "use --strategies"),
    ];
    expect_refused("tpch", &cases);
}

#[cfg(unix)]
#[test]
fn interrupted_generation_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        // At this scale it would take hours.
        let arguments = ["tpch", "--scale", "1000", "--data", ".", "--html", "page.html"];
        let mut running = Annulus::new(arguments).at(folder.path()).start();
        running.wait_until(|| names(folder.path()).iter().any(|name| name.starts_with(".making-")));
        running.signal(signal);
        assert_eq!(running.exit_code(), Some(code));
        assert!(names(folder.path()).is_empty(), "{signal}: {:?}", names(folder.path()));
    }
}
