//! A join in one process, beside the same join on two workers.

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
    support::{
        Annulus, Running, names,
        workers::{TINY, list, worker},
    },
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

/// Writes the tables as folders of Arrow files a and b, and all columns but one as folders of
/// Parquet files p and q. Each has two files, so that two workers read it.
fn inputs() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["a", "b", "p", "q"] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    let create = |name: &str| fs::File::create(folder.path().join(name)).expect("a file");
    let halves = [("a", "p", 1, 0), ("a", "p", 1, 1), ("b", "q", 3, 0), ("b", "q", 3, 1)];
    for (arrow, parquet, first, half) in halves {
        let rows = table(first).slice(3 * half, 3);
        let (arrow, parquet) = (format!("{arrow}/{half}.arrow"), format!("{parquet}/{half}.parquet"));
        let mut writer = FileWriter::try_new(create(&arrow), &rows.schema()).expect("a writer");
        writer.write(&rows).and_then(|()| writer.finish()).expect("rows are written");
        let kept: Vec<usize> = (0..rows.num_columns()).filter(|&at| rows.schema().field(at).name() != "none").collect();
        let rows = rows.project(&kept).expect("columns");
        let mut writer = ArrowWriter::try_new(create(&parquet), rows.schema(), None).expect("a writer");
        writer.write(&rows).expect("rows are written");
        writer.close().expect("a whole file");
    }
    folder
}

fn run(folder: &Path, options: &[&str], output: &str) -> Value {
    let more = ["--threads", "2", "--output", output, "--overwrite", "--json"];
    let done = Annulus::new(["join"].iter().chain(options).chain(&more)).at(folder).succeeds();
    serde_json::from_str(&done.stdout).expect("JSON")
}

/// What a report calls the process of the command.
const HERE: &str = "this process";

/// Two workers that read and write in `folder`, as the command line takes them.
struct Workers(Vec<(Running, String)>);

impl Workers {
    fn start(folder: &Path) -> Self {
        Self((0..2).map(|_| worker(folder, &["--allow-read", ".", "--allow-write", "."])).collect())
    }

    fn run(&self, folder: &Path, options: &[&str], output: &str) -> Value {
        let all = list(&self.0);
        let report = run(folder, &[options, &["--workers", &all], &TINY].concat(), output);
        // Without rows, the command itself may have found out.
        let is_remote = report["parts"].as_array().is_some_and(|parts| parts.iter().all(|part| part["worker"] != HERE));
        assert!(is_remote || report["rows_out"] == 0, "{options:?}: {report}");
        report
    }
}

/// Returns the columns in a result's manifest.
fn columns(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join(".annulus/manifest")).expect("a manifest");
    let manifest: Manifest = serde_json::from_str(&text).expect("a manifest");
    serde_json::to_value(manifest.columns).expect("JSON")
}

#[test]
fn values_of_all_types_are_joined_as_on_workers() {
    let folder = inputs();
    let workers = Workers::start(folder.path());
    let sides = [["a", "b"], ["p=p", "q=q"], ["a=p", "b"]];
    let keys = ["id", "word", "Word", "a.word", "d", "f", "list", "s", "bytes", "price", "at", "id,word", "n"];
    let mut most = 0;
    for (number, [left, right]) in sides.into_iter().enumerate() {
        for (place, key) in keys.into_iter().enumerate() {
            let kinds = ["inner", "left", "right", "full", "semi", "anti", "right-semi", "right-anti"];
            let options = [left, right, "--on", key, "--type", kinds[(number + place) % kinds.len()]];
            run(folder.path(), &options, "single");
            workers.run(folder.path(), &options, "workers");
            let [single, there] = ["single", "workers"].map(|name| folder.path().join(name));
            assert_eq!(rows_of_files(&single), rows_of_files(&there), "{options:?}");
            assert_eq!(columns(&single), columns(&there), "{options:?}");
            most = most.max(rows_of_files(&single).len());
        }
    }
    assert!(most > 8, "{most} rows at most");
}

#[test]
fn conditions_of_all_kinds_select_the_same_rows_as_on_workers() {
    let folder = inputs();
    let workers = Workers::start(folder.path());
    for (condition, operator) in [
        ("a.id IS NOT DISTINCT FROM b.id", "HashJoinExec"),
        ("a.id + 2 = b.id AND b.price > 0", "HashJoinExec"),
        ("a.d = b.word AND a.n <> b.n", "HashJoinExec"),
        ("a.price = b.f + 1.25", "HashJoinExec"),
        ("a.n BETWEEN b.n - 1 AND b.n + 1", "BandJoinExec"),
        ("a.f >= b.f - 0.5 AND a.f < b.f + 0.5", "BandJoinExec"),
        ("a.word LIKE b.word || '%'", "LoopJoinExec"),
        ("a.n <> b.n AND a.id IS NULL", "LoopJoinExec"),
        ("1 = 1", ""),
        ("1 = 2", ""),
    ] {
        for kind in ["inner", "full", "anti", "right-semi"] {
            let options = ["a", "b=q", "--where", condition, "--type", kind];
            if kind == "full" {
                let plan = run(folder.path(), &[&options[..], &["--explain"]].concat(), "single");
                assert!(plan["plan"].as_str().is_some_and(|plan| plan.contains(operator)), "{options:?}: {plan}");
            }
            run(folder.path(), &options, "single");
            workers.run(folder.path(), &options, "workers");
            let [single, there] = ["single", "workers"].map(|name| rows_of_files(&folder.path().join(name)));
            assert_eq!(single, there, "{options:?}");
        }
    }
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
fn keys_of_the_smaller_side_drop_rows_where_they_are_read() {
    let folder = orders();
    for (kind, format) in [("inner", "parquet"), ("semi", "arrow")] {
        let options = ["i=items.parquet", "o=orders.parquet", "--on", "order_id=id", "--where", "o.price = 7"];
        let options = [&options[..], &["--type", kind, "--format", format]].concat();
        let report = run(folder.path(), &options, "out");
        assert_eq!((&report["rows_out"], &report["counted"]["rows_left"]), (&1000.into(), &100_000.into()), "{report}");
        let dropped = |report: &Value| report["counted"]["rows_dropped"].as_u64().expect("a number");
        assert!(dropped(&report) > 90_000, "{report}");
        let off = ["--set", "datafusion.optimizer.enable_join_dynamic_filter_pushdown=false"];
        let report = run(folder.path(), &[&options[..], &off].concat(), "out");
        assert_eq!(report["rows_out"], 1000, "{report}");
        // What the predicate drops.
        assert!(dropped(&report) < 20_000, "{report}");
    }
}

#[test]
fn rows_that_are_skipped_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a.csv"), "id,n\n1,2\n2,x\n3,4\n").expect("a file");
    fs::write(folder.path().join("b.csv"), "id,m\n1,2\n3,x\n").expect("a file");
    let types = ["--types", "n=int,m=int", "--on-bad-row", "skip"];
    for (output, workers) in [("here", &[][..]), ("there", &["--cluster", "2"])] {
        let report = run(folder.path(), &[&["a.csv", "b.csv", "--on", "id"][..], &types, workers].concat(), output);
        assert_eq!((&report["rows_bad"], &report["rows_out"]), (&2.into(), &1.into()), "{output}");
    }
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
    let join = ["join", "long.arrow", "ids.parquet", "--on", "id", "--threads", "2", IN_ORDER[0], IN_ORDER[1]];
    let limited = ["--select", "a.id, length(a.text) AS bytes", "--memory-limit", "300M", "--output", "out"];
    Annulus::new(join.iter().chain(&limited)).at(folder.path()).succeeds();
    assert_eq!(names(folder.path()), ["ids.parquet", "long.arrow", "out"]);
    assert_eq!(names(&folder.path().join("out")), [".annulus", "host-00"]);
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

/// The left side is kept, as it is given.
const IN_ORDER: [&str; 2] = ["--set", "datafusion.optimizer.join_reordering=false"];

#[test]
fn a_side_that_is_larger_than_memory_is_joined_and_nothing_else_is_left() {
    let folder = wide();
    fs::create_dir(folder.path().join("tmp")).expect("a folder");
    for (condition, limit) in [(["--on", "id"], 150), (["--where", "a.id BETWEEN b.id - 1 AND b.id"], 180)] {
        let text = format!("{limit}M");
        let join =
            ["join", "wide.parquet", "ids.parquet", "--type", "left", "--output", "out", "--overwrite", "--json"];
        let options = ["--threads", "2", "--memory-limit", &text].into_iter().chain(IN_ORDER).chain(condition);
        let annulus = Annulus::new(join.into_iter().chain(options)).at(folder.path());
        let done = annulus.temp(&folder.path().join("tmp")).succeeds();
        let report: Value = serde_json::from_str(&done.stdout).expect("JSON");
        assert_eq!(report["rows_out"], 200_000, "{report}");
        assert!(report["counted"]["spilled_bytes"].as_u64() > Some(0), "{report}");
        let peak = report["peak_bytes"].as_u64().expect("a number");
        assert!(peak < limit << 20, "{peak} bytes for {condition:?}");
        let out = folder.path().join("out");
        assert_eq!(names(&out), [".annulus", "host-00"]);
        let hidden: Vec<_> = names(&out.join("host-00")).into_iter().filter(|name| name.starts_with('.')).collect();
        assert_eq!(hidden, [".annulus"], "{condition:?}");
        assert_eq!(names(&out.join("host-00/.annulus")), ["manifest"], "{condition:?}");
        assert_eq!(names(&folder.path().join("tmp")), [""; 0]);
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
    run(folder.path(), &options, "single");
    Workers::start(folder.path()).run(folder.path(), &options, "workers");
    let [single, there] = ["single", "workers"].map(|name| rows_of_files(&folder.path().join(name)));
    assert!(single == there && single.len() == 10, "{single:?}");
}

/// No column is read, and no row is wide.
#[test]
fn rows_without_columns_are_joined() {
    let folder = orders();
    let options = ["o=orders.parquet", "p=orders.parquet", "--on", "id", "--select", "1 AS one"];
    let report = run(folder.path(), &options, "out");
    assert_eq!(report["rows_out"], 20_000);
    // Each of the two scans of one file counts for its own side.
    let counted = &report["counted"];
    assert_eq!((&counted["rows_left"], &counted["rows_right"]), (&20_000.into(), &20_000.into()), "{report}");
    let empty = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
    let file = fs::File::create(folder.path().join("empty.parquet")).expect("a file");
    ArrowWriter::try_new(file, empty, None).and_then(ArrowWriter::close).expect("a file without rows");
    for (kind, rows) in [("inner", 0), ("right", 20_000), ("anti", 0), ("full", 20_000)] {
        let options = ["e=empty.parquet", "o=orders.parquet", "--on", "id", "--type", kind];
        assert_eq!(run(folder.path(), &options, "out")["rows_out"], rows, "{kind}");
    }
}
