//! Statements of `annulus sql`: queries that begin with FROM, lists of tables, and where errors are.

mod support;

use std::{fs, path::Path};

use support::Annulus;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("x.csv"), "a,b\n1,x\n2,y\n").expect("write");
    folder
}

#[track_caller]
fn csv(folder: &Path, query: &str) -> String {
    Annulus::new(["sql", "--format", "csv", query]).at(folder).succeeds().stdout
}

/// DataFusion 55 forgets the order of a subquery, unless a limit is within it.
#[test]
fn a_limit_takes_the_first_rows_of_a_sorted_subquery() {
    let folder = folder();
    for query in [
        "SELECT a FROM (SELECT a FROM 'x.csv' ORDER BY a DESC) LIMIT 1",
        "WITH s AS (SELECT a FROM 'x.csv' ORDER BY a DESC) SELECT a FROM s LIMIT 1",
        "CREATE VIEW v AS SELECT a FROM 'x.csv' ORDER BY a DESC; SELECT a FROM v LIMIT 1",
    ] {
        assert_eq!(csv(folder.path(), query), "a\n2\n", "{query}");
    }
}

#[test]
fn from_alone_returns_all_columns() {
    let folder = folder();
    let at = folder.path();
    let all = "a,b\n1,x\n2,y\n";
    for query in [
        "FROM 'x.csv'",
        "FROM 'x.csv' ORDER BY a",
        "WITH w AS (FROM 'x.csv') FROM w",
        "SELECT * FROM (FROM 'x.csv') ORDER BY a",
        "CREATE VIEW v AS FROM 'x.csv'; FROM v",
    ] {
        assert_eq!(csv(at, query), all, "{query}");
    }
    assert_eq!(csv(at, "FROM 'x.csv' WHERE a > 1"), "a,b\n2,y\n");
    assert_eq!(csv(at, "FROM 'x.csv' SELECT b WHERE a > 1"), "b\ny\n");
    assert_eq!(csv(at, "SELECT 5 AS c WHERE 2 IN (FROM (SELECT a FROM 'x.csv'))"), "c\n5\n");
    let json = Annulus::new(["sql", "--json", "FROM 'x.csv'"]).at(at).succeeds().stdout;
    assert_eq!(json, "[{\"a\":1,\"b\":\"x\"},{\"a\":2,\"b\":\"y\"}]\n");
    Annulus::new(["sql", "FROM 'x.csv'", "-o", "y.parquet"]).at(at).succeeds();
    Annulus::new(["sql", "COPY (FROM 'x.csv') TO 'z.parquet'"]).at(at).succeeds();
    for file in ["y.parquet", "z.parquet"] {
        assert_eq!(csv(at, &format!("FROM '{file}' ORDER BY a")), all, "{file}");
    }
}

#[test]
fn errors_name_the_file_and_the_line() {
    let folder = folder();
    let at = folder.path();
    for (name, text, expected) in [
        ("syntax", "SELECT 1;\n\nSELECT 2;\nSELEC 3;\n", "error: syntax.sql:4: SQL error: "),
        ("open", "SELECT 1;\n\nSELECT 'open;\n", "error: open.sql:3: SQL error: "),
        ("table", "SELECT 1;\n\n\nSELECT *\nFROM nothing;\n", "error: table.sql:5: "),
        ("column", "SELECT 1;\n\nSELECT 2;\nSELECT no_such FROM range(3);\n", "error: column.sql:4: "),
        ("inner", "SELECT 1;\nSELECT value,\n  no_such\nFROM range(3);\n", "error: inner.sql:3: "),
        ("running", "SELECT 1;\n\nSELECT 1 / (value - 1) FROM range(3);", "error: running.sql:3: "),
        ("types", "-- first\nSELECT now() BETWEEN 1 AND 2;", "error: types.sql:2: "),
        ("missing", "\n\nSELECT * FROM 'missing.csv';", "error: missing.sql:3: "),
    ] {
        let file = format!("{name}.sql");
        fs::write(at.join(&file), text).expect("write");
        let error = Annulus::new(["sql", "-f", &file]).at(at).fails().stderr;
        assert!(error.lines().any(|line| line.starts_with(expected)), "{name}: {error}");
        let line = expected.rsplit("sql:").next().expect("a line").split(':').next().expect("a number");
        let error = Annulus::new(["sql", text]).at(at).fails().stderr;
        assert!(error.contains(&format!("error: line {line}: ")), "{name}: {error}");
    }
    let error = Annulus::new(["sql", "SELEC 1"]).fails().stderr;
    assert!(error.starts_with("error: SQL error: "), "{error}");
}

#[test]
fn show_tables_lists_the_tables_of_the_user() {
    let create = "CREATE TABLE one AS SELECT 1 AS a; CREATE VIEW two AS SELECT 2 AS a;";
    let show = |show: &str| csv(Path::new("."), &format!("{create} {show}")).replace("count\n", "");
    let (one, two) = ("datafusion,public,one,BASE TABLE\n", "datafusion,public,two,VIEW\n");
    let head = "table_catalog,table_schema,table_name,table_type\n";
    assert!(show("SHOW TABLES").ends_with(&format!("{head}{one}{two}")), "{}", show("SHOW TABLES"));
    assert!(show("SHOW TABLES LIKE 'o%'").ends_with(&format!("{head}{one}")));
    assert!(show("SHOW TABLES IN public").ends_with(&format!("{head}{one}{two}")));
    assert!(show("SHOW TABLES FROM information_schema").contains("df_settings"));
}
