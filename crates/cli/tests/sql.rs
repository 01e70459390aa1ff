//! `annulus sql` as a process, on very small files.

mod support;

use std::fs;

use support::{Annulus, has_file, names};

/// Creates a folder with the same two rows in every format, written by the command itself.
fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = "SELECT * FROM (VALUES (1, 'one'), (2, 'two')) AS t (id, name)";
    for file in ["t.csv", "t.tsv", "t.json", "t.parquet", "t.arrow"] {
        Annulus::new(["sql", rows, "--output", file]).at(folder.path()).succeeds();
    }
    folder
}

#[test]
fn reads_every_format() {
    let folder = data();
    for file in ["t.csv", "t.tsv", "t.json", "t.parquet", "t.arrow"] {
        let query = "SELECT id, name FROM data ORDER BY id";
        let table = format!("data={file}");
        let done = Annulus::new(["sql", "-t", &table, query, "--format", "csv"]).at(folder.path()).succeeds();
        assert_eq!(done.stdout, "id,name\n1,one\n2,two\n", "{file}");
    }
}

#[test]
fn reads_a_json_array_and_compressed_text() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("array.json"), " \n[{\"id\": 1}, {\"id\": 2}]").expect("write");
    let query = "SELECT sum(id) AS total FROM t";
    let done = Annulus::new(["sql", "-t", "t=array.json", query, "--format", "csv"]).at(folder.path()).succeeds();
    assert_eq!(done.stdout, "total\n3\n");
}

#[test]
fn reads_a_folder_of_one_format() {
    let folder = data();
    let parts = folder.path().join("parts");
    fs::create_dir(&parts).expect("a folder");
    for part in ["a.parquet", "b.parquet"] {
        fs::copy(folder.path().join("t.parquet"), parts.join(part)).expect("copy");
    }
    fs::write(parts.join("_SUCCESS"), "").expect("write");
    let done = Annulus::new(["sql", "-t", "t=parts", "SELECT count(*) AS n FROM t", "--format", "ndjson"])
        .at(folder.path())
        .succeeds();
    assert_eq!(done.stdout, "{\"n\":4}\n");
}

#[test]
fn reads_files_named_in_the_query() {
    let folder = data();
    let done = Annulus::new(["sql", "SELECT max(name) AS m FROM 't.parquet'", "--format", "tsv"]);
    assert_eq!(done.at(folder.path()).succeeds().stdout, "m\ntwo\n");
    let done = Annulus::new(["sql", "SELECT count(*) AS n FROM 't.tsv'", "--format", "tsv"]);
    assert_eq!(done.at(folder.path()).succeeds().stdout, "n\n2\n");
}

#[test]
fn reads_a_dataset_by_its_path() {
    let folder = data();
    fs::write(folder.path().join("bad.csv"), "id,name\n1,one\ntwo\n2,two\n").expect("write");
    let partition = ["partition", "bad.csv", "--by", "id", "--into", "2", "--output", "parts"];
    Annulus::new(partition.into_iter().chain(["--on-bad-row", "quarantine"])).at(folder.path()).succeeds();
    let parts = folder.path().join("parts");
    assert!(parts.join(".annulus/manifest").exists() && parts.join("quarantine.jsonl").exists());
    let count = || Annulus::new(["sql", "SELECT count(*) AS n FROM 'parts'", "--format", "tsv"]).at(folder.path());
    assert_eq!(count().succeeds().stdout, "n\n2\n");
    // The state after a run that was killed.
    fs::remove_file(parts.join(".annulus/manifest")).expect("remove");
    fs::write(parts.join(".annulus/journal.jsonl"), "").expect("write");
    let error = count().fails().stderr;
    assert!(error.contains("parts") && error.contains("--resume"), "{error}");
    let error = Annulus::new(["verify", "parts"]).at(folder.path()).fails().stderr;
    assert!(error.contains("'parts' has not finished") && error.contains("--resume"), "{error}");
}

#[test]
fn folders_can_name_columns() {
    let folder = data();
    for year in ["2025", "2026"] {
        let part = folder.path().join(format!("parts/year={year}"));
        fs::create_dir_all(&part).expect("a folder");
        fs::copy(folder.path().join("t.csv"), part.join("t.csv")).expect("copy");
    }
    let query = |from: &str| format!("SELECT name, year + 1 AS next FROM {from} WHERE year = 2026 ORDER BY name");
    let (by_path, by_name) = (query("'parts'"), query("t"));
    for arguments in [&["sql", &by_path, "--format", "tsv"][..], &["sql", "-t", "t=parts", &by_name, "--format", "tsv"]]
    {
        let done = Annulus::new(arguments.iter().copied()).at(folder.path()).succeeds();
        assert_eq!(done.stdout, "name\tnext\none\t2027\ntwo\t2027\n");
    }
}

#[test]
fn prints_every_format() {
    let print = |format: &str| Annulus::new(["sql", "SELECT 1 AS a, 'x' AS b", "--format", format]).succeeds().stdout;
    assert_eq!(print("csv"), "a,b\n1,x\n");
    assert_eq!(print("tsv"), "a\tb\n1\tx\n");
    assert_eq!(print("json"), "[{\"a\":1,\"b\":\"x\"}]\n");
    assert_eq!(print("ndjson"), "{\"a\":1,\"b\":\"x\"}\n");
    assert_eq!(print("table"), "+---+---+\n| a | b |\n+---+---+\n| 1 | x |\n+---+---+\n");
}

#[test]
fn a_query_may_begin_with_a_comment() {
    let done = Annulus::new(["sql", "-- one\nSELECT 1 AS a", "--format", "csv"]).succeeds();
    assert_eq!(done.stdout, "a\n1\n");
}

#[test]
fn no_rows_keep_their_header() {
    let print = |format: &str| Annulus::new(["sql", "SELECT 1 AS a WHERE false", "--format", format]).succeeds().stdout;
    assert_eq!(print("csv"), "a\n");
    assert_eq!(print("json"), "[]\n");
    assert_eq!(print("ndjson"), "");
}

/// Several threads would read from several places of the file, and the fastest one would fill the
/// limit.
#[test]
fn a_bare_limit_gives_the_first_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines: String = (0..2_000_000).map(|n| format!("{n}\n")).collect();
    fs::write(folder.path().join("n.csv"), format!("n\n{lines}")).expect("write");
    let query = ["sql", "SELECT n FROM 'n.csv' LIMIT 2", "--format", "csv", "--threads", "4"];
    for _ in 0..5 {
        assert_eq!(Annulus::new(query).at(folder.path()).succeeds().stdout, "n\n0\n1\n");
    }
}

#[test]
fn rows_that_are_not_printed_are_told() {
    let query = ["sql", "SELECT value AS n FROM generate_series(1, 3000)", "--maxrows", "2"];
    let done = Annulus::new(query).succeeds();
    assert_eq!(done.stdout, "+---+\n| n |\n+---+\n| 1 |\n| 2 |\n+---+\n");
    assert!(done.stderr.contains("first 2 of 3,000 rows") && done.stderr.contains("--maxrows inf"), "{}", done.stderr);
}

#[test]
fn runs_a_file_of_statements() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "-- numbers; squared\nCREATE TABLE t AS SELECT value AS n FROM generate_series(1, 4);\n\
                  SELECT sum(n * n) AS total, 'a;b' AS text FROM t;";
    fs::write(folder.path().join("s.sql"), script).expect("write");
    let done = Annulus::new(["sql", "--file", "s.sql", "--format", "csv"]).at(folder.path()).succeeds();
    assert_eq!(done.stdout, "total,text\n30,a;b\n");
    assert_eq!(Annulus::new(["sql", "--format", "csv"]).input("SELECT 5 AS a; SELECT 6 AS b").stdout, "a\n5\nb\n6\n");
}

#[test]
fn options_reach_the_session() {
    let show = "SELECT value FROM information_schema.df_settings WHERE name LIKE '%batch_size' OR \
                name LIKE 'datafusion.execution.target_partitions' ORDER BY name";
    let options = ["--set", "datafusion.execution.batch_size=777", "--threads", "5"];
    let done = Annulus::new(["sql", show, "--format", "csv"].into_iter().chain(options)).succeeds();
    assert!(done.stdout.contains("777") && done.stdout.contains("\n5\n"), "{}", done.stdout);
}

#[test]
fn writes_the_result_of_the_last_statement() {
    let folder = tempfile::tempdir().expect("a folder");
    let statements = "CREATE TABLE t AS VALUES (1), (2), (3); SELECT column1 AS a FROM t WHERE column1 > 1 ORDER BY a";
    let done = Annulus::new(["sql", statements, "--output", "out.csv"]).at(folder.path()).succeeds();
    assert!(done.stderr.contains("2 rows in out.csv"), "{}", done.stderr);
    assert_eq!(fs::read_to_string(folder.path().join("out.csv")).expect("the file"), "a\n2\n3\n");
    assert_eq!(names(folder.path()), ["out.csv"]);
    Annulus::new(["sql", "SELECT 4 AS a", "--output", "out.csv", "--overwrite"]).at(folder.path()).succeeds();
    assert_eq!(fs::read_to_string(folder.path().join("out.csv")).expect("the file"), "a\n4\n");
}

#[test]
fn a_failed_query_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("out.parquet"), "kept").expect("write");
    // The division fails in the middle of the rows, long after the file was begun.
    let query = "SELECT 1 / (value - 100000) FROM generate_series(1, 200000)";
    let output = ["sql", query, "--output", "out.parquet"];
    let done = Annulus::new(output).at(folder.path()).fails();
    assert!(done.stderr.contains("'out.parquet' exists") && done.stderr.contains("--overwrite"), "{}", done.stderr);
    let done = Annulus::new(output.into_iter().chain(["--overwrite"])).at(folder.path()).fails();
    assert!(done.stderr.contains("Divide by zero"), "{}", done.stderr);
    assert_eq!(names(folder.path()), ["out.parquet"]);
    assert_eq!(fs::read_to_string(folder.path().join("out.parquet")).expect("the old file"), "kept");
}

#[test]
fn errors_name_the_thing_and_the_remedy() {
    let folder = data();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("empty")).expect("a folder");
    fs::create_dir(at("mixed")).expect("a folder");
    fs::copy(at("t.csv"), at("mixed/t.csv")).expect("copy");
    fs::write(at("mixed/other.csv"), "else\n1\n").expect("write");
    fs::write(at("zero.parquet"), "").expect("write");
    fs::write(at("t.xyz"), "1").expect("write");
    fs::write(at("broken.parquet"), "no parquet").expect("write");
    let cases: [(&[&str], &[&str]); 33] = [
        (&["--ouput", "out.csv", "SELECT 1"], &["'--ouput'", "'--output'"]),
        (&["SELECT 1", "--ouput=out.csv"], &["--ouput"]),
        (&["-t", "t=none.csv", "SELECT 1"], &["table 't'", "'none.csv'", "check the path"]),
        (&["-t", "t=t.xyz", "SELECT 1"], &["'t.xyz'", "--input-format"]),
        (&["-t", "t=empty", "SELECT 1"], &["'empty'", "no file of a known format"]),
        (
            &["-t", "t=mixed", "SELECT 1", "--read", "union_by_name=false"],
            &["mixed/t.csv", "mixed/other.csv", "without --read union_by_name"],
        ),
        (&["-t", "t=zero.parquet", "SELECT 1"], &["zero.parquet"]),
        (&["-t", "t=t.csv", "--types", "id=number", "SELECT 1"], &["'number'", "--types"]),
        (&["SELECT * FROM 't.csv'", "--types", "nam=text"], &["--types", "'nam'", "no table has"]),
        (&["-t", "t=t.csv", "--types", "id=text,nam=text", "SELECT 1"], &["--types", "'nam'", "no table has"]),
        (&["-t", "t=broken.parquet", "SELECT 1"], &["broken.parquet"]),
        (&["-t", "t", "SELECT 1"], &["invalid table 't'", "expected NAME=PATH"]),
        (&["-t", "t=http://127.0.0.1:1/t.csv", "SELECT 1"], &["table 't'", "http://127.0.0.1:1/t.csv"]),
        (&["-t", "t=t.csv", "SELECT nam FROM t"], &["nam", "name"]),
        (&["SELECT * FROM 'missing.csv'"], &["'missing.csv'", "check the path"]),
        (&["SELECT * FROM 'missing'"], &["missing", "check the name or the path"]),
        (&["SELECT * FROM 'zero.parquet'"], &["zero.parquet"]),
        (
            &["SELECT * FROM 'mixed'", "--read", "union_by_name=false"],
            &["mixed/t.csv", "mixed/other.csv", "same columns"],
        ),
        (&["SELECT * FROM 'empty'"], &["empty", "check the path"]),
        (&["SELEKT 1"], &["SELEKT"]),
        (&["SELECT * FROM t.csv"], &["table 't.csv' not found: put the path in single quotes"]),
        (&["SELECT * FROM ./t.csv"], &["put paths in single quotes"]),
        (&["SELECT sum(name) FROM 't.csv'"], &["error: No function matches", "'sum(Utf8", "explicit type casts"]),
        (&["SELECT now() - 5"], &["Int64", "INTERVAL '5 minutes'"]),
        (&["SELECT now() BETWEEN 1 AND 2"], &["error: Failed to coerce", "INTERVAL '5 minutes'"]),
        (&["SELECT [1] + true"], &["CAST(x AS BIGINT)"]),
        (&["--file", "none.sql"], &["'none.sql'"]),
        (&["SELECT 1", "--output", "out.txt"], &["'out.txt'", ".parquet, .csv"]),
        (&["SELECT 1", "--output", "none/out.csv"], &["'none'", "exist"]),
        (&["SELECT [1, 2] AS list", "--output", "out.csv"], &["'list'", "Parquet"]),
        (&["SELECT 1", "--memory-limit", "2X"], &["'2X'", "like 512M or 2G"]),
        (&["SELECT 1", "--memory-limit", "1K"], &["--memory-limit", "1024 bytes", "at least 64K"]),
        (&["SELECT 1", "--set", "datafusion.no.such=1"], &["datafusion.no.such", "SHOW ALL"]),
    ];
    let before = names(folder.path());
    for (arguments, expected) in cases {
        let arguments = ["sql"].into_iter().chain(arguments.iter().copied());
        let done = Annulus::new(arguments.clone()).at(folder.path()).fails();
        for part in expected {
            assert!(done.stderr.contains(part), "{:?}: no {part} in: {}", arguments.collect::<Vec<_>>(), done.stderr);
        }
        assert!(!done.stderr.contains("panicked") && !done.stderr.contains("backtrace"), "{}", done.stderr);
    }
    assert_eq!(names(folder.path()), before);
}

#[test]
fn a_memory_limit_holds() {
    let query = "SELECT count(DISTINCT a.value * 1000 + b.value % 7) FROM generate_series(1, 3000) a \
                 CROSS JOIN generate_series(1, 100) b";
    let done = Annulus::new(["sql", query, "--memory-limit", "100K"]).fails();
    assert!(done.stderr.contains("Resources exhausted"), "{}", done.stderr);
}

#[test]
fn help_has_examples_and_the_version_is_told() {
    for arguments in [&["--help"][..], &["sql", "--help"], &["join", "--help"]] {
        let done = Annulus::new(arguments.iter().copied()).succeeds();
        assert!(done.stdout.contains("Examples:\n  annulus "), "{}", done.stdout);
    }
    assert_eq!(Annulus::new(["--version"]).succeeds().stdout, format!("annulus {}\n", env!("CARGO_PKG_VERSION")));
}

#[cfg(unix)]
mod signals {
    use std::path::{Path, PathBuf};

    use super::*;

    fn folders(folder: &Path) -> Vec<PathBuf> {
        names(folder).into_iter().map(|name| folder.join(name)).filter(|path| path.is_dir()).collect()
    }

    /// A query that runs for hours, after one that announces its start.
    const ENDLESS: &str = "SELECT 'started' AS s; SELECT sum(a.value * b.value % 7) AS s \
                           FROM generate_series(1, 100000) a CROSS JOIN generate_series(1, 1000000000) b";

    #[test]
    fn an_interrupted_query_leaves_nothing_behind() {
        for (signal, code) in [("INT", 130), ("TERM", 143)] {
            let folder = tempfile::tempdir().expect("a folder");
            let arguments = ["sql", ENDLESS, "--output", "out.parquet"];
            let mut running = Annulus::new(arguments).at(folder.path()).temp(folder.path()).start();
            running.wait_for("started");
            let temporary = |name: &String| name.starts_with(".annulus-") && name.ends_with(".tmp");
            assert!(names(folder.path()).iter().any(temporary), "{:?}", names(folder.path()));
            running.signal(signal);
            assert_eq!(running.exit_code(), Some(code), "{signal}");
            assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
        }
    }

    /// The tasks of a cross join compute for minutes without a pause.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_query_that_keeps_all_threads_busy_is_interrupted_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = ["sql", ENDLESS, "--output", "out.parquet"];
        let mut running = Annulus::new(arguments).at(folder.path()).temp(folder.path()).start();
        running.wait_for("started");
        running.wait_until_busy();
        running.signal("INT");
        assert_eq!(running.exit_code(), Some(130));
        assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
    }

    #[test]
    fn an_interrupted_spill_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let query = "SELECT value FROM generate_series(1, 100000000000) ORDER BY value % 1000003";
        let arguments = ["sql", query, "--memory-limit", "30M", "--threads", "1"];
        let mut running = Annulus::new(arguments).temp(folder.path()).start();
        // A lock lies beside the files.
        running.wait_until(|| folders(folder.path()).iter().any(|own| has_file(&own.join("files"))));
        running.signal("INT");
        assert_eq!(running.exit_code(), Some(130));
        assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
    }

    #[test]
    fn what_a_killed_query_left_is_removed_by_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut killed = Annulus::new(["sql", ENDLESS]).temp(folder.path()).start();
        killed.wait_for("started");
        killed.signal("KILL");
        assert_eq!(killed.exit_code(), None);
        let mut living = Annulus::new(["sql", ENDLESS]).temp(folder.path()).start();
        living.wait_for("started");
        let kept = names(folder.path());
        assert_eq!(kept.len(), 1, "{kept:?}");
        Annulus::new(["sql", "SELECT 1"]).temp(folder.path()).succeeds();
        assert_eq!(names(folder.path()), kept);
        living.signal("INT");
        assert_eq!(living.exit_code(), Some(130));
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_no_error() {
        let query = "SELECT value FROM generate_series(1, 100000000)";
        let mut running = Annulus::new(["sql", query, "--format", "csv"]).start();
        running.wait_for("value");
        running.close_stdout();
        assert_eq!(running.exit_code(), Some(0));
        assert_eq!(running.stderr(), "");
    }
}
