//! A query that fails leaves no files, and those that it was to replace as they were.

mod common;

use std::{fs, path::Path};

use annulus_datafusion::SessionStateBuilderExt;
use datafusion::{
    execution::SessionStateBuilder,
    prelude::{SessionConfig, SessionContext},
};
use tempfile::TempDir;

use crate::common::eventually;

/// Rows of which one fails, after many others.
const FAILS: &str = "SELECT value % 3 AS k, CASE WHEN value = 90000 THEN 1 / (value - 90000) ELSE value END AS x, \
                     sha256(CAST(value AS VARCHAR)) AS long FROM range(0, 400000)";

fn session() -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2);
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    SessionContext::new_with_state(builder.with_annulus().build())
}

async fn run(context: &SessionContext, query: &str) -> Result<(), String> {
    let frame = context.sql(query).await.map_err(|error| error.to_string())?;
    frame.collect().await.map_err(|error| error.to_string()).map(drop)
}

/// Returns the files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path.display().to_string()] }).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_files_are_left() {
    let context = session();
    for (format, folders) in [
        ("PARQUET", ""),
        ("CSV", ""),
        ("JSON", ""),
        ("ARROW", ""),
        ("PARQUET", "PARTITIONED BY (k)"),
        ("CSV", "PARTITIONED BY (k)"),
        ("JSON", "PARTITIONED BY (k)"),
    ] {
        for end in ["t.file", "t/"].into_iter().filter(|end| folders.is_empty() || end.ends_with('/')) {
            let folder = TempDir::new().unwrap();
            let place = folder.path().join(end).display().to_string();
            let query = format!("COPY ({FAILS}) TO '{place}' STORED AS {format} {folders}");
            let error = run(&context, &query).await.unwrap_err();
            assert!(error.contains("Divide by zero"), "{error}");
            // What was begun is removed when its writer is dropped.
            eventually(&query, || files(folder.path()).is_empty()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_replaced_wholly_or_not_at_all() {
    let context = session();
    for format in ["PARQUET", "CSV", "JSON", "ARROW"] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("t.file");
        let copy = |rows: &str| format!("COPY ({rows}) TO '{}' STORED AS {format}", path.display());
        run(&context, &copy("SELECT 1 AS x")).await.unwrap();
        let before = fs::read(&path).unwrap();
        run(&context, &copy(FAILS)).await.unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), before, "{format}");
        run(&context, &copy("SELECT 2 AS x")).await.unwrap();
        assert_ne!(fs::read(&path).unwrap(), before, "{format}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_that_fails_adds_nothing() {
    let (folder, context) = (TempDir::new().unwrap(), session());
    let place = folder.path().display();
    run(&context, &format!("CREATE EXTERNAL TABLE t (x BIGINT) STORED AS PARQUET LOCATION '{place}/'")).await.unwrap();
    run(&context, "INSERT INTO t SELECT 1").await.unwrap();
    run(&context, &format!("INSERT INTO t SELECT x FROM ({FAILS})")).await.unwrap_err();
    eventually("one file", || files(folder.path()).len() == 1).await;
}
