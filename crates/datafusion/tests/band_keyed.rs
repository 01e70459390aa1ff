//! Which hash joins with a band in their filter run by sorting, and which queries for the nearest
//! row do.

mod common;

use annulus_datafusion::{
    AnnulusConfig, SessionStateBuilderExt,
    profile::{JoinCosts, Profile},
};
use common::lines;
use datafusion::{
    execution::SessionStateBuilder,
    prelude::{ParquetReadOptions, SessionConfig, SessionContext},
};

/// Returns a session with the tables `a` and `b`, in Parquet files, of `rows` rows each: `few` has
/// 10 keys, `many` as many as rows, and `name` is a text.
async fn with_files(folder: &tempfile::TempDir, rows: u32) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2).with_option_extension(AnnulusConfig::default());
    let state = SessionStateBuilder::new_with_default_features().with_config(config).with_annulus().build();
    let context = SessionContext::new_with_state(state);
    for name in ["a", "b"] {
        let path = folder.path().join(format!("{name}.parquet"));
        let path = path.to_str().unwrap();
        let copy = format!(
            "COPY (SELECT v % 10 AS few, v AS many, 'n' || CAST(v % 3 AS VARCHAR) AS name, v * 37 % 501 AS t \
             FROM (SELECT unnest(range(0, {rows})) AS v)) TO '{path}' STORED AS PARQUET"
        );
        context.sql(&copy).await.unwrap().collect().await.unwrap();
        context.register_parquet(name, path, ParquetReadOptions::default()).await.unwrap();
    }
    context
}

async fn explained(context: &SessionContext, query: &str) -> String {
    let shown = context.sql(&format!("EXPLAIN FORMAT INDENT {query}")).await.unwrap().collect().await.unwrap();
    lines(&shown).join("\n")
}

async fn answer(context: &SessionContext, query: &str) -> Vec<String> {
    let mut rows = lines(&context.sql(query).await.unwrap().collect().await.unwrap());
    rows.sort_unstable();
    rows
}

const BAND: &str = "a.t BETWEEN b.t - 5 AND b.t + 5";

#[tokio::test]
async fn keys_are_sorted_where_statistics_show_that_they_are_few() {
    let folder = tempfile::tempdir().unwrap();
    let context = with_files(&folder, 2000).await;
    let plan_of = |condition: &str| format!("SELECT count(*) FROM a JOIN b ON {condition}");
    let few = explained(&context, &plan_of(&format!("a.few = b.few AND {BAND}"))).await;
    assert!(few.contains("equal=few@2 = few@3, band=t@0 >= t@1 - 5 AND t@0 <= t@1 + 5,"), "{few}");
    assert!(few.contains("why=2000 rows by 2000 have at most 10 keys"), "{few}");
    for condition in [
        format!("a.many = b.many AND {BAND}"),
        format!("a.few = b.few AND a.many = b.many AND {BAND}"),
        // The least and the greatest text tell nothing of those between.
        format!("a.name = b.name AND {BAND}"),
        "a.few = b.few".to_owned(),
        "a.few = b.few AND a.t <> b.t".to_owned(),
    ] {
        let plan = explained(&context, &plan_of(&condition)).await;
        assert!(plan.contains("SharedHashJoinExec") && !plan.contains("BandJoinExec"), "{condition}: {plan}");
    }
}

/// The two tables have 100 pairs for each row.
#[tokio::test]
async fn a_profile_decides_from_which_pairs_on_rows_are_sorted() {
    let folder = tempfile::tempdir().unwrap();
    let context = with_files(&folder, 2000).await;
    let query = format!("SELECT count(*) FROM a JOIN b ON a.few = b.few AND {BAND}");
    let path = folder.path().join("profile.json");
    context.sql(&format!("SET annulus.profile = '{}'", path.display())).await.unwrap();
    let missing = context.sql(&query).await.unwrap().create_physical_plan().await.unwrap_err().to_string();
    assert!(missing.contains("cannot read profile"), "{missing}");
    for (row_ns, sorted) in [(60.0, true), (70.0, false), (1.0, true)] {
        let profile = Profile::new(2, Vec::new()).with_joins(JoinCosts { pair_ns: 1.0, row_ns });
        std::fs::write(&path, serde_json::to_vec(&profile).unwrap()).unwrap();
        let plan = explained(&context, &query).await;
        assert_eq!(plan.contains("BandJoinExec"), sorted, "{row_ns}: {plan}");
        let why = format!("have at most 10 keys; measured: {:.1} ms to sort, 0.4 ms to compare", row_ns * 4e-3);
        assert_eq!(plan.contains(&why), sorted, "{row_ns}: {plan}");
    }
    // Without costs of joins, the rules hold.
    std::fs::write(&path, serde_json::to_vec(&Profile::new(2, Vec::new())).unwrap()).unwrap();
    let plan = explained(&context, &query).await;
    assert!(plan.contains("have at most 10 keys") && !plan.contains("measured"), "{plan}");
}

#[tokio::test]
async fn the_option_decides_about_other_keys() {
    let folder = tempfile::tempdir().unwrap();
    let context = with_files(&folder, 2000).await;
    let query =
        |key: &str| format!("SELECT count(*), sum(a.t), min(b.many) FROM a JOIN b ON a.{key} = b.{key} AND {BAND}");
    for (value, key, expected) in [("always", "name", true), ("always", "many", true), ("never", "few", false)] {
        let query = query(key);
        context.sql("SET annulus.joins = 'never'").await.unwrap();
        let stock = answer(&context, &query).await;
        context.sql("SET annulus.joins = 'auto'").await.unwrap();
        context.sql(&format!("SET annulus.keyed_bands = '{value}'")).await.unwrap();
        let plan = explained(&context, &query).await;
        assert_eq!(plan.contains("BandJoinExec") && plan.contains("why=annulus.keyed_bands"), expected, "{plan}");
        assert_eq!(answer(&context, &query).await, stock, "{query}");
    }
}

/// The forms of an as-of join that DataFusion can plan, as docs/sql.md names them.
#[tokio::test]
async fn queries_for_the_nearest_row() {
    let folder = tempfile::tempdir().unwrap();
    let context = with_files(&folder, 300).await;
    let forms = [
        (
            "BandJoinExec",
            "SELECT * FROM (SELECT a.many, b.t, row_number() OVER (PARTITION BY a.many ORDER BY b.t DESC, b.many) \
             AS place FROM a JOIN b ON a.few = b.few AND b.t BETWEEN a.t - 60 AND a.t) WHERE place = 1",
        ),
        ("AsOfJoinExec", "SELECT a.many, max(b.t) FROM a JOIN b ON b.t <= a.t GROUP BY a.many"),
    ];
    context.sql("SET annulus.keyed_bands = 'always'").await.unwrap();
    for (operator, form) in forms {
        let plan = explained(&context, form).await;
        let found = answer(&context, form).await;
        context.sql("SET annulus.joins = 'never'").await.unwrap();
        assert_eq!(found, answer(&context, form).await, "{form}");
        context.sql("SET annulus.joins = 'auto'").await.unwrap();
        assert!(plan.contains(operator), "{form}: {plan}");
    }
    for refused in [
        "SELECT a.many, q.t FROM a, LATERAL (SELECT b.t FROM b WHERE b.t <= a.t ORDER BY b.t DESC LIMIT 1) q",
        "SELECT a.many, (SELECT max(b.t) FROM b WHERE b.t <= a.t) FROM a",
        "SELECT a.many, b.t FROM a ASOF JOIN b MATCH_CONDITION (a.t >= b.t)",
    ] {
        let planned = async { context.sql(refused).await?.create_physical_plan().await };
        assert!(planned.await.is_err(), "{refused}");
    }
}
