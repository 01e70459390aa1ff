//! `annulus-lab reproduce cyclo-join`, run as a user runs it.

mod killed;

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::Value;

fn reproduce(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_annulus-lab"));
    command.args(["reproduce", "cyclo-join", "--quick", "--out", "figures"]).args(args).current_dir(folder);
    command
}

#[test]
fn all_figures_are_in_all_three_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = reproduce(folder.path(), &[]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let read = |name: &str| fs::read_to_string(folder.path().join("figures").join(name)).unwrap();
    let lines: Vec<Value> = read("cyclo-join.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines[0]["machine"].is_string() && lines[0]["quick"] == true);
    let origin = &lines[0]["origin"];
    assert!(origin["command"].as_str().unwrap().contains("reproduce cyclo-join") && origin["seed"] == 1, "{origin}");
    assert!(origin["build"].as_str().is_some_and(|build| build.len() == 16), "{origin}");
    let figures: BTreeSet<u64> = lines[1..].iter().map(|line| line["figure"].as_u64().unwrap()).collect();
    assert_eq!(figures, BTreeSet::from([3, 5, 7, 8, 9, 10, 11, 12]));
    // Every host scans the whole other side.
    for line in lines[1..].iter().filter(|line| line.get("host_probed").is_some()) {
        assert_eq!(line["host_probed"], line["probe_rows"], "{line}");
    }

    // Without the rights to limit a network, the file and the page say why it is missing.
    let limited: Vec<_> = lines.iter().filter(|line| line.get("gbit_per_s").is_some()).collect();
    for line in &limited {
        let share = |name: &str| line[name].as_f64().unwrap_or(f64::NAN);
        let shares = [share("waiting_share"), share("model_waiting_share")];
        assert!(shares.iter().all(|share| (0.0..1.0).contains(share)), "{line}");
        let [measured, predicted] = shares;
        let none = |share: f64| share < 0.005;
        let near = if none(predicted) { none(measured) } else { (measured / predicted - 1.0).abs() <= 0.1 };
        assert!(line["agrees"] == near && line["times"] == 1 && share("others_share") >= 0.0, "{line}");
    }
    let limited = limited.len();
    let absent = lines[0]["absent"].to_string();
    assert!(limited == 15 || absent.contains("figure 11 over links of a limited rate: "), "{limited} rings, {absent}");

    // A provider of libfabric has its columns in figures 3, 5 and 12, or the reason why not.
    #[cfg(feature = "ofi")]
    for way in ["ofi-tcp", "ofi-shm", "ofi-verbs"] {
        let has = |figure, name: &str| lines.iter().any(|line| line["figure"] == figure && line[name] == way);
        let is_there = [has(3, "way"), has(5, "way"), has(12, "link")];
        let is_absent = absent.contains(&format!("links over {way}: "));
        assert!(is_there == [!is_absent; 3] && (way != "ofi-tcp" || !is_absent), "{way}: {is_there:?}, {absent}");
    }

    let csv = read("cyclo-join.csv");
    let columns = csv.lines().next().unwrap().split(',').count();
    assert_eq!(csv.lines().count(), lines.len());
    assert!(csv.lines().all(|line| line.split(',').count() == columns), "{csv}");

    let page = read("cyclo-join.html");
    for figure in figures {
        assert!(page.contains(&format!("<h2>Figure {figure}:")), "figure {figure}");
    }
    assert!(page.contains("Links of a limited rate") && page.contains("Not measured") != (absent == "[]"), "{absent}");
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
    let out = reproduce(folder.path(), &["--figures", "9"]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let page = fs::read_to_string(folder.path().join("figures/cyclo-join.html")).unwrap();
    assert!(page.contains("Figure 9:") && !page.contains("Figure 7:"));
    let out = reproduce(folder.path(), &["--figures", "6"]).output().unwrap();
    assert!(!out.status.success());
    assert!(String::from_utf8(out.stderr).unwrap().contains("possible values: 3, 5, 7"));
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("figures");
    let figures = ["--figures", "7,9"];
    let mut command = reproduce(folder.path(), &figures);
    let before = killed::killed_after(3, &mut command, &out.join("cyclo-join.partial.jsonl"));
    let kept: Vec<Value> = before.lines().skip(1).filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(kept.len() >= 3, "{before}");
    let other = reproduce(folder.path(), &["--figures", "7,9", "--seed", "2"]).output().unwrap();
    let error = String::from_utf8_lossy(&other.stderr);
    assert!(!other.status.success() && error.contains("another unfinished run (seed: 1 instead of 2)"), "{error}");
    assert!(error.contains("--restart"), "{error}");
    let done = reproduce(folder.path(), &figures).output().unwrap();
    let error = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && error.contains("going on with the "), "{error}");
    let names: BTreeSet<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["cyclo-join.csv", "cyclo-join.html", "cyclo-join.jsonl"].map(Into::into).into());
    let text = fs::read_to_string(out.join("cyclo-join.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for mut result in kept {
        let mut line = result["result"].take();
        line["figure"] = if line.get("zipf").is_some() { 9.into() } else { 7.into() };
        assert!(lines.contains(&line), "the kept result is in the file: {line}");
    }
}
