//! `annulus-lab bench pages` and `annulus-lab reproduce` as processes. Their measurements are tested in
//! `annulus-bench`.

mod support;

use serde_json::Value;
use support::Annulus;

const SMALL: [&str; 11] = [
    "bench",
    "pages",
    "--tuples=20k",
    "--tuple-bytes=16",
    "--partitions=8",
    "--threads=2",
    "--page-sizes=64K",
    "--variants=SmbBatched,Ranges",
    "--json",
    "--csv",
    "pages.csv",
];

#[test]
fn the_benchmark_prints_a_line_for_each_variant() {
    let folder = tempfile::tempdir().expect("a folder");
    let done = Annulus::new(SMALL).at(folder.path()).succeeds();
    let lines: Vec<Value> = done.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let variants: Vec<_> = lines.iter().map(|line| line["variant"].as_str()).collect();
    assert_eq!(variants, [Some("SmbBatched"), Some("Ranges")]);
    assert_eq!(support::names(folder.path()), ["pages.csv"]);
}

#[test]
fn the_figures_are_three_files() {
    let folder = tempfile::tempdir().expect("a folder");
    Annulus::new(["reproduce", "pages", "--quick", "--skip-flink", "--out", "figures"]).at(folder.path()).succeeds();
    assert_eq!(support::names(&folder.path().join("figures")), ["pages.csv", "pages.html", "pages.json"]);
}

#[test]
fn the_figures_of_the_cyclo_join_are_three_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let figures = ["reproduce", "cyclo-join", "--quick", "--figures", "9", "--out", "figures"];
    Annulus::new(figures).at(folder.path()).succeeds();
    let names = ["cyclo-join.csv", "cyclo-join.html", "cyclo-join.jsonl"];
    assert_eq!(support::names(&folder.path().join("figures")), names);
}

#[test]
#[cfg(unix)]
fn whole_queries_can_be_interrupted_and_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    std::fs::create_dir(at.join("temporary")).expect("a folder");
    let ring = || {
        let size = ["--quick", "--volume", "64K", "--threads", "1", "--scale", "0.001", "--hits-rows", "1k"];
        let folders = ["--cache", "cache", "--out", "figures"];
        Annulus::new(["reproduce", "ring"].iter().chain(&size).chain(&folders)).at(at).temp(&at.join("temporary"))
    };
    let mut running = ring().start();
    let partial = at.join("figures/ring.partial.jsonl");
    running.wait_until(|| std::fs::read_to_string(&partial).is_ok_and(|text| text.contains("figure-8 tpch 2 ")));
    running.signal("INT");
    assert_eq!(running.exit_code(), Some(130));
    assert!(support::names(&at.join("temporary")).is_empty(), "spill files are left");
    assert!(ring().succeeds().stderr.contains("going on with the "));
    let names = ["ring-queries.csv", "ring.csv", "ring.html", "ring.json"];
    assert_eq!(support::names(&at.join("figures")), names);
    let csv = std::fs::read_to_string(at.join("figures/ring-queries.csv")).expect("the queries");
    // The file of ClickBench's queries is not named.
    assert_eq!(csv.lines().filter(|line| line.contains(",channel+cluster,1,")).count(), 4);
}

#[test]
#[cfg(unix)]
fn an_interrupt_ends_it_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let endless = SMALL.iter().chain(&["--rounds=65536"]);
    let mut running = Annulus::new(endless).at(folder.path()).temp(folder.path()).start();
    // When the unfinished file exists, the command handles signals.
    running.wait_until(|| support::names(folder.path()).iter().any(|name| name.starts_with(".annulus-")));
    running.signal("INT");
    assert_eq!(running.exit_code(), Some(130));
    assert!(support::names(folder.path()).is_empty(), "an unfinished file is left");
}

#[test]
fn wrong_arguments_say_what_to_write() {
    for (argument, remedy) in [
        ("--variants=Smbb", "[possible values: OnDemand"),
        ("--memory=1K", "raise --memory"),
        ("--tuples=0", "expected 1 to"),
    ] {
        let done = Annulus::new(["bench", "pages", "--partitions=2", argument]).fails();
        assert!(done.stderr.contains(remedy), "{}", done.stderr);
    }
}
