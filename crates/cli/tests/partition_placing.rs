//! `annulus partition`: the options that decide where rows go, and other inputs and formats.

mod support;

use std::{fs, path::Path, sync::Arc};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch},
    ipc::writer::StreamWriter,
};
use serde_json::Value;
use support::{Annulus, names};

/// Creates a folder with `rows.parquet`: `id` from 0 to 1999, `site`, which is `big` in every
/// second row, and `day`.
fn inputs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let query = "COPY (SELECT value AS id, CASE WHEN value % 2 = 0 THEN 'big' ELSE 'site ' || value END AS site,
        value % 10 AS day FROM generate_series(0, 1999)) TO 'rows.parquet'";
    Annulus::new(["sql", query]).at(folder.path()).succeeds();
    folder
}

/// Runs the command with `--output parts`, and returns the report and the manifest.
fn partition(folder: &Path, arguments: &[&str]) -> (Value, Value) {
    let fixed = ["partition", "--output", "parts", "--overwrite", "--json"];
    let done = Annulus::new(fixed.iter().chain(arguments)).at(folder).succeeds();
    let manifest = fs::read_to_string(folder.join("parts/.annulus/manifest")).expect("a manifest");
    (serde_json::from_str(&done.stdout).expect("JSON"), serde_json::from_str(&manifest).expect("JSON"))
}

/// Returns the rows of each partition according to the manifest.
fn rows(manifest: &Value) -> Vec<u64> {
    let partitions = manifest["partitions"].as_array().expect("partitions");
    partitions.iter().map(|partition| partition["rows"].as_u64().expect("a number")).collect()
}

/// Returns the result of a query as CSV, without the header.
fn query(folder: &Path, text: &str) -> String {
    let done = Annulus::new(["sql", text, "--format", "csv"]).at(folder).succeeds();
    done.stdout.split_once('\n').expect("a header").1.trim_end().to_owned()
}

#[test]
fn ranges_hold_the_keys_between_their_points() {
    let folder = inputs();
    let (_, manifest) = partition(folder.path(), &["rows.parquet", "--by", "id", "--into", "3", "--ranges", "100,500"]);
    assert_eq!(rows(&manifest), [100, 400, 1500]);
    let bounds = query(folder.path(), "SELECT min(id), max(id) FROM 'parts/part-00001.parquet'");
    assert_eq!(bounds, "100,499");

    let two = ["rows.parquet", "--by", "day,id", "--into", "2", "--ranges", "3,1000"];
    let (_, manifest) = partition(folder.path(), &two);
    // Days 0 to 2, and of day 3 the ids below 1000.
    assert_eq!(rows(&manifest), [700, 1300]);

    let sampled = ["rows.parquet", "--by", "id", "--into", "4", "--ranges", "sample"];
    let (_, manifest) = partition(folder.path(), &sampled);
    assert_eq!(rows(&manifest), [500, 500, 500, 500], "a sample of so few rows is all of them");
    let wrong =
        Annulus::new(["partition", "rows.parquet", "--by", "id", "--into", "4", "--ranges", "1,2", "-o", "other"]);
    let failed = wrong.at(folder.path()).fails();
    assert!(failed.stderr.contains("--ranges") && failed.stderr.contains("--into"), "{}", failed.stderr);
    let unordered = ["partition", "rows.parquet", "--by", "id", "--into", "3", "--ranges", "500,100", "-o", "other"];
    let failed = Annulus::new(unordered).at(folder.path()).fails();
    assert!(failed.stderr.contains("'500' before '100'"), "{}", failed.stderr);
}

#[test]
fn key_groups_stay_together_whatever_the_number_of_partitions() {
    let folder = inputs();
    let by = |into: &'static str| ["rows.parquet", "--by", "id", "--into", into, "--key-groups", "64"];
    let (_, four) = partition(folder.path(), &by("4"));
    let first = query(folder.path(), "SELECT count(*), sum(id) FROM 'parts/part-00000.parquet'");
    // Groups 0 to 15 are the first of four partitions, and the first two of eight.
    let (_, eight) = partition(folder.path(), &by("8"));
    fs::remove_file(folder.path().join("parts/.annulus/manifest")).expect("a manifest");
    for part in ["0", "1"] {
        let from = format!("parts/part-0000{part}.parquet");
        let to = format!("first-{part}.parquet");
        fs::copy(folder.path().join(from), folder.path().join(to)).expect("a copy");
    }
    assert_eq!(query(folder.path(), "SELECT count(*), sum(id) FROM 'first-*.parquet'"), first);
    let pairs: Vec<u64> = rows(&eight).chunks(2).map(|pair| pair.iter().sum()).collect();
    assert_eq!(pairs, rows(&four));
}

#[test]
fn by_turns_partitions_are_equal_and_no_key_is_hot() {
    let folder = inputs();
    let (report, manifest) = partition(folder.path(), &["rows.parquet", "--into", "5", "--round-robin"]);
    let rows = rows(&manifest);
    assert_eq!(rows.iter().sum::<u64>(), 2000);
    // Each unit may give a partition one more row.
    assert!(rows.iter().all(|&rows| (395..=405).contains(&rows)), "{rows:?}");
    assert_eq!(report["hot_keys"], Value::Array(vec![]));
    let split = ["partition", "rows.parquet", "--into", "5", "-o", "other", "--round-robin", "--split-hot-keys"];
    let failed = Annulus::new(split).at(folder.path()).fails();
    assert!(failed.stderr.contains("--round-robin") && failed.stderr.contains("--split-hot-keys"), "{}", failed.stderr);
    let by = ["partition", "rows.parquet", "--into", "5", "-o", "other", "--round-robin", "--by", "id"];
    let failed = Annulus::new(by).at(folder.path()).fails();
    assert!(failed.stderr.contains("--round-robin") && failed.stderr.contains("--by"), "{}", failed.stderr);
}

#[test]
fn standard_input_is_an_arrow_stream() {
    let folder = tempfile::tempdir().expect("a folder");
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..2000));
    let batch = RecordBatch::try_from_iter([("id", ids)]).expect("a batch");
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).expect("a writer");
    (0..4).for_each(|part| writer.write(&batch.slice(part * 500, 500)).expect("written"));
    let stream = writer.into_inner().expect("a stream");
    let split = ["partition", "-", "--by", "id", "--into", "3", "--output", "parts"];
    let done = Annulus::new(split.iter().chain(&["--json"])).at(folder.path()).input(&stream);
    let report: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!((report["rows_in"].as_u64(), report["rows_out"].as_u64()), (Some(2000), Some(2000)));
    fs::remove_file(folder.path().join("parts/.annulus/manifest")).expect("a manifest");
    assert_eq!(query(folder.path(), "SELECT count(*), count(DISTINCT id), max(id) FROM 'parts/'"), "2000,2000,1999");

    let path = folder.path().join("rows.arrows");
    fs::write(&path, &stream).expect("written");
    for (more, expected) in [
        (&["--split-hot-keys"][..], "put the input into a file"),
        (&["--ranges", "sample"], "give split points (--ranges)"),
        (&["--resume"], "--overwrite"),
    ] {
        let fixed = ["partition", "-", "--by", "id", "--into", "3", "--output", "other"];
        let failed = Annulus::new(fixed.iter().chain(more)).at(folder.path()).reads(&path).fails();
        assert!(failed.stderr.contains(expected), "no {expected} in: {}", failed.stderr);
    }
    fs::write(&path, &stream[..stream.len() - 8]).expect("written");
    let cut = ["partition", "-", "--by", "id", "--into", "3", "--output", "other"];
    let failed = Annulus::new(cut).at(folder.path()).reads(&path).fails();
    assert!(failed.stderr.contains("standard input") && failed.stderr.contains("cut short"), "{}", failed.stderr);
    fs::write(&path, "ARROW1\0\0 and so on").expect("written");
    let failed = Annulus::new(cut).at(folder.path()).reads(&path).fails();
    assert!(failed.stderr.contains("standard input"), "{}", failed.stderr);
    // The first bytes show other formats.
    fs::write(&path, "id,text\n1,one\n").expect("written");
    Annulus::new(cut).at(folder.path()).reads(&path).succeeds();
}

#[test]
fn hot_keys_are_told_and_spread() {
    let folder = inputs();
    let by = ["rows.parquet", "--by", "site", "--into", "4"];
    let (report, _) = partition(folder.path(), &by);
    let [hot] = &report["hot_keys"].as_array().expect("hot keys")[..] else { panic!("{report}") };
    assert_eq!((hot["key"].as_str(), hot["files"].as_u64()), (Some("big"), Some(0)));
    assert!(hot["rows_min"].as_u64() < Some(1000) && hot["rows_max"].as_u64() > Some(1000), "{hot}");
    let shown =
        Annulus::new(["partition", "--overwrite", "-o", "parts"].iter().chain(&by)).at(folder.path()).succeeds();
    assert!(shown.stdout.contains("hot key") && shown.stdout.contains("big"), "{}", shown.stdout);
    let share = [&by[..], &["--hot-key-share", "3"]].concat();
    assert_eq!(partition(folder.path(), &share).0["hot_keys"], Value::Array(vec![]));

    let split = [&by[..], &["--split-hot-keys=4"]].concat();
    let (report, manifest) = partition(folder.path(), &split);
    let hot = &report["hot_keys"][0];
    assert_eq!(
        [&hot["rows_min"], &hot["rows_max"], &hot["files"]].map(Value::as_u64),
        [Some(1000), Some(1000), Some(4)]
    );
    assert_eq!(manifest["hot_keys"][0]["key"], "big");
    let partition_of_hot = hot["partition"].as_u64().expect("a number");
    let files = manifest["partitions"][partition_of_hot as usize]["files"].as_array().expect("files");
    for file in files.iter().filter(|file| !file["hot"].is_null()) {
        let name = format!("part-{partition_of_hot:05}.hot-{}.parquet", file["hot"]);
        assert_eq!((file["name"].as_str(), file["rows"].as_u64()), (Some(&name[..]), Some(250)));
        let counted = format!("SELECT count(*) FROM 'parts/{name}' WHERE site = 'big'");
        assert_eq!(query(folder.path(), &counted), "250");
    }
    let elsewhere = format!("SELECT count(*) FROM 'parts/part-{partition_of_hot:05}.parquet' WHERE site = 'big'");
    assert_eq!(query(folder.path(), &elsewhere), "0");

    // Without a number of files there are enough to make each as large as an average partition:
    // 1000 rows are two of 500.
    let (report, _) = partition(folder.path(), &[&by[..], &["--split-hot-keys"]].concat());
    assert_eq!(report["hot_keys"][0]["files"].as_u64(), Some(2));
    let resumed = ["partition", "--output", "parts", "--resume", "rows.parquet", "--by", "site", "--into", "4"];
    let failed = Annulus::new(resumed).at(folder.path()).fails();
    assert!(failed.stderr.contains("--split-hot-keys"), "{}", failed.stderr);
}

#[test]
fn page_files_are_written_and_read() {
    let folder = inputs();
    let to_pages = ["rows.parquet", "--by", "id", "--into", "3", "--format", "pages"];
    let (_, manifest) = partition(folder.path(), &[&to_pages[..], &["--page-size", "4K"]].concat());
    assert_eq!(rows(&manifest).iter().sum::<u64>(), 2000);
    let names = names(&folder.path().join("parts"));
    for name in ["part-00000.pages", "part-00001.pages", "part-00002.pages"] {
        assert!(names.iter().any(|found| found == name), "no {name} in {names:?}");
    }
    let back = ["partition", "parts", "--by", "site", "--into", "2", "--output", "back"];
    Annulus::new(back).at(folder.path()).succeeds();
    fs::remove_file(folder.path().join("back/.annulus/manifest")).expect("a manifest");
    let all = "SELECT count(*), count(DISTINCT id), sum(day) FROM";
    assert_eq!(query(folder.path(), &format!("{all} 'back/'")), query(folder.path(), &format!("{all} 'rows.parquet'")));

    for (arguments, expected) in [
        (&["--format", "pages", "--page-size", "1000"][..], "multiple of 4 KiB"),
        (&["--format", "pages", "--compression", "zstd"], "--compression"),
        (&["--page-size", "64K"], "--format pages"),
    ] {
        let fixed = ["partition", "rows.parquet", "--by", "id", "--into", "3", "--output", "other"];
        let failed = Annulus::new(fixed.iter().chain(arguments)).at(folder.path()).fails();
        assert!(failed.stderr.contains(expected), "no {expected} in: {}", failed.stderr);
    }
}

/// A column whose name has a comma, a quote and a blank.
#[test]
fn a_key_is_named_in_quotes() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let table = |name: &str, ids: std::ops::Range<u32>| {
        let rows: String = ids.map(|id| format!("{id},\"site, {}\",{}\n", id % 13, id % 5)).collect();
        fs::write(at.join(name), "id,\"city, \"\"state\"\"\",size\n".to_owned() + &rows).expect("write");
    };
    table("old.csv", 0..200);
    table("new.csv", 200..300);
    let key = r#""city, ""state""""#;
    let by = format!("{key},size");
    let split = |input: &str, more: &[&str]| {
        let fixed = ["partition", input, "--by", &by, "--into", "4", "--output", "parts"];
        let sorted = ["--sort-by", "size,\"city, \"\"state\"\"\":desc"];
        Annulus::new(fixed.iter().chain(&sorted).chain(more)).at(at)
    };
    split("old.csv", &[]).succeeds();
    split("new.csv", &["--append"]).succeeds();
    assert!(split("new.csv", &["--append", "--resume"]).succeeds().stdout.contains("none added"));
    assert!(Annulus::new(["verify", "parts"]).at(at).succeeds().stdout.contains("all match"));
    let query =
        |from: &str| format!("SELECT {key} AS k, size, sum(id) AS ids FROM '{from}' GROUP BY 1, 2 ORDER BY 1, 2");
    let answer = |query: &str| Annulus::new(["sql", "--format", "csv", query]).at(at).succeeds().stdout;
    assert_eq!(answer(&query("parts/")), answer(&query("*.csv")));
    let plan = answer(&format!("EXPLAIN {}", query("parts/")));
    assert!(plan.contains("output_partitioning=Hash") && !plan.contains("RepartitionExec"), "{plan}");

    let by_value = ["partition", "old.csv", "--by", key, "--by-value", "--output", "values"];
    Annulus::new(by_value).at(at).succeeds();
    assert_eq!(answer(&query("values/")), answer(&query("old.csv")));
    let unclosed =
        Annulus::new(["partition", "old.csv", "--by", "\"city", "--into", "2", "--output", "x"]).at(at).fails();
    assert!(unclosed.stderr.contains(r#"--by is '"city': expected names"#), "{}", unclosed.stderr);
}
