//! All pairs of types, against the order that DuckDB gives their values.

use annulus_datafusion::config::Joins;
use datafusion::prelude::SessionContext;

use crate::{
    orders::{CONDITIONS, Column, columns, expected, is_otherwise, orders, selected, table_of},
    support::{rows, run, session},
};

async fn tables(joins: Joins, columns: &[Column]) -> SessionContext {
    let context = session(joins);
    run(&context, &[&format!("CREATE TABLE t AS {}", table_of(columns))]).await;
    context
}

/// Checks columns with `of`, in the session `context`.
async fn check(context: &SessionContext, way: &str, left: &Column, all: &[Column]) {
    let orders = orders();
    for right in all.iter().filter(|right| !is_otherwise(left, right)) {
        let expected = expected(&orders, left, right);
        for (condition, is_wanted) in CONDITIONS {
            let condition = condition.replace("$l", &format!("l.\"{}\"", left.name));
            let condition = condition.replace("$r", &format!("r.\"{}\"", right.name));
            let query = way.replace("$c", &condition);
            let found = rows(context, &query).await;
            match (&expected, found) {
                (Some(expected), Ok(found)) => assert_eq!(found, selected(expected, is_wanted), "{query}"),
                // DataFusion finds no type when it plans a column that compares decimals of more than 38 digits.
                (Some(_), Err(error)) if way != JOIN && error.contains("Cannot infer common argument type") => {
                    let decimals = error.matches("Decimal").count();
                    assert!(decimals >= 2, "{query}: {error}");
                }
                (Some(_), Err(error)) => panic!("{query}: {error}"),
                (None, Ok(found)) => panic!("{query} is not refused, but gives {found:?}"),
                (None, Err(_)) => {}
            }
        }
    }
}

async fn check_all(joins: Joins, way: &str) {
    let columns = columns();
    let context = tables(joins, &columns).await;
    for left in &columns {
        check(&context, way, left, &columns).await;
    }
}

const JOIN: &str = "SELECT l.i, r.i FROM t l JOIN t r ON $c";

#[tokio::test]
async fn all_pairs_in_joins_of_annulus() {
    check_all(Joins::Always, JOIN).await;
}

#[tokio::test]
async fn all_pairs_in_joins_of_datafusion() {
    check_all(Joins::Never, JOIN).await;
}

#[tokio::test]
async fn all_pairs_in_filters() {
    // The limit keeps the condition out of the join.
    let filter = "SELECT i, j FROM (SELECT l.i, r.i AS j, $c AS kept FROM t l CROSS JOIN t r LIMIT 1000) WHERE kept";
    check_all(Joins::Auto, filter).await;
}

#[tokio::test]
async fn intervals_are_compared_by_months_then_days_then_nanoseconds() {
    let columns = columns();
    let context = tables(Joins::Always, &columns).await;
    let found = rows(&context, "SELECT l.span, r.span FROM t l JOIN t r ON l.span < r.span").await;
    let found = found.expect("intervals");
    assert_eq!(found.len(), 6, "{found:?}");
}
