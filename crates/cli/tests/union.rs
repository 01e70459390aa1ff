//! Folders whose files have other columns or types, read by every command.

mod support;

use std::{fs, path::Path};

use support::Annulus;
use tempfile::TempDir;

/// Creates the folder `ev` with a file of each query.
fn folder_of(format: &str, queries: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("ev")).expect("a folder");
    for (number, query) in queries.iter().enumerate() {
        let file = format!("ev/{number}.{format}");
        Annulus::new(["sql", query, "--output", &file]).at(folder.path()).succeeds();
    }
    folder
}

/// Returns the rows of a query as CSV, without the header.
fn rows(folder: &Path, query: &str, options: &[&str]) -> Vec<String> {
    let arguments = ["sql", query, "--format", "csv"].into_iter().chain(options.iter().copied());
    let done = Annulus::new(arguments).at(folder).succeeds();
    done.stdout.lines().skip(1).map(str::to_owned).collect()
}

const ONE_MORE: [&str; 2] = ["SELECT value AS a FROM range(3)", "SELECT value * 10 AS b, value AS a FROM range(3, 5)"];

#[test]
fn a_column_of_some_files_is_null_for_the_others() {
    for format in ["parquet", "csv", "json", "arrow"] {
        let folder = folder_of(format, &ONE_MORE);
        let at = folder.path();
        assert_eq!(rows(at, "SELECT a, b FROM 'ev' ORDER BY a", &[]), ["0,", "1,", "2,", "3,30", "4,40"], "{format}");
        let glob = format!("t=ev/*.{format}");
        assert_eq!(rows(at, "SELECT a FROM t WHERE b > 30", &["-t", &glob]), ["4"], "{format}");
        assert_eq!(rows(at, "SELECT a FROM 'ev' WHERE b IS NULL ORDER BY a", &[]), ["0", "1", "2"], "{format}");
        let all = "SELECT count(*), count(b), min(b), max(b), sum(a) FROM";
        assert_eq!(rows(at, &format!("{all} 'ev'"), &[]), ["5,2,30,40,10"], "{format}");
        let partition = ["partition", "ev", "--by", "a", "--into", "2", "--output", "p"];
        let done = Annulus::new(partition).at(at).succeeds();
        assert_eq!(done.stderr.contains("column 'b' is null"), format != "json", "{format}: {}", done.stderr);
        assert_eq!(rows(at, &format!("{all} 'p'"), &[]), ["5,2,30,40,10"], "{format}");
        Annulus::new(["join", "l=ev", "r=ev", "--on", "a", "--output", "j"]).at(at).succeeds();
        assert_eq!(rows(at, "SELECT count(*), count(b), count(b_right) FROM 'j'", &[]), ["5,2,2"], "{format}");
        let workers = ["--cluster", "2", "--set", "annulus.joins=always"];
        let joined = "SELECT l.a, r.b FROM 'ev' l JOIN 'ev' r ON l.a = r.a WHERE r.b IS NULL OR r.b > 30 ORDER BY l.a";
        assert_eq!(rows(at, joined, &workers), ["0,", "1,", "2,", "4,40"], "{format}");
    }
}

#[test]
fn types_of_parquet_files_are_widened() {
    let cases: [(&[&str], &str, &[&str]); 5] = [
        (
            &["SELECT arrow_cast(value, 'Int32') AS v FROM range(1, 3)", "SELECT 1099511627776 AS v"],
            "v > 1099511627775",
            &["1099511627776"],
        ),
        (
            &["SELECT arrow_cast(1000, 'Timestamp(ms)') AS v", "SELECT arrow_cast(3000001, 'Timestamp(µs)') AS v"],
            "v >= TIMESTAMP '1970-01-01T00:00:01'",
            &["1970-01-01T00:00:01", "1970-01-01T00:00:03.000001"],
        ),
        (&["SELECT arrow_cast('a', 'Dictionary(Int32, Utf8)') AS v", "SELECT 'c' AS v"], "v < 'b'", &["a"]),
        (&["SELECT arrow_cast(1.5, 'Float32') AS v", "SELECT 0.1 AS v"], "v > 0.2", &["1.5"]),
        (
            &["SELECT arrow_cast(1.25, 'Decimal128(5, 2)') AS v", "SELECT arrow_cast(7, 'Decimal128(20, 4)') AS v"],
            "v > 1",
            &["1.2500", "7.0000"],
        ),
    ];
    for (files, filter, expected) in cases {
        let folder = folder_of("parquet", files);
        let filtered = format!("SELECT v FROM 'ev' WHERE {filter} ORDER BY v");
        assert_eq!(rows(folder.path(), &filtered, &[]), expected, "{files:?}");
        let pushed = ["--set", "datafusion.execution.parquet.pushdown_filters=true"];
        assert_eq!(rows(folder.path(), &filtered, &pushed), expected, "{files:?}");
        let extremes = rows(folder.path(), "SELECT min(v), max(v) FROM 'ev'", &[]);
        let sorted = rows(folder.path(), "SELECT v FROM 'ev' ORDER BY v", &[]);
        assert_eq!(extremes, [format!("{},{}", sorted[0], sorted[sorted.len() - 1])], "{files:?}");
    }
}

#[test]
fn what_cannot_be_united_is_refused() {
    let folder = folder_of("parquet", &["SELECT 1 AS v", "SELECT 'x' AS v"]);
    for arguments in [
        &["sql", "SELECT * FROM 'ev'"][..],
        &["partition", "ev", "--by", "v", "--into", "2", "--output", "p"],
        &["join", "l=ev", "r=ev", "--on", "v", "--output", "j"],
    ] {
        let done = Annulus::new(arguments.iter().copied()).at(folder.path()).fails();
        for part in ["0.parquet", "1.parquet", "'v'", "--read union_by_name"] {
            assert!(done.stderr.contains(part), "{}", done.stderr);
        }
    }
}
