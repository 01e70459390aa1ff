//! A join on a single host, which runs as a query of DataFusion, beside the same join on a ring of
//! two hosts.

use std::{fs, path::Path, sync::Arc};

use annulus_dataset::Manifest;
use arrow::{
    array::{
        ArrayRef, BinaryArray, Decimal128Array, DictionaryArray, Float64Array, Int32Array, Int64Array,
        LargeStringArray, ListArray, NullArray, RecordBatch, StringArray, StringViewArray, StructArray,
        TimestampSecondArray,
    },
    datatypes::{DataType, Field, Int32Type, Schema},
    ipc::writer::FileWriter,
};
use datafusion::parquet::arrow::ArrowWriter;
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    folder::assert_says,
    support::{Annulus, names},
    tables::rows_of_files,
};

/// Rows of many types, with nulls, and a key that three rows have. Of each column, a part of the
/// values is special.
fn table(first: i64) -> RecordBatch {
    let ids: Vec<Option<i64>> = vec![Some(first), Some(first), None, Some(first + 1), Some(3), Some(first + 9)];
    let words = vec![Some("a"), Some("longer than twelve bytes"), None, Some(""), Some("a"), Some("ä")];
    let floats = vec![Some(0.0), Some(-0.0), None, Some(f64::NAN), Some(f64::INFINITY), Some(1.5)];
    let lists: Vec<Option<Vec<Option<i32>>>> =
        vec![Some(vec![Some(1), None]), Some(vec![]), None, Some(vec![Some(1), None]), None, Some(vec![Some(7)])];
    let inner: ArrayRef = Arc::new(StringArray::from(words.clone()));
    let structs = StructArray::from(vec![(Arc::new(Field::new("inner", DataType::Utf8, true)), inner)]);
    let dictionary: DictionaryArray<Int32Type> = words.iter().copied().collect();
    let decimals = Decimal128Array::from(vec![Some(125), None, Some(0), Some(-5), Some(125), Some(7)]);
    let seconds = vec![Some(1), None, Some(0), Some(-5), Some(1_700_000_000), Some(7)];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(ids))),
        ("word", Arc::new(StringArray::from(words.clone()))),
        ("Word", Arc::new(LargeStringArray::from(words.clone()))),
        ("a.word", Arc::new(StringViewArray::from(words.clone()))),
        ("d", Arc::new(dictionary)),
        ("f", Arc::new(Float64Array::from(floats))),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
        ("s", Arc::new(structs)),
        ("bytes", Arc::new(BinaryArray::from_opt_vec(words.iter().map(|word| word.map(str::as_bytes)).collect()))),
        ("price", Arc::new(decimals.with_precision_and_scale(10, 2).expect("a type"))),
        ("at", Arc::new(TimestampSecondArray::from(seconds).with_timezone("UTC"))),
        ("none", Arc::new(NullArray::new(6))),
        ("n", Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5, 6]))),
    ];
    let nullable = columns.into_iter().map(|(name, column)| (name, column, name != "n"));
    RecordBatch::try_from_iter_with_nullable(nullable).expect("a table")
}

/// Writes the tables as Arrow files a and b, and but for one column as Parquet files p and q.
fn inputs() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let create = |name: &str| fs::File::create(folder.path().join(name)).expect("a file");
    for (arrow, parquet, first) in [("a.arrow", "p.parquet", 1), ("b.arrow", "q.parquet", 3)] {
        let rows = table(first);
        let mut writer = FileWriter::try_new(create(arrow), &rows.schema()).expect("a writer");
        writer.write(&rows).and_then(|()| writer.finish()).expect("rows are written");
        let kept: Vec<usize> = (0..rows.num_columns()).filter(|&at| rows.schema().field(at).name() != "none").collect();
        let rows = rows.project(&kept).expect("columns");
        let mut writer = ArrowWriter::try_new(create(parquet), rows.schema(), None).expect("a writer");
        writer.write(&rows).expect("rows are written");
        writer.close().expect("a whole file");
    }
    folder
}

fn run(folder: &Path, options: &[&str], hosts: &str, output: &str) -> Value {
    let more = ["--local", hosts, "--threads", "2", "--output", output, "--overwrite", "--json"];
    let done = Annulus::new(["join"].iter().chain(options).chain(&more)).at(folder).succeeds();
    serde_json::from_str(&done.stdout).expect("JSON")
}

/// Returns the columns in a result's manifest.
fn columns(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("manifest.json")).expect("a manifest");
    let manifest: Manifest = serde_json::from_str(&text).expect("a manifest");
    serde_json::to_value(manifest.columns).expect("JSON")
}

#[test]
fn values_of_all_types_are_joined_as_on_a_ring() {
    let folder = inputs();
    let sides = [["a.arrow", "b.arrow"], ["p=p.parquet", "q=q.parquet"], ["a=p.parquet", "b.arrow"]];
    let keys = ["id", "word", "Word", "a.word", "d", "f", "list", "s", "bytes", "price", "at", "id,word", "n"];
    let mut most = 0;
    for (number, [left, right]) in sides.into_iter().enumerate() {
        for (place, key) in keys.into_iter().enumerate() {
            let kinds = ["inner", "left", "right", "full", "semi", "anti", "right-semi", "right-anti"];
            let options = [left, right, "--on", key, "--type", kinds[(number + place) % kinds.len()]];
            let single = run(folder.path(), &options, "1", "single");
            let ring = run(folder.path(), &[&options[..], &["--algorithm", "hash"]].concat(), "2", "ring");
            assert_eq!((&single["engine"], &ring["engine"]), (&"sql".into(), &"ring".into()), "{options:?}");
            assert_eq!(single["columns"], ring["columns"], "{options:?}");
            let [single, ring] = ["single", "ring"].map(|name| folder.path().join(name));
            assert_eq!(rows_of_files(&single), rows_of_files(&ring), "{options:?}");
            assert_eq!(columns(&single), columns(&ring), "{options:?}");
            most = most.max(rows_of_files(&single).len());
        }
    }
    assert!(most > 8, "{most} rows at most");
}

#[test]
fn conditions_of_all_kinds_select_the_same_rows_as_on_a_ring() {
    let folder = inputs();
    for (condition, algorithm) in [
        ("a.id IS NOT DISTINCT FROM b.id", "hash"),
        ("a.id + 2 = b.id AND b.price > 0", "hash"),
        ("a.d = b.word AND a.n <> b.n", "hash"),
        ("a.price = b.f + 1.25", "hash"),
        ("a.n BETWEEN b.n - 1 AND b.n + 1", "merge"),
        ("a.f >= b.f - 0.5 AND a.f < b.f + 0.5", "merge"),
        ("a.word LIKE b.word || '%'", "loops"),
        ("a.n <> b.n AND a.id IS NULL", "loops"),
        ("1 = 1", "loops"),
        ("1 = 2", "loops"),
    ] {
        for kind in ["inner", "full", "anti", "right-semi"] {
            let options = ["a.arrow", "b=q.parquet", "--where", condition, "--type", kind];
            let single = run(folder.path(), &options, "1", "single");
            assert_eq!(single["engine"], if algorithm == "loops" { "ring" } else { "sql" }, "{options:?}");
            assert_eq!(single["algorithm"], algorithm, "{options:?}");
            run(folder.path(), &options, "2", "ring");
            let [single, ring] = ["single", "ring"].map(|name| rows_of_files(&folder.path().join(name)));
            assert_eq!(single, ring, "{options:?}");
        }
    }
}

/// A ring has several revolutions, forms of key filters, and a merge join of equal keys.
#[test]
fn what_only_a_ring_has_runs_on_a_ring_of_one_host() {
    let folder = inputs();
    let on = ["a.arrow", "b.arrow", "--on", "id"];
    let rows = |options: &[&str], engine: &str| {
        let report = run(folder.path(), &[&on[..], options].concat(), "1", "out");
        assert_eq!(report["engine"], engine, "{options:?}");
        rows_of_files(&folder.path().join("out"))
    };
    let expected = rows(&[], "sql");
    for options in [
        &["--revolutions", "2"][..],
        &["--key-filter", "exact"],
        &["--key-filter", "bloom"],
        &["--algorithm", "merge"],
        &["--algorithm", "loops"],
    ] {
        assert_eq!(rows(options, "ring"), expected, "{options:?}");
    }
    for options in [&["--key-filter", "never"][..], &["--rotate", "right"], &["--algorithm", "hash"]] {
        assert_eq!(rows(options, "sql"), expected, "{options:?}");
    }
    // Rows with equal keys are few, those within a band of any key are not.
    let banded = ["a.arrow", "b.arrow", "--on", "id", "--where", "a.n < b.n + 5"];
    assert_eq!(run(folder.path(), &banded, "1", "banded")["engine"], "ring");
}

/// Writes items, of which a hundredth belongs to an expensive order.
fn orders() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (query, file) in [
        ("SELECT value AS id, value % 100 AS price FROM generate_series(1, 20000)", "orders.parquet"),
        (
            "SELECT value % 20000 + 1 AS order_id, 'item ' || value AS name FROM generate_series(1, 100000)",
            "items.parquet",
        ),
    ] {
        Annulus::new(["sql", query, "--output", file]).at(folder.path()).succeeds();
    }
    folder
}

#[test]
fn keys_of_the_stationary_side_drop_rows_where_they_are_read() {
    let folder = orders();
    for (kind, format) in [("inner", "parquet"), ("semi", "arrow")] {
        let options = ["i=items.parquet", "o=orders.parquet", "--on", "order_id=id", "--where", "o.price = 7"];
        let report = run(folder.path(), &[&options[..], &["--type", kind, "--format", format]].concat(), "1", "out");
        assert_eq!((&report["rows_out"], &report["key_filter"]["form"]), (&1000.into(), &"scan".into()), "{report}");
        let dropped = report["rows_dropped"].as_u64().expect("a number");
        assert!((90_000..=99_000).contains(&dropped), "{report}");
        assert_eq!(report["per_host"][0]["rows"][0], 100_000, "{report}");
        let without = [&options[..], &["--type", kind, "--key-filter", "never"]].concat();
        let report = run(folder.path(), &without, "1", "out");
        assert_eq!((&report["rows_out"], &report["rows_dropped"]), (&1000.into(), &0.into()), "{report}");
    }
}

#[test]
fn rows_that_are_skipped_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a.csv"), "id,n\n1,2\n2,x\n3,4\n").expect("a file");
    fs::write(folder.path().join("b.csv"), "id,m\n1,2\n3,x\n").expect("a file");
    let types = ["--types", "n=int,m=int", "--on-bad-row", "skip"];
    let report = run(folder.path(), &[&["a.csv", "b.csv", "--on", "id"][..], &types].concat(), "1", "out");
    assert_eq!((&report["engine"], &report["rows_bad"], &report["rows_out"]), (&"sql".into(), &2.into(), &1.into()));
}

/// A few rows have most bytes, so that an estimate from the first ones is far too low.
#[test]
fn a_side_with_long_values_is_joined_though_memory_does_not_suffice() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = "CASE WHEN value > 2000 THEN repeat('x' || value, 60000) ELSE 'x' END";
    let query = format!("SELECT value AS id, {long} AS text FROM generate_series(1, 3000)");
    let arrow = Annulus::new(["sql", &query, "--output", "long.arrow"]);
    arrow.at(folder.path()).succeeds();
    Annulus::new(["sql", "SELECT value AS id FROM generate_series(1, 100000)", "--output", "ids.parquet"])
        .at(folder.path())
        .succeeds();
    let join = ["join", "long.arrow", "ids.parquet", "--on", "id", "--rotate", "right", "--threads", "2"];
    let limited = ["--select", "a.id, length(a.text) AS bytes", "--memory-limit", "300M", "--output", "out"];
    Annulus::new(join.iter().chain(&limited)).at(folder.path()).succeeds();
    assert_eq!(names(folder.path()), ["ids.parquet", "long.arrow", "out"]);
    assert_eq!(names(&folder.path().join("out")), ["host-00", "manifest.json"]);
    let rows = rows_of_files(&folder.path().join("out/host-00"));
    assert!(rows.len() == 3000 && rows.contains(&"3000|300000".to_owned()), "{} rows", rows.len());
}

/// Writes a side of 200,000 rows, which take 400 MB, and a small one whose rows each have a partner.
fn wide() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "repeat(cast(value + 1000000 AS varchar), 285) AS text";
    for (query, file) in [
        (format!("SELECT value AS id, {text} FROM generate_series(1, 200000)"), "wide.parquet"),
        ("SELECT value * 100 AS id FROM generate_series(1, 2000)".to_owned(), "ids.parquet"),
    ] {
        Annulus::new(["sql", &query, "--output", file]).at(folder.path()).succeeds();
    }
    folder
}

/// The wide side is kept, because the other one rotates.
const WIDE: [&str; 6] = ["wide.parquet", "ids.parquet", "--rotate", "right", "--threads", "2"];

#[test]
fn a_side_that_is_larger_than_memory_is_joined_and_nothing_else_is_left() {
    let folder = wide();
    for (condition, limit) in [(["--on", "id"], 150), (["--where", "a.id BETWEEN b.id - 1 AND b.id"], 180)] {
        let join = ["join", "--output", "out", "--overwrite", "--json"];
        let text = format!("{limit}M");
        let options = WIDE.into_iter().chain(["--memory-limit", &text]).chain(condition);
        let done = Annulus::new(join.into_iter().chain(options)).at(folder.path()).succeeds();
        let report: Value = serde_json::from_str(&done.stdout).expect("JSON");
        let rows = if condition[0] == "--on" { 2000 } else { 4000 };
        assert_eq!((&report["engine"], &report["rows_out"]), (&"sql".into(), &rows.into()), "{report}");
        assert!(report["memory_per_host"].as_u64() <= Some(limit << 20), "{report}");
        let peak = report["per_host"][0]["peak_bytes"].as_u64().expect("a number");
        assert!(peak < (limit + 100) << 20, "{peak} bytes for {condition:?}");
        let out = folder.path().join("out");
        assert_eq!(names(&out), ["host-00", "manifest.json"]);
        assert!(names(&out.join("host-00")).iter().all(|name| !name.starts_with('.')), "{condition:?}");
        assert_eq!(rows_of_files(&out.join("host-00")).len(), rows, "{condition:?}");
    }
}

/// A ring of one host keeps its side in memory.
#[test]
fn memory_that_does_not_suffice_for_a_ring_is_explained_and_nothing_is_left() {
    let folder = wide();
    for condition in [
        &["--where", "a.id % 1000 = b.id % 1000 + 1 OR a.id = b.id"][..],
        &["--on", "id", "--where", "a.id < b.id + 5"],
        &["--on", "id", "--algorithm", "merge"],
    ] {
        let options = WIDE.iter().chain(&["--memory-limit", "150M"]).chain(condition);
        let failed = Annulus::new(["join", "--output", "out"].iter().chain(options)).at(folder.path()).fails();
        ["--memory-limit", "at least", "MiB"].iter().for_each(|text| assert_says(&failed, text));
        assert_eq!(names(folder.path()), ["ids.parquet", "wide.parquet"]);
    }
}

#[test]
fn folders_of_values_are_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    for day in ["2024-01-01", "2024-01-02"] {
        fs::create_dir_all(folder.path().join(format!("days/day={day}"))).expect("a folder");
        let query = format!("SELECT value AS id, '{day} ' || value AS text FROM generate_series(1, 10)");
        let file = format!("days/day={day}/rows of the day.parquet");
        Annulus::new(["sql", &query, "--output", &file]).at(folder.path()).succeeds();
    }
    let options = ["a=days", "b=days", "--on", "id", "--where", "a.day < b.day"];
    run(folder.path(), &options, "1", "single");
    run(folder.path(), &options, "2", "ring");
    let [single, ring] = ["single", "ring"].map(|name| rows_of_files(&folder.path().join(name)));
    assert!(single == ring && single.len() == 10, "{single:?}");
}

/// No column is read, and no row is wide.
#[test]
fn rows_without_columns_are_joined() {
    let folder = orders();
    let options = ["o=orders.parquet", "p=orders.parquet", "--on", "id", "--select", "1 AS one"];
    let report = run(folder.path(), &options, "1", "out");
    assert_eq!(report["rows_out"], 20_000);
    // Each of the two scans of one file counts for its own side.
    assert_eq!(report["per_host"][0]["rows"], serde_json::json!([20_000, 20_000]), "{report}");
    let empty = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
    let file = fs::File::create(folder.path().join("empty.parquet")).expect("a file");
    ArrowWriter::try_new(file, empty, None).and_then(ArrowWriter::close).expect("a file without rows");
    for (kind, rows) in [("inner", 0), ("right", 20_000), ("anti", 0), ("full", 20_000)] {
        let options = ["e=empty.parquet", "o=orders.parquet", "--on", "id", "--type", kind];
        assert_eq!(run(folder.path(), &options, "1", "out")["rows_out"], rows, "{kind}");
    }
}
