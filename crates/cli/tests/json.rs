//! The output of `--json` and the schemas that document it. A field that its schema does not name
//! fails here.

#[path = "support/schema.rs"]
mod schema;
mod support;

use std::{fs, path::Path};

use schema::expect_lines;
use serde_json::{Value, json};
use support::{Annulus, names};

/// Runs a command, whose words are separated by spaces, and checks what it prints.
#[track_caller]
fn expect(folder: &Path, command: &str, file: &str) {
    let done = Annulus::new(command.split(' ')).at(folder).succeeds();
    expect_lines(&done.stdout, file);
}

/// Writes 300 rows to `a.parquet` and `b.parquet`. One key has most of them.
fn tables(folder: &Path) {
    for name in ["a.parquet", "b.parquet"] {
        let rows = "SELECT value AS id, value % 7 AS k, CASE WHEN value % 3 = 0 THEN value ELSE 1 END AS hot \
                    FROM generate_series(1, 300)";
        Annulus::new(["sql", rows, "--output", name]).at(folder).succeeds();
    }
}

#[test]
fn datasets() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    tables(at);
    expect(at, "partition a.parquet --by id --into 4 --output parts --json", "partition.json");
    expect(at, "partition a.parquet --by hot --into 2 --output hot --split-hot-keys --json", "partition.json");
    expect(at, "verify parts --json", "verify.json");
    let part = names(&at.join("parts")).into_iter().find(|name| name.ends_with(".parquet")).expect("a part");
    fs::write(at.join("parts").join(part), "").expect("write");
    let done = Annulus::new(["verify", "parts", "--json"]).at(at).fails();
    assert!(done.stdout.contains("reason"), "{}", done.stdout);
    expect_lines(&done.stdout, "verify.json");
}

#[test]
fn joins() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    tables(at);
    for (number, condition) in ["--on id", "--where a.id<b.id+5", "--where a.id*a.k=b.id+b.k"].iter().enumerate() {
        let join = format!("join a.parquet b.parquet {condition} --type left --json");
        expect(at, &format!("{join} --explain"), "join-plan.json");
        expect(at, &format!("{join} --output joined-{number}"), "join.json");
    }
    let on_workers = "join a.parquet b.parquet --on id --cluster 2 --json";
    let tiny = "--set distributed.file_scan_config_bytes_per_partition=1";
    expect(at, &format!("{on_workers} {tiny} --explain"), "join-plan.json");
    expect(at, &format!("{on_workers} {tiny} --output on-workers"), "join.json");
    expect(at, &format!("{on_workers} --output here"), "join.json");
}

#[test]
fn rings() {
    let folder = tempfile::tempdir().expect("a folder");
    expect(folder.path(), "worker init-ca --ring sales --json", "worker-init-ca.json");
    expect(folder.path(), "worker add-host alpha --json", "worker-add-host.json");
    expect(folder.path(), "worker add-submitter me --json", "worker-add-submitter.json");
}

#[test]
fn workers() {
    let folder = tempfile::tempdir().expect("a folder");
    let worker = ["worker", "--listen", "127.0.0.1:0", "--allow-read", "."];
    let mut running = Annulus::new(worker).at(folder.path()).start();
    let line = running.line_of_stderr("serving at ");
    let address = line.rsplit("serving at ").next().expect("an address").trim();
    expect(folder.path(), &format!("worker ping --workers {address} --json"), "worker-ping.json");
    let done = Annulus::new("worker ping --workers 127.0.0.1:1 --json".split(' ')).at(folder.path()).fails();
    assert!(done.stdout.contains("\"version\":null"), "{}", done.stdout);
    expect_lines(&done.stdout, "worker-ping.json");
    expect(folder.path(), &format!("worker status --workers {address} --json"), "worker-status.json");
    running.end_by("TERM", 143);
    let done = Annulus::new("worker status --workers 127.0.0.1:1 --json".split(' ')).at(folder.path()).fails();
    assert!(done.stdout.contains("\"report\":null"), "{}", done.stdout);
    expect_lines(&done.stdout, "worker-status.json");
}

#[test]
fn calibrate() {
    let folder = tempfile::tempdir().expect("a folder");
    let command = "calibrate --seconds 1 --rows 8000 --threads 2 --output profile.json --json";
    let done = Annulus::new(command.split(' ')).at(folder.path()).succeeds();
    let profile: Value = serde_json::from_str(&done.stdout).expect("one object");
    expect_lines(&profile.to_string(), "profile.json");
}

#[test]
fn topology() {
    let folder = tempfile::tempdir().expect("a folder");
    expect(folder.path(), "topology --json", "topology.json");
    expect(folder.path(), "topology --plan 3x5 --spread --batch-bytes 64K --json", "topology.json");
}

#[test]
fn every_schema_is_on_the_page_and_describes_its_fields() {
    schema::check_page();
}

#[test]
fn a_difference_from_a_schema_is_found() {
    let schema = json!({
        "type": "object",
        "properties": { "a": { "type": ["integer", "null"], "minimum": 0 }, "b": { "enum": ["x"] } },
        "required": ["a"],
        "additionalProperties": false,
    });
    for (value, expected) in [
        (json!({ "a": 1, "b": "x" }), None),
        (json!({ "a": null }), None),
        (json!({ "b": "x" }), Some("'a' is missing")),
        (json!({ "a": 1, "c": 1 }), Some("'c' is not documented")),
        (json!({ "a": -1 }), Some("below 0")),
        (json!({ "a": 1.5 }), Some("not of the type")),
        (json!({ "a": 1, "b": "y" }), Some("not one of")),
        (json!([]), Some("not of the type")),
    ] {
        match (schema::check(&value, &schema), expected) {
            (Ok(()), None) => {}
            (Err(error), Some(expected)) => assert!(error.contains(expected), "{error}"),
            (found, _) => panic!("{value}: {found:?}"),
        }
    }
    assert!(schema::check(&json!({}), &json!({ "properties": {} })).is_err(), "it allows any field");
    assert!(schema::check(&json!({}), &json!({ "pattern": "x" })).is_err(), "it has an unknown keyword");
}

#[test]
fn rows_of_a_query() {
    let query = "SELECT value AS one, 'x' AS text FROM range(2) ORDER BY 1";
    let rows: Value = serde_json::from_str(&Annulus::new(["sql", "--json", query]).succeeds().stdout).expect("JSON");
    assert_eq!(rows, json!([{"one": 0, "text": "x"}, {"one": 1, "text": "x"}]));
}

#[test]
fn manifests() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    tables(at);
    for options in ["--by hot --into 2 --split-hot-keys", "--by hot --into 2 --split-hot-keys --append"] {
        Annulus::new(format!("partition a.parquet {options} --output hot").split(' ')).at(at).succeeds();
    }
    fs::write(at.join("bad.csv"), "id,k\n1,2\n3\n").expect("write");
    let quarantine = "partition bad.csv --by k --by-value --on-bad-row quarantine --output values";
    Annulus::new(quarantine.split(' ')).at(at).succeeds();
    Annulus::new("join a.parquet b.parquet --on id --output joined".split(' ')).at(at).succeeds();
    for dataset in ["hot", "values", "joined", "joined/host-00"] {
        let text = fs::read_to_string(at.join(dataset).join(".annulus/manifest")).expect(dataset);
        let manifest: Value = serde_json::from_str(&text).expect(dataset);
        if let Err(error) = schema::check(&manifest, &schema::schema("manifest.json")) {
            panic!("{dataset}: {error}");
        }
    }
}
