//! The built program at small scale. Times are never compared.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output},
};

use annulus_bench::pages::Variant;
use serde_json::Value;

const FIELDS: [&str; 14] = [
    "variant",
    "tuple_bytes",
    "partitions",
    "threads",
    "tuples",
    "mtuples_per_s",
    "generate_s",
    "shuffle_s",
    "total_s",
    "limit_share",
    "peak_mb",
    "page_bytes",
    "spread",
    "too_short",
];
const SMALL: [&str; 12] = [
    "--tuples",
    "30k",
    "--page-size",
    "64K",
    "--rounds",
    "2",
    "--tuple-bytes",
    "16",
    "--partitions",
    "8",
    "--threads",
    "2",
];

fn start(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_annulus-bench"));
    command.current_dir(folder).args(arguments).output().expect("it starts")
}

/// Returns the standard output and the standard error of a run that must end with `code`.
#[track_caller]
fn ends(code: i32, folder: &Path, arguments: &[&str]) -> (String, String) {
    let output = start(folder, arguments);
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(code), "stdout: {stdout}\nstderr: {stderr}");
    (stdout, stderr)
}

#[track_caller]
fn lines(arguments: &[&str]) -> Vec<Value> {
    let (stdout, _) = ends(0, Path::new("."), &[&["bench", "pages", "--json"], arguments].concat());
    stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn names() -> BTreeSet<&'static str> {
    Variant::all().into_iter().map(Variant::name).collect()
}

#[test]
fn every_variant_is_a_line_with_all_columns() {
    let cells = ["--tuples", "20k", "--page-size", "64K", "--rounds", "1", "--threads", "1,2"];
    let lines = lines(&[&cells[..], &["--tuple-bytes", "4,16,100", "--partitions", "2,33"]].concat());
    assert_eq!(lines.len(), names().len() * 3 * 2 * 2);
    for line in &lines {
        let fields: Vec<_> = line.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(BTreeSet::from_iter(fields), BTreeSet::from(FIELDS));
        for name in ["mtuples_per_s", "shuffle_s", "total_s", "limit_share", "peak_mb"] {
            assert!(line[name].as_f64() > Some(0.0), "{name}: {line}");
        }
        // Full pages at least; a slot has 8 bytes besides the tuple's key.
        let least =
            line["tuples"].as_f64().unwrap() * (line["tuple_bytes"].as_f64().unwrap() + 8.0) / f64::from(1 << 20);
        assert!(line["peak_mb"].as_f64().unwrap() + 0.1 >= least, "{line}");
        let ours = line["variant"] == "Ranges";
        assert_eq!(line["page_bytes"].as_u64() == Some(64 << 10), !ours, "{line}");
    }
    for cell in lines.chunk_by(|a, b| ["tuple_bytes", "partitions", "threads"].iter().all(|key| a[key] == b[key])) {
        let variants: BTreeSet<_> = cell.iter().filter_map(|line| line["variant"].as_str()).collect();
        assert_eq!(variants, names());
    }
}

#[test]
fn options_that_are_not_the_default_have_a_column() {
    let lines = lines(&[&SMALL[..], &["--zipf", "1.1", "--layout", "compact", "--variants", "radix,Ranges"]].concat());
    let variants: Vec<_> = lines.iter().map(|line| line["variant"].as_str()).collect();
    assert_eq!(variants, [Some("Radix"), Some("Ranges")]);
    assert!(lines.iter().all(|line| line["zipf"] == 1.1 && line["layout"] == "compact"), "{lines:?}");
}

#[test]
fn radix_takes_the_memory_of_its_tuples_besides_its_pages() {
    let lines =
        lines(&["--tuples", "1M", "--partitions", "2", "--tuple-bytes", "16", "--threads", "2", "--rounds", "1"]);
    let peak = |name: &str| lines.iter().find(|line| line["variant"] == name).and_then(|line| line["peak_mb"].as_f64());
    let (radix, hybrid) = (peak("Radix").unwrap(), peak("Hybrid").unwrap());
    assert!(radix - hybrid > 14.0, "{radix} and {hybrid}");
}

#[test]
fn a_table_says_which_variant_is_ahead_and_files_have_every_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = ["--csv", "pages.csv", "--html", "pages.html"];
    let (stdout, _) = ends(0, folder.path(), &[&["bench", "pages"], &SMALL[..], &files].concat());
    assert!(
        stdout.contains("Ranges is ") && (stdout.contains("in all of 1 cell.") || stdout.contains("in 1 of 1 cell:")),
        "{stdout}"
    );
    let csv = fs::read_to_string(folder.path().join("pages.csv")).expect("the values");
    let rows: Vec<Vec<_>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0], FIELDS);
    assert_eq!(rows.len(), names().len() + 1);
    assert!(rows.iter().all(|row| row.len() == FIELDS.len()), "{csv}");
    let page = fs::read_to_string(folder.path().join("pages.html")).expect("the page");
    assert!(page.contains("<svg") && names().iter().all(|name| page.contains(name)), "{page}");
    assert!(!page.contains("http") && !page.contains("src="), "the page needs nothing else");
}

#[test]
fn counters_are_columns_or_a_line_says_why_not() {
    let arguments = [&["bench", "pages", "--json", "--counters", "--variants", "Ranges"], &SMALL[..]].concat();
    let (stdout, stderr) = ends(0, Path::new("."), &arguments);
    let counted = stdout.contains("_per_tuple");
    assert_ne!(counted, stderr.contains("no counters: "), "{stdout}{stderr}");
}

#[test]
fn a_variant_that_does_not_fit_is_skipped_with_a_line() {
    let sizes = ["--tuples", "20k", "--tuple-bytes", "16", "--partitions", "64", "--threads", "2", "--rounds", "1"];
    let pages = ["--page-size", "64K", "--our-page-size", "4K", "--memory", "11M"];
    let (stdout, stderr) = ends(0, Path::new("."), &[&["bench", "pages", "--json"], &sizes[..], &pages].concat());
    assert!(stdout.contains("Ranges") && !stdout.contains("Smb"), "{stdout}");
    assert_eq!(stderr.matches("skipped: ").count(), names().len() - 1, "{stderr}");
    assert!(
        stderr.contains("skipped: LocalPagesAndMerge") && stderr.contains("for each partition and thread"),
        "{stderr}"
    );
}

#[test]
fn wrong_arguments_say_what_to_write() {
    for (arguments, code, remedy) in [
        (["--variants", "Smbb"], 2, "[possible values: OnDemand"),
        (["--tuple-bytes", "3"], 2, "expected 4 (the key alone)"),
        (["--tuples", "many"], 2, "like 500k or 67.2M"),
        (["--page-size", "5000"], 1, "multiple of 4 KiB"),
        (["--memory", "100K"], 1, "raise --memory"),
        (["--zipf", "-1"], 1, "Zipf's exponent"),
        (["--html", "none/page.html"], 1, "cannot write --html in 'none'"),
    ] {
        let (_, stderr) = ends(code, Path::new("."), &[&["bench", "pages"], &arguments[..]].concat());
        assert!(stderr.contains(remedy), "{arguments:?}: {stderr}");
    }
}

#[test]
fn the_figures_are_three_files() {
    let folder = tempfile::tempdir().expect("a folder");
    ends(0, folder.path(), &["reproduce", "pages", "--quick", "--skip-flink", "--out", "figures"]);
    let out = folder.path().join("figures");
    let mut found: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    found.sort();
    assert_eq!(found, ["pages.csv", "pages.html", "pages.json"]);

    let json: Value = serde_json::from_str(&fs::read_to_string(out.join("pages.json")).unwrap()).unwrap();
    let cells = json["cells"].as_array().expect("cells");
    let cores = json["cores"].as_u64().expect("the cores") as usize;
    assert_eq!(cells.len(), names().len() * 10 * cores, "5 figures of 2 charts");
    assert!(json["paper_machine"].as_str().is_some_and(|name| name.contains("i9-7900X")));
    assert!(json["skipped"][0].as_str().is_some_and(|line| line.contains("--skip-flink")));

    let page = fs::read_to_string(out.join("pages.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 5 * 2 + 1);
    assert!(page.contains("(quick run)</title>"), "{page}");
    assert!(page.contains("quick run: 20,000 tuples a run, pages of 16 KiB, 1 round."), "{page}");
    assert!(page.contains("medians of 1 round;") && !page.contains(" 1 rounds"), "{page}");
    assert!(json["quick"].is_string());
    assert!((1..=7).all(|number| page.contains(&format!("Figure 4.{number}"))), "{page}");
    assert!(!page.contains("http") && !page.contains("src="), "the page needs nothing else");
    let csv = fs::read_to_string(out.join("pages.csv")).unwrap();
    assert_eq!(csv.lines().count(), cells.len() + 1);
}

#[test]
fn without_flink_a_line_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["reproduce", "pages", "--quick", "--out", ".", "--flink", "none/run"];
    let (_, stderr) = ends(0, folder.path(), &arguments);
    assert!(stderr.contains("skipped: Flink") && stderr.contains("none/run"), "{stderr}");
    assert!(fs::read_to_string(folder.path().join("pages.html")).unwrap().contains("none/run"));
}
