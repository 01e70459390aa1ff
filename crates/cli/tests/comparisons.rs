//! Values of two types are compared alike by `annulus sql` and `annulus join`, here and on workers.

#[path = "../../datafusion/tests/comparisons/orders.rs"]
mod orders;
mod support;

use std::{fs, path::Path};

use orders::{columns, expected, is_otherwise, orders, selected, table_of};
use support::Annulus;

fn sql(folder: &Path, query: &str, more: &[&str]) -> Vec<String> {
    let arguments = ["sql", query, "--format", "csv"].into_iter().chain(more.iter().copied());
    let done = Annulus::new(arguments).at(folder).succeeds();
    let mut rows: Vec<_> = done.stdout.lines().skip(1).map(str::to_owned).collect();
    rows.sort_unstable();
    rows
}

/// Writes a table with one row for each of `values`, of the type `data_type`.
fn table(folder: &Path, file: &str, column: &str, data_type: &str, values: &[&str]) {
    let rows = values.iter().map(|value| format!("('{value}')")).collect::<Vec<_>>().join(", ");
    let query = format!("SELECT arrow_cast(v, '{data_type}') AS {column} FROM (VALUES {rows}) AS t (v)");
    Annulus::new(["sql", &query, "--output", file]).at(folder).succeeds();
}

/// Joins `a` and `b` in both commands, on equal values and by a predicate.
fn join(folder: &Path, tables: [&str; 2], on: &str, predicate: &str, more: &[&str]) -> Vec<Vec<String>> {
    let [a, b] = tables;
    let both = |condition: &[&str]| {
        let (left, right) = (format!("a={a}"), format!("b={b}"));
        let join = ["join", &left, &right, "--output", "out", "--overwrite"];
        Annulus::new(join.into_iter().chain(condition.iter().copied()).chain(more.iter().copied()))
            .at(folder)
            .succeeds();
        sql(folder, "SELECT * FROM 'out'", &[])
    };
    let query = format!("SELECT a.*, b.* FROM '{a}' a JOIN '{b}' b ON {predicate}");
    vec![both(&["--on", on]), both(&["--where", predicate]), sql(folder, &query, more)]
}

#[test]
fn decimals_and_doubles_have_one_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    table(at, "d.parquet", "d", "Decimal128(20, 1)", &["0.3", "0.1", "9007199254740993.0"]);
    table(at, "f.parquet", "f", "Float64", &["0.30000000000000004", "0.1", "9007199254740992", "1e30"]);
    let expected = ["0.1,0.1", "9007199254740993.0,9007199254740992.0"];
    for more in [&[][..], &["--cluster", "2"]] {
        for rows in join(at, ["d.parquet", "f.parquet"], "d=f", "a.d = b.f", more) {
            assert_eq!(rows, expected, "{more:?}");
        }
        let query = "SELECT count(*) FROM 'f.parquet' WHERE f > CAST(0.7 AS DECIMAL(20, 1)) AND f IN \
            (SELECT d * 1e0 FROM 'd.parquet' UNION ALL SELECT f FROM 'f.parquet')";
        assert_eq!(sql(at, query, more), ["2"], "{more:?}");
    }
    let view = "CREATE VIEW v AS SELECT d, f FROM 'd.parquet' JOIN 'f.parquet' ON d = f; SELECT * FROM v";
    assert_eq!(sql(at, view, &[]), expected);
}

#[test]
fn differences_of_unsigned_columns_are_whole_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let most = "18446744073709551615";
    table(at, "a.parquet", "x", "UInt64", &["0", "3", most]);
    table(at, "b.parquet", "y", "UInt64", &["2", most]);
    let query = "SELECT a.x, b.y FROM 'a.parquet' a JOIN 'b.parquet' b ON a.x - b.y BETWEEN -3 AND 3";
    for more in [
        &["--set", "annulus.joins=always"][..],
        &["--set", "annulus.joins=auto"],
        &["--set", "annulus.joins=never"],
        &["--cluster", "2"],
    ] {
        assert_eq!(sql(at, query, more), ["0,2".to_owned(), format!("{most},{most}"), "3,2".to_owned()], "{more:?}");
    }
}

/// A file of times with a zone, and two of the same instants as text.
fn times(folder: &Path) {
    let instants: Vec<_> = (0..4).map(|hour| format!("2025-01-01T0{hour}:00:00Z")).collect();
    let instants: Vec<_> = instants.iter().map(String::as_str).collect();
    table(folder, "z.parquet", "at", "Timestamp(us, \"Europe/Zurich\")", &instants);
    table(folder, "n.parquet", "t", "Timestamp(us)", &instants);
    let csv: String = instants.iter().map(|at| format!("{at}\n")).collect();
    fs::write(folder.join("e.csv"), format!("t\n{csv}")).expect("a file");
    let json: String = instants.iter().map(|at| format!("{{\"t\":\"{at}\"}}\n")).collect();
    fs::write(folder.join("e.jsonl"), json).expect("a file");
}

/// Whatever type the column has, the error's advice leads to the right pairs.
#[test]
fn advice_about_times_leads_to_the_same_instants() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    times(at);
    let bounds = "a.at >= b.t AND a.at <= b.t + INTERVAL '1 hour'";
    for file in ["e.csv", "e.jsonl"] {
        let (right, out) = (format!("b={file}"), format!("{file}-out"));
        let join = ["join", "a=z.parquet", &right, "--where", bounds, "--output", &out];
        if let Err(refused) = Annulus::new(join).at(at).tries() {
            let (_, advice) = refused.stderr.split_once("--types ").unwrap_or_else(|| panic!("{}", refused.stderr));
            let types = advice.split([' ', ';', ',']).next().expect("a type").trim_end();
            Annulus::new(join.into_iter().chain(["--types", types])).at(at).succeeds();
        }
        let query = format!("SELECT count(*), sum(CAST(at = t AS INT)) FROM '{out}'");
        assert_eq!(sql(at, &query, &[]), ["7,4"], "{file}");
    }
}

#[test]
fn a_time_without_a_zone_is_refused_until_it_has_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    times(at);
    let query = "SELECT count(*) FROM 'z.parquet' z JOIN 'n.parquet' n ON z.at = n.t";
    let join = ["join", "z=z.parquet", "n=n.parquet", "--on", "at=t", "--output", "out"];
    for refused in [Annulus::new(["sql", query]), Annulus::new(join)] {
        let error = refused.at(at).fails().stderr;
        for part in ["n.t AT TIME ZONE 'UTC'", "`datafusion.execution.time_zone`", "--types t=timestamptz"] {
            assert!(error.contains(part), "{error}");
        }
    }
    let zone = ["--set", "datafusion.execution.time_zone=UTC"];
    // A zone that the session does not name is UTC.
    for more in [&[][..], &zone] {
        for instant in ["TIMESTAMPTZ '2025-01-01 01:00:00+01'", "CAST('2025-01-01T00:00Z' AS TIMESTAMP WITH TIME ZONE)"]
        {
            let first = format!("SELECT count(*) FROM 'z.parquet' WHERE at > {instant}");
            assert_eq!(sql(at, &first, more), ["3"], "{instant} {more:?}");
            let joined = format!("{query} AT TIME ZONE 'UTC' AND z.at > {instant}");
            assert_eq!(sql(at, &joined, more), ["3"], "{instant} {more:?}");
        }
    }
    let shown =
        "CREATE TABLE t (at TIMESTAMPTZ); SELECT arrow_typeof(at) FROM (SELECT at FROM t UNION ALL SELECT NULL)";
    assert_eq!(sql(at, shown, &[]), ["\"Timestamp(ns, \"\"UTC\"\")\""]);
    assert_eq!(sql(at, query, &zone), ["4"]);
    assert_eq!(sql(at, &format!("{query} AT TIME ZONE 'UTC'"), &["--cluster", "2"]), ["4"]);
    Annulus::new(join.into_iter().chain(zone)).at(at).succeeds();
    assert_eq!(sql(at, "SELECT count(*) FROM 'out'", &[]), ["4"]);
}

#[test]
fn distinct_from_binds_more_tightly_than_and() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::write(at.join("t.csv"), "a,b,c,d\n1,1,1,1\n,,2,2\n1,1,1,2\n,1,1,1\n").expect("a file");
    let query = "SELECT count(*) FROM 't.csv' WHERE a IS NOT DISTINCT FROM b AND c = d";
    assert_eq!(sql(at, query, &[]), ["2"]);
    let join = ["join", "l=t.csv", "r=t.csv", "--output", "out", "--where"];
    let condition = "l.a IS NOT DISTINCT FROM r.a AND l.c = r.c AND l.d = r.d";
    Annulus::new(join.into_iter().chain([condition])).at(at).succeeds();
    assert_eq!(sql(at, "SELECT count(*) FROM 'out'", &[]), ["4"]);
}

/// The join's command, for each pair of types that DuckDB has, in turn by keys and by a predicate.
#[test]
fn all_pairs_of_types_in_joins() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let columns = columns();
    Annulus::new(["sql", &table_of(&columns), "--output", "t.arrow"]).at(at).succeeds();
    let (orders, plain) = (orders(), columns.iter().filter(|column| column.is_plain()).collect::<Vec<_>>());
    let mut number = 0;
    for (place, left) in plain.iter().enumerate() {
        for right in plain[place..].iter().filter(|right| !is_otherwise(left, right)) {
            number += 1;
            let condition = match number % 2 {
                0 => ["--on".to_owned(), format!("{}={}", left.name, right.name)],
                _ => ["--where".to_owned(), format!("l.\"{}\" = r.\"{}\"", left.name, right.name)],
            };
            let join = ["join", "l=t.arrow", "r=t.arrow", "--select", "l.i, r.i", "--format", "csv"];
            let join =
                join.into_iter().chain(condition.iter().map(String::as_str)).chain(["--output", "out", "--overwrite"]);
            match (expected(&orders, left, right), Annulus::new(join).at(at).tries()) {
                (Some(expected), Ok(_)) => {
                    assert_eq!(
                        joined(&at.join("out/host-00")),
                        selected(&expected, |order| order == '='),
                        "{condition:?}"
                    );
                }
                (Some(_), Err(refused)) => panic!("{condition:?}: {}", refused.stderr),
                (None, Ok(_)) => panic!("{condition:?} is not refused"),
                (None, Err(_)) => {}
            }
        }
    }
}

/// Returns the rows of CSV files, in order.
fn joined(folder: &Path) -> Vec<String> {
    let Ok(files) = fs::read_dir(folder) else { return vec![] };
    let files = files.map(|file| file.expect("a file").path()).filter(|path| path.is_file());
    let texts: Vec<_> = files.map(|path| fs::read_to_string(path).expect("a text")).collect();
    let mut rows: Vec<_> = texts.iter().flat_map(|text| text.lines().skip(1).map(str::to_owned)).collect();
    rows.sort_unstable();
    rows
}
