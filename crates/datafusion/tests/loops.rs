//! Joins by nested loops, compared with DataFusion's own operator.

mod common;

use std::sync::Arc;

use annulus_datafusion::{AnnulusConfig, LoopJoinExec, SessionStateBuilderExt, config::Joins};
use arrow::{
    array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray, StringViewArray},
    compute::cast,
    datatypes::DataType,
};
use common::lines;
use datafusion::{
    datasource::MemTable,
    error::Result,
    execution::SessionStateBuilder,
    physical_plan::{ExecutionPlan, collect, displayable},
    prelude::{SessionConfig, SessionContext},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

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

/// Conditions without equal keys or bands. Some are constants in the operator, some are functions,
/// some read one side only, and one has no columns.
const CONDITIONS: [&str; 22] = [
    "a.s < b.s",
    "a.s <> b.s",
    "a.s LIKE b.p",
    "b.s NOT LIKE a.p",
    "a.w ILIKE b.w || '%'",
    "a.n = b.n OR a.m = b.m",
    "a.n NOT BETWEEN b.n - 2 AND b.m",
    "((a.n < b.n) IS NOT TRUE) AND (a.n <> b.m)",
    "abs(a.f - b.f) < 2.5 OR a.s IS NULL",
    "a.n <> b.n",
    "(a.n IS DISTINCT FROM b.n) AND a.w > b.w",
    "(a.n + b.n) % 3 = 1",
    "starts_with(a.s, b.s)",
    "length(a.s) + length(b.w) > 9",
    "CASE WHEN a.n > 3 THEN b.s ELSE a.s END = 'text 2'",
    "CAST(a.s || b.s AS VARCHAR) ~ '1.*2'",
    "a.d > b.s AND a.d <> b.d",
    "a.n > 4 AND b.n + a.n < 9 OR a.f < b.f AND a.n < 3",
    "a.l <> b.l",
    "a.n IN (b.n, b.m, 3)",
    "b.s LIKE a.s || '%' AND a.n % 4 > 1",
    "NOT (a.n + 1 = b.n AND b.m - 1 <> a.m * 2)",
];

/// Returns rows with nulls: numbers, texts of several types, patterns and lists.
fn batch(random: &mut StdRng, rows: usize) -> RecordBatch {
    let mut numbers = |most: i32| -> Vec<Option<i32>> {
        (0..rows).map(|_| random.random_bool(0.85).then(|| random.random_range(0..most))).collect()
    };
    let text = |n: &Option<i32>| n.map(|n| format!("text {n}"));
    let (n, m, s, w) = (numbers(12), numbers(6), numbers(5), numbers(5));
    let patterns = numbers(4).into_iter().map(|n| n.map(|n| ["%1", "text%", "t_xt 2", "no"][n as usize]));
    let texts: StringArray = s.iter().map(text).collect();
    let dictionary = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
    let lists = n.iter().map(|n| n.map(|n| vec![Some(n), None]));
    let lists = arrow::array::ListArray::from_iter_primitive::<arrow::datatypes::Int32Type, _, _>(lists);
    RecordBatch::try_from_iter_with_nullable([
        ("n", Arc::new(Int32Array::from(n)) as ArrayRef, true),
        ("p", Arc::new(patterns.collect::<StringArray>()), true),
        ("f", Arc::new(m.iter().map(|m| m.map(f64::from)).collect::<Float64Array>()), true),
        ("m", Arc::new(Int32Array::from(m)), true),
        ("d", cast(&texts, &dictionary).unwrap(), true),
        ("s", Arc::new(texts), true),
        ("w", Arc::new(w.iter().map(text).collect::<StringViewArray>()), true),
        ("l", Arc::new(lists), true),
    ])
    .unwrap()
}

/// Returns a session with tables `a` and `b` of these rows.
fn session(joins: Joins, (partitions, batch_rows): (usize, usize), tables: [&RecordBatch; 2]) -> SessionContext {
    let annulus = AnnulusConfig { joins, ..Default::default() };
    let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(batch_rows);
    let builder = SessionStateBuilder::new_with_default_features().with_config(config.with_option_extension(annulus));
    let context = SessionContext::new_with_state(builder.with_annulus().build());
    for (name, table) in ["a", "b"].into_iter().zip(tables) {
        let mut parts = vec![Vec::new(); partitions];
        for start in (0..table.num_rows()).step_by(7) {
            parts[start % partitions].push(table.slice(start, 7.min(table.num_rows() - start)));
        }
        context.register_table(name, Arc::new(MemTable::try_new(table.schema(), parts).unwrap())).unwrap();
    }
    context
}

fn ours(plan: &Arc<dyn ExecutionPlan>) -> usize {
    usize::from(plan.is::<LoopJoinExec>()) + plan.children().into_iter().map(ours).sum::<usize>()
}

/// Returns the rows of a query, and the number of our joins in its plan.
async fn answer(context: &SessionContext, query: &str) -> Result<(Vec<String>, usize)> {
    let plan = context.sql(query).await?.create_physical_plan().await?;
    let found = collect(Arc::clone(&plan), context.task_ctx()).await?;
    Ok((lines(&found), ours(&plan)))
}

async fn compare(contexts: &[SessionContext; 2], query: &str, is_replaced: bool) {
    let (mut found, joins) = answer(&contexts[0], query).await.unwrap();
    let (mut expected, none) = answer(&contexts[1], query).await.unwrap();
    if !query.contains("ORDER BY") {
        found.sort_unstable();
        expected.sort_unstable();
    }
    assert_eq!(none, 0, "{query}");
    assert!(joins > 0 || !is_replaced, "{query}");
    assert_eq!(found, expected, "{query}");
}

fn sessions(layout: (usize, usize), tables: [&RecordBatch; 2]) -> [SessionContext; 2] {
    [Joins::Always, Joins::Never].map(|joins| session(joins, layout, tables))
}

#[tokio::test]
async fn joins_equal_the_stock_operators() {
    let mut random = StdRng::seed_from_u64(1);
    let sizes = [[40, 25], [9, 60], [60, 9], [0, 20], [20, 0], [1, 1]];
    for (round, [left, right]) in sizes.into_iter().enumerate() {
        let tables = [batch(&mut random, left), batch(&mut random, right)];
        let layout = ([1, 3, 2][round % 3], [1, 5, 100, 8192][round % 4]);
        let contexts = sessions(layout, [&tables[0], &tables[1]]);
        let some = CONDITIONS.iter().enumerate().filter(|(place, _)| round == 0 || place % 3 == round % 3);
        for (_, condition) in some {
            for join in JOINS {
                let columns = match join {
                    _ if join.starts_with("LEFT S") || join.starts_with("LEFT A") => "a.s, a.n",
                    _ if join.starts_with("RIGHT S") || join.starts_with("RIGHT A") => "b.m, b.w",
                    "FULL JOIN" => "*",
                    _ => "b.n, a.w, a.n, b.d",
                };
                // DataFusion knows that an empty table has no rows.
                let query = format!("SELECT {columns} FROM a {join} b ON {condition}");
                compare(&contexts, &query, left > 0 && right > 0).await;
            }
        }
    }
}

/// Marks, conditions that are constant or read one side, no columns, and larger plans around.
#[tokio::test]
async fn within_larger_plans() {
    let queries = [
        "SELECT a.n, a.s FROM a WHERE a.n > 8 OR EXISTS (SELECT 1 FROM b WHERE b.s < a.s AND b.n <> a.n)",
        "SELECT a.n, a.s FROM a WHERE a.n > 8 OR NOT EXISTS (SELECT 1 FROM b WHERE b.s <> a.s AND b.n <> a.n)",
        "SELECT a.n FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.s <> a.s)",
        "SELECT a.n, b.n FROM a LEFT JOIN b ON a.n > 5",
        "SELECT a.n, b.n FROM a FULL JOIN b ON b.n > 5",
        "SELECT a.n, b.n FROM a LEFT JOIN b ON true",
        "SELECT a.n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.n > 4)",
        "SELECT count(*) FROM a JOIN b ON a.s < b.s",
        "SELECT count(*), sum(a.n), min(b.s) FROM a RIGHT JOIN b ON a.s > b.s",
        "SELECT count(*) FROM (SELECT 1 FROM a JOIN b ON a.s <> b.s LIMIT 7)",
        "SELECT a.s, count(*) FROM a JOIN b ON a.n <> b.n GROUP BY a.s ORDER BY 1, 2",
        "SELECT a.n, b.n FROM a JOIN b ON a.s < b.s ORDER BY a.n DESC, b.n LIMIT 9",
        "SELECT a.n, c.n FROM a JOIN b ON a.s < b.s JOIN a c ON c.w <> b.w AND c.n <> a.n WHERE b.m = 1",
        "SELECT x.n, b.n FROM (SELECT n, s FROM a UNION ALL SELECT n, s FROM b) x JOIN b ON x.s LIKE b.p",
        "WITH RECURSIVE r AS (SELECT 0 AS n UNION ALL \
         SELECT DISTINCT r.n + 1 FROM r JOIN a ON a.n <> r.n AND r.n < 5) SELECT * FROM r",
    ];
    let mut random = StdRng::seed_from_u64(2);
    let tables = [batch(&mut random, 50), batch(&mut random, 45)];
    let contexts = sessions((3, 8), [&tables[0], &tables[1]]);
    for query in queries {
        compare(&contexts, query, query.contains("s < b.s") || query.contains("<>")).await;
    }
}

/// A column that is constant in each partition of the left side is not so in the output.
#[tokio::test]
async fn constants_of_partitions_of_the_left_side_are_sorted() {
    let mut random = StdRng::seed_from_u64(3);
    let tables = [batch(&mut random, 3), batch(&mut random, 60)];
    let contexts = sessions((3, 8), [&tables[0], &tables[1]]);
    let union = "(SELECT 2 AS c, 'text 1' AS t UNION ALL SELECT 1 AS c, 'text 0' AS t UNION ALL SELECT 3, 'text 2') u";
    for join in ["JOIN", "LEFT JOIN", "RIGHT JOIN"] {
        let query = format!("SELECT u.c FROM {union} {join} b ON u.t < b.s ORDER BY u.c");
        compare(&contexts, &query, false).await;
    }
    let (_, joins) =
        answer(&contexts[0], &format!("SELECT u.c FROM {union} JOIN b ON u.t < b.s ORDER BY u.c")).await.unwrap();
    assert_eq!(joins, 1);
}

async fn explained(context: &SessionContext, query: &str) -> String {
    let plan = context.sql(query).await.unwrap().create_physical_plan().await.unwrap();
    let text = displayable(plan.as_ref()).indent(false).to_string();
    text.lines().find(|line| line.contains("LoopJoinExec")).map_or(text.clone(), |line| line.trim().to_owned())
}

#[tokio::test]
async fn the_choice_and_its_reason() {
    let mut random = StdRng::seed_from_u64(4);
    let (few, many) = (batch(&mut random, 100), batch(&mut random, 200));
    let query = "SELECT a.n FROM a LEFT JOIN b ON a.s < b.s";
    let text = explained(&session(Joins::Always, (2, 8192), [&few, &few]), query).await;
    // The smaller side is the left one.
    assert_eq!(text, "LoopJoinExec: join_type=Right, filter=s@0 < s@1, projection=[n], why=annulus.joins");
    let text = explained(&session(Joins::Auto, (2, 8192), [&few, &many]), query).await;
    assert!(text.contains("why=100 rows by 200"), "{text}");
    for (joins, tables) in [(Joins::Auto, [&few, &few]), (Joins::Never, [&few, &many])] {
        let text = explained(&session(joins, (2, 8192), tables), query).await;
        assert!(text.contains("NestedLoopJoinExec"), "{text}");
    }
}

/// A function gets a row's value once for each row of the other side: a large one not for all at once.
#[tokio::test]
async fn large_values_are_compared() {
    let texts = |texts: StringArray| RecordBatch::try_from_iter([("t", Arc::new(texts) as ArrayRef)]).unwrap();
    let large = texts((0..2).map(|number| Some(format!("{}{number}", "x".repeat(400_000)))).collect());
    let words = texts((0..9000).map(|number| (number % 7000 == 1).then_some("x1")).collect());
    let context = session(Joins::Always, (1, 8192), [&large, &words]);
    context.deregister_table("b").unwrap();
    context.register_batch("b", words).unwrap();
    let query = "SELECT count(*), sum(length(a.t)) FROM a JOIN b ON strpos(a.t, b.t) > 0";
    let (found, joins) = answer(&context, query).await.unwrap();
    assert_eq!((&found[..], joins), (&["2|800002".to_owned()][..], 1));
}
