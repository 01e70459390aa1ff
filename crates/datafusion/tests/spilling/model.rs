//! Random joins with tiny pools have the answers of DataFusion's own without a limit.

use datafusion::{error::Result, physical_plan::collect, prelude::SessionContext};
use proptest::prelude::*;
use rand::{SeedableRng, rngs::StdRng};

use crate::{
    common::lines,
    support::{Keys, PeakPool, joins, metric, partitions, runtime, session, table},
};

/// The queries; `{on}` is a condition on keys, `{filter}` another condition on pairs or nothing.
const QUERIES: [&str; 13] = [
    "SELECT * FROM a JOIN b ON {on}{filter}",
    "SELECT * FROM a LEFT JOIN b ON {on}{filter}",
    "SELECT * FROM a RIGHT JOIN b ON {on}{filter}",
    "SELECT * FROM a FULL JOIN b ON {on}{filter}",
    "SELECT * FROM a LEFT SEMI JOIN b ON {on}{filter}",
    "SELECT * FROM a RIGHT SEMI JOIN b ON {on}{filter}",
    "SELECT * FROM a LEFT ANTI JOIN b ON {on}{filter}",
    "SELECT * FROM a RIGHT ANTI JOIN b ON {on}{filter}",
    "SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE {on}{filter}) OR a.n > 12",
    "SELECT * FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE {on}{filter}) OR a.n > 12",
    "SELECT * FROM a WHERE a.i NOT IN (SELECT b.i FROM b)",
    FILTERED_NOT_IN[0],
    "SELECT a.r, b.s FROM a JOIN b ON {on}{filter} JOIN b AS c ON c.i = a.i AND c.r < 40",
];
/// A `NOT IN` whose nulls matter among the pairs only that its filter keeps, and what it means.
/// DataFusion's own join looks at all nulls.
const FILTERED_NOT_IN: [&str; 2] = [
    "SELECT * FROM a WHERE a.i NOT IN (SELECT b.i FROM b WHERE b.n + a.n > 36)",
    "SELECT * FROM a WHERE NOT EXISTS \
     (SELECT 1 FROM b WHERE (a.i = b.i OR a.i IS NULL OR b.i IS NULL) AND b.n + a.n > 36)",
];
const KEYS: [&str; 7] = [
    "a.i = b.i",
    "a.s = b.s",
    "a.i = b.i AND a.t = b.t",
    "a.i + 1 = b.i",
    "a.f = b.f",
    "(a.i IS NOT DISTINCT FROM b.i)",
    "(a.s IS NOT DISTINCT FROM b.s) AND a.n = b.n",
];
const FILTERS: [&str; 3] = ["", " AND a.n < b.n", " AND a.n > 1000"];

/// A case of the test.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    query: String,
    sides: [Keys; 2],
    batch_rows: usize,
    pool_bytes: usize,
}

fn keys() -> impl Strategy<Value = Keys> {
    let null = prop_oneof![Just(0.0), Just(0.1), Just(0.6)];
    let hot = prop_oneof![3 => Just(0.0), 1 => Just(0.3), 1 => Just(0.99)];
    let rows = prop_oneof![1 => 1_usize..100, 3 => 500_usize..3000];
    let most = prop_oneof![Just(1000_i64), Just(5000)];
    (rows, most, hot, null).prop_map(|(rows, most, hot, null)| Keys { rows, most, hot, null })
}

fn case() -> impl Strategy<Value = Case> {
    let query = (0..QUERIES.len(), 0..KEYS.len(), 0..FILTERS.len());
    let query = query
        .prop_map(|(query, on, filter)| QUERIES[query].replace("{on}", KEYS[on]).replace("{filter}", FILTERS[filter]));
    let batch_rows = prop_oneof![Just(7_usize), Just(100), Just(8192)];
    let pool_bytes = prop_oneof![Just(1_usize), Just(40_000), Just(200_000), Just(600_000)];
    (any::<u64>(), query, [keys(), keys()], batch_rows, pool_bytes).prop_map(
        |(seed, query, mut sides, batch_rows, pool_bytes)| {
            // Two hot keys make too many pairs.
            if sides[0].hot > 0.0 {
                (sides[1].hot, sides[1].null) = (0.0, 0.0);
            }
            if query.contains("DISTINCT") {
                sides[1].null = sides[1].null.min(0.02);
            }
            Case { seed, query, sides, batch_rows, pool_bytes }
        },
    )
}

async fn rows(context: &SessionContext, query: &str) -> Result<(Vec<String>, [usize; 4])> {
    let plan = context.sql(query).await?.create_physical_plan().await?;
    let mut lines = lines(&collect(std::sync::Arc::clone(&plan), context.task_ctx()).await?);
    lines.sort();
    let joins = joins(&plan);
    let names = ["spilled_rows", "spill_depth", "spill_blocks", "skewed_parts"];
    Ok((lines, names.map(|name| metric(&joins, name))))
}

async fn check(case: &Case) -> [usize; 4] {
    let mut random = StdRng::seed_from_u64(case.seed);
    let tables = ["a", "b"].into_iter().zip(case.sides).map(|(name, keys)| {
        let table = table(&mut random, keys);
        (name, partitions(&mut random, &table, 300))
    });
    let tables = tables.collect();
    let pool = PeakPool::new(case.pool_bytes);
    let runtime = runtime(std::sync::Arc::clone(&pool) as _);
    let ours = session(Some(std::sync::Arc::clone(&runtime)), case.batch_rows, &tables).await;
    let stock = session(None, 8192, &tables).await;
    let meaning = if case.query == FILTERED_NOT_IN[0] { FILTERED_NOT_IN[1] } else { &case.query };
    let (expected, _) = rows(&stock, meaning).await.unwrap_or_else(|error| panic!("{case:?}: {error}"));
    let (found, spilled) = rows(&ours, &case.query).await.unwrap_or_else(|error| panic!("{case:?}: {error}"));
    assert_eq!(found.len(), expected.len(), "{case:?}");
    assert!(found == expected, "{case:?}");
    crate::common::eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
    crate::common::eventually("no file is left", || runtime.disk_manager.used_disk_space() == 0).await;
    spilled
}

#[test]
fn the_answers_are_those_of_the_stock_operator_without_a_limit() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(150));
    let sums = std::cell::RefCell::new([0; 4]);
    let result = runner.run(&case(), |case| {
        let spilled = tokio.block_on(check(&case));
        let mut sums = sums.borrow_mut();
        sums.iter_mut().zip(spilled).for_each(|(sum, spilled)| *sum += spilled);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let [rows, depth, blocks, skewed] = sums.into_inner();
    println!("rows {rows}, depth {depth}, blocks {blocks}, skewed {skewed}");
    assert!(rows > 50_000 && depth > 40 && blocks > 300 && skewed > 0, "{rows} {depth} {blocks} {skewed}");
}
