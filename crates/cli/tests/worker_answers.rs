//! Queries on workers answer as in one process, and in about the same way.
#![cfg(target_os = "linux")]

mod support;

use std::{fs, path::Path};

use support::{Annulus, workers::TINY};

fn sql(folder: &Path, more: &[&str]) -> Annulus {
    Annulus::new(["sql", "--format", "csv"].iter().chain(more)).at(folder).temp(folder)
}

/// Returns what a query prints on two workers, after checking that it does so in one process.
fn same(folder: &Path, query: &str) -> String {
    let here = sql(folder, &[query]).succeeds();
    let there = sql(folder, &[&["--cluster", "2", query][..], &TINY].concat()).succeeds();
    assert_eq!(there.stdout, here.stdout, "{query}");
    there.stdout
}

#[test]
fn datasets_of_ranges_are_grouped_by_their_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let rows = "SELECT value AS id, value % 20 AS k FROM range(4000)";
    Annulus::new(["sql", rows, "--output", "in.parquet"]).at(at).succeeds();
    let ranges = ["partition", "in.parquet", "--by", "k", "--into", "3", "--ranges", "sample", "--output", "out"];
    Annulus::new(ranges).at(at).succeeds();
    let groups = same(at, "SELECT k, count(*) FROM 'out' GROUP BY k ORDER BY k");
    assert!(groups.contains("\n0,200\n") && groups.lines().count() == 21, "{groups}");
    let window = "SELECT sum(r) FROM (SELECT row_number() OVER (PARTITION BY k ORDER BY id) r FROM 'out')";
    assert!(same(at, window).ends_with("402000\n"));
    same(at, "SELECT count(*), sum(b.id) FROM 'out' a JOIN 'out' b ON a.k = b.k AND a.id < b.id");
}

#[test]
fn bands_beside_few_keys_are_sorted() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::create_dir(at.join("t")).expect("a folder");
    for part in 0..3 {
        let rows = format!(
            "SELECT value % 3 AS site, value * 60 AS t, value AS v FROM range({}, {})",
            part * 4000,
            part * 4000 + 4000
        );
        Annulus::new(["sql", &rows, "--output", &format!("t/{part}.parquet")]).at(at).succeeds();
    }
    let rows = "SELECT value % 3 AS site, value * 120 AS t, value AS w FROM range(6000)";
    Annulus::new(["sql", rows, "--output", "q.parquet"]).at(at).succeeds();
    let query =
        "SELECT count(*), sum(w) FROM 't' a JOIN 'q.parquet' b ON a.site = b.site AND a.t BETWEEN b.t AND b.t + 600";
    same(at, query);
    let analyzed = sql(at, &[&["--cluster", "2", &format!("EXPLAIN ANALYZE {query}")][..], &TINY].concat()).succeeds();
    // Only the join that sorts counts its pairs.
    assert!(analyzed.stdout.contains("band_pairs"), "{}", analyzed.stdout);
}
