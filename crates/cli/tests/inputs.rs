//! All commands read the same columns, types and rows from the same inputs.

mod support;

use std::{fs, path::Path};

use support::{Annulus, names};

/// Creates a folder with `files`, whose names may contain folders.
fn folder_of(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("write");
    }
    folder
}

/// Returns the rows that a query prints, sorted, after their header.
fn printed(folder: &Path, table: &str, options: &[&str]) -> Vec<String> {
    let query = "SELECT * FROM t";
    let table = format!("t={table}");
    let arguments = ["sql", "-t", &table, query, "--format", "csv"].into_iter().chain(options.iter().copied());
    lines(&Annulus::new(arguments).at(folder).succeeds().stdout)
}

fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[1..].sort();
    lines
}

/// Returns the columns of a table and their types.
fn columns(folder: &Path, from: &str, options: &[&str]) -> Vec<String> {
    let query = format!("DESCRIBE SELECT * FROM {from}");
    let arguments = ["sql", &query, "--format", "csv"].into_iter().chain(options.iter().copied());
    let described = Annulus::new(arguments).at(folder).succeeds().stdout;
    // Views and other strings are the same SQL type.
    described.lines().map(|line| line.replace("Utf8View", "Utf8")).collect()
}

/// Checks that `input` has these columns and rows in sql, also when named by its path. Also checks
/// that partition and join write the same columns and rows.
fn check(folder: &Path, input: &str, key: &str, options: &[&str], header: &str, rows: &[&str]) {
    let expected: Vec<String> = [header].iter().chain(rows).map(|line| (*line).to_owned()).collect();
    assert_eq!(printed(folder, input, options), expected, "sql: {input}");
    let from = format!("'{input}'");
    let types = columns(folder, &from, options);
    let output = tempfile::tempdir().expect("a folder");
    let dir = |name: &str| output.path().join(name).display().to_string();
    let (parts, joined) = (dir("parts"), dir("joined"));
    let partition = ["partition", input, "--by", key, "--into", "3", "--output", &parts, "--format", "arrow"];
    Annulus::new(partition.into_iter().chain(options.iter().copied())).at(folder).succeeds();
    let no_partner = ["--type", "anti", "--where", "false", "--output", &joined, "--format", "arrow"];
    let left = format!("l={input}");
    let join = ["join", &left, input].into_iter().chain(no_partner).chain(options.iter().copied());
    Annulus::new(join).at(folder).succeeds();
    for written in [&parts, &joined] {
        assert_eq!(printed(folder, written, &[]), expected, "{written} of {input}");
        assert_eq!(columns(folder, &format!("'{written}'"), &[]), types, "{written} of {input}");
    }
}

#[test]
fn folders_name_columns_everywhere() {
    let files = [
        ("t/year=2013/month=1/a.csv", "x\n1\n2\n"),
        ("t/year=2014/month=__HIVE_DEFAULT_PARTITION__/_notes/no.csv", "y\n7\n"),
        ("t/year=2014/month=__HIVE_DEFAULT_PARTITION__/b.csv", "x\n3\n"),
    ];
    let folder = folder_of(&files);
    let rows = ["1,2013,1", "2,2013,1", "3,2014,"];
    for input in ["t", "t/**/*.csv", "t/year=*/*/*.csv"] {
        check(folder.path(), input, "x", &[], "x,year,month", &rows);
    }
    check(folder.path(), "t", "year", &["--types", "month=text"], "x,year,month", &rows);
    // DataFusion reads Parquet itself.
    let partition = ["partition", "t/year=2013", "--by", "x", "--into", "1", "--output", "p/year=2013"];
    Annulus::new(partition).at(folder.path()).succeeds();
    let partition =
        ["partition", "t/year=2014", "--by", "x", "--into", "1", "--output", "p/year=__HIVE_DEFAULT_PARTITION__"];
    Annulus::new(partition.into_iter().chain(["--types", "month=int"])).at(folder.path()).succeeds();
    check(folder.path(), "p", "x", &[], "x,month,year", &["1,1,2013", "2,1,2013", "3,,"]);
    let query = "SELECT sum(x) AS s, count(*) AS n, sum(month) AS m FROM 'p' WHERE year IS NULL";
    let done = Annulus::new(["sql", query, "--format", "csv"]).at(folder.path()).succeeds();
    assert_eq!(done.stdout, "s,n,m\n3,1,\n");
    let query = "EXPLAIN SELECT x FROM 'p' WHERE year = 2013 AND x > 1";
    let plan = Annulus::new(["sql", query]).at(folder.path()).succeeds().stdout;
    assert!(plan.contains("pruning_predicate"), "{plan}");
}

#[test]
fn texts_and_times_are_the_same_everywhere() {
    let text = "zip,t,v\n00123,2013-01-01 05:00:00,1.5\n99999,2013-01-02T05:00:00,2\n";
    let folder = folder_of(&[("t.csv", text), ("semicolons.csv", "a;b\n1;x\n"), ("t.tbl", "a|b|\n1|x|\n")]);
    let rows = ["00123,2013-01-01T05:00:00,1.5", "99999,2013-01-02T05:00:00,2.0"];
    check(folder.path(), "t.csv", "zip", &[], "zip,t,v", &rows);
    let rows = ["123,2013-01-01 05:00:00,1.50", "99999,2013-01-02T05:00:00,2.00"];
    check(
        folder.path(),
        "t.csv",
        "zip",
        &["--types", "zip=int,v=decimal(9,2)", "--read", "all_text"],
        "zip,t,v",
        &rows,
    );
    check(folder.path(), "semicolons.csv", "a", &[], "a,b", &["1,x"]);
    check(folder.path(), "t.tbl", "a", &[], "a,b", &["1,x"]);
}

#[test]
fn every_format_is_read_everywhere() {
    let folder = folder_of(&[("array.json", "[{\"a\": 1, \"b\": \"x\"},\n{\"a\": 2, \"b\": null}]")]);
    let rows = ["1,x", "2,"];
    check(folder.path(), "array.json", "a", &[], "a,b", &rows);
    for format in ["parquet", "arrow", "pages"] {
        let partition = ["partition", "array.json", "--by", "a", "--into", "2", "--output", format, "--format", format];
        Annulus::new(partition).at(folder.path()).succeeds();
        check(folder.path(), format, "a", &[], "a,b", &rows);
    }
    for (name, stored) in [("t.csv.gz", "CSV"), ("t.json.zst", "JSON")] {
        let compression = if name.ends_with("gz") { "gzip" } else { "zstd" };
        let query = format!(
            "COPY (SELECT * FROM 'array.json') TO '{name}' STORED AS {stored} OPTIONS ('format.compression' \
                '{compression}')"
        );
        Annulus::new(["sql", &query]).at(folder.path()).succeeds();
        check(folder.path(), name, "a", &[], "a,b", &rows);
    }
    let options = ["--input-format", "csv", "--delimiter", ";", "--header=false", "--null", "-"];
    fs::write(folder.path().join("t.dat"), "1;x\n2;-\n").expect("write");
    check(folder.path(), "t.dat", "column_1", &options, "column_1,column_2", &rows);
}

#[test]
fn seconds_stay_timestamps_in_parquet() {
    let folder = tempfile::tempdir().expect("a folder");
    let query = "SELECT arrow_cast('2013-01-01T05:00:00', 'Timestamp(Second, None)') AS t";
    let copy = format!("COPY ({query}) TO 'copied.parquet'");
    Annulus::new(["sql", &copy]).at(folder.path()).succeeds();
    for file in ["written.parquet", "t.arrow"] {
        Annulus::new(["sql", query, "--output", file]).at(folder.path()).succeeds();
    }
    let partition = ["partition", "t.arrow", "--by", "t", "--into", "1", "--output", "parts"];
    Annulus::new(partition).at(folder.path()).succeeds();
    let join = ["join", "a=t.arrow", "b=t.arrow", "--on", "t", "--select", "a.t", "--output", "joined"];
    Annulus::new(join).at(folder.path()).succeeds();
    for from in ["'copied.parquet'", "'written.parquet'", "'parts'", "'joined'"] {
        let described = columns(folder.path(), from, &[]).concat();
        assert!(
            described.contains("Timestamp(ms)") || described.contains("Timestamp(Millisecond"),
            "{from}: {described}"
        );
    }
}

#[test]
fn a_dataset_is_as_its_manifest_says_everywhere() {
    let folder = folder_of(&[("t.csv", "a,b\n1,x\n2,y\n3,z\n4,x\n")]);
    let partition = ["partition", "t.csv", "--by", "a", "--into", "2", "--output", "parts"];
    Annulus::new(partition).at(folder.path()).succeeds();
    let parts = folder.path().join("parts");
    let read = || -> Vec<support::Done> {
        let sql = Annulus::new(["sql", "SELECT count(*) FROM 'parts'"]).at(folder.path()).fails();
        let partition = ["partition", "parts", "--by", "a", "--into", "2", "--output", "again"];
        let join = ["join", "parts", "t.csv", "--on", "a", "--output", "again"];
        vec![sql, Annulus::new(partition).at(folder.path()).fails(), Annulus::new(join).at(folder.path()).fails()]
    };
    let verify = || Annulus::new(["verify", "parts"]).at(folder.path());
    let told = verify().succeeds().stdout;
    assert!(told.contains("2 files") && told.contains("all match the manifest"), "{told}");

    fs::copy(parts.join("part-00000.parquet"), parts.join("more.parquet")).expect("copy");
    for done in read().iter().chain([&verify().fails()]) {
        let told = format!("{}{}", done.stdout, done.stderr);
        assert!(told.contains("more.parquet") && told.contains("not in"), "{told}");
    }
    fs::remove_file(parts.join("more.parquet")).expect("remove");

    let path = parts.join("part-00001.parquet");
    let mut bytes = fs::read(&path).expect("read");
    bytes[10] ^= 1;
    fs::write(&path, &bytes).expect("write");
    let done = Annulus::new(["verify", "parts", "--json"]).at(folder.path()).fails();
    assert!(done.stdout.contains("part-00001.parquet") && done.stdout.contains("checksum"), "{}", done.stdout);
    assert!(!done.stdout.contains("part-00000.parquet"), "{}", done.stdout);

    bytes.push(0);
    fs::write(&path, &bytes).expect("write");
    assert!(read().iter().all(|done| done.stderr.contains("part-00001.parquet") && done.stderr.contains("bytes")));
    fs::remove_file(&path).expect("remove");
    assert!(read().iter().all(|done| done.stderr.contains("part-00001.parquet")));
    assert!(verify().fails().stdout.contains("part-00001.parquet' is missing"));
    assert!(!names(folder.path()).contains(&"again".to_owned()));
    assert!(Annulus::new(["verify", "."]).at(folder.path()).fails().stderr.contains(".annulus/manifest"));
}
