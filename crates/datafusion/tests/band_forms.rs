//! The forms in which people write bands and inequalities: which become a join by sorting, and
//! whether its rows are those of DataFusion's own operators.

mod common;

use std::sync::Arc;

use annulus_datafusion::{AnnulusConfig, BandJoinExec, SessionStateBuilderExt, config::Joins};
use common::lines;
use datafusion::{
    execution::SessionStateBuilder,
    physical_plan::{ExecutionPlan, collect, displayable},
    prelude::{SessionConfig, SessionContext},
};

/// Two tables of events and intervals, with nulls, NaNs, both zeros, ties, and intervals that end
/// before they begin.
const TABLES: &str = "
    CREATE TABLE $t AS SELECT
        v AS id,
        nullif((v * 7 + $s) % 23, 5) AS x,
        nullif((v * 7 + $s) % 23, 5) + (v * 5) % 7 - 1 AS y,
        CAST((v * 3 + $s) % 19 AS SMALLINT) AS small,
        nullif((v * 11 + $s) % 4, 3) AS k,
        CASE (v + $s) % 5 WHEN 0 THEN 'a' WHEN 1 THEN 'b' WHEN 2 THEN NULL ELSE 'c' END AS name,
        CASE (v + $s) % 17 WHEN 0 THEN double 'NaN' WHEN 1 THEN double '-0' WHEN 2 THEN double '0' WHEN 3 THEN NULL
            ELSE CAST(((v * 7 + $s) % 23) AS DOUBLE) / 4 END AS f,
        CAST(((v * 7 + $s) % 23) * 0.25 AS DECIMAL(12, 2)) AS d,
        CAST(DATE '2024-01-28' + ((v * 7 + $s) % 23) AS DATE) AS day,
        CAST(DATE '2024-01-28' + ((v * 7 + $s) % 23) + (v % 9) AS DATE) AS until,
        arrow_cast((v * 7 + $s) % 23, 'Timestamp(Second, None)') AS ts,
        arrow_cast((v * 7 + $s) % 23 + v % 6, 'Timestamp(Second, None)') AS te
    FROM (SELECT unnest(range(0, 60)) AS v)";

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

async fn session(joins: Joins) -> SessionContext {
    let annulus = AnnulusConfig { joins, keyed_bands: joins, ..Default::default() };
    let config = SessionConfig::new().with_target_partitions(2).with_batch_size(16).with_option_extension(annulus);
    let state = SessionStateBuilder::new_with_default_features().with_config(config).with_annulus().build();
    let context = SessionContext::new_with_state(state);
    for (name, seed) in [("a", "1"), ("b", "4")] {
        let sql = TABLES.replace("$t", name).replace("$s", seed);
        context.sql(&sql).await.unwrap().collect().await.unwrap();
    }
    context
}

/// Returns the line of our operator in a plan, if it is there.
fn ours(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
    if plan.is::<BandJoinExec>() {
        let text = displayable(plan.as_ref()).one_line().to_string();
        return Some(text.trim().to_owned());
    }
    plan.children().into_iter().find_map(ours)
}

async fn answer(context: &SessionContext, query: &str) -> (Vec<String>, Option<String>) {
    let planned = context.sql(query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
    let plan = planned.create_physical_plan().await.unwrap_or_else(|error| panic!("{query}: {error}"));
    let rows = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap_or_else(|error| panic!("{query}: {error}"));
    let mut rows = lines(&rows);
    rows.sort_unstable();
    (rows, ours(&plan))
}

/// What becomes of a form.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Plan {
    /// All of it is merged.
    Merged,
    /// Some of it is a filter on the pairs.
    Filtered,
    /// The join stays with DataFusion.
    Stock,
}
use Plan::{Filtered, Merged, Stock};

const FORMS: [(&str, Plan); 54] = [
    ("a.x BETWEEN b.x - 2 AND b.x + 3", Merged),
    ("b.x BETWEEN a.x - 2 AND a.x + 3", Merged),
    ("a.x BETWEEN b.x AND b.y", Merged),
    ("b.x BETWEEN a.x AND a.y", Merged),
    ("a.x + 1 BETWEEN b.x AND b.y", Merged),
    ("a.x NOT BETWEEN b.x - 2 AND b.x + 3", Stock),
    ("a.x >= b.x AND a.x < b.y", Merged),
    ("NOT (a.x < b.x) AND NOT (a.x >= b.y)", Merged),
    ("a.x <= b.y AND b.x <= a.y", Merged),
    ("a.x < b.y AND b.x < a.y", Merged),
    ("a.x < b.x AND a.y > b.y", Merged),
    ("a.x < b.x AND a.y > b.y AND a.small <= b.small", Filtered),
    ("a.x BETWEEN b.x - 2 AND b.x + 2 AND a.y BETWEEN b.y - 2 AND b.y + 2", Merged),
    ("a.x BETWEEN b.x - 2 AND b.x + 2 AND a.f < b.f", Merged),
    ("abs(a.x - b.x) <= 2", Merged),
    ("abs(b.small - a.small) < 3", Merged),
    ("3 > abs(b.small - a.x)", Merged),
    ("abs(a.x - b.x) > 20", Stock),
    ("abs(a.x - b.x) <= 2 AND a.x <= b.x + 1", Merged),
    ("a.x - b.x BETWEEN -2 AND 3", Merged),
    ("a.x - b.x < 3 AND b.x - a.x <= 2", Merged),
    ("a.small BETWEEN b.x - 1 AND b.x + 1", Merged),
    ("a.small < b.f", Merged),
    ("a.x * 2 < b.x + b.y", Merged),
    ("a.x + a.y BETWEEN b.x * 2 - 3 AND b.x * 2 + 3", Merged),
    ("a.f BETWEEN b.f - 0.5 AND b.f + 0.5", Merged),
    ("b.f BETWEEN a.f - 0.5 AND a.f + 0.5", Merged),
    ("abs(a.f - b.f) <= 0.5", Stock),
    ("a.f < b.f", Merged),
    ("a.d BETWEEN b.d - 0.5 AND b.d + 1.25", Merged),
    ("a.d <= b.d - 1", Merged),
    ("a.d - b.d <= 1", Merged),
    ("a.day BETWEEN b.day - INTERVAL '2' DAY AND b.day + INTERVAL '1' DAY", Merged),
    ("a.day BETWEEN b.day AND b.until", Merged),
    ("a.day BETWEEN b.day - INTERVAL '1' MONTH AND b.day", Merged),
    ("a.day - b.day <= 2", Merged),
    ("a.day >= b.day - 2 AND a.day <= b.day + 1", Merged),
    ("a.day <= b.until AND b.day <= a.until", Merged),
    ("a.ts BETWEEN b.ts - INTERVAL '2 seconds' AND b.ts + INTERVAL '3 seconds'", Merged),
    ("b.ts BETWEEN a.ts AND a.ts + INTERVAL '3 seconds'", Merged),
    ("a.ts - b.ts <= INTERVAL '2 seconds' AND a.ts >= b.ts", Merged),
    ("a.ts - b.ts <= INTERVAL '1 day'", Merged),
    ("a.ts >= b.ts AND a.ts < b.te", Merged),
    ("a.ts < b.te AND b.ts < a.te", Merged),
    ("a.ts::DATE = b.ts::DATE AND a.ts < b.ts", Merged),
    ("a.k = b.k AND a.x BETWEEN b.x - 2 AND b.x + 2", Merged),
    ("a.k = b.k AND a.name = b.name AND a.x < b.x", Merged),
    ("a.name = b.name AND a.ts BETWEEN b.ts AND b.te", Merged),
    ("(a.name IS NOT DISTINCT FROM b.name) AND a.x < b.x", Merged),
    ("a.k = b.k AND a.x <= b.y AND b.x <= a.y", Merged),
    ("a.k = b.k AND a.x <= b.y AND a.name <> b.name", Filtered),
    ("a.x < b.x OR a.y > b.y", Stock),
    ("a.name < b.name", Stock),
    ("a.x > b.x AND a.name <> b.name", Filtered),
];

/// Returns the plan that the operator's text tells of.
fn plan_of(text: Option<&str>) -> Plan {
    match text {
        None => Stock,
        Some(text) if text.contains(", filter=") => Filtered,
        Some(_) => Merged,
    }
}

#[tokio::test]
async fn each_form_with_each_join_type() {
    let (ours, stock) = (session(Joins::Always).await, session(Joins::Never).await);
    for (form, expected) in FORMS {
        for join in JOINS {
            let kept = if join.starts_with("RIGHT") { "b.id, b.x" } else { "a.id, a.x" };
            let both = !(join.contains("SEMI") || join.contains("ANTI"));
            let columns = if both { "a.id, b.id, a.name, b.f" } else { kept };
            let query = format!("SELECT {columns} FROM a {join} b ON {form}");
            let ((found, plan), (rows, _)) = (answer(&ours, &query).await, answer(&stock, &query).await);
            assert_eq!(found, rows, "{query}");
            assert_eq!(plan_of(plan.as_deref()), expected, "{query}: {plan:?}");
        }
    }
}

/// `EXISTS` beside another condition is a mark join. A mark is never null: a row without a partner
/// has the mark false, also if its keys are null.
#[tokio::test]
async fn exists_beside_other_conditions() {
    let (ours, stock) = (session(Joins::Always).await, session(Joins::Never).await);
    for (form, expected) in FORMS.into_iter().filter(|form| form.1 != Stock) {
        for query in [
            format!("SELECT id, x FROM a WHERE id % 7 = 1 OR EXISTS (SELECT 1 FROM b WHERE {form})"),
            format!("SELECT id FROM b WHERE id % 7 = 1 OR NOT EXISTS (SELECT 1 FROM a WHERE {form} AND a.id > 50)"),
        ] {
            let ((found, plan), (rows, _)) = (answer(&ours, &query).await, answer(&stock, &query).await);
            assert_eq!(found, rows, "{query}");
            assert!(plan.as_deref().is_some_and(|plan| plan.contains("Mark")), "{query}: {plan:?}");
            assert_eq!(plan_of(plan.as_deref()), expected, "{query}: {plan:?}");
        }
    }
}
