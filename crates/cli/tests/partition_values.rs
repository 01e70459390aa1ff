//! `annulus partition --by-value` and `--sort-by`.

mod support;

use std::path::Path;

use serde_json::Value;
use support::{Annulus, names};

/// Creates a folder with `rows.parquet`: `id` from 0 to 999, `day` from 0 to 9, and `site`, which
/// is null in every fifth row.
fn inputs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let query =
        "COPY (SELECT value AS id, value % 10 AS day, CASE WHEN value % 5 > 0 THEN 'a/b ' || (value % 2) END AS site
        FROM generate_series(0, 999)) TO 'rows.parquet'";
    Annulus::new(["sql", query]).at(folder.path()).succeeds();
    folder
}

/// Returns the result of a query as CSV, without the header.
fn query(folder: &Path, text: &str) -> String {
    let done = Annulus::new(["sql", text, "--format", "csv"]).at(folder).succeeds();
    done.stdout.split_once('\n').expect("a header").1.trim_end().to_owned()
}

#[test]
fn each_value_has_a_folder() {
    let folder = inputs();
    let split = ["partition", "rows.parquet", "--by", "site,day", "--by-value", "--output", "parts", "--json"];
    let done = Annulus::new(split).at(folder.path()).succeeds();
    let report: Value = serde_json::from_str(&done.stdout).expect("JSON");
    let number = |name: &str| report[name].as_u64();
    assert_eq!((number("rows_out"), number("partitions"), number("files")), (Some(1000), Some(10), Some(10)));
    let parts = folder.path().join("parts");
    let sites = ["manifest.json", "site=__HIVE_DEFAULT_PARTITION__", "site=a%2Fb 0", "site=a%2Fb 1"];
    assert_eq!(names(&parts), sites);
    assert_eq!(names(&parts.join("site=a%2Fb 1")), ["day=1", "day=3", "day=7", "day=9"]);
    let file = "parts/site=__HIVE_DEFAULT_PARTITION__/day=5/part-00000.parquet";
    assert_eq!(query(folder.path(), &format!("SELECT * FROM '{file}' ORDER BY id LIMIT 2")), "5\n15");

    let kept = Annulus::new(split.iter().chain(&["--resume"])).at(folder.path()).succeeds();
    let report: Value = serde_json::from_str(&kept.stdout).expect("JSON");
    assert_eq!(report["partitions_kept"].as_u64(), Some(10));
    let hashed = ["partition", "rows.parquet", "--by", "day", "--into", "2", "--output", "parts", "--overwrite"];
    Annulus::new(hashed).at(folder.path()).succeeds();
    assert_eq!(names(&parts), ["manifest.json", "part-00000.parquet", "part-00001.parquet"]);
}

#[test]
fn files_are_sorted() {
    let folder = inputs();
    let split = ["partition", "rows.parquet", "--by", "day", "--output", "parts", "--overwrite"];
    for placing in [&["--by-value"][..], &["--into", "3"]] {
        let arguments = split.iter().chain(placing).chain(&["--sort-by", "site,id:desc"]);
        Annulus::new(arguments).at(folder.path()).succeeds();
        let file = if placing.len() == 1 { "day=5/part-00000.parquet" } else { "part-00000.parquet" };
        let rows = |order: &str| query(folder.path(), &format!("SELECT site, id FROM 'parts/{file}' {order}"));
        assert_eq!(rows(""), rows("ORDER BY site NULLS LAST, id DESC"));
    }
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let folder = inputs();
    let cases: [(&[&str], &str); 6] = [
        (&["--by", "day", "--by-value", "--into", "3"], "--into"),
        (&["--by", "day", "--by-value", "--round-robin"], "--round-robin"),
        (&["--by", "day", "--by-value", "--split-hot-keys"], "--split-hot-keys"),
        (&["--by", "day,id,site", "--by-value"], "no column is left"),
        (&["--by", "day", "--into", "2", "--sort-by", "no:desc"], "'no'"),
        (&["--by", "day"], "--into"),
    ];
    for (arguments, expected) in cases {
        let fixed = ["partition", "rows.parquet", "--output", "parts"];
        let failed = Annulus::new(fixed.iter().chain(arguments)).at(folder.path()).fails();
        assert!(failed.stderr.contains(expected), "no {expected} in: {}", failed.stderr);
    }
    assert!(!folder.path().join("parts").exists());
}
