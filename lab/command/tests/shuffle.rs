//! The built program at small scale. Times are never compared.

mod killed;

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output},
};

use annulus_bench::pages::Variant;
use serde_json::Value;

const FIELDS: [&str; 17] = [
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
    "copy_mtuples_per_s",
    "copy_cached_mtuples_per_s",
    "peak_mb",
    "page_bytes",
    "page_sizes",
    "spread",
    "too_short",
];
const SMALL: [&str; 12] = [
    "--tuples",
    "30k",
    "--page-sizes",
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
    let mut command = Command::new(env!("CARGO_BIN_EXE_annulus-lab"));
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
    let cells = ["--tuples", "20k", "--page-sizes", "64K", "--rounds", "1", "--threads", "1,2"];
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
fn the_best_of_several_page_sizes_is_measured() {
    let sizes = ["--tuples", "300k", "--tuple-bytes", "16", "--partitions", "8", "--threads", "2", "--rounds", "1"];
    let lines = lines(&[&sizes[..], &["--page-sizes", "1M,16K,64K,64M", "--our-page-size", "32K"]].concat());
    assert_eq!(lines.len(), names().len());
    for line in &lines {
        let tried = line["page_sizes"].as_array().expect("an array");
        if line["variant"] == "Ranges" {
            assert!(tried.is_empty() && line["page_bytes"] == 32 << 10, "{line}");
            continue;
        }
        let sizes: Vec<_> = tried.iter().filter_map(|tried| tried["page_bytes"].as_u64()).collect();
        // 64 MiB for each partition would be far more than the tuples, and so would 1 MiB for each
        // partition and thread.
        assert!(sizes == [16 << 10, 64 << 10, 1 << 20] || sizes == [16 << 10, 64 << 10], "{line}");
        let rate = |tried: &Value| tried["mtuples_per_s"].as_f64().expect("a number");
        let best = tried.iter().max_by(|a, b| rate(a).total_cmp(&rate(b))).expect("one");
        assert_eq!(line["page_bytes"], best["page_bytes"], "{line}");
    }
}

#[test]
fn tuples_of_any_size_are_measured() {
    for sizes in ["uniform", "normal"] {
        let lines = lines(&[&SMALL[..], &["--sizes", sizes]].concat());
        assert_eq!(lines.len(), names().len());
        assert!(lines.iter().all(|line| line["sizes"] == sizes), "{lines:?}");
    }
}

#[test]
fn a_stream_takes_little_memory_and_says_which_variants_cannot() {
    let arguments = ["bench", "pages", "--json", "--stream", "--waiting", "128K", "--tuples", "1M", "--rounds", "1"];
    let cell = ["--tuple-bytes", "16", "--partitions", "4", "--threads", "2", "--page-sizes", "64K"];
    let (stdout, stderr) =
        ends(0, Path::new("."), &[&arguments[..], &cell, &["--our-page-size", "64K", "--buffers", "64K"]].concat());
    let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(lines.len(), names().len() - 3);
    for name in ["Radix", "BestCase", "BestCaseSynchronised"] {
        assert!(stderr.contains(&format!("skipped: {name} does not stream: ")), "{stderr}");
    }
    for line in &lines {
        let (first, total) =
            (line["first_page_s"].as_f64().expect("a time"), line["total_s"].as_f64().expect("a time"));
        assert!(0.0 < first && first <= total, "{line}");
        // All pages together would take 23 MiB.
        assert!(line["peak_mb"].as_f64() < Some(15.0), "{line}");
    }
}

#[test]
fn radix_takes_the_memory_of_its_tuples_besides_its_pages() {
    let lines = lines(&[
        "--tuples",
        "1M",
        "--partitions",
        "2",
        "--tuple-bytes",
        "16",
        "--threads",
        "2",
        "--page-sizes",
        "256K",
    ]);
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
    let pages = ["--page-sizes", "64K", "--our-page-size", "4K", "--memory", "11M"];
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
    for (arguments, remedy) in [
        (["--variants", "Smbb"], "[possible values: OnDemand"),
        (["--tuple-bytes", "3"], "expected 4 (the key alone)"),
        (["--tuples", "many"], "like 500k or 67.2M"),
        (["--page-sizes", "5000"], "multiple of 4 KiB"),
        (["--waiting", "4M"], "--stream"),
        (["--memory", "100K"], "raise --memory"),
        (["--zipf", "-1"], "Zipf's exponent"),
        (["--html", "none/page.html"], "no folder 'none' exists; create it first"),
    ] {
        let (_, stderr) = ends(1, Path::new("."), &[&["bench", "pages"], &arguments[..]].concat());
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
    let part = |name: &str| json[name].as_array().expect("lines");
    let cores = json["cores"].as_u64().expect("the cores") as usize;
    assert_eq!(part("cells").len(), names().len() * 10 * cores, "5 figures of 2 charts");
    assert_eq!(part("sizes").len(), names().len() * 2 * 4, "2 distributions");
    assert_eq!(part("streams").len(), (names().len() - 3) * 4);
    let local = |threads: u64| {
        let is = |line: &&Value| line["variant"] == "LocalPagesAndMerge" && line["threads"] == threads;
        part("memory").iter().find(is).and_then(|line| line["beyond_mb"].as_f64()).expect("a line")
    };
    // 32 partitions have a page of 16 KiB for each thread.
    assert!(local(40) - local(1) > 15.0, "{} and {} MB", local(40), local(1));
    let origin = &json["origin"];
    assert!(origin["command"].as_str().is_some_and(|line| line.starts_with("annulus-lab reproduce pages --quick")));
    assert!(origin["build"].as_str().is_some_and(|build| build.len() == 16), "{origin}");
    assert!(origin["seed"] == 42 && origin["rustc"].as_str().is_some_and(|text| text.contains("rustc")), "{origin}");
    assert!(json["paper_machine"].as_str().is_some_and(|name| name.contains("i9-7900X")));
    let lines = |word: &str| {
        part("skipped").iter().filter(|line| line.as_str().is_some_and(|line| line.contains(word))).count()
    };
    assert_eq!((lines("--skip-flink"), lines("Radix does not stream")), (1, 1));

    let page = fs::read_to_string(out.join("pages.html")).unwrap();
    let short = |part: &&Value| part["too_short"] == true;
    let drawn = page.matches("<svg").count();
    // Two charts of memory, two of sizes and one of streams; charts of short runs are left out.
    assert!(drawn == 5 * 2 + 5 || part("cells").iter().any(|line| short(&line)), "{drawn} charts");
    let said: String =
        part("skipped").iter().filter_map(Value::as_str).filter(|line| line.starts_with("left out")).collect();
    for line in ["cells", "sizes", "streams"].iter().flat_map(|name| part(name)).filter(short) {
        assert!(said.contains(line["variant"].as_str().expect("a name")), "{line} is left out: {said}");
    }
    let counted = part("cells")
        .iter()
        .all(|line| line.as_object().expect("a line").keys().any(|key| key.ends_with("_per_tuple")));
    assert_ne!(counted, json["no_counters"].is_string(), "counters are columns, or there is a reason");
    assert_eq!(page.contains("<p>None: "), !counted);
    assert!(page.contains("(quick run)</title>"), "{page}");
    assert!(page.contains("quick run: 20,000 tuples a run, pages of 16 KiB, 1 round."), "{page}");
    assert!(page.contains("medians of 1 round;") && !page.contains(" 1 rounds"), "{page}");
    assert!(json["quick"].is_string());
    assert!((1..=7).all(|number| page.contains(&format!("Figure 4.{number}"))), "{page}");
    assert!(!page.contains("http") && !page.contains("src="), "the page needs nothing else");
    // What the text states as a number stands there, beside what this machine has.
    for published in [
        "SmbLockFree / the other Smb</td><td>2, 4</td><td>1 to 4</td>",
        "instructions per cycle: Hybrid / Radix</td><td>1024</td><td>1.2</td>",
        "all Smb / the fastest other</td><td>1024</td><td>about 1.5</td>",
        "<td>1024</td><td>100 GiB</td>",
        "<td>tuples on pages</td><td>1.46 GiB</td><td>0.00 GiB</td>",
        "LocalPagesAndMerge, beyond them</td><td>several GiB, at most 6.25</td>",
        "<td>SmbLockFreeBatched</td><td>one-third</td><td>-</td>",
        "The thesis's text has no number for this figure.",
    ] {
        assert!(page.contains(published), "{published}");
    }
    assert!(counted || page.contains("<td>not counted</td>"), "{page}");
    let csv = fs::read_to_string(out.join("pages.csv")).unwrap();
    let lines: usize = ["cells", "memory", "sizes", "streams"].iter().map(|name| part(name).len()).sum();
    assert_eq!(csv.lines().count(), lines + 1);
    let columns: BTreeSet<_> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(columns.len(), 1, "{csv}");
}

#[test]
#[cfg(unix)]
fn a_killed_run_goes_on_where_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = ["reproduce", "pages", "--quick", "--skip-flink", "--out", "figures"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_annulus-lab"));
    command.args(run).current_dir(folder.path());
    let before = killed::killed_after(4, &mut command, &folder.path().join("figures/pages.partial.jsonl"));
    let kept: Vec<Value> = before.lines().skip(2).filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(kept.len() >= 3, "{before}");
    let other = [&run[..], &["--tuples", "30k"]].concat();
    let (_, stderr) = ends(1, folder.path(), &other);
    assert!(stderr.contains("(tuples: null instead of 30000)") && stderr.contains("--restart"), "{stderr}");
    let (_, stderr) = ends(0, folder.path(), &run);
    assert!(stderr.contains("going on with the "), "{stderr}");
    let out = folder.path().join("figures");
    let names: BTreeSet<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["pages.csv", "pages.html", "pages.json"].map(Into::into).into());
    let json: Value = serde_json::from_str(&fs::read_to_string(out.join("pages.json")).unwrap()).unwrap();
    let cells = json["cells"].as_array().expect("cells");
    for result in kept {
        for line in result["result"]["lines"].as_array().expect("lines") {
            assert!(cells.contains(line), "the kept result is in the file: {line}");
        }
    }
}

/// Writes a script that prints a result as Flink's benchmark does: for tuples of 4 bytes, one that
/// is too short. Another process writes it: here, a test that starts a process meanwhile would keep
/// the file open, and it could not run.
#[cfg(unix)]
fn flink_script(folder: &Path) {
    let text = r#"#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in --tuple-bytes) bytes=$2 ;; --tuples) tuples=$2 ;; --parallelism) threads=$2 ;; esac
    shift 2
done
if [ $bytes = 4 ]; then seconds=0.0009; else seconds=0.1; fi
echo "{\"variant\":\"flink keyBy\",\"tuple_bytes\":$bytes,\"partitions\":1024,\"threads\":$threads,\
\"tuples\":$tuples,\"mtuples_per_s\":7654.3,\"generate_s\":0.1,\"shuffle_s\":$seconds,\"total_s\":0.2,\
\"peak_mb\":0.5,\"flink\":\"1.20.5\",\"java\":\"21.0.1\"}"
"#;
    let mut write = Command::new("sh");
    write.args(["-c", "printf %s \"$1\" > run && chmod +x run", "sh", text]).current_dir(folder);
    assert!(write.status().expect("it starts").success());
}

#[test]
#[cfg(unix)]
fn flink_is_drawn_with_its_versions_unless_it_was_too_short() {
    let folder = tempfile::tempdir().expect("a folder");
    flink_script(folder.path());
    let (_, stderr) = ends(0, folder.path(), &["reproduce", "pages", "--quick", "--flink", "run", "--out", "."]);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
    let json: Value = serde_json::from_str(&read("pages.json")).expect("JSON");
    assert_eq!((&json["origin"]["flink"], &json["origin"]["java"]), (&"1.20.5".into(), &"21.0.1".into()));
    let short: Vec<_> = json["flink"].as_array().expect("lines").iter().map(|line| &line["too_short"]).collect();
    assert_eq!(short, [true, false, false]);
    let page = read("pages.html");
    assert!(page.contains(", Flink 1.20.5, Java 21.0.1, rustc"), "{page}");
    let figure = page.split("<h2>").find(|section| section.starts_with("Figure 4.7")).expect("the figure");
    assert_eq!((figure.matches("7654.3 M/s").count(), figure.matches(">too short<").count()), (2, 1), "{figure}");
    assert!(stderr.contains("left out of the figures: Flink, 4 B: "), "{stderr}");
    // Its memory is compared in any case.
    let row = figure.split("<td>SmbLockFreeBatched</td><td>one-third</td>").nth(1).expect("the row");
    let row = row.split("</tr>").next().expect("cells");
    assert!(row.matches("<td>").count() == 3 && !row.contains("<td>-"), "{row}");
}

#[test]
fn without_flink_a_line_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["reproduce", "pages", "--quick", "--out", ".", "--flink", "none/run"];
    let (_, stderr) = ends(0, folder.path(), &arguments);
    assert!(stderr.contains("skipped: Flink") && stderr.contains("none/run"), "{stderr}");
    assert!(fs::read_to_string(folder.path().join("pages.html")).unwrap().contains("none/run"));
}
