//! Joins on bands and inequalities, compared with DataFusion's own operator.

mod common;

use std::sync::Arc;

use annulus_datafusion::{AnnulusConfig, BandJoinExec, SessionStateBuilderExt, config::Joins};
use arrow::{
    array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray},
    compute::cast,
    datatypes::{DataType, TimeUnit},
};
use common::lines;
use datafusion::{
    datasource::MemTable,
    error::Result,
    execution::SessionStateBuilder,
    physical_plan::{ExecutionPlan, collect, displayable},
    prelude::{SessionConfig, SessionContext},
};
use proptest::prelude::*;

const JOINS: [&str; 8] = [
    "JOIN",
    "LEFT JOIN",
    "RIGHT JOIN",
    "FULL JOIN",
    "LEFT SEMI JOIN",
    "RIGHT SEMI JOIN",
    "LEFT ANTI JOIN",
    "RIGHT ANTI JOIN",
];

/// A type of keys, and two constants that are added to them.
#[derive(Clone, Copy, Debug)]
struct Kind {
    data_type: fn() -> DataType,
    constants: [&'static str; 2],
}

const KINDS: [Kind; 9] = [
    Kind { data_type: || DataType::Int64, constants: ["2", "3"] },
    Kind { data_type: || DataType::Int32, constants: ["0", "4"] },
    Kind { data_type: || DataType::UInt8, constants: ["1", "2"] },
    Kind { data_type: || DataType::Float64, constants: ["0.5", "2.5"] },
    Kind { data_type: || DataType::Float32, constants: ["CAST(0.5 AS REAL)", "CAST(1.1 AS REAL)"] },
    Kind {
        data_type: || DataType::Decimal128(10, 2),
        constants: ["CAST(1.25 AS DECIMAL(5, 2))", "CAST(2 AS DECIMAL(9, 0))"],
    },
    Kind { data_type: || DataType::Date32, constants: ["INTERVAL '2' DAY", "INTERVAL '1' MONTH"] },
    Kind {
        data_type: || DataType::Timestamp(TimeUnit::Millisecond, None),
        constants: ["INTERVAL '3 milliseconds'", "INTERVAL '1 day'"],
    },
    Kind {
        data_type: || DataType::Timestamp(TimeUnit::Second, Some("+02:00".into())),
        constants: ["INTERVAL '2 seconds'", "INTERVAL '5 seconds'"],
    },
];

/// Returns the conditions that are tried, with the constants in their places.
fn conditions(kind: Kind) -> Vec<String> {
    let [c, d] = kind.constants;
    let of = |text: &str| text.replace("$c", c).replace("$d", d);
    [
        "a.k BETWEEN b.k - $c AND b.k + $d",
        "b.k BETWEEN a.k - $c AND a.k + $d",
        "a.k >= b.k AND a.k < b.l",
        "a.k BETWEEN b.k AND b.l AND a.v <> b.v",
        "b.k BETWEEN a.k AND a.l",
        "a.k < b.k",
        "a.k + $c <= b.k",
        "a.k - $c > b.k + $d",
        "a.k <= b.l AND b.k <= a.l",
        "a.k > b.k AND (a.v + b.v) % 3 = 1",
        "a.k >= b.k AND a.v > 2 AND b.s IS NOT NULL",
        "a.k < b.k AND a.k < b.l AND a.l >= b.k - $c",
        "a.k BETWEEN b.k - $c AND b.k + $d AND a.l BETWEEN b.l - $d AND b.l + $c",
        "a.v = b.v AND a.k BETWEEN b.k - $c AND b.k + $d",
        "a.s = b.s AND a.k <= b.l AND b.k <= a.l",
        "a.v = b.v AND (a.s IS NOT DISTINCT FROM b.s) AND a.k < b.k AND a.l <> b.l",
    ]
    .map(of)
    .into()
}

/// Values from which keys are made; the last ones are for floats alone.
const VALUES: [f64; 24] = [
    0.0,
    1.0,
    2.0,
    3.0,
    4.0,
    5.0,
    6.0,
    7.0,
    8.0,
    9.0,
    9.0,
    9.0,
    20.0,
    21.0,
    40.0,
    90.0,
    -1.0,
    -7.0,
    0.5,
    -0.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    1e300,
];

/// A row: two keys, by their places in [`VALUES`] or null, a number and a text.
type Row = (Option<usize>, Option<usize>, i32, Option<u8>);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let key = || prop::option::weighted(0.9, 0..VALUES.len());
    let row = (key(), key(), 0..6_i32, prop::option::of(0..4_u8));
    prop_oneof![1 => Just(Vec::new()), 12 => prop::collection::vec(row, 1..40)]
}

/// Returns the values as keys of a type.
fn keys(data_type: &DataType, values: impl Iterator<Item = Option<usize>>) -> ArrayRef {
    let floats = data_type.is_floating();
    let signed = *data_type != DataType::UInt8;
    let value = |place: usize| match VALUES[place] {
        _ if place >= 18 && !floats => 11.0,
        value if value < 0.0 && !signed => -value,
        value => value,
    };
    let values: ArrayRef = Arc::new(values.map(|place| place.map(value)).collect::<Float64Array>());
    match data_type {
        DataType::Date32 | DataType::Timestamp(..) => {
            let whole = cast(&values, &DataType::Int64).unwrap();
            let narrow = if *data_type == DataType::Date32 { cast(&whole, &DataType::Int32).unwrap() } else { whole };
            cast(&narrow, data_type).unwrap()
        }
        _ => cast(&values, data_type).unwrap(),
    }
}

fn batch(kind: Kind, rows: &[Row]) -> RecordBatch {
    let data_type = (kind.data_type)();
    let texts = rows.iter().map(|row| row.3.map(|text| "x".repeat(usize::from(text) * 7)));
    RecordBatch::try_from_iter_with_nullable([
        ("v", Arc::new(rows.iter().map(|row| row.2).collect::<Int32Array>()) as ArrayRef, false),
        ("k", keys(&data_type, rows.iter().map(|row| row.0)), true),
        ("s", Arc::new(texts.collect::<StringArray>()), true),
        ("l", keys(&data_type, rows.iter().map(|row| row.1)), true),
    ])
    .unwrap()
}

/// Returns a table with `batches` batches, in turn in each of `partitions` partitions.
fn table(batch: &RecordBatch, partitions: usize, batches: usize) -> MemTable {
    let size = batch.num_rows().div_ceil(batches).max(1);
    let mut parts = vec![Vec::new(); partitions];
    for (index, start) in (0..batch.num_rows()).step_by(size).enumerate() {
        parts[index % partitions].push(batch.slice(start, size.min(batch.num_rows() - start)));
    }
    MemTable::try_new(batch.schema(), parts).unwrap()
}

fn session(joins: Joins, config: SessionConfig) -> SessionContext {
    let annulus = AnnulusConfig { joins, keyed_bands: joins, ..Default::default() };
    let builder = SessionStateBuilder::new_with_default_features().with_config(config.with_option_extension(annulus));
    SessionContext::new_with_state(builder.with_annulus().build())
}

/// Returns the number of our joins in a plan.
fn ours(plan: &Arc<dyn ExecutionPlan>) -> usize {
    usize::from(plan.is::<BandJoinExec>()) + plan.children().into_iter().map(ours).sum::<usize>()
}

/// Returns the sorted rows of a query, and the number of our joins in its plan.
async fn answer(context: &SessionContext, query: &str) -> Result<(Vec<String>, usize)> {
    let plan = context.sql(query).await?.create_physical_plan().await?;
    let mut found = lines(&collect(Arc::clone(&plan), context.task_ctx()).await?);
    found.sort_unstable();
    Ok((found, ours(&plan)))
}

fn select(join: &str) -> &'static str {
    match join {
        _ if join.starts_with("LEFT S") || join.starts_with("LEFT A") => "SELECT a.s, a.k FROM a",
        _ if join.starts_with("RIGHT S") || join.starts_with("RIGHT A") => "SELECT b.v, b.l FROM a",
        "FULL JOIN" => "SELECT * FROM a",
        _ => "SELECT b.k, a.v, b.v, b.s FROM a",
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn joins_equal_the_stock_operators(
        (left, right) in (rows(), rows()),
        (kind, which) in (0..KINDS.len(), any::<prop::sample::Index>()),
        (partitions, batches, batch_rows) in ((1..4_usize, 1..4_usize), (1..6_usize, 1..6_usize), 1..50_usize),
    ) {
        let kind = KINDS[kind];
        let conditions = conditions(kind);
        let condition = which.get(&conditions);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let contexts = [Joins::Always, Joins::Never].map(|joins| {
                let config = SessionConfig::new().with_target_partitions(partitions.0).with_batch_size(batch_rows);
                let context = session(joins, config);
                let sides = [("a", &left, partitions.0, batches.0), ("b", &right, partitions.1, batches.1)];
                for (name, rows, partitions, batches) in sides {
                    context.register_table(name, Arc::new(table(&batch(kind, rows), partitions, batches))).unwrap();
                }
                context
            });
            for join in JOINS {
                let query = format!("{} {join} b ON {condition}", select(join));
                let (ours, joins) = answer(&contexts[0], &query).await.unwrap();
                let (stock, none) = answer(&contexts[1], &query).await.unwrap();
                // DataFusion knows that an empty table has no rows.
                let expected = joins == 1 || left.is_empty() || right.is_empty();
                prop_assert!(none == 0 && expected, "{} joins of {}", joins, query);
                prop_assert_eq!(ours, stock, "{}", query);
            }
            Ok(())
        })?;
    }
}

/// Returns the operator's line in `EXPLAIN`, or all lines if it is not there.
async fn explained(context: &SessionContext, query: &str) -> String {
    let plan = context.sql(query).await.unwrap().create_physical_plan().await.unwrap();
    let text = displayable(plan.as_ref()).indent(false).to_string();
    text.lines().find(|line| line.contains("BandJoinExec")).map_or(text.clone(), |line| line.trim().to_owned())
}

fn with_tables(joins: Joins, kind: Kind, rows: usize) -> SessionContext {
    let context = session(joins, SessionConfig::new().with_target_partitions(2));
    let rows: Vec<Row> = (0..rows).map(|row| (Some(row % 10), Some(row % 12), row as i32, None)).collect();
    for name in ["a", "b"] {
        context.register_table(name, Arc::new(table(&batch(kind, &rows), 2, 2))).unwrap();
    }
    context
}

/// A band that was taken for two inequalities would give the same rows, but slowly.
#[tokio::test]
async fn both_bounds_of_a_band_are_found_for_each_type() {
    for kind in KINDS {
        let context = with_tables(Joins::Always, kind, 10);
        let text = explained(&context, &format!("SELECT a.v FROM a JOIN b ON {}", conditions(kind)[0])).await;
        assert!(text.contains("algorithm=sort-merge, why=annulus.joins"), "{text}");
        assert!(!text.contains(", filter="), "{text}");
    }
}

#[tokio::test]
async fn explain_names_the_parts_of_the_condition() {
    let context = with_tables(Joins::Always, KINDS[0], 10);
    let query = "SELECT b.s, a.v FROM a LEFT JOIN b ON a.k BETWEEN b.k - 2 AND b.k + 3 AND a.v <> b.v AND a.k < b.l";
    let text = explained(&context, query).await;
    let expected = "BandJoinExec: join_type=Left, band=k@1 >= k@3 - 2 AND k@1 <= k@3 + 3, second_band=k@1 < l@4, \
                    filter=v@0 != v@2, projection=[s, v], algorithm=sort-merge, why=annulus.joins";
    assert_eq!(text, expected);
    // A point within an interval, whichever side has it.
    for condition in ["a.k >= b.k AND a.v <> b.v AND a.k < b.l", "b.k < a.l AND a.k <= b.k AND a.v <> b.v"] {
        let text = explained(&context, &format!("SELECT a.v FROM a JOIN b ON {condition}")).await;
        assert_eq!(text.matches(['<', '>']).count(), 2, "{text}");
        assert!(text.contains(", filter=v@") && text.contains(" != v@"), "{text}");
    }
    // Two inequalities that bound one key are a band, though other ones come first.
    let query = "SELECT a.v FROM a, b WHERE a.l < b.l AND b.k <= a.k AND a.v > b.v AND a.k <= b.k + 9";
    let text = explained(&context, query).await;
    assert!(text.contains("band=k@4 <= k@1 AND k@1 <= k@4 + 9, second_band=l@5 > l@2, filter=v@3 < v@0"), "{text}");
}

#[tokio::test]
async fn few_rows_stay_with_the_stock_operator() {
    let query = "SELECT a.v FROM a JOIN b ON a.k < b.k";
    let few = explained(&with_tables(Joins::Auto, KINDS[0], 100), query).await;
    assert!(few.contains("NestedLoopJoinExec"), "{few}");
    let more = explained(&with_tables(Joins::Auto, KINDS[0], 1000), query).await;
    assert!(more.contains("why=1000 rows by 1000"), "{more}");
    let never = explained(&with_tables(Joins::Never, KINDS[0], 1000), query).await;
    assert!(never.contains("NestedLoopJoinExec"), "{never}");
    // What is left of a filtered table is not known.
    let query = "SELECT a.v FROM a JOIN b ON a.k < b.k WHERE b.v > 7";
    let filtered = explained(&with_tables(Joins::Auto, KINDS[0], 100), query).await;
    assert!(filtered.contains("why=the exact number of rows is unknown"), "{filtered}");
}

#[tokio::test]
async fn conditions_without_a_band() {
    let context = with_tables(Joins::Always, KINDS[0], 10);
    for condition in ["a.k + b.k > 3", "a.k <> b.k", "a.s < b.s", "a.k < b.k + random()"] {
        let text = explained(&context, &format!("SELECT a.v FROM a JOIN b ON {condition}")).await;
        assert!(text.contains("LoopJoinExec: join_type=Inner, filter="), "{text}");
    }
}

/// A limit, an aggregate, a sort and a join above, and a union, a join and an aggregate below.
#[tokio::test]
async fn within_larger_plans() {
    let queries = [
        "SELECT count(*) FROM (SELECT a.v FROM a JOIN b ON a.k <= b.k LIMIT 7)",
        "SELECT count(*), sum(a.v), min(b.k) FROM a JOIN b ON a.k BETWEEN b.k - 1 AND b.k + 1",
        "SELECT count(*) FROM a LEFT JOIN b ON a.k < b.k - 5",
        "SELECT a.k, count(*) c FROM a JOIN b ON a.k < b.k GROUP BY a.k ORDER BY c, a.k",
        "SELECT a.v, b.v FROM a JOIN b ON a.k < b.k ORDER BY a.v DESC, b.v LIMIT 5",
        "SELECT x.v, c.v FROM (SELECT a.v, b.k FROM a JOIN b ON a.k < b.k) x JOIN a c ON x.k = c.k AND c.v < 20",
        "SELECT x.v, y.n FROM (SELECT * FROM a UNION ALL SELECT * FROM b) x \
         JOIN (SELECT k, count(*) n FROM b GROUP BY k) y ON x.k BETWEEN y.k - 1 AND y.n",
        "SELECT a.v FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k > a.l)",
        "SELECT a.v FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k > a.l)",
        "SELECT a.v, c.v FROM a JOIN b ON a.k < b.k JOIN a c ON c.k > b.l + 2",
        "WITH RECURSIVE r AS (SELECT 0 AS n UNION ALL SELECT DISTINCT r.n + 1 FROM r JOIN a ON a.k > r.n AND r.n < 6) \
         SELECT * FROM r",
    ];
    for query in queries {
        let (ours, joins) = answer(&with_tables(Joins::Always, KINDS[0], 60), query).await.unwrap();
        let (stock, none) = answer(&with_tables(Joins::Never, KINDS[0], 60), query).await.unwrap();
        assert!(joins > 0 && none == 0, "{joins} joins of {query}");
        assert_eq!(ours, stock, "{query}");
    }
}

#[tokio::test]
async fn the_values_of_the_option() {
    let context = session(Joins::Auto, SessionConfig::new());
    assert!(context.sql("SET annulus.joins = 'Always'").await.is_ok());
    let error = context.sql("SET annulus.joins = 'often'").await.unwrap_err();
    assert!(error.to_string().contains("expected one of auto, always, never"), "{error}");
}
