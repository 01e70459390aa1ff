//! What must not be declared.

use std::{fs, sync::Arc};

use annulus_datafusion::{NotPartitioned, register_dataset};
use annulus_dataset::{ExistingPolicy, InputOptions, NoLayout, OutputFormat, PlacementSpec};
use arrow::{
    array::{ArrayRef, RecordBatch, TimestampSecondArray},
    compute::cast,
    datatypes::DataType,
};
use datafusion::physical_plan::Partitioning;
use rand::{SeedableRng, rngs::StdRng};

use crate::support::{Split, Tables, answer, by, count, plan, register, rows, session, session_with};

fn some_rows(seed: u64) -> RecordBatch {
    rows(&mut StdRng::seed_from_u64(seed), 300, 60)
}

/// Returns why the dataset at `path` is not read as partitioned.
async fn why(path: &str) -> NotPartitioned {
    let context = session(4);
    let table = register(&context, "x", path).await;
    let why = table.partitioning().expect_err("it is not partitioned");
    let shown = plan(&context, "SELECT k, count(*) FROM x GROUP BY k").await;
    assert!(!shown.contains("output_partitioning") && count(&shown, "RepartitionExec") == 1, "{shown}");
    why
}

fn layout(why: NoLayout) -> NotPartitioned {
    NotPartitioned::Layout(why)
}

#[tokio::test]
async fn files_without_a_manifest() {
    let tables = Tables::new();
    let path = tables.split("x", &some_rows(1), &by(&["k"], 4));
    fs::remove_file(tables.at("x/.annulus/manifest")).expect("a manifest");
    assert_eq!(why(&path).await, layout(NoLayout::NoManifest));
    // Nor is a part of a dataset.
    let path = tables.split("y", &some_rows(1), &by(&["k"], 4));
    assert_eq!(why(&format!("{path}/*.parquet")).await, layout(NoLayout::NoManifest));
}

#[tokio::test]
async fn other_placements() {
    let tables = Tables::new();
    let split =
        |name: &str, placing| tables.split(name, &some_rows(1), &Split { placing: Some(placing), ..by(&["k"], 4) });
    assert_eq!(why(&split("groups", PlacementSpec::KeyGroups(64))).await, layout(NoLayout::Rule("by key groups")));
    let turns = Split { placing: Some(PlacementSpec::RoundRobin), ..by(&[], 4) };
    assert_eq!(why(&tables.split("turns", &some_rows(1), &turns)).await, layout(NoLayout::Rule("in turn")));
}

/// Changes a text of the manifest in `folder`.
fn edit(tables: &Tables, folder: &str, from: &str, to: &str) {
    let path = tables.at(&format!("{folder}/.annulus/manifest"));
    let text = fs::read_to_string(&path).expect("a manifest");
    assert!(text.contains(from), "{from} in {text}");
    fs::write(path, text.replace(from, to)).expect("write");
}

#[tokio::test]
async fn another_hash() {
    let tables = Tables::new();
    let path = tables.split("x", &some_rows(1), &by(&["k"], 4));
    let rule = r#""texts_as_views": false"#;
    edit(&tables, "x", rule, &format!(r#"{rule}, "hash": "0123456789abcdef""#));
    assert_eq!(why(&path).await, layout(NoLayout::OtherHash));
}

#[tokio::test]
async fn another_number_of_partitions() {
    let tables = Tables::new();
    let path = tables.split("x", &some_rows(1), &by(&["k"], 4));
    edit(&tables, "x", r#""into": 4"#, r#""into": 5"#);
    assert_eq!(why(&path).await, layout(NoLayout::Files));
    let path = tables.split("y", &some_rows(1), &by(&["k"], 4));
    edit(&tables, "y", r#""partition": 2"#, r#""partition": 3"#);
    assert_eq!(why(&path).await, layout(NoLayout::Files));
}

#[tokio::test]
async fn a_key_column_that_is_not_there() {
    let tables = Tables::new();
    let path = tables.split("x", &some_rows(1), &by(&["k"], 4));
    edit(&tables, "x", "[\n      \"k\"\n    ]", r#"["key"]"#);
    assert_eq!(why(&path).await, layout(NoLayout::Column("key".to_owned())));
}

#[tokio::test]
async fn a_key_of_version_1_that_is_ambiguous() {
    let tables = Tables::new();
    let rows = some_rows(1);
    let names = ["k", "k,v", "v"].into_iter().zip(rows.columns().iter().cloned());
    let path = tables.split("x", &RecordBatch::try_from_iter(names).expect("rows"), &by(&["k,v"], 4));
    let table = register(&session(4), "x", &path).await;
    assert!(table.partitioning().is_ok());
    let manifest = tables.at("x/.annulus/manifest");
    let text = fs::read_to_string(&manifest).expect("a manifest");
    let (first, rest) = text.split_once("\"settings\": {").expect("settings");
    let (_, rest) = rest.split_once("\n  },").expect("their end");
    let settings = r#""by": "k,v", "placement": "{\"version\":1,\"rule\":\"hash\",\"texts_as_views\":true}",
        "into": "4", "format": "parquet", "compression": "snappy""#;
    fs::write(manifest, format!("{first}\"settings\": {{ {settings} }},{rest}")).expect("write");
    assert_eq!(why(&path).await, layout(NoLayout::Ambiguous("k,v".to_owned())));
}

/// Parquet files store seconds as milliseconds, which hash differently. Seconds are placed as
/// milliseconds, so files that keep them are not read as they were hashed.
#[tokio::test]
async fn keys_that_files_store_as_another_type() {
    let tables = Tables::new();
    let times: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values(0..100));
    let rows = RecordBatch::try_from_iter([("k", times)]).expect("rows");
    let path = tables.split("x", &rows, &by(&["k"], 4));
    assert!(register(&session(4), "x", &path).await.partitioning().is_ok());
    let kept = tables.split("y", &rows, &Split { format: OutputFormat::Ipc, ..by(&["k"], 4) });
    assert!(matches!(why(&kept).await, NotPartitioned::Type { .. }));
    let by_type = Split { placing: Some(PlacementSpec::Hash), ..by(&["k"], 4) };
    assert!(matches!(why(&tables.split("z", &rows, &by_type)).await, NotPartitioned::Type { .. }));
}

/// Texts are hashed as the views that DataFusion reads from Parquet by default. A session that
/// reads plain texts would look for them elsewhere.
#[tokio::test]
async fn texts_that_are_read_as_another_type_than_they_were_hashed_as() {
    let tables = Tables::new();
    let query = "SELECT t, count(*) FROM x GROUP BY t";
    let partitioned = async |path: &str, views: bool| {
        let context = session_with(4, |config| {
            config.options_mut().execution.parquet.schema_force_view_types = views;
        });
        let table = register(&context, "x", path).await;
        let declares = plan(&context, query).await.contains("output_partitioning=Hash([t@0], 4)");
        assert_eq!(declares, table.partitioning().is_ok());
        table.partitioning().map(|_| ())
    };
    let as_views = tables.split("views", &some_rows(1), &by(&["t"], 4));
    assert_eq!(partitioned(&as_views, true).await, Ok(()));
    let (hashed, read) = (DataType::Utf8View, DataType::Utf8);
    let differs = NotPartitioned::Type { column: "t".to_owned(), hashed, read };
    assert_eq!(partitioned(&as_views, false).await, Err(differs));
    let as_texts = Split { placing: Some(PlacementSpec::Hash), ..by(&["t"], 4) };
    let as_texts = tables.split("texts", &some_rows(1), &as_texts);
    assert_eq!(partitioned(&as_texts, false).await, Ok(()));
    assert!(partitioned(&as_texts, true).await.is_err());
}

/// A join with a key of another type compares casts, which hash differently, so both are exchanged.
#[tokio::test]
async fn keys_of_other_types_are_exchanged() {
    let types = [DataType::Int32, DataType::Decimal128(20, 2), DataType::Float64];
    for data_type in types {
        let tables = Tables::new();
        let a = some_rows(1);
        let b = some_rows(2);
        let key = cast(b.column(0), &data_type).expect("a cast");
        let b = RecordBatch::try_from_iter([("k", key), ("v", Arc::clone(b.column(2)))]).expect("rows");
        let context = session(4);
        register(&context, "a", &tables.split("a", &a, &by(&["k"], 4))).await;
        let table = register(&context, "b", &tables.split("b", &b, &by(&["k"], 4))).await;
        assert!(table.partitioning().is_ok(), "{data_type}");
        context.sql("SET annulus.joins = never").await.expect("an option");
        let query = "SELECT a.v, b.v FROM a JOIN b ON a.k = b.k";
        let (declared, shown) = (answer(&context, query).await, plan(&context, query).await);
        assert!(count(&shown, "RepartitionExec") > 0, "{data_type}: {shown}");
        context.sql("SET annulus.partitioned_tables = false").await.expect("an option");
        assert_eq!(declared, answer(&context, query).await, "{data_type}");
    }
}

/// A dictionary is compared with texts as texts, and with a dictionary as it is.
#[tokio::test]
async fn dictionaries_are_joined_with_texts() {
    let tables = Tables::new();
    let rows = some_rows(1);
    let data_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let coded = cast(rows.column(1), &data_type).expect("a cast");
    let coded = RecordBatch::try_from_iter([("t", coded), ("v", Arc::clone(rows.column(2)))]).expect("rows");
    let context = session(4);
    register(&context, "a", &tables.split("a", &rows, &by(&["t"], 4))).await;
    register(&context, "b", &tables.split("b", &coded, &by(&["t"], 4))).await;
    register(&context, "c", &tables.split("c", &coded, &by(&["t"], 4))).await;
    for query in ["SELECT b.v, c.v FROM b JOIN c ON b.t = c.t", "SELECT a.v, b.v FROM a JOIN b ON a.t = b.t"] {
        let declared = answer(&context, query).await;
        context.sql("SET annulus.partitioned_tables = false").await.expect("an option");
        assert_eq!(declared, answer(&context, query).await, "{query}");
        context.sql("SET annulus.partitioned_tables = true").await.expect("an option");
    }
}

/// The extra files of hot keys belong to their partition.
#[tokio::test]
async fn hot_keys_are_read_with_their_partition() {
    let tables = Tables::new();
    let rows = rows(&mut StdRng::seed_from_u64(3), 3000, 2);
    let path = tables.split("x", &rows, &Split { split_hot_keys: true, ..by(&["k"], 3) });
    let names: Vec<_> =
        fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    assert!(names.iter().any(|name| name.to_string_lossy().contains(".hot-")), "{names:?}");
    let context = session(3);
    register(&context, "x", &path).await;
    let query = "SELECT k, count(*) FROM x GROUP BY k";
    let shown = plan(&context, query).await;
    assert!(shown.contains("output_partitioning=Hash([k@0], 3)"), "{shown}");
    assert_eq!(answer(&context, query).await.len(), 3 + 4, "three keys, and the lines of the table");
}

/// Partitions without rows have no file, and keep their number.
#[tokio::test]
async fn empty_partitions_are_empty_groups() {
    let tables = Tables::new();
    let rows = rows(&mut StdRng::seed_from_u64(3), 100, 2);
    for format in [OutputFormat::Parquet, OutputFormat::Ipc] {
        let split = Split { format, ..by(&["k"], 9) };
        let path = tables.split(format.name(), &rows, &split);
        assert!(fs::read_dir(&path).expect("a folder").count() <= 4, "at most three keys, and a manifest");
        let context = session(3);
        let table = register(&context, "x", &path).await;
        assert_eq!(table.partitioning().map(Partitioning::partition_count), Ok(9));
        register(&context, "y", &path).await;
        let query = "SELECT x.k, count(*) FROM x JOIN y ON x.k = y.k GROUP BY x.k";
        assert!(plan(&context, query).await.contains("InTurnExec: partitions=9, at_a_time=3"));
        let declared = answer(&context, query).await;
        context.sql("SET annulus.partitioned_tables = false").await.expect("an option");
        assert_eq!(declared, answer(&context, query).await);
    }
}

/// An append adds files to the partitions; without its rows the answer would be another.
#[tokio::test]
async fn appended_files_belong_to_their_partitions() {
    let tables = Tables::new();
    let path = tables.split("x", &some_rows(1), &by(&["k"], 4));
    let more = tables.plain("more", &some_rows(2));
    tables.split_file("x", more, &Split { existing: ExistingPolicy::Append, ..by(&["k"], 4) });
    let context = session(4);
    register(&context, "x", &path).await;
    let query = "SELECT k, count(*), sum(v) FROM x GROUP BY k";
    assert!(plan(&context, query).await.contains("output_partitioning=Hash([k@0], 4)"));
    let declared = answer(&context, query).await;
    context.sql("SET annulus.partitioned_tables = false").await.expect("an option");
    assert_eq!(declared, answer(&context, query).await);
    // Rows that were appended by another rule are elsewhere.
    let text = fs::read_to_string(tables.at("x/.annulus/manifest")).expect("a manifest");
    let (first, appends) = text.split_once(r#""appends""#).expect("an append");
    let appends = appends.replacen(r#""into": 4"#, r#""into": 8"#, 1);
    fs::write(tables.at("x/.annulus/manifest"), format!(r#"{first}"appends"{appends}"#)).expect("write");
    assert_eq!(why(&path).await, layout(NoLayout::Append));
}

#[tokio::test]
async fn changed_missing_and_additional_files_are_errors() {
    let refused = async |tables: &Tables| {
        let (context, path, options) = (session(4), tables.path("x"), InputOptions::default());
        let read = register_dataset(&context, "x", &path, &options).await;
        read.expect_err("files that are not those of the manifest").to_string()
    };
    let tables = || {
        let tables = Tables::new();
        tables.split("x", &some_rows(1), &by(&["k"], 4));
        tables
    };
    let missing = tables();
    fs::remove_file(missing.at("x/part-00002.parquet")).expect("a file");
    assert!(refused(&missing).await.contains(".annulus/manifest names it"));
    let changed = tables();
    let mut bytes = fs::read(changed.at("x/part-00001.parquet")).expect("a file");
    bytes.push(0);
    fs::write(changed.at("x/part-00002.parquet"), bytes).expect("write");
    let error = refused(&changed).await;
    assert!(error.contains("according to .annulus/manifest"), "{error}");
    let additional = tables();
    fs::copy(additional.at("x/part-00001.parquet"), additional.at("x/part-00009.parquet")).expect("a file");
    assert!(refused(&additional).await.contains("it is not in"));
}

/// A file that is replaced after its table was registered has rows of other partitions.
#[tokio::test]
async fn files_that_change_later_are_errors() {
    let tables = Tables::new();
    let path = tables.split("x", &some_rows(1), &by(&["k"], 4));
    let context = session(4);
    register(&context, "x", &path).await;
    tables.split("x", &some_rows(2), &Split { existing: ExistingPolicy::Overwrite, ..by(&["v"], 4) });
    let query = context.sql("SELECT k, count(*) FROM x GROUP BY k").await.expect("a plan").collect().await;
    assert!(query.expect_err("another dataset").to_string().contains("has changed since its table was registered"));
}

/// Conditions that exclude whole files leave the others in their partitions.
#[tokio::test]
async fn conditions_do_not_move_partitions() {
    let tables = Tables::new();
    let path = tables.split("x", &some_rows(1), &by(&["v"], 6));
    let other = tables.split("y", &some_rows(2), &by(&["v"], 6));
    let context = session(2);
    register(&context, "x", &path).await;
    register(&context, "y", &other).await;
    for condition in ["x.v = 17", "x.v > 290", "y.v BETWEEN 3 AND 5", "x.v < 0"] {
        let query = format!("SELECT x.v, count(*) FROM x JOIN y ON x.v = y.v WHERE {condition} GROUP BY x.v");
        let declared = answer(&context, &query).await;
        context.sql("SET annulus.partitioned_tables = false").await.expect("an option");
        assert_eq!(declared, answer(&context, &query).await, "{query}");
        context.sql("SET annulus.partitioned_tables = true").await.expect("an option");
    }
}

/// A limit on the table alone takes its first rows, and declares nothing.
#[tokio::test]
async fn limits_are_not_declared() {
    let tables = Tables::new();
    let path = tables.split("x", &some_rows(1), &by(&["k"], 4));
    let context = session(4);
    register(&context, "x", &path).await;
    assert!(!plan(&context, "SELECT * FROM x LIMIT 3").await.contains("output_partitioning"));
    let query = "SELECT count(*) FROM (SELECT k, count(*) FROM x GROUP BY k LIMIT 5)";
    assert_eq!(answer(&context, query).await[3..], ["| 5        |", "| count(*) |"]);
}
