//! `annulus join --asof`, and `ASOF JOIN` in `annulus sql`.

use std::fs;

use annulus_dataset::Manifest;
use tempfile::TempDir;

use crate::support::{Annulus, expect_refused};

const TRADES: &str = "id,symbol,time\n1,A,2024-01-01T09:00:01\n2,A,2024-01-01T09:00:07\n3,B,2024-01-01T09:00:02\n\
                      4,,2024-01-01T09:00:02\n";
const QUOTES: &str =
    "symbol,time,price\nA,2024-01-01T09:00:00,1.5\nA,2024-01-01T09:00:05,2.5\nB,2024-01-01T09:00:03,3.5\n";

fn inputs() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("trades.csv"), TRADES).expect("a file");
    fs::write(folder.path().join("quotes.csv"), QUOTES).expect("a file");
    folder
}

/// Returns the rows of a join as CSV.
fn joined(folder: &TempDir, options: &[&str]) -> String {
    let join = ["join", "t=trades.csv", "q=quotes.csv", "--on", "symbol", "--output", "out", "--overwrite"];
    Annulus::new(join.iter().chain(options)).at(folder.path()).succeeds();
    let query = "SELECT * FROM 'out' ORDER BY id";
    Annulus::new(["sql", "--format", "csv", query]).at(folder.path()).succeeds().stdout
}

#[test]
fn each_row_has_its_nearest_one() {
    let folder = inputs();
    let select = ["--select", "t.id, q.price"];
    for (comparison, kind, expected) in [
        ("t.time >= q.time", "inner", "id,price\n1,1.5\n2,2.5\n"),
        ("t.time >= q.time", "left", "id,price\n1,1.5\n2,2.5\n3,\n4,\n"),
        ("q.time > t.time", "left", "id,price\n1,2.5\n2,\n3,3.5\n4,\n"),
        ("t.time >= q.time AND t.time < q.time + INTERVAL '2 s'", "left", "id,price\n1,1.5\n2,\n3,\n4,\n"),
    ] {
        let options = [&["--asof", comparison, "--type", kind][..], &select].concat();
        assert_eq!(joined(&folder, &options), expected, "{comparison}, {kind}");
    }
    // The time of a row without a partner is not null.
    let never = "t.time >= coalesce(q.time, TIMESTAMP '2000-01-01')";
    assert_eq!(joined(&folder, &["--asof", never, "--type", "semi", "--select", "t.id"]), "id\n1\n2\n");
    let ids = ["--asof", "t.time >= q.time", "--select", "t.id"];
    assert_eq!(joined(&folder, &[&ids[..], &["--type", "semi"]].concat()), "id\n1\n2\n");
    assert_eq!(joined(&folder, &[&ids[..], &["--type", "anti"]].concat()), "id\n3\n4\n");
    let manifest = fs::read_to_string(Manifest::path_in(&folder.path().join("out"))).expect("a manifest");
    assert!(manifest.contains("\"asof\": \"t.time >= q.time\""), "{manifest}");
}

#[test]
fn a_plan_shows_the_operator() {
    let folder = inputs();
    let join = ["join", "trades.csv", "quotes.csv", "--on", "symbol", "--asof", "a.time >= b.time", "--explain"];
    let plan = Annulus::new(join).at(folder.path()).succeeds().stdout;
    assert!(plan.contains("AsOfJoinExec"), "{plan}");
}

#[test]
fn sql_has_it_where_a_join_stands() {
    let folder = inputs();
    let query = "SELECT t.id, q.price FROM 'trades.csv' t ASOF JOIN 'quotes.csv' q MATCH_CONDITION (t.time >= q.time)
                 ON t.symbol = q.symbol ORDER BY t.id";
    let found = Annulus::new(["sql", "--format", "csv", query]).at(folder.path()).succeeds().stdout;
    assert_eq!(found, "id,price\n1,1.5\n2,2.5\n3,\n4,\n");
    // Statements around it are planned like others.
    let copy = format!("COPY ({query}) TO 'out.csv' STORED AS CSV; FROM 'out.csv' SELECT count(price)");
    let found = Annulus::new(["sql", "--format", "csv", &copy]).at(folder.path()).succeeds().stdout;
    assert!(found.ends_with("\n2\n"), "{found}");
    let plan = Annulus::new(["sql", &format!("EXPLAIN {query}")]).at(folder.path()).succeeds().stdout;
    assert!(plan.contains("AsOfJoinExec"), "{plan}");
}

#[test]
fn wrong_options_are_refused() {
    let both = ["a.csv", "b.csv", "--output", "out"];
    expect_refused(
        "join",
        &[
            (&[&both[..], &["--asof", "a.t >= b.t", "--type", "full"]].concat(), "expected inner, left, semi or anti"),
            (&[&both[..], &["--asof", "a.t >= b.t", "--where", "a.x > 1"]].concat(), "cannot be used with"),
        ],
    );
    let folder = inputs();
    for (comparison, expected) in [
        ("t.time = q.time", "begins with a comparison by '>=', '>', '<=' or '<' of both tables"),
        ("t.time >= q.time OR t.id = 1", "begins with a comparison by"),
        ("t.time >= max(q.time)", "aggregates, window functions and subqueries are not possible"),
        ("t.time >= q.nothing", "no column 'q.nothing'"),
        ("t.symbol >= q.symbol", "an as-of join compares numbers, dates and times"),
        ("t.time", "must be true or false"),
    ] {
        let join = ["join", "t=trades.csv", "q=quotes.csv", "--asof", comparison, "--output", "out"];
        let done = Annulus::new(join).at(folder.path()).fails();
        assert!(done.stderr.contains(expected), "{comparison}: {}", done.stderr);
    }
    assert!(!folder.path().join("out").exists());
}
