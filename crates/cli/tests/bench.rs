//! `annulus bench repartition` as a process, at a small scale. Times are never compared.

mod support;

use std::{collections::BTreeSet, fs};

use serde_json::Value;
use support::Annulus;

const FIELDS: [&str; 14] = [
    "payload",
    "m",
    "n",
    "path",
    "stock_ms",
    "ours_ms",
    "ratio",
    "spread",
    "ns_per_row",
    "bytes_copied_per_row",
    "shared_ops_per_batch",
    "locks_per_batch",
    "memcpy_share",
    "peak_mb",
];
/// Forces rows onto the disk. Stock's operator can hang there, which must not take long.
const SMALL_MEMORY: [&str; 4] = ["--memory-limit", "200K", "--timeout", "20"];
const SLOW_FIELDS: [&str; 4] = ["consumers", "stock_peak_mb", "spilled_mb", "stock_spilled_mb"];

fn bench(more: &[&str]) -> Annulus {
    let fixed = ["bench", "repartition", "--scale", "0.01", "--rounds", "1", "--threads", "2"];
    Annulus::new(fixed.iter().chain(more))
}

#[track_caller]
fn lines(more: &[&str]) -> Vec<Value> {
    let done = bench(&[&["--json"], more].concat()).succeeds();
    done.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[track_caller]
fn check_fields(line: &Value, expected: impl Iterator<Item = &'static str>) {
    let fields = line.as_object().expect("an object");
    let names: BTreeSet<_> = fields.keys().map(String::as_str).collect();
    assert_eq!(names, expected.collect());
    for name in ["ours_ms", "ns_per_row", "bytes_copied_per_row", "shared_ops_per_batch", "memcpy_share", "peak_mb"] {
        assert!(line[name].as_f64() > Some(0.0), "{name}: {line}");
    }
}

#[test]
fn every_case_is_a_line() {
    let lines = lines(&["--shapes", "2x2,3x5", "--consumers", "even"]);
    let cases: Vec<_> = lines.iter().map(|line| [&line["payload"], &line["m"], &line["n"], &line["path"]]).collect();
    let expected = ["a", "b", "c"].iter().flat_map(|payload| [(2, 2), (3, 5)].map(|(m, n)| (*payload, m, n)));
    assert!(cases.len() == 6, "{cases:?}");
    for (case, (payload, m, n)) in cases.iter().zip(expected) {
        assert!(case[0] == payload && case[1] == m && case[2] == n && case[3] == "auto", "{case:?}");
    }
    for line in &lines {
        check_fields(line, FIELDS.into_iter());
        assert!(line["stock_ms"].as_f64() > Some(0.0) && line["ratio"].as_f64() > Some(0.0), "{line}");
        assert!(line["spread"].as_f64() >= Some(0.0), "{line}");
    }
}

#[test]
fn slow_consumers_have_lines_of_their_own() {
    let cases = ["--shapes", "2x3", "--payloads", "b", "--consumers", "slow,unpolled"];
    let lines = lines(&[&SMALL_MEMORY, &cases[..]].concat());
    let consumers: Vec<_> = lines.iter().map(|line| line["consumers"].as_str()).collect();
    assert_eq!(consumers, [Some("slow"), Some("unpolled")]);
    for line in &lines {
        check_fields(line, FIELDS.into_iter().chain(SLOW_FIELDS));
    }
    // A third of the table cannot wait in 200 kB. Stock's figures are missing if its operator hung.
    assert!(lines[1]["spilled_mb"].as_f64() > Some(0.0), "{}", lines[1]);
}

#[test]
fn a_page_and_a_table_show_the_ratios() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["--shapes", "2x2", "--payloads", "c", "--paths", "gather,reserve", "--html", "page.html"];
    let done = bench(&arguments).at(folder.path()).succeeds();
    assert!(done.stdout.contains("2 worker threads; lineitem at scale factor 0.01"), "{}", done.stdout);
    assert_eq!(done.stdout.matches("│ c ").count(), 6, "a row for each path and kind of consumers: {}", done.stdout);

    let page = fs::read_to_string(folder.path().join("page.html")).expect("the page");
    assert_eq!(page.matches("<svg").count(), 3, "a chart for each kind of consumers");
    assert_eq!(page.matches("<line ").count(), 3, "each with the line at 1");
    assert!(!page.contains("http") && !page.contains("src="), "the page needs nothing else");
}

#[test]
#[cfg(unix)]
fn an_interrupt_ends_it_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["--json", "--shapes", "2x2", "--consumers", "unpolled"];
    let mut running = bench(&[&SMALL_MEMORY, &arguments[..], &["--paths", "gather,cluster,reserve,auto"]].concat())
        .temp(folder.path())
        .start();
    running.wait_for("unpolled");
    running.signal("INT");
    assert_eq!(running.exit_code(), Some(130));
    assert!(support::names(folder.path()).is_empty(), "spill files are left");
}

#[test]
fn wrong_arguments_say_what_to_write() {
    for (arguments, remedy) in [
        (["--shapes", "4"], "write one like 4x4"),
        (["--payloads", "d"], "[possible values: a, b, c]"),
        (["--html", "none/page.html"], "cannot write --html in 'none'"),
        (["--paths", "push"], "choose auto, gather, cluster or reserve"),
    ] {
        let done = bench(&arguments).fails();
        assert!(done.stderr.contains(remedy), "{}", done.stderr);
    }
}
