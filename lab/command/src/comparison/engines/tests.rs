use std::borrow::Cow;

use datafusion::prelude::SessionConfig;

use super::*;
use crate::{
    comparison::answer::{Order, RowLimit},
    session::Limits,
};

/// Measures a query on a table of one column, which has `annulus` rows in the ways that are not
/// stock and `stock` rows otherwise.
async fn measured(query: Query, stock: &str, annulus: &str) -> (QueryReport, Vec<String>) {
    let spill = tempfile::tempdir().expect("a folder");
    let ways: Variants = "auto,ring".parse().expect("ways");
    let limits = Limits { target_partitions: Some(2), ..Limits::default() };
    let open = async |way: &Variant| {
        let ctx = way.open(limits, spill.path(), SessionConfig::new()).await?;
        let rows = if way.name == "ring" { annulus } else { stock };
        ctx.sql(&format!("CREATE TABLE t AS SELECT column1 AS x FROM (VALUES {rows})")).await?;
        Ok(ctx)
    };
    Engines::open(&ways, 3, true, open).await.expect("sessions").measure(&query).await
}

fn query(sql: &'static str, order: Order, witness: Option<(&'static str, Order)>) -> Query {
    let witness = witness.map(|(sql, order)| (sql.into(), order));
    Query { number: 1, sql: sql.into(), order, witness }
}

#[tokio::test]
async fn equal_ways_are_timed() {
    let query = query("SELECT x, count(*) FROM t GROUP BY x", Order::default(), None);
    let (report, problems) = measured(query, "(1), (2), (2)", "(2), (1), (2)").await;
    assert!(problems.is_empty() && report.is_equal(), "{problems:?}");
    assert_eq!(report.rows, 2);
    assert!(report.ways.iter().all(|way| way.ms.is_some() && way.ratio.is_some()), "{report:?}");
    assert_eq!(report.ways.iter().filter(|way| way.best).count(), 1, "{report:?}");
    assert_eq!(report.ways.iter().map(|way| way.shuffled_rows > 0).collect::<Vec<_>>(), [false, true, true]);
}

#[tokio::test]
async fn a_way_with_another_answer_is_named_and_not_timed() {
    let query = query("SELECT x FROM t", Order::default(), None);
    let (report, problems) = measured(query, "(1), (2)", "(1), (3)").await;
    assert_eq!(problems, ["the answers of stock DataFusion and Annulus (ring) differ: [2] and [3]"]);
    assert_eq!(report.ways.iter().map(|way| way.equal).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(report.ways.iter().map(|way| way.ms.is_some()).collect::<Vec<_>>(), [true, true, false]);
}

#[tokio::test]
async fn a_witness_tells_what_the_answer_does_not() {
    let any = Order { by: Cow::Borrowed(&[]), cut: Some(RowLimit { limit: 1, offset: 0 }) };
    let alone = query("SELECT x FROM t LIMIT 1", any.clone(), None);
    assert!(measured(alone, "(1), (2)", "(1), (3)").await.1.is_empty(), "nothing is determined");
    let witness = Some(("SELECT sum(x) FROM t", Order::default()));
    let (_, problems) = measured(query("SELECT x FROM t LIMIT 1", any, witness), "(1), (2)", "(1), (3)").await;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].ends_with("differ: [3] and [4], of SELECT sum(x) FROM t"), "{problems:?}");
}

#[tokio::test]
async fn a_way_that_fails_is_named() {
    // A text is no number in the last row of one way only.
    let sql = "SELECT CAST(x AS INT) FROM t";
    let (report, problems) = measured(query(sql, Order::default(), None), "('1')", "('a')").await;
    assert!(problems.len() == 1 && problems[0].starts_with("on Annulus (ring): "), "{problems:?}");
    assert_eq!(report.ways.iter().map(|way| way.equal).collect::<Vec<_>>(), [true, true, false]);
    let (report, problems) = measured(query(sql, Order::default(), None), "('a')", "('1')").await;
    assert!(problems.len() == 1 && problems[0].starts_with("on stock DataFusion: "), "{problems:?}");
    assert!(report.ways.iter().all(|way| !way.equal && way.ms.is_none()), "{report:?}");
}
