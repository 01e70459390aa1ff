//! `annulus-lab bench exchange`, run as a user runs it. Times are never compared.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Output},
};

use serde_json::Value;

const STRATEGIES: [&str; 8] =
    ["ring", "ring-per-domain", "reserve", "paper-ring", "channel", "mutex-channel", "spsc", "batch"];

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_annulus-lab"));
    command.args(["bench", "exchange", "--rounds", "1"]).args(args).output().unwrap()
}

/// Returns the lines by strategy, in a run with one cell.
fn lines(args: &[&str]) -> BTreeMap<String, Value> {
    let out = bench(&[&["--json"], args].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let lines = String::from_utf8(out.stdout).unwrap();
    let line = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
    lines.lines().map(line).map(|line| (line["strategy"].as_str().unwrap().to_owned(), line)).collect()
}

#[test]
fn every_strategy_delivers_every_row_of_every_kind() {
    for more in [
        &["--row-bytes", "8"][..],
        &["--row-bytes", "20"],
        &["--row-bytes", "64", "--sizes", "normal", "--keys", "zipf"],
        &["--row-bytes", "16", "--groups", "3", "--slots", "2", "--domains", "3", "--unpinned"],
    ] {
        let lines = lines(&[&["--threads", "3x5", "--rows", "500", "--batches", "40"], more].concat());
        assert_eq!(lines.len(), STRATEGIES.len(), "{more:?}");
        for line in lines.values() {
            assert!(line["gb_per_s"].as_f64() > Some(0.0) && line["peak_mb"].as_f64() > Some(0.0), "{line}");
            assert_eq!(line["batches"], 120, "{line}");
        }
    }
}

/// The synchronisation of the paper's table 1, where nobody waits: a producer that is never held up
/// and consumers that start after it.
#[test]
fn more_consumers_cost_queues_more_operations_and_the_ring_none() {
    let of = |threads: &str| {
        let strategies = "ring,channel,mutex-channel,spsc,batch";
        // A ring and queues that hold the whole input.
        lines(&[
            "--threads",
            threads,
            "--batches",
            "20",
            "--slots",
            "1000",
            "--rows",
            "1000",
            "--row-bytes",
            "8",
            "--strategies",
            strategies,
        ])
    };
    let (few, many) = (of("1x2"), of("1x32"));
    let figure = |lines: &BTreeMap<String, Value>, strategy: &str, name: &str| lines[strategy][name].as_f64().unwrap();
    // Without a wait there are 1 ticket a batch, and the operations of the end and of wake-ups.
    assert!(figure(&many, "ring", "handoffs_per_batch") == figure(&few, "ring", "handoffs_per_batch"));
    for (strategy, name) in
        [("channel", "handoffs_per_batch"), ("mutex-channel", "locks_per_batch"), ("spsc", "handoffs_per_batch")]
    {
        assert!(figure(&many, strategy, name) >= 8.0 * figure(&few, strategy, name), "{strategy}: {few:?} {many:?}");
    }
    assert!(figure(&many, "batch", "locks_per_batch") <= 0.1);
}

/// Nearly all rows are for one consumer. The other one waits for its rows most of the time, and
/// no other thread keeps the rows of the slow one.
#[test]
fn only_batch_partitioning_holds_the_whole_input() {
    let lines = lines(&[
        "--threads",
        "2x2",
        "--rows",
        "1000",
        "--row-bytes",
        "64",
        "--batches",
        "400",
        "--keys",
        "zipf",
        "--exponent",
        "4",
        "--strategies",
        "ring,ring-per-domain,paper-ring,channel,mutex-channel,spsc,batch",
    ]);
    let batch_mb = 64_000.0 / f64::from(1 << 20);
    for (strategy, line) in &lines {
        let held = line["peak_mb"].as_f64().unwrap() / batch_mb;
        if strategy == "batch" {
            assert!(held >= 800.0, "{held} batches: {line}");
        } else {
            // Two groups of 2 slots, a batch that each producer makes, and what a consumer still reads.
            assert!(held < 16.0, "{held} batches: {line}");
        }
    }
}

#[test]
fn batch_partitioning_is_left_out_where_its_rows_do_not_fit() {
    let args = ["--threads", "1x1", "--row-bytes", "4096", "--batches", "65536", "--strategies", "batch"];
    let out = bench(&[&args[..], &["--json"]].concat());
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && out.stdout.is_empty(), "{error}");
    assert!(error.contains("batch is left out: it holds 2.00 TiB"), "{error}");
}

#[test]
fn more_threads_than_cores_end() {
    let lines = lines(&["--threads", "192x192", "--rows", "200", "--batches", "4", "--row-bytes", "8"]);
    assert_eq!(lines.len(), STRATEGIES.len());
}

#[test]
fn a_table_and_a_csv_file_have_every_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines.csv");
    let out = bench(&["--threads", "2x2", "--row-bytes", "8", "--volume", "1M", "--csv", file.to_str().unwrap()]);
    let table = String::from_utf8(out.stdout).unwrap();
    assert!(STRATEGIES.iter().all(|strategy| table.contains(strategy)), "{table}");
    assert_eq!(fs::read_to_string(file).unwrap().lines().count(), 1 + STRATEGIES.len());
}

/// Where the machine counts none, the table says why.
#[test]
fn hardware_events_are_in_the_table_or_the_reason_for_none_is() {
    let out = bench(&["--threads", "1x1", "--row-bytes", "8", "--batches", "4", "--strategies", "ring", "--counters"]);
    let table = String::from_utf8(out.stdout).unwrap();
    assert!(table.contains("no counters: ") != table.contains("/row"), "{table}");
}

#[test]
fn wrong_options_say_what_to_write() {
    for (args, expected) in [
        (["--threads", "4"], "expected MxN"),
        (["--strategies", "auto"], "possible values: ring"),
        (["--exponent", "0"], "expected a number above 0, at most 10"),
        (["--groups", "65"], "1..=64"),
    ] {
        let out = bench(&args);
        assert!(!out.status.success());
        let error = String::from_utf8(out.stderr).unwrap();
        assert!(error.contains(expected), "{error}");
    }
}
