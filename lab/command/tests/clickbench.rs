//! `annulus-lab clickbench` as a process, on small tables.

mod queries;
mod support;

use std::{
    collections::HashMap,
    fs::{self, File},
    path::Path,
    sync::Arc,
};

use annulus_hits::Hits;
use arrow::{
    array::{ArrayRef, RecordBatch},
    compute::cast,
    datatypes::{DataType, TimeUnit},
};
use datafusion::parquet::arrow::ArrowWriter;
use serde_json::Value;
use support::{Annulus, expect_refused, names};

/// Runs the command in `folder` with a generated table of a few rows.
fn generated(folder: &Path, rows: &str, more: &[&str]) -> Annulus {
    let texts = queries::clickbench();
    let fixed = ["clickbench", "--queries-from", &texts, "--rows", rows, "--iterations", "1", "--cache", "cache"];
    Annulus::new(fixed.iter().chain(more)).at(folder)
}

/// Returns the number of rows of each query's answer; all answers must be equal.
fn rows(lines: &str) -> HashMap<u64, u64> {
    let reports = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    let row = |report: Value| {
        assert_eq!(report["equal"], true, "{report}");
        assert!(report["stock_ms"].as_f64() > Some(0.0) && report["ratio"].as_f64() > Some(0.0), "{report}");
        (report["query"].as_u64().expect("a number"), report["rows"].as_u64().expect("a number"))
    };
    reports.map(row).collect()
}

#[test]
fn all_answers_are_equal_on_few_and_many_partitions() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut found = Vec::new();
    for partitions in ["2", "16"] {
        let done = generated(folder.path(), "1k", &["--json", "--target-partitions", partitions]).succeeds();
        let rows = rows(&done.stdout);
        assert_eq!(rows.len(), 43);
        // Numbers of rows that a limit fixes, or that there is one group.
        for (query, expected) in [(1, 1), (2, 1), (7, 1), (9, 10), (18, 10), (24, 10), (30, 1), (33, 10), (42, 0)] {
            assert_eq!(rows[&query], expected, "query {query}");
        }
        found.push(rows);
    }
    assert_eq!(found[0], found[1]);
    assert_eq!(names(&folder.path().join("cache")), ["v1-rows1000-seed1"]);
}

/// The queries that look for what few rows have.
#[test]
fn rare_rows_are_found_in_a_table_of_100_000() {
    let folder = tempfile::tempdir().expect("a folder");
    let queries = ["--queries", "8,20,22-23,39-41,43", "--target-partitions", "2", "--json"];
    let found = rows(&generated(folder.path(), "100k", &queries).succeeds().stdout);
    for query in [22, 23, 39, 40, 41, 43] {
        assert_eq!(found[&query], 10, "query {query}");
    }
    assert!(found[&8] > 5 && found[&20] > 2, "{found:?}");
}

#[test]
fn strategies_have_a_column_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let more = ["--queries", "5,9", "--strategies", "ring+cluster,auto", "--html", "page.html", "--seed", "7"];
    let done = generated(folder.path(), "1k", &more).succeeds();
    assert!(done.stdout.contains(" stock ms ") && done.stdout.contains(" ring+cluster ms "), "{}", done.stdout);
    assert!(done.stdout.contains("sum ┆") && done.stdout.contains("; best: "), "{}", done.stdout);
    let page = fs::read_to_string(folder.path().join("page.html")).expect("the page");
    assert_eq!(page.matches("fill=\"#C8742C\" stroke=").count(), 1 + 2, "a legend and one bar for each query");
    assert!(page.contains("ClickBench: stock, ring+cluster, auto"), "{page}");
    assert_eq!(names(&folder.path().join("cache")), ["v1-rows1000-seed7"]);
}

/// Writes rows of the generated table to a file, after `change`.
fn write(path: &Path, rows: std::ops::Range<u64>, change: impl Fn(&str, &ArrayRef) -> Option<ArrayRef>) {
    let batch = Hits::new(2_000, 1).batch(rows).expect("a batch");
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let columns = columns.filter_map(|(field, column)| Some((field.name(), change(field.name(), column)?)));
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let mut writer = ArrowWriter::try_new(File::create(path).expect("a file"), batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
}

fn as_type(column: &ArrayRef, data_type: &DataType) -> Option<ArrayRef> {
    Some(cast(column, data_type).expect("a cast"))
}

/// As in ClickBench's hundred files: text without a type.
fn binary(_: &str, column: &ArrayRef) -> Option<ArrayRef> {
    match column.data_type() {
        DataType::Utf8 => as_type(column, &DataType::Binary),
        _ => Some(Arc::clone(column)),
    }
}

/// As other tools convert the table.
fn with_times(name: &str, column: &ArrayRef) -> Option<ArrayRef> {
    match name {
        "EventDate" => as_type(&as_type(column, &DataType::Int32)?, &DataType::Date32),
        "EventTime" | "ClientEventTime" | "LocalEventTime" => {
            as_type(column, &DataType::Timestamp(TimeUnit::Second, None))
        }
        _ => Some(Arc::clone(column)),
    }
}

#[test]
fn given_files_of_the_original_types_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::create_dir(at.join("parts")).expect("a folder");
    write(&at.join("parts/hits_0.parquet"), 0..1_500, binary);
    write(&at.join("parts/hits_1.parquet"), 1_500..2_000, binary);
    write(&at.join("hits"), 0..2_000, with_times);
    let texts = queries::clickbench();
    let queries = ["--queries", "7,13,19,24,40", "--json", "--target-partitions", "2"];
    let expected = rows(&generated(at, "2k", &queries).succeeds().stdout);
    for data in ["parts", "parts/", "hits"] {
        let given = ["clickbench", "--queries-from", &texts, "--iterations", "1", "--data", data];
        let done = Annulus::new(given.iter().chain(&queries)).at(at).succeeds();
        assert_eq!(rows(&done.stdout), expected, "{data}");
    }
}

#[test]
fn files_that_are_not_the_table_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::create_dir(at.join("empty")).expect("a folder");
    fs::write(at.join("text.parquet"), "no Parquet").expect("write");
    write(&at.join("narrow.parquet"), 0..10, |name, column| (name != "URL").then(|| Arc::clone(column)));
    write(&at.join("odd.parquet"), 0..10, |name, column| match name {
        "AdvEngineID" => as_type(column, &DataType::Float64),
        _ => Some(Arc::clone(column)),
    });
    let texts = queries::clickbench();
    for (data, expected) in [
        ("none.parquet", "no file or folder 'none.parquet': expected ClickBench's hits.parquet"),
        ("empty", "no .parquet file in 'empty': expected"),
        ("text.parquet", "cannot read the table 'text.parquet'"),
        ("narrow.parquet", "the table 'narrow.parquet' has no column 'URL': expected"),
        ("odd.parquet", "column 'AdvEngineID' of the table 'odd.parquet' is Float64: expected an integer"),
    ] {
        let done = Annulus::new(["clickbench", "--queries-from", &texts, "--data", data]).at(at).fails();
        assert!(done.stderr.contains(expected), "{data}: {}", done.stderr);
    }
}

#[test]
fn wrong_options_name_the_value() {
    let texts = queries::clickbench();
    let cases: [(&[&str], &str); 7] = [
        (&[], "--queries-from <FILE>"),
        (&["--queries", "44"], "invalid query '44': expected numbers from 1 to 43"),
        (&["--rows", "0"], "number '0' is out of range"),
        (&["--rows", "1k", "--data", "x"], "cannot be used with '--data"),
        (&["--strategies", "rign"], "invalid strategy 'rign': expected one of"),
        (&["--strategies", "stock"], "nothing to compare in 'stock'"),
        (&["--queries-from", &texts, "--cache", "file/cache", "--rows", "10"], "name another folder with --cache"),
    ];
    expect_refused("clickbench", &cases);
}

#[cfg(unix)]
#[test]
fn interrupted_generation_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    // A table of this size would take hours.
    let texts = queries::clickbench();
    let arguments = ["clickbench", "--queries-from", &texts, "--rows", "4G", "--cache", ".", "--html", "page.html"];
    let mut running = Annulus::new(arguments).at(folder.path()).start();
    running.wait_until(|| names(folder.path()).iter().any(|name| name.starts_with(".making-")));
    running.signal("INT");
    assert_eq!(running.exit_code(), Some(130));
    assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
}

#[test]
fn a_file_without_the_queries_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("few.sql"), "-- none\nSELECT 1\n").expect("write");
    for (file, expected) in [
        ("none.sql", "cannot read 'none.sql'"),
        ("few.sql", "'few.sql' has 1 queries: expected the 43 of ClickBench, one a line"),
    ] {
        let given = ["clickbench", "--queries-from", file, "--rows", "1k", "--cache", "cache"];
        let done = Annulus::new(given).at(folder.path()).fails();
        assert!(done.stderr.contains(expected), "{file}: {}", done.stderr);
    }
}
