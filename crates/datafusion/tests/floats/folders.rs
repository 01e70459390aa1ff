//! Floats in the names of folders, which are values and no claims.

use std::{path::Path, sync::Arc};

use arrow::{
    array::{ArrayRef, Float64Array, Int64Array, RecordBatch},
    datatypes::DataType,
};
use datafusion::{
    datasource::{file_format::parquet::ParquetFormat, listing::ListingOptions},
    prelude::SessionContext,
};
use tempfile::tempdir;

use super::support::{SESSIONS, register, rows, same, session, write};

const FOLDERS: [&str; 6] = ["NaN", "-0.0", "0.0", "1.5", "inf", "-inf"];

/// Writes two rows below a folder for each value, and returns them with the values.
fn write_folders(path: &Path) -> RecordBatch {
    let (mut numbers, mut values) = (Vec::new(), Vec::new());
    for (place, folder) in FOLDERS.iter().enumerate() {
        let here = [place as i64 * 10, place as i64 * 10 + 1];
        let column: ArrayRef = Arc::new(Int64Array::from(here.to_vec()));
        let rows = RecordBatch::try_from_iter_with_nullable([("i", column, true)]).unwrap();
        write(&path.join(format!("x={folder}/0.parquet")), &rows);
        numbers.extend(here);
        values.extend([folder.parse::<f64>().unwrap(); 2]);
    }
    let columns: [(&str, ArrayRef); 2] =
        [("i", Arc::new(Int64Array::from(numbers))), ("x", Arc::new(Float64Array::from(values)))];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

async fn register_folders(session: &SessionContext, path: &Path) {
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
        .with_table_partition_cols(vec![("x".to_owned(), DataType::Float64)]);
    session.register_listing_table("t", path.to_str().unwrap(), options, None, None).await.unwrap();
}

#[tokio::test]
async fn a_folder_named_by_a_float_has_that_value() {
    let folder = tempdir().unwrap();
    let all = write_folders(folder.path());
    for of in SESSIONS {
        let session = session(of);
        register_folders(&session, folder.path()).await;
        register(&session, "m", &all);
        register(&session, "k", &all.slice(2, 2));
        for query in [
            "SELECT i, x FROM t",
            "SELECT min(x), max(x), count(x) FROM t",
            "SELECT i, x FROM t WHERE x > 1.0",
            "SELECT i, x FROM t WHERE NOT x <= 1.0",
            "SELECT i, x FROM t WHERE x = 0.0",
            "SELECT i, x FROM t WHERE x = 'NaN'",
            "SELECT i, x FROM t WHERE isnan(x)",
            "SELECT i, x FROM t WHERE x IN (0.0, 1.5) AND i > 10",
            "SELECT x, count(*) FROM t GROUP BY x",
            "SELECT x FROM t ORDER BY x DESC LIMIT 5",
            "SELECT x FROM t ORDER BY x LIMIT 5",
            "SELECT k.i, t.i, t.x FROM k JOIN t ON k.x = t.x",
        ] {
            same(&session, query).await;
        }
    }
}

#[tokio::test]
async fn a_number_finds_its_folder_however_it_is_written() {
    let folder = tempdir().unwrap();
    for name in ["01", "1", "2"] {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let rows = RecordBatch::try_from_iter_with_nullable([("i", column, true)]).unwrap();
        write(&folder.path().join(format!("month={name}/0.parquet")), &rows);
    }
    let session = session(SESSIONS[0]);
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
        .with_table_partition_cols(vec![("month".to_owned(), DataType::Int64)]);
    session.register_listing_table("t", folder.path().to_str().unwrap(), options, None, None).await.unwrap();
    for (query, right) in [("month = 1", "2"), ("1 = month AND i > 0", "2"), ("month IN (1, 2)", "3")] {
        let found = rows(&session, &format!("SELECT count(*) FROM t WHERE {query}")).await.unwrap();
        assert_eq!(found, [right], "{query}");
    }
}
