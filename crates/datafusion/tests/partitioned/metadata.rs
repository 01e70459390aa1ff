//! What is known of files from their registration on.

use std::{
    fs::File,
    time::{Duration, SystemTime},
};

use arrow::util::display::ArrayFormatter;
use datafusion::prelude::SessionContext;
use rand::{SeedableRng, rngs::StdRng};

use crate::support::{Tables, answer, by, register, rows, session};

/// Returns the first value of a query's result.
async fn value(context: &SessionContext, query: &str) -> String {
    let rows = context.sql(query).await.expect(query).collect().await.expect(query);
    ArrayFormatter::try_new(rows[0].column(0).as_ref(), &Default::default()).expect("a text").value(0).to_string()
}

/// Writes a column of numbers as a Parquet file. Returns its length in bytes.
async fn write(context: &SessionContext, path: &str, numbers: &str) -> u64 {
    let options = "OPTIONS ('format.compression' 'uncompressed', 'format.dictionary_enabled' 'false')";
    let sql = format!("COPY (SELECT value AS v FROM {numbers}) TO '{path}' {options}");
    context.sql(&sql).await.unwrap().collect().await.unwrap();
    std::fs::metadata(path).unwrap().len()
}

#[tokio::test]
async fn a_query_does_not_read_the_metadata_of_files_again() {
    let tables = Tables::new();
    let (context, path) = (session(4), tables.path("y.parquet"));
    write(&context, &path, "range(100)").await;
    register(&context, "x", &tables.split("x", &rows(&mut StdRng::seed_from_u64(1), 300, 60), &by(&["k"], 4))).await;
    register(&context, "y", &path).await;
    let cache = context.runtime_env().cache_manager.get_file_metadata_cache();
    let before = cache.list_entries();
    context.sql("SELECT * FROM x JOIN y ON x.v = y.v").await.unwrap().create_physical_plan().await.unwrap();
    let planned = cache.list_entries();
    answer(&context, "SELECT * FROM x JOIN y ON x.v = y.v").await;
    assert!(before.is_empty(), "{before:?}");
    assert_eq!(planned.len(), 5, "{planned:?}");
    for (path, entry) in cache.list_entries() {
        assert_eq!(entry.value.file_metadata.extra_info()["page_index"], "true", "{path}");
        assert!(entry.hits > planned[&path].hits + 1, "{path}: {} hits", entry.hits);
    }
}

/// One of two files gets others of equal size, whose old statistics would prune all of its rows.
#[tokio::test]
async fn metadata_of_a_file_that_has_changed_are_read_again() {
    let tables = Tables::new();
    let (context, path) = (session(4), tables.path("x/1.parquet"));
    std::fs::create_dir(tables.path("x")).unwrap();
    let bytes = write(&context, &path, "range(0, 100)").await;
    write(&context, &tables.path("x/2.parquet"), "range(0, 50)").await;
    register(&context, "x", &tables.path("x")).await;
    assert_eq!(write(&context, &path, "range(100, 200)").await, bytes);
    touch(&path);
    assert_eq!(value(&context, "SELECT count(*) FROM x WHERE v >= 100").await, "100");
    assert_eq!(value(&context, "SELECT count(*) FROM x").await, "150");
    assert_eq!(value(&context, "SELECT max(v) FROM x").await, "199");
}

#[tokio::test]
async fn a_partitioned_table_whose_file_has_changed_is_refused() {
    let tables = Tables::new();
    let context = session(4);
    register(&context, "x", &tables.split("x", &rows(&mut StdRng::seed_from_u64(1), 300, 60), &by(&["k"], 4))).await;
    touch(&tables.path("x/part-00000.parquet"));
    let query = context.sql("SELECT k, count(*) FROM x GROUP BY k").await.unwrap();
    let refused = query.create_physical_plan().await.unwrap_err().to_string();
    assert!(refused.contains("part-00000.parquet' has changed since its table was registered"), "{refused}");
}

/// Gives a file another time of change. The clock may not have moved since it was written.
fn touch(path: &str) {
    let later = SystemTime::now() + Duration::from_secs(10);
    File::options().append(true).open(path).unwrap().set_modified(later).unwrap();
}
