//! `annulus-bench reproduce ring`, run as a user runs it.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::Value;

fn reproduce(folder: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_annulus-bench"));
    command.args(["reproduce", "ring", "--quick", "--volume", "512K", "--out", "out"]).args(more).current_dir(folder);
    command
}

#[test]
fn all_figures_are_in_all_three_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = reproduce(folder.path(), &[]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let read = |name: &str| fs::read_to_string(folder.path().join("out").join(name)).unwrap();
    let results: Value = serde_json::from_str(&read("ring.json")).unwrap();
    let parts: BTreeSet<_> =
        results["cells"].as_array().unwrap().iter().map(|cell| cell["part"].as_str().unwrap()).collect();
    let expected = ["figure-5", "figure-7", "skew", "table-2-normal", "table-2-uniform", "unequal"];
    assert_eq!(parts, BTreeSet::from(expected));
    assert!(results["origin"]["command"].as_str().unwrap().contains("reproduce ring"), "{}", results["origin"]);
    assert_eq!(results["published"].as_array().unwrap().len(), 24);

    let csv = read("ring.csv");
    let lines: usize =
        results["cells"].as_array().unwrap().iter().map(|cell| cell["lines"].as_array().unwrap().len()).sum();
    assert_eq!(csv.lines().count(), 1 + lines);
    let fields: BTreeSet<_> = csv.lines().map(|line| line.split(',').count()).collect();
    assert!(csv.starts_with("part,") && fields.len() == 1, "{fields:?}");

    let page = read("ring.html");
    for heading in ["Figure 5", "Table 1", "Table 2", "Figure 6", "Table 3", "Figure 7", "left out", "Figure 8"] {
        assert!(page.to_lowercase().contains(&heading.to_lowercase()), "{heading}");
    }
    assert!(page.contains("(quick run)") && page.contains("other hardware") && page.contains("39.82"));
    assert!(!page.contains("src="), "the page needs nothing else");
    assert!(!folder.path().join("out/ring.partial.jsonl").exists());
}

#[test]
fn an_unfinished_run_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = reproduce(folder.path(), &[]).spawn().unwrap();
    let partial = folder.path().join("out/ring.partial.jsonl");
    // The description of the run, and the first results.
    while fs::read_to_string(&partial).map_or(0, |text| text.lines().count()) < 4 {
        assert!(running.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::yield_now();
    }
    running.kill().unwrap();
    running.wait().unwrap();

    let other = reproduce(folder.path(), &["--seed", "2"]).output().unwrap();
    assert!(String::from_utf8_lossy(&other.stderr).contains("--restart"), "{other:?}");
    let out = reproduce(folder.path(), &[]).output().unwrap();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && error.contains("going on with"), "{error}");
    assert!(folder.path().join("out/ring.html").exists());
}
