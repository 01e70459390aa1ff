//! `annulus-bench reproduce cyclo-join`, run as a user runs it.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

fn reproduce(folder: &Path, args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_annulus-bench");
    let command = ["reproduce", "cyclo-join", "--quick", "--out", "figures"];
    Command::new(program).args(command).args(args).current_dir(folder).output().unwrap()
}

#[test]
fn all_figures_are_in_all_three_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = reproduce(folder.path(), &[]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let read = |name: &str| fs::read_to_string(folder.path().join("figures").join(name)).unwrap();
    let lines: Vec<Value> = read("cyclo-join.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines[0]["machine"].is_string() && lines[0]["quick"] == true);
    let figures: BTreeSet<u64> = lines[1..].iter().map(|line| line["figure"].as_u64().unwrap()).collect();
    assert_eq!(figures, BTreeSet::from([5, 7, 8, 9, 10, 11, 12]));
    // Every host scans the whole other side.
    for line in lines[1..].iter().filter(|line| line["figure"] != 5) {
        assert_eq!(line["host_probed"], line["probe_rows"], "{line}");
    }

    let csv = read("cyclo-join.csv");
    let columns = csv.lines().next().unwrap().split(',').count();
    assert_eq!(csv.lines().count(), lines.len());
    assert!(csv.lines().all(|line| line.split(',').count() == columns), "{csv}");

    let page = read("cyclo-join.html");
    for figure in figures {
        assert!(page.contains(&format!("<h2>Figure {figure}:")), "figure {figure}");
    }
    assert!(page.contains("Table I") && page.contains("other hardware"));
    assert!(page.contains("(quick run)</title>"), "{page}");
    assert!(page.contains("quick run: tables of 20,000 rows in figures 7 and 10, 5,000 rows per host"), "{page}");
    assert!(page.contains("medians of 1 round,") && !page.contains(" 1 rounds"), "{page}");
    assert!(page.matches("<svg").count() >= 12);
    assert!(["http:", "https:", "<script", "NaN", "inf"].iter().all(|word| !page.contains(word)));
}

#[test]
fn one_figure_can_be_drawn_alone_and_an_unknown_one_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let out = reproduce(folder.path(), &["--figures", "9"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let page = fs::read_to_string(folder.path().join("figures/cyclo-join.html")).unwrap();
    assert!(page.contains("Figure 9:") && !page.contains("Figure 7:"));
    let out = reproduce(folder.path(), &["--figures", "6"]);
    assert!(!out.status.success());
    assert!(String::from_utf8(out.stderr).unwrap().contains("possible values: 5, 7"));
}
