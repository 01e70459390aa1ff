//! `annulus partition`.

mod support;

use std::{fs, path::Path};

use support::{Annulus, names};

/// A folder with `rows.csv` (1500 good rows, and 2 bad ones in which the id is a text) and
/// `rows.parquet` (300 rows).
fn inputs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut text = "id,name\n".to_owned();
    for id in 0..1500 {
        text += &format!("{id},name {}\n", id % 7);
        if id % 200 == 0 && id > 1100 {
            text += "not a number,name\n";
        }
    }
    fs::write(folder.path().join("rows.csv"), text).expect("write");
    let query =
        "COPY (SELECT value AS id, 'name ' || (value % 7) AS name FROM generate_series(0, 299)) TO 'rows.parquet'";
    Annulus::new(["sql", query]).at(folder.path()).succeeds();
    folder
}

fn count(folder: &Path, files: &str) -> String {
    let query = format!("SELECT count(*), count(DISTINCT id) FROM '{files}'");
    Annulus::new(["sql", &query, "--format", "csv"]).at(folder).succeeds().stdout
}

#[test]
fn a_dataset_is_split_and_told_about() {
    let folder = inputs();
    let split = ["partition", "rows.parquet", "--by", "id", "--into", "4", "--output", "parts"];
    let done = Annulus::new(split.iter().copied().chain(["--json"])).at(folder.path()).succeeds();
    let report: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!((report["rows_in"].as_u64(), report["rows_out"].as_u64()), (Some(300), Some(300)));
    assert_eq!(names(&folder.path().join("parts")).len(), 5, "four files and the manifest");
    fs::remove_file(folder.path().join("parts/.annulus/manifest")).expect("a manifest");
    assert!(count(folder.path(), "parts/").contains("300,300"));
}

#[test]
fn bad_rows_fail_are_skipped_or_kept() {
    let folder = inputs();
    let split = ["partition", "rows.csv", "--by", "id", "--into", "2", "--output", "parts", "--format", "arrow"];
    let with = |action: &'static str| {
        let options = ["--types", "id=int", "--on-bad-row", action, "--overwrite", "--json"];
        Annulus::new(split.into_iter().chain(options)).at(folder.path())
    };
    let failed = with("fail").fails();
    assert!(failed.stderr.contains("'rows.csv', line") && failed.stderr.contains("--on-bad-row"), "{}", failed.stderr);
    assert!(!folder.path().join("parts").exists());
    for action in ["skip", "quarantine"] {
        let report: serde_json::Value = serde_json::from_str(&with(action).succeeds().stdout).expect("JSON");
        let rows = ["rows_in", "rows_out", "rows_bad"].map(|name| report[name].as_u64());
        assert_eq!(rows, [Some(1502), Some(1500), Some(2)]);
        let kept = fs::read_to_string(folder.path().join("parts/quarantine.jsonl")).unwrap_or_default();
        assert_eq!(
            kept.lines().filter(|line| line.contains("not a number")).count(),
            if action == "skip" { 0 } else { 2 }
        );
    }
}

#[test]
fn a_column_that_mistakes_make_text_is_named() {
    let folder = inputs();
    let commands: [&[&str]; 3] = [
        &["partition", "rows.csv", "--by", "id", "--into", "2", "--output", "parts", "--overwrite"],
        &["join", "rows.csv", "rows.csv", "--on", "id", "--output", "joined", "--overwrite"],
        &["sql", "SELECT count(*) FROM 'rows.csv'"],
    ];
    for command in commands {
        let told =
            |options: &[&str]| Annulus::new(command.iter().chain(options).copied()).at(folder.path()).succeeds().stderr;
        let note = told(&[]);
        let expected = "column 'id' is text because of 2 of 1,502 sampled values, such as 'not a number'; \
            --types 'id=int' makes their rows bad";
        assert!(note.contains(expected), "{command:?}: {note}");
        assert!(!told(&["--types", "id=text"]).contains("note"), "{command:?}");
    }
}

#[test]
fn mistakes_are_explained() {
    let folder = inputs();
    let cases: [(&[&str], &[&str]); 7] = [
        (&["none.parquet", "--by", "id"], &["none.parquet"]),
        (&["rows.parquet", "--by", "no"], &["'no'", "id, name"]),
        (&["rows.parquet"], &["--by"]),
        (&["rows.parquet", "--by", "id", "--format", "arrow", "--compression", "snappy"], &["lz4"]),
        (&["rows.parquet", "--by", "id", "--resume", "--overwrite"], &["--overwrite"]),
        (&["rows.parquet", "--by", "id", "--delimiter", "ab"], &["ab"]),
        (&["rows.parquet", "--by", "id", "--memory-limit", "1K"], &["--memory-limit", "1024 bytes", "at least 16M"]),
    ];
    let before = names(folder.path());
    for (arguments, expected) in cases {
        let arguments = ["partition", "--into", "2", "--output", "parts"].iter().chain(arguments);
        let done = Annulus::new(arguments).at(folder.path()).fails();
        for part in expected {
            assert!(done.stderr.contains(part), "no {part} in: {}", done.stderr);
        }
    }
    let uncounted =
        Annulus::new(["partition", "rows.parquet", "--by", "id", "--output", "parts"]).at(folder.path()).fails();
    assert!(uncounted.stderr.contains("--into") && uncounted.stderr.contains("--by-value"), "{}", uncounted.stderr);
    assert_eq!(names(folder.path()), before);
}

#[test]
fn a_folder_that_is_taken_is_refused_resumed_or_replaced() {
    let folder = inputs();
    let split = ["partition", "rows.parquet", "--by", "id", "--into", "3", "--output", "parts"];
    Annulus::new(split).at(folder.path()).succeeds();
    let refused = Annulus::new(split).at(folder.path()).fails();
    assert!(refused.stderr.contains("--overwrite"), "{}", refused.stderr);
    let kept = Annulus::new(split.into_iter().chain(["--resume"])).at(folder.path()).succeeds();
    assert!(kept.stdout.contains("3 of an earlier run"), "{}", kept.stdout);
    Annulus::new(split.into_iter().chain(["--overwrite"])).at(folder.path()).succeeds();
}

/// It would be deleted before it is read.
#[test]
fn rows_are_appended_to_a_dataset_that_fits() {
    let folder = inputs();
    let split = ["partition", "rows.parquet", "--by", "id", "--into", "4", "--output", "parts"];
    let with = |more: &[&'static str]| Annulus::new(split.iter().chain(more)).at(folder.path());
    assert!(with(&["--append"]).fails().stderr.contains("leave --append out"));
    with(&[]).succeeds();
    let query = "COPY (SELECT value AS id, 'more' AS name FROM generate_series(300, 399)) TO 'more.parquet'";
    Annulus::new(["sql", query]).at(folder.path()).succeeds();
    let append = ["partition", "more.parquet", "--by", "id", "--into", "4", "--output", "parts", "--append"];
    let append = |more: &[&'static str]| Annulus::new(append.iter().chain(more)).at(folder.path());
    let report: serde_json::Value = serde_json::from_str(&append(&["--json"]).succeeds().stdout).expect("JSON");
    let rows = ["rows_in", "rows_out", "rows_total", "files"].map(|name| report[name].as_u64());
    assert_eq!(rows, [Some(100), Some(100), Some(400), Some(4)]);
    let again = append(&["--resume"]).succeeds().stdout;
    assert!(again.contains("none added: this append was complete already"), "{again}");
    assert!(again.contains("400 rows") && !again.contains("100"), "{again}");
    let first = Annulus::new(["sql", "SELECT id FROM 'parts' LIMIT 1", "--format", "csv"]).at(folder.path());
    let first: u32 = first.succeeds().stdout.lines().nth(1).and_then(|id| id.parse().ok()).expect("an id");
    assert!(first < 300, "{first} is a row of the append");
    assert!(count(folder.path(), "parts/").contains("400,400"));
    Annulus::new(["verify", "parts"]).at(folder.path()).succeeds();
    let refused = append(&["--format", "arrow"]).fails();
    let expected = "--format is 'arrow', but 'parquet' in the dataset";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    assert!(!refused.stderr.contains("--resume"), "{}", refused.stderr);
    assert!(count(folder.path(), "parts/").contains("400,400"));
}

#[test]
fn an_input_in_the_output_folder_is_refused() {
    let folder = inputs();
    let split = ["partition", "rows.parquet", "--by", "id", "--into", "3", "--output", "parts"];
    Annulus::new(split).at(folder.path()).succeeds();
    for input in ["parts", "parts/*.parquet", "./parts/../parts/part-00000.parquet"] {
        let again = ["partition", input, "--by", "id", "--into", "5", "--output", "parts", "--overwrite"];
        let refused = Annulus::new(again).at(folder.path()).fails();
        assert!(refused.stderr.contains("is an input, and lies in 'parts'"), "{}", refused.stderr);
        assert!(!refused.stderr.contains("--resume"), "{}", refused.stderr);
    }
    let kept = Annulus::new(split.into_iter().chain(["--resume"])).at(folder.path()).succeeds();
    assert!(kept.stdout.contains("3 of an earlier run"), "{}", kept.stdout);
}

#[test]
fn an_empty_folder_outlasts_a_run_that_fails() {
    let folder = inputs();
    fs::create_dir(folder.path().join("mine")).expect("a folder");
    fs::write(folder.path().join("bad.csv"), "id,text\n1,a\n2,b,c\n").expect("a file");
    Annulus::new(["partition", "bad.csv", "--by", "id", "--into", "3", "--output", "mine"]).at(folder.path()).fails();
    Annulus::new(["partition", "bad.csv", "--by", "id", "--into", "3", "--output", "its"]).at(folder.path()).fails();
    assert!(folder.path().join("mine").exists() && !folder.path().join("its").exists());
    assert_eq!(fs::read_dir(folder.path().join("mine")).expect("a folder").count(), 0);
}

#[test]
fn help_has_examples() {
    let done = Annulus::new(["partition", "--help"]).succeeds();
    assert!(done.stdout.contains("Examples:\n  annulus partition "), "{}", done.stdout);
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_leaves_whole_files_and_is_resumed() {
    let folder = tempfile::tempdir().expect("a folder");
    let query = "COPY (SELECT value AS id, value * 3 AS triple FROM generate_series(1, 3000000)) TO 'rows.parquet'";
    Annulus::new(["sql", query]).at(folder.path()).succeeds();
    let split = ["partition", "rows.parquet", "--by", "id", "--into", "500", "--output", "parts", "--threads", "1"];
    let mut running = Annulus::new(split).at(folder.path()).start();
    running.wait_until(|| folder.path().join("parts/.annulus/work").exists());
    running.signal("TERM");
    assert_eq!(running.exit_code(), Some(143));
    let left = folder.path().join("parts");
    assert!(!left.join(".annulus/manifest").exists() && !left.join(".annulus/work").exists());
    Annulus::new(split.into_iter().chain(["--resume"])).at(folder.path()).succeeds();
    fs::remove_file(left.join(".annulus/manifest")).expect("a manifest");
    assert!(count(folder.path(), "parts/").contains("3000000,3000000"));
}

/// The partitions of a folder are those of the table, whether it is named by its path or with -t.
#[test]
fn a_partitioned_folder_is_read_with_its_partitions() {
    let folder = inputs();
    let split = |output: &'static str, more: &[&'static str]| {
        let split = ["partition", "rows.parquet", "--by", "id", "--into", "4", "--output", output];
        Annulus::new(split.iter().chain(more)).at(folder.path()).succeeds();
    };
    let explain = |query: &str| {
        let explain = format!("EXPLAIN {query}");
        let done = Annulus::new(["sql", "-t", "t=parts", &explain, "--format", "csv", "--threads", "2"]);
        done.at(folder.path()).succeeds()
    };
    split("parts", &[]);
    for table in ["t", "'parts'"] {
        let query = format!("SELECT id, count(*) FROM {table} GROUP BY id");
        let plan = explain(&query);
        assert!(plan.stdout.contains("InTurnExec: partitions=4, at_a_time=2"), "{}", plan.stdout);
        assert!(!plan.stdout.contains("RepartitionExec"), "{}", plan.stdout);
        assert!(!plan.stderr.contains("note:"), "{}", plan.stderr);
        assert_eq!(explain(&format!("ANALYZE {query}")).stderr, "");
    }
    split("groups", &["--key-groups", "16"]);
    let plan = explain("SELECT a.id, count(*) FROM 'groups' a JOIN 'groups' b ON a.id = b.id GROUP BY a.id");
    assert!(plan.stdout.contains("RepartitionExec"), "{}", plan.stdout);
    let note = "note: 'groups' is not read as partitioned: its rows were placed by key groups\n";
    assert_eq!(plan.stderr, note, "once for each table");
}
