//! Answers that the SQL standard gives, in sessions with Annulus: DataFusion alone gives others.

use std::sync::Arc;

use annulus_datafusion::SessionStateBuilderExt;
use datafusion::{
    arrow::{
        array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, UnionArray},
        datatypes::{DataType, Field, UnionFields},
        util::display::array_value_to_string,
    },
    execution::SessionStateBuilder,
    prelude::{SessionConfig, SessionContext},
};

fn session() -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2);
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    SessionContext::new_with_state(builder.with_annulus().build())
}

/// Returns the rows as texts with commas, or the text of the error.
async fn rows(context: &SessionContext, query: &str) -> Result<Vec<String>, String> {
    let frame = context.sql(query).await.map_err(|error| error.to_string())?;
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    let text = |batch: &RecordBatch, row: usize| {
        let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
        values.collect::<Vec<_>>().join(",")
    };
    Ok(batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| text(batch, row))).collect())
}

async fn expect(query: &str, expected: &[&str]) {
    assert_eq!(rows(&session(), query).await.unwrap(), expected, "{query}");
}

const ZEROS: &str = "(VALUES ('a', 0.0), ('a', -0.0), ('b', -0.0)) z(g, x)";

#[tokio::test]
async fn both_zeros_are_one_value() {
    expect(&format!("SELECT count(DISTINCT x), count(*) FROM {ZEROS}"), &["1,3"]).await;
    expect(&format!("SELECT g, count(DISTINCT x), sum(x) FROM {ZEROS} GROUP BY g ORDER BY g"), &["a,1,0.0", "b,1,0.0"])
        .await;
    expect(&format!("SELECT nullif(x, 0), nullif(x, 1) FROM {ZEROS}"), &[",0.0", ",-0.0", ",-0.0"]).await;
    expect(&format!("SELECT CASE x WHEN 0 THEN 'zero' ELSE 'other' END FROM {ZEROS}"), &["zero"; 3]).await;
    let windows = "count(*) OVER (PARTITION BY x), rank() OVER (ORDER BY x), dense_rank() OVER (ORDER BY x, g)";
    let ordered = format!("SELECT g, {windows} FROM {ZEROS} ORDER BY g");
    expect(&ordered, &["a,3,1,1", "a,3,1,1", "b,3,1,2"]).await;
    expect(&format!("SELECT array_agg(DISTINCT x) FROM {ZEROS}"), &["[0.0]"]).await;
    // NaN is equal to itself, and not to zero.
    let nan = "(VALUES (0.0), (-0.0), (0.0 / 0.0), (0.0 / 0.0)) z(x)";
    expect(&format!("SELECT count(DISTINCT x), count(*) FROM {nan}"), &["2,4"]).await;
}

/// DataFusion 55.2 copies the limit to the sorts below the join: rows beyond the first ones of a side were lost.
#[tokio::test]
async fn a_limit_above_a_merge_join_leaves_its_sides_whole() {
    let context = session();
    for statement in [
        "SET datafusion.optimizer.prefer_hash_join = false",
        "SET annulus.joins = never",
        "CREATE TABLE t AS SELECT value AS x FROM range(1000)",
        "CREATE TABLE u AS SELECT value + 500 AS k FROM range(100000)",
    ] {
        context.sql(statement).await.unwrap().collect().await.unwrap();
    }
    let first = |rows: std::ops::Range<i64>| rows.map(|row| row.to_string()).collect::<Vec<_>>();
    for (query, expected) in [
        ("SELECT t.x FROM t JOIN u ON t.x = u.k ORDER BY t.x, u.k LIMIT 10", first(500..510)),
        ("SELECT x FROM t WHERE x IN (SELECT k FROM u) ORDER BY 1 LIMIT 10", first(500..510)),
        ("SELECT x FROM t WHERE x NOT IN (SELECT k FROM u) ORDER BY 1 LIMIT 10", first(0..10)),
        (
            "SELECT t.x FROM t LEFT JOIN u ON t.x = u.k ORDER BY 1 DESC LIMIT 2",
            vec!["999".to_owned(), "998".to_owned()],
        ),
        // A limit of the query stays.
        (
            "SELECT t.x FROM (SELECT x FROM t ORDER BY x LIMIT 505) t JOIN u ON t.x = u.k ORDER BY 1 LIMIT 10",
            first(500..505),
        ),
    ] {
        let plan = rows(&context, &format!("EXPLAIN FORMAT INDENT {query}")).await.unwrap().concat();
        assert!(plan.contains("SortMergeJoinExec"), "{plan}");
        assert_eq!(rows(&context, query).await.unwrap(), expected, "{query}: {plan}");
    }
}

#[tokio::test]
async fn patterns_of_similar_to_match_whole_texts() {
    let similar = "SELECT 'abc1' SIMILAR TO 'abc', 'abc' SIMILAR TO 'a%', 'abc' NOT SIMILAR TO '_b_', \
                   'xzy' SIMILAR TO 'x.y', 'a%' SIMILAR TO 'a\\%', 'ab' SIMILAR TO '(a|b)+'";
    expect(similar, &["false,true,false,false,true,true"]).await;
    let context = session();
    let texts = "(VALUES ('ab'), ('b'), (NULL)) t(x)";
    assert_eq!(rows(&context, &format!("SELECT x FROM {texts} WHERE x SIMILAR TO 'a_'")).await.unwrap(), ["ab"]);
    let varying = rows(&context, &format!("SELECT x SIMILAR TO x FROM {texts}")).await.unwrap_err();
    assert!(varying.contains("use ~ and a regular expression"), "{varying}");
}

#[tokio::test]
async fn dates_beyond_2262_are_compared_with_constant_times() {
    let dates = "(VALUES (1, DATE '2024-01-01'), (2, DATE '9999-12-31'), (3, DATE '0001-01-01')) d(i, d)";
    for (condition, expected) in [
        ("d > now()", &["2"][..]),
        ("d > TIMESTAMP '2024-06-01 00:00:00'", &["2"]),
        ("d < TIMESTAMP '2024-01-01 00:00:00.000001'", &["1", "3"]),
        ("TIMESTAMP '2024-01-01' BETWEEN d AND now()", &["1", "3"]),
        ("d = TIMESTAMP '2024-01-01 00:00:00'", &["1"]),
    ] {
        expect(&format!("SELECT i FROM {dates} WHERE {condition} ORDER BY i"), expected).await;
    }
}

#[tokio::test]
async fn constant_texts_beside_booleans_are_booleans() {
    let booleans = "(VALUES (1, true), (2, false), (3, NULL)) b(i, b)";
    expect(&format!("SELECT i FROM {booleans} WHERE b = 'true'"), &["1"]).await;
    expect(&format!("SELECT i FROM {booleans} WHERE b IN ('true', 'false') ORDER BY i"), &["1", "2"]).await;
    let wrong = rows(&session(), &format!("SELECT i FROM {booleans} WHERE b = 'maybe'")).await.unwrap_err();
    assert!(wrong.contains("'maybe'") || wrong.contains("maybe"), "{wrong}");
}

/// A union of an integer and a text.
fn union() -> SessionContext {
    let children: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![5])), Arc::new(StringArray::from(vec!["s"]))];
    let fields = [Field::new("i", DataType::Int64, true), Field::new("s", DataType::Utf8, true)];
    let fields = UnionFields::try_new([0, 1], fields).unwrap();
    let union = UnionArray::try_new(fields, vec![0, 1].into(), Some(vec![0, 0].into()), children).unwrap();
    let ids: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let context = session();
    context
        .register_batch("u", RecordBatch::try_from_iter([("id", ids), ("v", Arc::new(union) as _)]).unwrap())
        .unwrap();
    context
}

#[tokio::test]
async fn a_union_is_not_cast_to_null() {
    let context = union();
    let refused = rows(&context, "SELECT CAST(v AS TEXT) FROM u").await.unwrap_err();
    assert!(refused.contains("union_extract(u.v, 'name')"), "{refused}");
    assert_eq!(rows(&context, "SELECT id, union_extract(v, 'i') FROM u").await.unwrap(), ["1,5", "2,"]);
    let folder = tempfile::tempdir().unwrap();
    let copy = format!("COPY u TO '{}' STORED AS PARQUET", folder.path().join("u.parquet").display());
    let refused = rows(&context, &copy).await.unwrap_err();
    assert!(refused.contains("column 'v'") && refused.contains("which Parquet does not have"), "{refused}");
}

#[tokio::test]
async fn folders_leave_a_column_for_the_files() {
    let folder = tempfile::tempdir().unwrap();
    for format in ["PARQUET", "CSV", "JSON"] {
        let target = folder.path().join(format);
        let copy = format!("COPY (SELECT 1 AS k) TO '{}' STORED AS {format} PARTITIONED BY (k)", target.display());
        let refused = rows(&session(), &copy).await.unwrap_err();
        assert!(refused.contains("leave a column out of PARTITIONED BY (k)"), "{refused}");
        assert!(!target.exists());
    }
}
