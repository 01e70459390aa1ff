//! Values in CSV and JSON files that `COPY` writes.

use std::fs;

use annulus_datafusion::{SessionStateBuilderExt, register_dataset};
use annulus_dataset::InputOptions;
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

async fn copied(rows: &str, options: &str) -> Result<String, String> {
    written(rows, "CSV", options).await
}

async fn written(rows: &str, format: &str, options: &str) -> Result<String, String> {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("t.text");
    let context = session();
    let query = format!("COPY ({rows}) TO '{}' STORED AS {format} {options}", file.display());
    let frame = context.sql(&query).await.map_err(|error| error.to_string())?;
    frame.collect().await.map_err(|error| error.to_string())?;
    Ok(fs::read_to_string(&file).unwrap())
}

#[tokio::test]
async fn an_empty_text_is_quoted_and_null_is_not() {
    let rows = "SELECT * FROM (VALUES (1, '', 'a'), (2, NULL, ''), (3, 'x,y', NULL), (4, chr(0), '\"\"')) t(i, a, b)";
    let expected = "i,a,b\n1,\"\",a\n2,,\"\"\n3,\"x,y\",\n4,\0,\"\"\"\"\"\"\n";
    assert_eq!(copied(rows, "").await.unwrap(), expected);
    for of in ["Utf8", "LargeUtf8", "Utf8View", "Dictionary(Int32, Utf8)"] {
        let typed = format!("SELECT i, arrow_cast(a, '{of}') AS a, arrow_cast(b, '{of}') AS b FROM ({rows})");
        assert_eq!(copied(&typed, "").await.unwrap(), expected, "{of}");
    }
    let quotes = "OPTIONS ('format.quote' '#', 'format.has_header' 'false')";
    assert_eq!(copied("SELECT 1, ''", quotes).await.unwrap(), "1,##\n");
    // Options that give null a text of its own are kept.
    let null = "OPTIONS ('format.null_value' 'none')";
    assert_eq!(copied("SELECT 1 AS i, '' AS a, NULL AS b", null).await.unwrap(), "i,a,b\n1,,none\n");
}

#[tokio::test]
async fn an_empty_text_alone_is_refused() {
    let error = copied("SELECT '' AS a", "").await.unwrap_err();
    assert!(error.contains("column 'a' has an empty text") && error.contains("use JSON"), "{error}");
    assert_eq!(copied("SELECT * FROM (VALUES ('x'), (NULL)) t(a)", "").await.unwrap(), "a\nx\n\"\"\n");
}

#[tokio::test]
async fn what_is_written_comes_back() {
    let folder = TempDir::new().unwrap();
    let context = session();
    let rows = "SELECT * FROM (VALUES (1, ''), (2, NULL), (3, 'x'), (4, ',\"\",')) t(i, a)";
    let file = folder.path().join("t.csv").display().to_string();
    context.sql(&format!("COPY ({rows}) TO '{file}'")).await.unwrap().collect().await.unwrap();
    register_dataset(&context, "t", &file, &InputOptions::default()).await.unwrap();
    let query = "SELECT i, a, a IS NULL AS n FROM";
    let own = context.sql(&format!("{query} ({rows}) ORDER BY i")).await.unwrap().to_string().await.unwrap();
    let back = context.sql(&format!("{query} t ORDER BY i")).await.unwrap().to_string().await.unwrap();
    assert_eq!(own, back);
}

#[tokio::test]
async fn json_has_nulls_and_all_floats() {
    let rows = "SELECT * FROM (VALUES (1, CAST('NaN' AS DOUBLE)), (NULL, CAST('-inf' AS DOUBLE)), (2, NULL)) t(i, x)";
    let expected = "{\"i\":1,\"x\":\"NaN\"}\n{\"i\":null,\"x\":\"-Infinity\"}\n{\"i\":2,\"x\":null}\n";
    assert_eq!(written(rows, "JSON", "").await.unwrap(), expected);
    let folder = TempDir::new().unwrap();
    let context = session();
    let query = format!("COPY ({rows}) TO '{}/' STORED AS JSON PARTITIONED BY (i)", folder.path().display());
    context.sql(&query).await.unwrap().collect().await.unwrap();
    let null = folder.path().join("i=__HIVE_DEFAULT_PARTITION__");
    let file = fs::read_dir(null).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_to_string(file).unwrap(), "{\"x\":\"-Infinity\"}\n");
}

/// No text of an offset has seconds, which most zones had until about 1900.
#[tokio::test]
async fn early_times_keep_their_seconds() {
    let time = |text: &str| format!("arrow_cast('{text}', 'Timestamp(us, \"Europe/Zurich\")')");
    let early = format!("SELECT 1 AS i, {} AS t", time("1582-10-04T12:00:00.000001Z"));
    assert_eq!(copied(&early, "").await.unwrap(), "i,t\n1,1582-10-04T12:00:00.000001Z\n");
    assert_eq!(written(&early, "JSON", "").await.unwrap(), "{\"i\":1,\"t\":\"1582-10-04T12:00:00.000001Z\"}\n");
    let late = format!("SELECT 1 AS i, {} AS t", time("1960-01-01T12:00:00Z"));
    assert_eq!(copied(&late, "").await.unwrap(), "i,t\n1,1960-01-01T13:00:00+01:00\n");
    assert_eq!(written(&late, "JSON", "").await.unwrap(), "{\"i\":1,\"t\":\"1960-01-01T13:00:00+01:00\"}\n");
}
