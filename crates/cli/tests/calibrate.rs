//! `annulus calibrate`, and the queries that use its profile.

mod support;

use std::{fs, path::Path};

use serde_json::{Value, json};
use support::{Annulus, names};

const EXPLAIN: &str = "EXPLAIN SELECT k, count(*) FROM t GROUP BY k";

/// Calibrates with few rows, and returns the profile.
fn calibrate(folder: &Path) -> Value {
    let words = "calibrate --seconds 1 --rows 8000 --threads 2 --output profile.json --json";
    let printed = Annulus::new(words.split(' ')).at(folder).succeeds().stdout;
    assert_eq!(printed, fs::read_to_string(folder.join("profile.json")).expect("the profile"));
    serde_json::from_str(&printed).expect("JSON")
}

/// Returns what `EXPLAIN` prints with a profile.
fn explained(folder: &Path, profile: &str) -> String {
    let options = ["--set", "datafusion.execution.target_partitions=3", "--set", profile];
    Annulus::new(["sql", "-t", "t=t.parquet", EXPLAIN].into_iter().chain(options)).at(folder).succeeds().stdout
}

#[test]
fn queries_choose_by_the_profile() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let rows = "SELECT value AS k FROM generate_series(1, 300)";
    Annulus::new(["sql", rows, "--output", "t.parquet"]).at(at).succeeds();
    assert!(explained(at, "annulus.profile=none").contains("why=columns of fixed width"));

    let mut profile = calibrate(at);
    assert!(names(at).into_iter().all(|name| !name.ends_with(".tmp")));
    let measured = explained(at, "annulus.profile=profile.json");
    assert!(measured.contains("why=measured ") && measured.contains("B a row, 2x2)"), "{measured}");
    assert!(measured.contains("nearest kind: "), "{measured}");

    for cost in ["pair_ns", "row_ns"] {
        assert!(profile["joins"][cost].as_f64().is_some_and(|ns| ns > 0.0), "{}", profile["joins"]);
    }

    // With other costs, the same query runs another way. Older releases have measured more ways.
    for cell in profile["cells"].as_array_mut().expect("cells") {
        let cost = |way, ns: f64| {
            let (open_ns, row_ns) = (1e3 * ns, ns);
            json!({ "way": way, "open_ns": open_ns, "row_ns": row_ns, "spread": 0.0, "open_spread": 0.0 })
        };
        cell["costs"] = json!([cost("reserve", 1e3), cost("channel+cluster", 1.0), cost("spsc+gather", 0.1)]);
    }
    fs::write(at.join("other.json"), profile.to_string()).expect("write");
    let other = explained(at, "annulus.profile=other.json");
    assert!(
        other.contains("strategy=channel, path=cluster") && other.contains("why=measured channel+cluster"),
        "{other}"
    );

    // A profile of another machine says nothing of this one.
    profile["machine"] = "another".into();
    fs::write(at.join("foreign.json"), profile.to_string()).expect("write");
    let foreign = explained(at, "annulus.profile=foreign.json");
    assert!(foreign.contains("why=columns of fixed width (the profile is of another machine)"), "{foreign}");
}

#[test]
fn the_profile_goes_to_the_folder_for_configuration() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = "calibrate --seconds 1 --rows 8000 --threads 2";
    let done = Annulus::new(words.split(' ')).env("XDG_CONFIG_HOME", folder.path()).succeeds();
    assert!(done.stdout.contains("rule/best"), "{}", done.stdout);
    assert_eq!(names(&folder.path().join("annulus")), ["profile.json"]);
}

#[cfg(unix)]
#[test]
fn one_calibrates_at_a_time_and_an_interrupt_leaves_the_old_profile() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::write(at.join("p.json"), "old").expect("write");
    let mut running = Annulus::new(["calibrate", "--output", "p.json"]).at(at).start();
    running.wait_until_busy();
    let other = Annulus::new(["calibrate", "--output", "q.json"]).at(at).fails();
    assert!(other.stderr.contains("another annulus calibrate is writing to '.'"), "{}", other.stderr);
    running.signal("INT");
    assert_eq!(running.exit_code(), Some(130));
    assert_eq!(names(at), ["p.json"]);
    assert_eq!(fs::read_to_string(at.join("p.json")).expect("read"), "old");
}

#[test]
fn mistakes_are_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let done = Annulus::new(["calibrate", "--output", "."]).at(at).fails();
    assert!(done.stderr.contains("--output '.' is a folder: name a file in it"), "{}", done.stderr);
    let done = Annulus::new(["calibrate", "--output", "missing/p.json"]).at(at).fails();
    assert!(done.stderr.contains("no folder 'missing' exists"), "{}", done.stderr);

    let sql = "SELECT k, count(*) FROM (VALUES (1), (2)) AS t(k) GROUP BY k";
    let options = ["--set", "datafusion.execution.target_partitions=3", "--set", "annulus.profile=no.json"];
    let done = Annulus::new(["sql", sql].into_iter().chain(options)).at(at).fails();
    assert!(done.stderr.contains("cannot read profile 'no.json'"), "{}", done.stderr);
    assert!(done.stderr.contains("write one with annulus calibrate, to 'no.json'"), "{}", done.stderr);
}
