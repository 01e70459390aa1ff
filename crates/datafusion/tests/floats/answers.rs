//! Answers from files are those from memory.

use annulus_datafusion::{config::Joins, register_dataset};
use annulus_dataset::InputOptions;
use arrow::{array::RecordBatch, datatypes::DataType};
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use tempfile::tempdir;

use super::support::{
    FILES, FLOATS, SESSIONS,
    Value::{Nan, Null, Number},
    batch, register, rows, same, session, write, write_files,
};

/// Queries of a table `t`, whose answers depend on NaN, on zeros, or on what a file says of them.
const QUERIES: [&str; 30] = [
    "SELECT i, x FROM t",
    "SELECT i, s, l FROM t",
    "SELECT count(*), count(x), count(s), sum(i) FROM t",
    "SELECT count(DISTINCT x) FROM t",
    "SELECT min(x), max(x) FROM t",
    "SELECT min(x), max(x), count(*) FROM t WHERE i >= 300",
    "SELECT max(x) FROM t WHERE x < 50",
    "SELECT i, x FROM t WHERE x > 5",
    "SELECT i, x FROM t WHERE NOT x <= 5",
    "SELECT i, x FROM t WHERE x < -5",
    "SELECT i, x FROM t WHERE x >= 'NaN'",
    "SELECT i, x FROM t WHERE x = 'NaN'",
    "SELECT i, x FROM t WHERE x <> 1.0",
    "SELECT i, x FROM t WHERE isnan(x)",
    "SELECT i, x FROM t WHERE x = 0.0",
    "SELECT i, x FROM t WHERE x = -0.0",
    "SELECT i, x FROM t WHERE x IN (0.0, 7.0)",
    "SELECT i, x FROM t WHERE x IN (0.0, 7.0, 8.0, 9.0, 11.0)",
    "SELECT i, x FROM t WHERE x NOT IN (1.0, 2.0, 5.0, 7.0)",
    "SELECT i, x FROM t WHERE x BETWEEN 0.0 AND 0.5",
    "SELECT i, x FROM t WHERE x IS NULL",
    "SELECT i, x FROM t WHERE x IS NOT NULL AND i > 200",
    "SELECT i, x FROM t WHERE x IS DISTINCT FROM 1.0",
    "SELECT i, x FROM t WHERE s['x'] > 5",
    "SELECT i, x FROM t WHERE l[1] > 5 OR l[1] = 0.0",
    "SELECT i, x FROM t WHERE CAST(x AS DOUBLE) > 5 AND i < 650",
    "SELECT x, count(*) FROM t GROUP BY x",
    "SELECT x FROM t ORDER BY x DESC LIMIT 7",
    // Not between zeros, which tie: a filter of the first rows takes them for equal.
    "SELECT x FROM t ORDER BY x LIMIT 9",
    "SELECT i FROM t WHERE x > (SELECT max(x) FROM t WHERE i > 600 AND i < 700)",
];

/// Queries that join the tables `k` and `t` on floats.
const JOINS: [&str; 5] = [
    "SELECT k.i, t.i, t.x FROM k JOIN t ON k.x = t.x",
    "SELECT t.i, t.x FROM t WHERE x IN (SELECT x FROM k)",
    "SELECT t.i, t.x FROM t WHERE x NOT IN (SELECT x FROM k WHERE x IS NOT NULL)",
    "SELECT k.i, t.i FROM k JOIN t ON k.x = t.x AND k.s['x'] = t.s['x']",
    "SELECT k.i, t.i FROM k JOIN t ON t.x BETWEEN k.x - 1 AND k.x + 1",
];

fn keys(kind: &DataType) -> RecordBatch {
    batch(kind, 0, &[Number(0.0), Nan(0), Nan(2), Number(5.0), Null])
}

async fn all_same(session: &SessionContext, kind: &DataType) {
    for query in QUERIES.iter().chain(&JOINS) {
        same(session, query).await;
    }
    // The small side is a file, and the files are in memory.
    let query = "SELECT k.i, t.i FROM t AS k JOIN m AS t ON k.x = t.x";
    let right = "SELECT k.i, t.i FROM m AS k JOIN m AS t ON k.x = t.x";
    let (mut found, mut right) = (rows(session, query).await.unwrap(), rows(session, right).await.unwrap());
    found.sort_unstable();
    right.sort_unstable();
    assert_eq!(found, right, "{kind}: {query}");
}

#[tokio::test]
async fn files_have_the_rows_that_memory_has() {
    for kind in FLOATS {
        let folder = tempdir().unwrap();
        let all = write_files(&folder.path().join("t"), &kind);
        write(&folder.path().join("k.parquet"), &keys(&kind));
        for of in SESSIONS {
            let session = session(of);
            for name in ["t", "k.parquet"] {
                let path = folder.path().join(name);
                let name = name.trim_end_matches(".parquet");
                session.register_parquet(name, path.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
            }
            register(&session, "m", &all);
            all_same(&session, &kind).await;
        }
    }
}

#[tokio::test]
async fn datasets_have_the_rows_that_memory_has() {
    for kind in FLOATS {
        let folder = tempdir().unwrap();
        let all = write_files(&folder.path().join("t"), &kind);
        let session = session((Joins::Auto, false));
        let path = folder.path().join("t");
        register_dataset(&session, "t", path.to_str().unwrap(), &InputOptions::default()).await.unwrap();
        register(&session, "m", &all);
        register(&session, "k", &keys(&kind));
        all_same(&session, &kind).await;
    }
}

#[tokio::test]
async fn each_file_alone_has_its_values_and_their_ends() {
    for kind in FLOATS {
        let folder = tempdir().unwrap();
        for (number, values) in FILES.iter().enumerate() {
            let rows = batch(&kind, 0, values);
            let path = folder.path().join(format!("{number}.parquet"));
            write(&path, &rows);
            let session = session((Joins::Auto, false));
            session.register_parquet("t", path.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
            register(&session, "m", &rows);
            for query in &QUERIES[..16] {
                same(&session, query).await;
            }
        }
    }
}

#[tokio::test]
async fn a_list_finds_what_equality_finds() {
    for kind in FLOATS {
        let session = session((Joins::Auto, false));
        register(&session, "m", &batch(&kind, 0, &[Number(-0.0), Number(0.0), Nan(0), Number(1.0), Null]));
        for (list, right) in [
            ("IN (0.0, 7, 8)", "2"),
            ("IN (0, 7, 8, 9, 10)", "2"),
            ("IN (-0.0, 0.0, 7, 8, 9, 10)", "2"),
            ("NOT IN (-0.0, 7, 8, 9, 10)", "2"),
            ("IN ('NaN', 7, 8, 9, 10)", "1"),
        ] {
            let found = rows(&session, &format!("SELECT count(*) FROM m WHERE x {list}")).await.unwrap();
            assert_eq!(found, [right], "{kind} {list}");
        }
    }
}
