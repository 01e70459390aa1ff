//! `COPY ... PARTITIONED BY`: the folders of values, and what is read back.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use annulus_datafusion::{SessionStateBuilderExt, register_dataset};
use annulus_dataset::InputOptions;
use arrow::{
    array::{
        ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Int32Array, Int64Array, RecordBatch,
        StringArray, TimestampMicrosecondArray, UInt64Array,
    },
    datatypes::Int32Type,
    util::pretty::pretty_format_batches,
};
use datafusion::{
    execution::SessionStateBuilder,
    prelude::{SessionConfig, SessionContext},
};
use tempfile::TempDir;

fn session() -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2);
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    SessionContext::new_with_state(builder.with_annulus().build())
}

/// Returns a session with a table `t` of a key column `k`, and the numbers of rows `i`.
fn with_keys(k: ArrayRef) -> SessionContext {
    let context = session();
    let i: ArrayRef = Arc::new(Int64Array::from_iter_values(0..k.len() as i64));
    let rows = RecordBatch::try_from_iter_with_nullable([("k", k, true), ("i", i, true)]).unwrap();
    context.register_batch("t", rows).unwrap();
    context
}

async fn run(context: &SessionContext, query: &str) -> Result<String, String> {
    let frame = context.sql(query).await.map_err(|error| error.to_string())?;
    let rows = frame.collect().await.map_err(|error| error.to_string())?;
    Ok(pretty_format_batches(&rows).unwrap().to_string())
}

async fn copy(context: &SessionContext, folder: &Path, format: &str) -> Result<String, String> {
    let query = format!("COPY t TO '{}/' STORED AS {format} PARTITIONED BY (k)", folder.display());
    run(context, &query).await
}

/// Returns the visible names in a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with('.')).collect()
}

fn keys() -> Vec<(&'static str, ArrayRef, [&'static str; 3])> {
    let texts = [Some("a/b"), Some(""), None];
    let null = "k=__HIVE_DEFAULT_PARTITION__";
    let decimals = Decimal128Array::from(vec![Some(-5), Some(1000), None]).with_precision_and_scale(4, 2).unwrap();
    let times = TimestampMicrosecondArray::from(vec![Some(500_000), Some(-1), None]);
    vec![
        ("int", Arc::new(Int64Array::from(vec![Some(5), Some(-7), None])), ["k=5", "k=-7", null]),
        (
            "unsigned",
            Arc::new(UInt64Array::from(vec![Some(u64::MAX), Some(0), None])),
            ["k=18446744073709551615", "k=0", null],
        ),
        (
            "date",
            Arc::new(Date32Array::from(vec![Some(19_723), Some(0), None])),
            ["k=2024-01-01", "k=1970-01-01", null],
        ),
        ("bool", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])), ["k=true", "k=false", null]),
        ("text", Arc::new(StringArray::from(texts.to_vec())), ["k=a%2Fb", "k=", null]),
        ("digits", Arc::new(StringArray::from(vec![Some("007"), Some("-0"), None])), ["k=007", "k=-0", null]),
        ("coded", Arc::new(texts.into_iter().collect::<DictionaryArray<Int32Type>>()), ["k=a%2Fb", "k=", null]),
        ("decimal", Arc::new(decimals), ["k=-0.05", "k=10.00", null]),
        ("time", Arc::new(times.clone()), ["k=1970-01-01 00%3A00%3A00.5", "k=1969-12-31 23%3A59%3A59.999999", null]),
        (
            "zoned",
            Arc::new(times.with_timezone("Europe/Zurich")),
            ["k=1970-01-01 00%3A00%3A00.5+00%3A00", "k=1969-12-31 23%3A59%3A59.999999+00%3A00", null],
        ),
    ]
}

#[tokio::test]
async fn what_is_written_comes_back() {
    let folder = TempDir::new().unwrap();
    for format in ["PARQUET", "CSV", "JSON"] {
        for (name, keys, expected) in keys() {
            let context = with_keys(keys);
            let to = folder.path().join(format!("{name}-{format}"));
            copy(&context, &to, format).await.unwrap();
            assert_eq!(names(&to), expected.map(str::to_owned).into(), "{name}");
            let path = to.to_str().unwrap();
            register_dataset(&context, "back", path, &InputOptions::default()).await.unwrap();
            for query in
                ["SELECT arrow_typeof(k) t, k, i FROM x ORDER BY i", "SELECT max(k) AS most, count(k) AS number FROM x"]
            {
                let [own, back] = ["t", "back"].map(|table| query.replace("FROM x", &format!("FROM {table}")));
                let (own, back) = (run(&context, &own).await.unwrap(), run(&context, &back).await.unwrap());
                assert_eq!(own, back, "{name}, {format}");
            }
        }
    }
}

/// The record of the types belongs to the folder, not to one copy.
#[tokio::test]
async fn more_rows_are_added_if_their_types_are_the_same() {
    let folder = TempDir::new().unwrap();
    let to = folder.path().join("o");
    let numbers = with_keys(Arc::new(Int64Array::from(vec![1, 2])));
    copy(&numbers, &to, "PARQUET").await.unwrap();
    copy(&numbers, &to, "PARQUET").await.unwrap();
    register_dataset(&numbers, "back", to.to_str().unwrap(), &InputOptions::default()).await.unwrap();
    assert!(run(&numbers, "SELECT count(*) c FROM back").await.unwrap().contains("| 4 |"));
    let texts = with_keys(Arc::new(StringArray::from(vec!["1"])));
    let error = copy(&texts, &to, "PARQUET").await.unwrap_err();
    assert!(error.contains("column 'k' Utf8 is 'k' Int64 there"), "{error}");
    // A value that is not of the recorded type is not taken for one.
    fs::rename(to.join("k=1"), to.join("k=01")).unwrap();
    let error = register_dataset(&numbers, "back", to.to_str().unwrap(), &InputOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("'01' is not a Int64"), "{error}");
}

#[tokio::test]
async fn keys_whose_text_is_not_exact_are_refused() {
    let folder = TempDir::new().unwrap();
    let context = session();
    let query = format!(
        "COPY (SELECT 0.1::double AS k, 1 AS i) TO '{}/' STORED AS PARQUET PARTITIONED BY (k)",
        folder.path().display()
    );
    let error = run(&context, &query).await.unwrap_err();
    assert!(
        error.contains("'k'") && error.contains("Float64 cannot name folders") && error.contains("cast it"),
        "{error}"
    );
    assert!(names(folder.path()).is_empty());
}

#[tokio::test]
async fn folders_of_arrow_files_are_refused() {
    let folder = TempDir::new().unwrap();
    let error = copy(&with_keys(Arc::new(Int64Array::from(vec![1]))), folder.path(), "ARROW").await.unwrap_err();
    assert!(error.contains("named by 'k'") && error.contains("choose PARQUET, CSV or JSON"), "{error}");
}

#[tokio::test]
async fn the_files_can_keep_their_keys() {
    let folder = TempDir::new().unwrap();
    let context = with_keys(Arc::new(Int32Array::from(vec![Some(1), None])));
    run(&context, "SET datafusion.execution.keep_partition_by_columns = true").await.unwrap();
    copy(&context, folder.path(), "PARQUET").await.unwrap();
    register_dataset(&context, "back", folder.path().to_str().unwrap(), &InputOptions::default()).await.unwrap();
    let back = run(&context, "SELECT i, k FROM back ORDER BY i").await.unwrap();
    assert_eq!(back, run(&context, "SELECT i, k FROM t ORDER BY i").await.unwrap());
}

/// A listing table would read the folder of null as a text, or fail.
#[tokio::test]
async fn a_null_is_not_inserted_into_a_listing_table() {
    let folder = TempDir::new().unwrap();
    let context = with_keys(Arc::new(Int64Array::from(vec![Some(1), None])));
    let create = format!(
        "CREATE EXTERNAL TABLE x (i BIGINT, k BIGINT) STORED AS PARQUET PARTITIONED BY (k) LOCATION '{}/'",
        folder.path().display()
    );
    run(&context, &create).await.unwrap();
    let error = run(&context, "INSERT INTO x SELECT i, k FROM t").await.unwrap_err();
    assert!(error.contains("null"), "{error}");
    run(&context, "INSERT INTO x SELECT i, k FROM t WHERE k = 1").await.unwrap();
    assert!(run(&context, "SELECT k FROM x").await.unwrap().contains("| 1 |"));
}

/// DataFusion 55 reads the folder of null as a text, or fails.
#[tokio::test]
async fn listing_tables_have_nulls() {
    let folder = TempDir::new().unwrap();
    for (name, keys, _) in keys() {
        let to = folder.path().join(name);
        let context = with_keys(keys);
        copy(&context, &to, "PARQUET").await.unwrap();
        let typed = run(&context, "SELECT arrow_typeof(max(k)) FROM t").await.unwrap();
        let sql_type = match name {
            "int" => "BIGINT",
            "unsigned" => "BIGINT UNSIGNED",
            "date" => "DATE",
            "bool" => "BOOLEAN",
            "decimal" => "DECIMAL(4, 2)",
            "time" => "TIMESTAMP(6)",
            "zoned" => continue,
            _ => "VARCHAR",
        };
        let create = format!(
            "CREATE EXTERNAL TABLE x (i BIGINT, k {sql_type}) STORED AS PARQUET PARTITIONED BY (k) LOCATION '{}/'",
            to.display()
        );
        run(&context, &create).await.unwrap();
        for query in [
            "SELECT i, CAST(k AS VARCHAR) AS k FROM # ORDER BY i",
            "SELECT i FROM # WHERE k IS NULL",
            "SELECT i FROM # WHERE k IS NOT NULL ORDER BY i",
            "SELECT i FROM # WHERE k <> (SELECT min(k) FROM #) ORDER BY i",
            "SELECT count(*) AS rows, count(k) AS keys FROM # a JOIN # b USING (k)",
        ] {
            let [own, listed] = ["t", "x"].map(|table| query.replace('#', table));
            let (own, listed) = (run(&context, &own).await.unwrap(), run(&context, &listed).await.unwrap());
            assert_eq!(own, listed, "{name}, {typed}: {query}");
        }
    }
}

/// So that other folders are not listed.
#[tokio::test]
async fn the_folder_of_a_value_is_named_in_the_plan() {
    let folder = TempDir::new().unwrap();
    let context = with_keys(Arc::new(StringArray::from(vec![Some("a"), Some("b"), None])));
    copy(&context, folder.path(), "PARQUET").await.unwrap();
    let create = format!(
        "CREATE EXTERNAL TABLE x (i BIGINT, k VARCHAR) STORED AS PARQUET PARTITIONED BY (k) LOCATION '{}/'",
        folder.path().display()
    );
    run(&context, &create).await.unwrap();
    let plan = context.sql("SELECT i FROM x WHERE k = 'a' AND i < 5").await.unwrap().into_optimized_plan().unwrap();
    assert!(plan.to_string().contains("x.k = Utf8"), "{plan}");
    assert!(run(&context, "SELECT i FROM x WHERE k = 'b'").await.unwrap().contains("| 1 |"));
}

#[tokio::test]
async fn a_dataset_with_a_manifest_stays_as_it_is() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join(".annulus")).unwrap();
    fs::write(folder.path().join(".annulus/manifest"), "{}").unwrap();
    let context = with_keys(Arc::new(Int64Array::from(vec![1])));
    let error = copy(&context, folder.path(), "PARQUET").await.unwrap_err();
    assert!(error.contains("is a dataset with a manifest") && error.contains("append"), "{error}");
    assert!(names(folder.path()).is_empty());
}
