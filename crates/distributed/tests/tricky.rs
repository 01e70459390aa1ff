//! Queries that an engine easily gets wrong have the same answers on workers as in one process.

mod common;

use std::path::Path;

use annulus_datafusion::SessionStateBuilderExt;
use common::{Cluster, register_all, rows};
use datafusion::{
    execution::SessionStateBuilder,
    prelude::{SessionConfig, SessionContext},
};

/// Returns a session of this process.
fn one() -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(3);
    SessionContext::new_with_state(
        SessionStateBuilder::new().with_default_features().with_config(config).with_annulus().build(),
    )
}

/// Writes tables of several files each, as the queries say, which have `{0}` for the number of the file.
async fn write(folder: &Path, tables: &[(&str, usize, &str)]) {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    for (name, files, query) in tables {
        for file in 0..*files {
            let path = folder.join(format!("{name}/{file}.parquet"));
            let query = query.replace("{0}", &file.to_string());
            let copy = format!("COPY ({query}) TO '{}' STORED AS PARQUET", path.display());
            context.sql(&copy).await.unwrap().collect().await.unwrap();
        }
    }
}

async fn check(tables: &[(&str, usize, &str)], queries: &[&str], settings: &[&[(&str, &str)]]) {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), tables).await;
    let names: Vec<&str> = tables.iter().map(|(name, ..)| *name).collect();
    let one = one();
    register_all(&one, folder.path(), &names).await;
    let cluster = Cluster::start(2).await;
    for settings in settings {
        let many = cluster.session(settings).await;
        register_all(&many, folder.path(), &names).await;
        for query in queries {
            let expected = rows(&one, query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
            let found = rows(&many, query).await.unwrap_or_else(|error| panic!("{settings:?}: {query}: {error}"));
            assert!(expected == found, "{settings:?}: {query}: {expected:?}, on workers {found:?}");
        }
    }
}

const PLAIN: &[(&str, &str)] = &[];
const NEVER: &[(&str, &str)] = &[("annulus.joins", "never"), ("annulus.strategy", "stock")];
const DYNAMIC: &[(&str, &str)] =
    &[("distributed.dynamic_task_count", "true"), ("distributed.dynamic_bytes_per_partition", "1000")];

#[tokio::test(flavor = "multi_thread")]
async fn nulls_in_lists_count() {
    let f = "SELECT value AS id, value % 50 AS k, CASE WHEN value % 11 = 0 THEN NULL ELSE (value * 7) % 100 END AS v, \
             arrow_cast(nullif(concat('t', value % 9), 't4'), 'Dictionary(Int32, Utf8)') AS t FROM range({0} * 200, \
             {0} * 200 + 200)";
    let m = "SELECT value AS k, CASE WHEN value % 7 = 0 THEN NULL ELSE value * 1.5 END AS w, \
             arrow_cast(nullif(concat('t', value % 3), 't1'), 'Dictionary(Int32, Utf8)') AS u FROM range({0} * 10, \
             {0} * 10 + 10)";
    let queries = [
        "SELECT count(*) FROM f WHERE v NOT IN (SELECT w FROM m x WHERE x.k > f.k)",
        "SELECT count(*) FROM f WHERE v NOT IN (SELECT w FROM m x WHERE x.k = f.k)",
        "SELECT count(*) FROM f WHERE v NOT IN (SELECT w FROM m x WHERE x.k < f.k AND w IS NOT NULL)",
        "SELECT count(*) FROM f WHERE k = 1 OR v NOT IN (SELECT w FROM m)",
        "SELECT count(*) FROM f WHERE k = 1 OR v NOT IN (SELECT w FROM m WHERE w IS NOT NULL)",
        "SELECT count(*) FROM f WHERE v NOT IN (SELECT w FROM m)",
        "SELECT count(*) FROM f WHERE 3 NOT IN (SELECT w FROM m)",
        "SELECT count(*) FROM f WHERE (v IN (SELECT w FROM m)) IS NULL",
        "SELECT t, count(*) FROM f WHERE t NOT IN (SELECT u FROM m) GROUP BY t",
        "SELECT t, count(*) FROM f WHERE t NOT IN (SELECT u FROM m WHERE u IS NOT NULL) GROUP BY t",
        "SELECT id, t NOT IN (SELECT u FROM m x WHERE x.k = f.k) FROM f WHERE id < 40",
        "SELECT v IN (SELECT w FROM m) AS b, count(*) FROM f GROUP BY v IN (SELECT w FROM m)",
        "SELECT k, first_value(v ORDER BY id, id) FROM f GROUP BY k",
    ];
    check(&[("f", 4, f), ("m", 4, m)], &queries, &[PLAIN, NEVER, DYNAMIC]).await;
}

/// A dynamic filter must not go to another column of the same name.
#[tokio::test(flavor = "multi_thread")]
async fn filters_find_their_columns() {
    let n =
        "SELECT concat('u', value % 7) AS id, concat('w', value % 5) AS kind FROM range({0} * 100, {0} * 100 + 100)";
    let m = "SELECT concat('w', value) AS id FROM range({0} * 2, {0} * 2 + 2)";
    let queries = [
        "SELECT s.id, count(*) FROM m s JOIN (SELECT a.id, b.id AS id2 FROM n a LEFT JOIN m b ON a.kind = b.id WHERE \
         coalesce(a.id, '') <> coalesce(b.id, '')) q ON s.id = q.id2 GROUP BY s.id",
        "SELECT s.id, count(*) FROM m s JOIN (SELECT a.id, b.id AS id2 FROM n a RIGHT JOIN m b ON a.kind = b.id) q ON \
         s.id = q.id2 GROUP BY s.id",
        "SELECT count(*) FROM n WHERE kind IN (SELECT q.id2 FROM (SELECT a.id, b.id AS id2 FROM n a JOIN m b ON \
         a.kind = b.id) q)",
    ];
    check(&[("n", 4, n), ("m", 2, m)], &queries, &[PLAIN, NEVER]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_every_type_go_between_stages() {
    let tables = [(
        "t",
        3,
        "SELECT value AS id, arrow_cast(make_array(value % 3, NULL), 'LargeList(Int64)') AS ll, \
         make_array(value % 3, value % 2) AS l, \
         make_array(arrow_cast(make_array(value % 2), 'LargeList(Int64)')) AS lll, \
         named_struct('a', arrow_cast(make_array(value % 2), 'LargeList(Int64)'), 'b', value % 2) AS s, \
         arrow_cast(concat('large ', value % 3), 'LargeUtf8') AS lt, \
         arrow_cast(concat('view of some length ', value % 3), 'Utf8View') AS vt, \
         arrow_cast(concat('dictionary ', value % 3), 'Dictionary(Int8, Utf8)') AS d, \
         arrow_cast(concat('bytes ', value % 3), 'LargeBinary') AS lb, \
         arrow_cast(concat('bytes in a view ', value % 3), 'BinaryView') AS vb, \
         arrow_cast(arrow_cast(concat('fix', value % 3), 'Binary'), 'FixedSizeBinary(4)') AS fb, \
         arrow_cast(value % 3, 'Decimal256(50, 3)') AS dd, arrow_cast(value % 3, 'Decimal128(20, 3)') AS d1, \
         arrow_cast(make_array(value % 3, 1), 'FixedSizeList(2, Int64)') AS fl, \
         arrow_cast(value % 3, 'Duration(Second)') AS du, arrow_cast(value % 3, 'Time64(Nanosecond)') AS ti, \
         arrow_cast(value % 3, 'Timestamp(Nanosecond, Some(\"+02:00\"))') AS ts, value % 2 = 0 AS b, \
         arrow_cast(value % 3, 'Float16') AS h, MAP {'k': value % 3} AS m FROM range({0} * 40, {0} * 40 + 40)",
    )];
    let mut queries: Vec<String> = [
        "SELECT * FROM t",
        "SELECT id, ll, s, lll FROM t ORDER BY id LIMIT 7",
        "SELECT a.ll, b.ll, count(*) FROM t a JOIN t b ON a.id = b.id GROUP BY a.ll, b.ll",
        "SELECT id, row_number() OVER (PARTITION BY ll ORDER BY id) FROM t",
        "SELECT count(*) FROM t a JOIN t b ON a.ll = b.ll",
        "SELECT array_agg(ll ORDER BY id) FROM t WHERE id < 5",
        "SELECT ll FROM t UNION ALL SELECT ll FROM t",
    ]
    .map(str::to_owned)
    .to_vec();
    let columns =
        ["ll", "l", "lll", "s", "lt", "vt", "d", "lb", "vb", "fb", "dd", "d1", "fl", "du", "ti", "ts", "b", "h"];
    queries.extend(columns.map(|column| format!("SELECT {column}, count(*), min(id) FROM t GROUP BY {column}")));
    queries.extend(columns.map(|column| format!("SELECT count(*) FROM t a JOIN t b ON a.{column} = b.{column}")));
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    check(&tables, &queries, &[PLAIN]).await;
    let plain: Vec<&str> =
        queries.iter().filter(|query| query.contains("vt") || query.contains("dd")).copied().collect();
    check(&tables, &plain, &[DYNAMIC]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_lists_need_task_counts_that_are_planned() {
    let folder = tempfile::tempdir().unwrap();
    let lists = "SELECT value AS id, arrow_cast(make_array(value), 'LargeList(Int64)') AS ll FROM range(100)";
    write(folder.path(), &[("t", 3, lists)]).await;
    let cluster = Cluster::start(2).await;
    let many = cluster.session(DYNAMIC).await;
    register_all(&many, folder.path(), &["t"]).await;
    let error = rows(&many, "SELECT ll, count(*) FROM t GROUP BY ll").await.unwrap_err().to_string();
    assert!(error.contains("distributed.dynamic_task_count"), "{error}");
}
