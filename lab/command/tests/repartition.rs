//! `annulus-lab bench repartition`, run as a user runs it at a small scale. Times are never
//! compared.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::Value;

const FIELDS: [&str; 14] = [
    "payload",
    "m",
    "n",
    "way",
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
/// Forces rows onto the disk. Stock's operator can hang then, so the timeout is short.
const SMALL_MEMORY: [&str; 4] = ["--memory-limit", "200K", "--timeout", "20"];
const SLOW_FIELDS: [&str; 4] = ["consumers", "stock_peak_mb", "spilled_mb", "stock_spilled_mb"];

/// Returns the standard output and the standard error of a run that must end with `code`.
#[track_caller]
fn ends(code: i32, folder: &Path, more: &[&str]) -> (String, String) {
    let fixed = ["bench", "repartition", "--scale", "0.01", "--rounds", "1", "--threads", "2"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_annulus-lab"));
    let output = command.current_dir(folder).args(fixed).args(more).output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(code), "stdout: {stdout}\nstderr: {stderr}");
    (stdout, stderr)
}

#[track_caller]
fn lines(more: &[&str]) -> Vec<Value> {
    let (stdout, _) = ends(0, Path::new("."), &[&["--json"], more].concat());
    stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
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
    let cases: Vec<_> = lines.iter().map(|line| [&line["payload"], &line["m"], &line["n"], &line["way"]]).collect();
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
    let arguments = ["--shapes", "2x2", "--payloads", "c", "--ways", "ring,reserve", "--html", "page.html"];
    let (stdout, _) = ends(0, folder.path(), &arguments);
    assert!(stdout.contains("2 worker threads; lineitem at scale factor 0.01"), "{stdout}");
    assert!(stdout.contains("medians of 1 round;") && !stdout.contains("1 rounds"), "{stdout}");
    assert_eq!(stdout.matches("│ c ").count(), 6, "a row for each way and kind of consumers: {stdout}");

    let page = fs::read_to_string(folder.path().join("page.html")).expect("the page");
    assert_eq!(page.matches("<svg").count(), 3, "a chart for each kind of consumers");
    assert!(page.split("<svg").skip(1).all(|chart| chart.contains("<polyline ")), "each with the line at 1");
    assert!(!page.contains("http") && !page.contains("src="), "the page needs nothing else");
}

#[test]
fn wrong_arguments_say_what_to_write() {
    for (arguments, remedy) in [
        (["--shapes", "4"], "expected MxN, such as 4x4"),
        (["--payloads", "d"], "[possible values: a, b, c]"),
        (["--html", "none/page.html"], "no folder 'none' exists; create it first"),
        (["--ways", "push"], "expected one of stock, auto, ring"),
        (["--ways", "reserve+cluster"], "has no choice of path"),
    ] {
        let (_, stderr) = ends(1, Path::new("."), &arguments);
        assert!(stderr.contains(remedy), "{stderr}");
    }
}
