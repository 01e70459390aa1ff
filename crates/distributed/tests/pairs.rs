//! All pairs of types in joins on workers, against the order that DuckDB gives their values.

mod common;
#[path = "../../datafusion/tests/comparisons/orders.rs"]
mod orders;

use std::path::Path;

use common::{Cluster, rows};
use datafusion::prelude::SessionContext;
use orders::{CONDITIONS, Column, columns, expected, is_otherwise, orders, selected, table_of};
use tempfile::TempDir;

/// Two of these are refused if a value of the one does not fit in the other.
const TIMES: [&str; 6] = ["date", "days_64", "seconds", "millis", "micros", "nanos"];

/// Writes the table in several files, so that all workers read some.
async fn write(context: &SessionContext, folder: &Path, columns: &[Column]) {
    for part in 0..3 {
        let file = folder.join(format!("{part}.parquet"));
        let rows = format!("SELECT * FROM ({}) WHERE i % 3 = {part}", table_of(columns));
        let copy = format!("COPY ({rows}) TO '{}' STORED AS PARQUET", file.display());
        rows_of(context, &copy).await.unwrap();
    }
}

async fn rows_of(context: &SessionContext, query: &str) -> Result<Vec<String>, String> {
    let rows = rows(context, query).await.map_err(|error| error.to_string())?;
    Ok(rows.into_iter().map(|row| row.replace('|', ",")).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pairs_on_workers() {
    let folder = TempDir::new().unwrap();
    // Parquet has no type for the others, or its reader none.
    let is_stored = |column: &Column| !["span", "price_dictionary"].contains(&column.name);
    let columns: Vec<_> = columns().into_iter().filter(is_stored).collect();
    let cluster = Cluster::start(2).await;
    let context = cluster.session(&[]).await;
    write(&context, folder.path(), &columns).await;
    context.register_parquet("t", folder.path().display().to_string(), Default::default()).await.unwrap();
    let orders = orders();
    for (place, left) in columns.iter().enumerate() {
        for right in columns[place..].iter().filter(|right| !is_otherwise(left, right)) {
            let expected = expected(&orders, left, right);
            for (condition, is_wanted) in CONDITIONS {
                let condition = condition.replace("$l", &format!("l.\"{}\"", left.name));
                let condition = condition.replace("$r", &format!("r.\"{}\"", right.name));
                let query = format!("SELECT l.i, r.i FROM t l JOIN t r ON {condition}");
                match (&expected, rows_of(&context, &query).await) {
                    (Some(expected), found) => assert_eq!(found, Ok(selected(expected, is_wanted)), "{query}"),
                    // The values that do not fit are left out by the files' statistics.
                    (None, Ok(_)) if TIMES.contains(&left.name) && TIMES.contains(&right.name) => {}
                    (None, Ok(found)) => panic!("{query} is not refused, but gives {found:?}"),
                    (None, Err(_)) => {}
                }
            }
        }
    }
}
