//! Values that have no other spelling: they are kept, or refused.

mod support;

use std::{fs, path::Path};

use support::Annulus;

#[track_caller]
fn csv(folder: &Path, query: &str) -> String {
    Annulus::new(["sql", "--format", "csv", query]).at(folder).succeeds().stdout
}

#[track_caller]
fn refused(folder: &Path, arguments: &[&str], expected: &str) {
    let done = Annulus::new(arguments).at(folder).fails();
    assert!(done.stderr.contains(expected), "{arguments:?}: {}", done.stderr);
}

#[test]
fn numbers_in_queries_keep_their_digits() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let cast = "SELECT CAST(99999999999999.99 AS DECIMAL(16,2)) a, CAST(36893488147419103233 AS DECIMAL(38,0)) b";
    assert_eq!(csv(at, cast), "a,b\n99999999999999.99,36893488147419103233\n");
    let table = "CREATE TABLE t(x DECIMAL(20,2)); INSERT INTO t VALUES (12345678901234567.89), (-99999999999999.99); \
                 SELECT x FROM t WHERE x IN (12345678901234567.89, -99999999999999.99) ORDER BY x";
    assert!(csv(at, table).ends_with("x\n-99999999999999.99\n12345678901234567.89\n"), "{}", csv(at, table));
}

#[test]
fn decimals_of_more_digits_than_their_type_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let large = "CAST('60000000000000000000000000000000000000' AS DECIMAL(38,0))";
    let sum = format!("SELECT sum(x) AS s FROM (VALUES ({large}), ({large})) t(x)");
    for output in [&["--format", "csv"][..], &["--json"], &["--output", "s.parquet"]] {
        refused(folder.path(), &[&["sql", &sum], output].concat(), "column 's' has a value of more digits");
    }
    assert!(!folder.path().join("s.parquet").exists());
}

#[test]
fn constructs_that_would_be_answered_wrongly_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (query, expected) in [
        ("SELECT 1 EXCEPT ALL SELECT 2", "EXCEPT ALL would not count"),
        ("EXPLAIN SELECT 1 INTERSECT ALL SELECT 2", "INTERSECT ALL would not count"),
        ("CREATE TABLE t (a INT PRIMARY KEY)", "PRIMARY KEY and UNIQUE are not checked"),
        ("SELECT * FROM range(2) a FULL JOIN range(3) b USING (value)", "FULL JOIN with USING"),
        ("COPY (SELECT value FROM range(2) a NATURAL RIGHT JOIN range(3) b) TO 'x.csv'", "RIGHT JOIN with NATURAL"),
    ] {
        refused(folder.path(), &["sql", query], expected);
    }
    assert!(support::names(folder.path()).is_empty());
}

#[test]
fn dates_without_an_end_are_not_written_as_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = "SELECT arrow_cast(2147483647, 'Date32') AS d";
    for output in [&["--format", "ndjson"][..], &["--output", "d.json"]] {
        refused(folder.path(), &[&["sql", rows], output].concat(), "2147483647");
    }
    assert!(support::names(folder.path()).is_empty());
}

#[test]
fn nested_values_of_json_datasets_have_the_types_that_were_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let rows = "SELECT value AS id, arrow_cast(['2024-01-01', NULL], 'List(Utf8)') AS texts, \
                [1.5, 0.0 / 0.0] AS floats, [CAST(value AS DECIMAL(20,2))] AS decimals, \
                named_struct('day', DATE '2024-01-02', 'at', TIMESTAMP '2024-01-02 03:04:05', \
                'name', '1582-10-15') AS s, \
                map(['a b', 'c'], [1, 2]) AS m FROM range(3)";
    Annulus::new(["sql", rows, "--output", "rows.parquet"]).at(at).succeeds();
    let types = |table: &str| {
        let columns = ["texts", "floats", "decimals", "s", "m"].map(|name| format!("arrow_typeof({name})")).join(", ");
        csv(at, &format!("SELECT {columns} FROM '{table}' LIMIT 1")).lines().nth(1).expect("a row").to_owned()
    };
    let values = |table: &str| {
        let query = format!("SELECT id, texts, floats, decimals, s, m['c'] AS c FROM '{table}' ORDER BY id");
        Annulus::new(["sql", "--format", "ndjson", &query]).at(at).succeeds().stdout
    };
    let split = |from: &str, to: &str| {
        let arguments = ["partition", from, "--by", "id", "--into", "2", "--format", "json", "--output", to];
        Annulus::new(arguments).at(at).succeeds();
    };
    split("rows.parquet", "once");
    split("once", "twice");
    for dataset in ["once", "twice"] {
        assert_eq!(values(dataset), values("rows.parquet"), "{dataset}");
        let found = types(dataset);
        for expected in ["List(Utf8)", "List(Float64)", "List(Decimal128(20, 2))", "Date32", "Timestamp(", "Map("] {
            assert!(found.contains(expected), "{dataset}: {found}");
        }
        assert!(!found.contains("List(Date32)"), "{found}");
    }
}

#[test]
fn given_types_round_no_value() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::write(at.join("t.csv"), "id,t\n1,23:59:59.5\n").expect("write");
    refused(at, &["sql", "FROM 't.csv'", "--types", "t=Time32(s)"], "'23:59:59.5' is not a value of type Time32(s)");
    for (name, types) in [("p=2.555", "p=decimal(5,2)"), ("t=2024-01-01 10%3A00%3A00.5", "t=date")] {
        let parent = format!("in {types}");
        fs::create_dir_all(at.join(&parent).join(name)).expect("folders");
        fs::write(at.join(&parent).join(name).join("a.csv"), "id\n1\n").expect("write");
        refused(at, &["sql", &format!("FROM '{parent}/'"), "--types", types], "the folder's value");
    }
    fs::write(at.join("d.csv"), "d,id\n0.00,1\n-0.01,2\n").expect("write");
    let split = ["partition", "d.csv", "--by", "d", "--types", "d=decimal(6,2)", "--into", "2", "--output", "o"];
    refused(at, &[&split[..], &["--ranges", "0.004"]].concat(), "a value of --ranges is not of its type");
    Annulus::new(split.iter().chain(&["--ranges", "-0.01"])).at(at).succeeds();
}

#[test]
fn a_damaged_manifest_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::write(at.join("a.csv"), "id,v\n1,a\n2,b\n").expect("write");
    Annulus::new(["partition", "a.csv", "--by", "id", "--into", "2", "--output", "parts"]).at(at).succeeds();
    let manifest = at.join("parts/.annulus/manifest");
    let text = fs::read(&manifest).expect("a manifest");
    fs::write(&manifest, &text[..text.len() / 2]).expect("write");
    let damaged = "'parts/.annulus/manifest': it is damaged";
    refused(at, &["sql", "SELECT count(*) FROM 'parts'"], damaged);
    refused(at, &["partition", "parts", "--by", "id", "--into", "2", "--output", "again"], damaged);
    fs::remove_file(&manifest).expect("removed");
    assert_eq!(csv(at, "SELECT count(*) AS n FROM 'parts'"), "n\n2\n");
}

#[test]
fn intervals_of_parquet_keep_their_months_or_are_refused() {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, IntervalDayTimeArray, RecordBatch};
    use datafusion::parquet::arrow::{ArrowWriter, arrow_writer::ArrowWriterOptions};

    let folder = tempfile::tempdir().expect("a folder");
    let interval: ArrayRef =
        Arc::new(IntervalDayTimeArray::from_iter_values([arrow::datatypes::IntervalDayTime::new(3, 0)]));
    let batch = RecordBatch::try_from_iter([("iv", interval)]).expect("a batch");
    for (name, without_schema) in [("arrow.parquet", false), ("plain.parquet", true)] {
        let file = fs::File::create(folder.path().join(name)).expect("a file");
        let options = ArrowWriterOptions::new().with_skip_arrow_metadata(without_schema);
        let mut writer = ArrowWriter::try_new_with_options(file, batch.schema(), options).expect("a writer");
        writer.write(&batch).expect("written");
        writer.close().expect("closed");
    }
    assert_eq!(csv(folder.path(), "SELECT count(*) AS n FROM 'arrow.parquet' WHERE iv IS NOT NULL"), "n\n1\n");
    refused(folder.path(), &["sql", "FROM 'plain.parquet'"], "the months of its intervals would be lost");
    let split = ["partition", "plain.parquet", "--by", "iv", "--into", "1", "--output", "o"];
    refused(folder.path(), &split, "column 'iv': the months of its intervals would be lost");
}
