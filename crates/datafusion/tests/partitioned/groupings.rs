//! Groupings by the key of a partitioned table: runs of equal keys are merged first.

use annulus_datafusion::{AnnulusConfig, config::Groupings};
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use datafusion::prelude::SessionContext;

use crate::support::{Tables, answer, by, count, plan, register, session_with};

/// Enough rows for a partition to see whether it has few groups.
const ROWS: i64 = 120_000;
const PLAIN: &str =
    "SELECT k, count(*), count(v), sum(v), avg(v), min(f), max(v) FILTER (WHERE v % 3 = 1) FROM a GROUP BY k";

/// Returns rows of these keys, and values of which some are null.
fn rows(key: impl Fn(i64) -> i64) -> RecordBatch {
    let value = |row: i64| (row % 7 != 3).then_some(row * 37 % 1001);
    let columns: [(&str, ArrayRef); 3] = [
        ("k", Arc::new(Int64Array::from_iter((0..ROWS).map(|row| Some(key(row)).filter(|key| key % 50 != 49))))),
        ("v", Arc::new(Int64Array::from_iter((0..ROWS).map(value)))),
        ("f", Arc::new(Float64Array::from_iter((0..ROWS).map(|row| value(row).map(|value| value as f64 / 8.0))))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).expect("a batch")
}

/// Returns whether a metric of the plan is 0.
async fn is_zero(context: &SessionContext, query: &str, metric: &str) -> bool {
    let lines = answer(context, &format!("EXPLAIN ANALYZE {query}")).await;
    let line = lines.iter().find(|line| line.contains("groups=few")).expect("a first step");
    assert!(line.contains(&format!("{metric}=")), "{line}");
    line.contains(&format!("{metric}=0,")) || line.contains(&format!("{metric}=0]"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_before_merges_runs_or_few_groups() {
    let scattered = |row: i64| row * 7919 % ROWS;
    // The name, the rows, whether runs are merged, and whether rows are passed on.
    let cases = [
        ("sorted", rows(|row| row / 4), true, true),
        ("runs", rows(|row| scattered(row / 4)), true, true),
        ("different", rows(scattered), false, true),
        ("few", rows(|row| scattered(row) % 10), false, false),
        ("changing", rows(|row| if row < ROWS / 2 { row / 4 } else { scattered(row) % 10 }), true, true),
    ];
    for (name, rows, merges, passes) in cases {
        let tables = Tables::new();
        let path = tables.split("a", &rows, &by(&["k"], 3));
        let contexts = [Groupings::Auto, Groupings::Never].map(|groupings| {
            session_with(2, |config| {
                let options = config.options_mut().extensions.get_mut::<AnnulusConfig>();
                options.expect("options").groupings = groupings;
            })
        });
        for context in &contexts {
            register(context, "a", &path).await;
        }
        let shown = plan(&contexts[0], PLAIN).await;
        assert_eq!((count(&shown, "groups=few"), count(&shown, "mode=FinalPartitioned")), (1, 1), "{shown}");
        assert_eq!(count(&plan(&contexts[1], PLAIN).await, "mode=SinglePartitioned"), 1);
        assert_eq!(answer(&contexts[0], PLAIN).await, answer(&contexts[1], PLAIN).await, "{name}");
        assert_eq!(is_zero(&contexts[0], PLAIN, "merged_rows").await, !merges, "{name}");
        assert_eq!(is_zero(&contexts[0], PLAIN, "skipped_aggregation_rows").await, !passes, "{name}");
    }
}

/// A state for each row would be costly, or groups are limited.
#[tokio::test]
async fn one_step_stays_where_another_would_cost() {
    let tables = Tables::new();
    let context = session_with(2, |_| ());
    register(&context, "a", &tables.split("a", &rows(|row| row % 100), &by(&["k"], 3))).await;
    for query in ["SELECT k, array_agg(v) FROM a GROUP BY k", "SELECT k, max(v::TEXT) FROM a GROUP BY k"] {
        let shown = plan(&context, query).await;
        assert_eq!((count(&shown, "mode=SinglePartitioned"), count(&shown, "groups=few")), (1, 0), "{shown}");
    }
    let shown = plan(&context, "SELECT DISTINCT k FROM a LIMIT 2").await;
    assert_eq!(count(&shown, "groups=few"), 0, "{shown}");
}
