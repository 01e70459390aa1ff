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
    let sites = [".annulus", "site=__HIVE_DEFAULT_PARTITION__", "site=a%2Fb 0", "site=a%2Fb 1"];
    assert_eq!(names(&parts), sites);
    assert_eq!(names(&parts.join("site=a%2Fb 1")), ["day=1", "day=3", "day=7", "day=9"]);
    let file = "parts/site=__HIVE_DEFAULT_PARTITION__/day=5/part-00000.parquet";
    assert_eq!(query(folder.path(), &format!("SELECT * FROM '{file}' ORDER BY id LIMIT 2")), "5\n15");

    let kept = Annulus::new(split.iter().chain(&["--resume"])).at(folder.path()).succeeds();
    let report: Value = serde_json::from_str(&kept.stdout).expect("JSON");
    assert_eq!(report["partitions_kept"].as_u64(), Some(10));
    let hashed = ["partition", "rows.parquet", "--by", "day", "--into", "2", "--output", "parts", "--overwrite"];
    Annulus::new(hashed).at(folder.path()).succeeds();
    assert_eq!(names(&parts), [".annulus", "part-00000.parquet", "part-00001.parquet"]);
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

/// Folders' columns have the types that were written, so predicates and orders are those of the values.
#[test]
fn predicates_on_folders_are_those_of_the_values() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = "SELECT arrow_cast(d, 'Decimal128(4, 2)') AS d, b, t, u, x, i FROM (VALUES \
        ('1.10', true, TIMESTAMP '2024-01-01 12:00:00.5', arrow_cast('18446744073709551615', 'UInt64'), '', 0), \
        ('-0.05', false, TIMESTAMP '1969-12-31 23:00:00', arrow_cast(0, 'UInt64'), '007', 1), \
        ('10.00', true, TIMESTAMP '2024-01-02 00:00:00', arrow_cast(9, 'UInt64'), '-0', 2), \
        (NULL, NULL, NULL, NULL, NULL, 3)) v(d, b, t, u, x, i)";
    let copy = format!("COPY ({rows}) TO 's.parquet'");
    Annulus::new(["sql", copy.as_str()]).at(folder.path()).succeeds();
    for key in ["d", "b", "t", "u", "x"] {
        let (split, copied) = (format!("split-{key}"), format!("copy-{key}/"));
        let arguments = ["partition", "s.parquet", "--by", key, "--by-value", "--output", &split];
        Annulus::new(arguments).at(folder.path()).succeeds();
        let copy = format!("COPY (SELECT * FROM 's.parquet') TO '{copied}' STORED AS PARQUET PARTITIONED BY ({key})");
        Annulus::new(["sql", copy.as_str()]).at(folder.path()).succeeds();
        let source = format!("SELECT {key} FROM 's.parquet' WHERE i < 3");
        let queries = [
            format!("SELECT i FROM F ORDER BY {key}, i"),
            format!("SELECT i, {key} IS NULL FROM F ORDER BY i"),
            format!("SELECT max({key}), min({key}), count({key}) FROM F"),
            format!("SELECT i FROM F WHERE {key} IN ({source}) ORDER BY i"),
            format!("SELECT i FROM F WHERE {key} > (SELECT min({key}) FROM 's.parquet') ORDER BY i"),
        ];
        let more: &[&str] = match key {
            "d" => &["SELECT i FROM F WHERE d > -1 ORDER BY i", "SELECT i, sum(d) FROM F WHERE d = 1.1 GROUP BY i"],
            "b" => &["SELECT i FROM F WHERE b ORDER BY i", "SELECT i FROM F WHERE NOT b ORDER BY i"],
            "t" => &["SELECT i FROM F WHERE t >= TIMESTAMP '2024-01-01 12:00:00.5' ORDER BY i"],
            "u" => &["SELECT i FROM F WHERE u > 18446744073709551614"],
            _ => {
                &["SELECT i FROM F WHERE x = ''", "SELECT i FROM F WHERE x = '007'", "SELECT i FROM F WHERE x IS NULL"]
            }
        };
        for text in queries.iter().map(String::as_str).chain(more.iter().copied()) {
            let [source, split, copied] = ["s.parquet", &split, &copied]
                .map(|path| query(folder.path(), &text.replace("FROM F", &format!("FROM '{path}'"))));
            assert_eq!(source, split, "{text}");
            assert_eq!(source, copied, "{text}");
        }
    }
}
