//! `IN (SELECT ...)` and its kind, with nulls on both sides, wherever a query may have it.

mod common;

use std::sync::Arc;

use annulus_datafusion::{AnnulusConfig, Joins, SessionStateBuilderExt};
use arrow::{
    array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray},
    datatypes::Int32Type,
};
use common::lines;
use datafusion::{
    datasource::MemTable,
    error::Result,
    execution::SessionStateBuilder,
    prelude::{SessionConfig, SessionContext},
};

/// Texts whose nulls are nulls of the dictionary's values, not of its keys.
fn texts(keys: impl IntoIterator<Item = i32>) -> ArrayRef {
    let values = StringArray::from(vec![Some("one"), None, Some("two"), Some("three"), Some("four")]);
    Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from_iter_values(keys), Arc::new(values)))
}

fn numbers(values: impl IntoIterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<Int64Array>())
}

/// Returns a session with tables `a` of `id`, `x`, `z`, `t`, and `b` of `y`, `z`, `w`, `u`.
fn session(joins: Joins) -> SessionContext {
    let options = AnnulusConfig { profile: "none".to_owned(), joins, ..AnnulusConfig::default() };
    let config = SessionConfig::new().with_target_partitions(2).with_option_extension(options);
    let state = SessionStateBuilder::new_with_default_features().with_config(config).with_annulus().build();
    let session = SessionContext::new_with_state(state);
    let a = RecordBatch::try_from_iter_with_nullable([
        ("id", numbers((0..12).map(Some)), false),
        ("x", numbers((0..12).map(|row| (row % 4 > 0).then_some(row % 5))), true),
        ("z", numbers((0..12).map(|row| (row != 7).then_some(row / 3))), true),
        ("t", texts((0..12).map(|row| row % 5)), true),
    ]);
    let b = RecordBatch::try_from_iter_with_nullable([
        ("y", numbers([Some(1), None, Some(3), Some(1), None, Some(8), Some(0)]), true),
        ("z", numbers([Some(0), Some(1), Some(1), Some(2), Some(2), Some(3), None]), true),
        ("w", numbers((0..7).map(Some)), false),
        ("u", texts([0, 1, 2, 0, 1, 3, 0]), true),
    ]);
    for (name, batch) in [("a", a.unwrap()), ("b", b.unwrap())] {
        let rows = batch.num_rows() / 2;
        let parts = vec![vec![batch.slice(0, rows)], vec![batch.slice(rows, batch.num_rows() - rows)]];
        session.register_table(name, Arc::new(MemTable::try_new(batch.schema(), parts).unwrap())).unwrap();
    }
    session
}

async fn answer(session: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let mut rows = lines(&session.sql(sql).await?.collect().await?);
    rows.sort_unstable();
    Ok(rows)
}

/// Returns whether `value` is in the list, for each row of `a`: by a join, whose meaning is plain.
async fn expected(session: &SessionContext, value: &str, list: &str, condition: &str) -> Vec<Option<bool>> {
    let sql = format!(
        "SELECT CASE WHEN bool_or(q.v = q.e) THEN 'true' WHEN count(q.one) > 0 AND (bool_or(q.v IS NULL) OR \
         count(q.e) < count(q.one)) THEN 'null' ELSE 'false' END AS found, q.id FROM (SELECT a.id, {value} AS v, b.e, \
         b.one FROM a LEFT JOIN (SELECT {list} AS e, 1 AS one, * FROM b) b ON {condition}) q GROUP BY q.id ORDER BY 2"
    );
    let rows = lines(&session.sql(&sql).await.unwrap().collect().await.unwrap());
    let found = |row: &String| match row {
        row if row.contains("true") => Some(true),
        row if row.contains("false") => Some(false),
        _ => None,
    };
    rows.iter().map(found).collect()
}

const CONDITIONS: &[&str] = &[
    "TRUE",
    "b.z > a.z",
    "b.z < a.z AND b.y IS NOT NULL",
    "b.z = a.z",
    "b.z = a.z AND b.w < a.id",
    "b.z = a.z AND b.y IS NULL",
    "b.w > 100",
];

/// A condition with `{in}` and `{not in}`, and whether it keeps the row of an id.
type Form = (&'static str, fn(usize, Option<bool>) -> bool);

const FORMS: &[Form] = &[
    ("{in}", |_, found| found == Some(true)),
    ("{not in}", |_, found| found == Some(false)),
    ("NOT ({in})", |_, found| found == Some(false)),
    ("NOT ({not in})", |_, found| found == Some(true)),
    ("a.id = 1 OR {not in}", |id, found| id == 1 || found == Some(false)),
    ("a.id < 9 AND (a.id = 1 OR {in})", |id, found| id < 9 && (id == 1 || found == Some(true))),
    ("({in}) IS NULL", |_, found| found.is_none()),
    ("({not in}) IS NOT TRUE", |_, found| found != Some(false)),
    ("NOT ({in} AND a.id > 2)", |id, found| found == Some(false) || id <= 2),
    ("CASE WHEN {not in} THEN a.id > 2 ELSE a.id < 2 END", |id, found| (found == Some(false)) == (id > 2) && id != 2),
    ("({in}) = ({not in})", |_, _| false),
];

async fn check(values: &[(&str, &str)]) {
    let sessions = [Joins::Never, Joins::Auto, Joins::Always].map(session);
    let mut turn = 0;
    for (value, list) in values {
        for condition in CONDITIONS {
            let expected = expected(&sessions[0], value, list, condition).await;
            let within = format!("(SELECT {list} FROM b WHERE {condition})");
            let is_in = [format!("{value} IN {within}"), format!("{value} = ANY {within}")];
            let not_in = [format!("{value} NOT IN {within}"), format!("{value} <> ALL {within}")];
            for (form, keeps) in FORMS {
                turn += 1;
                let (is_in, not_in) = (&is_in[turn % 2], &not_in[turn / 2 % 2]);
                let filter = form.replace("{in}", is_in).replace("{not in}", not_in);
                let sql = format!("SELECT a.id FROM a WHERE {filter}");
                let found = answer(&sessions[turn % 3], &sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
                let kept = expected.iter().enumerate().filter(|(id, found)| keeps(*id, **found));
                let mut kept: Vec<String> = kept.map(|(id, _)| id.to_string()).collect();
                kept.sort_unstable();
                assert_eq!(found, kept, "{turn}: {sql}");
            }
            // In a SELECT list, its three values show.
            let sql = format!("SELECT count(*) FROM (SELECT {} AS f, a.id FROM a) WHERE f IS NULL", is_in[0]);
            let nulls = answer(&sessions[turn % 3], &sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            let count = expected.iter().filter(|found| found.is_none()).count();
            assert_eq!(nulls[0], count.to_string(), "{sql}");
            let sql = format!("SELECT sum(CASE WHEN {} THEN 1 ELSE 0 END) AS n FROM a", not_in[0]);
            let sum = answer(&sessions[turn % 3], &sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            let count = expected.iter().filter(|found| **found == Some(false)).count();
            assert_eq!(sum[0], count.to_string(), "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_in_lists_as_sql_says() {
    check(&[("a.x", "b.y"), ("a.x + 1", "b.y"), ("coalesce(a.x, 8)", "b.w")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn constants_are_in_lists_as_sql_says() {
    check(&[("1", "b.y"), ("CAST(NULL AS BIGINT)", "b.y"), ("5", "b.w")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_dictionaries_are_in_lists_as_sql_says() {
    check(&[("a.t", "b.u")]).await;
}

/// The outer query and the subquery name the same columns.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_compared_with_itself() {
    for joins in [Joins::Never, Joins::Auto, Joins::Always] {
        let session = session(joins);
        for (sql, rows) in [
            ("SELECT id FROM a WHERE id NOT IN (SELECT id FROM a WHERE id > 3)", 4),
            ("SELECT id FROM a WHERE id > ALL (SELECT id FROM a WHERE id < 5)", 7),
            ("SELECT id FROM a WHERE id < ANY (SELECT id FROM a WHERE id < 5)", 4),
            ("SELECT id FROM a WHERE x NOT IN (SELECT x FROM a)", 0),
            ("SELECT id FROM a WHERE id = 0 OR id NOT IN (SELECT id FROM a WHERE x IS NULL)", 10),
        ] {
            let found = answer(&session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert_eq!(found.len(), rows, "{joins}: {sql}: {found:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_may_be_any_query() {
    let session = session(Joins::Auto);
    for (sql, rows) in [
        // Limits, groups, unions and other lists within the list.
        ("SELECT id FROM a WHERE id NOT IN (SELECT w FROM b ORDER BY w LIMIT 3)", 9),
        ("SELECT id FROM a WHERE id = 1 OR id NOT IN (SELECT w FROM b ORDER BY w LIMIT 3)", 10),
        ("SELECT id FROM a WHERE id = 1 OR id NOT IN (SELECT w FROM b UNION ALL SELECT 11)", 5),
        ("SELECT id FROM a WHERE id NOT IN (SELECT max(w) FROM b GROUP BY z)", 7),
        ("SELECT id FROM a WHERE id NOT IN (SELECT w FROM b WHERE w NOT IN (SELECT y FROM b WHERE y > 0))", 7),
        ("SELECT id FROM a WHERE id NOT IN (SELECT DISTINCT w FROM b WHERE b.z = a.z)", 11),
        ("SELECT id FROM a WHERE (SELECT max(w) FROM b) NOT IN (SELECT y FROM b WHERE y > 0)", 12),
        ("SELECT id, EXISTS (SELECT 1 FROM b WHERE b.w = a.id) AS e FROM a", 12),
        ("SELECT id FROM (SELECT id, EXISTS (SELECT 1 FROM b WHERE b.w = a.id) AS e FROM a) WHERE NOT e", 5),
        ("SELECT id FROM (SELECT id, id IN (SELECT w FROM b) e, id < ALL (SELECT w FROM b) f FROM a) WHERE e OR f", 7),
        ("SELECT e, count(*) FROM (SELECT id IN (SELECT w FROM b) AS e FROM a) GROUP BY e", 2),
        ("SELECT id IN (SELECT w FROM b) AS e, count(*) FROM a GROUP BY id IN (SELECT w FROM b)", 2),
        ("SELECT id FROM a WHERE id <> ALL (SELECT w FROM b WHERE b.z = a.z)", 11),
        ("SELECT id FROM a WHERE id >= ALL (SELECT y FROM b WHERE y IS NOT NULL)", 4),
    ] {
        let found = answer(&session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(found.len(), rows, "{sql}: {found:?}");
    }
}

/// An aggregate without groups has a row where a condition on the outer query keeps none.
#[tokio::test(flavor = "multi_thread")]
async fn correlated_aggregates_have_a_row() {
    let session = session(Joins::Auto);
    for (sql, rows) in [
        ("SELECT id FROM a WHERE EXISTS (SELECT count(*) FROM b WHERE b.z = a.z AND b.w > 100)", 12),
        ("SELECT id FROM a WHERE NOT EXISTS (SELECT max(w) FROM b WHERE b.z = a.z)", 0),
        ("SELECT id FROM a WHERE EXISTS (SELECT max(w) FROM b WHERE b.z = a.z HAVING count(*) = 0)", 1),
        ("SELECT id FROM a WHERE NOT EXISTS (SELECT max(w) FROM b WHERE b.z = a.z HAVING count(*) = 0)", 11),
        ("SELECT id FROM a WHERE 0 IN (SELECT count(*) FROM b WHERE b.z = a.z AND b.w > 100)", 12),
        ("SELECT id FROM a WHERE id NOT IN (SELECT max(w) FROM b WHERE b.z = a.z)", 10),
        ("SELECT id FROM a WHERE id = 7 OR id NOT IN (SELECT max(w) FROM b WHERE b.z = a.z)", 11),
        ("SELECT id FROM a WHERE id >= ALL (SELECT count(*) FROM b WHERE b.z = a.z)", 11),
    ] {
        let found = answer(&session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(found.len(), rows, "{sql}: {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_join_can_answer_is_refused() {
    let session = session(Joins::Auto);
    for (sql, what) in [
        ("SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.z = a.z OFFSET 1)", "OFFSET"),
        ("SELECT id FROM a WHERE id NOT IN (SELECT w FROM b WHERE b.z = a.z ORDER BY w LIMIT 1)", "LIMIT"),
        (
            "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM (SELECT row_number() OVER (ORDER BY w) AS r FROM b WHERE b.z \
             = a.z) WHERE r = 2)",
            "window",
        ),
        ("SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.z = a.z GROUP BY ROLLUP (b.z))", "GROUPING SETS"),
        ("SELECT id FROM a WHERE random() NOT IN (SELECT w FROM b WHERE b.z = a.z)", "random"),
    ] {
        let error = answer(&session, sql).await.unwrap_err().to_string();
        assert!(error.contains(what), "{sql}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn aggregates_may_name_an_order_twice() {
    let session = session(Joins::Auto);
    for (sql, expected) in [
        ("SELECT first_value(id ORDER BY x, z DESC, z) FROM a WHERE x IS NOT NULL", "10"),
        ("SELECT last_value(id ORDER BY x, z, z DESC, x) FROM a WHERE x IS NOT NULL", "9"),
        ("SELECT array_length(array_agg(id ORDER BY x, x)) FROM a", "12"),
        ("SELECT count(*) FROM (SELECT z, first_value(id ORDER BY x, x, id, id) FROM a GROUP BY z)", "5"),
    ] {
        let found = answer(&session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(found[0], expected, "{sql}");
    }
}
