//! First steps that merge rows of equal keys that stand next to each other.

use std::{any::Any, sync::Arc};

use annulus_datafusion::RunAggregateExec;
use arrow::{
    array::{
        ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int64Array,
        ListArray, RecordBatch, StringArray, StringViewArray, types::Int32Type,
    },
    datatypes::{Int64Type, Schema},
};
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    datasource::MemTable,
    execution::{SessionStateBuilder, runtime_env::RuntimeEnvBuilder},
    physical_plan::{ExecutionPlan, aggregates::AggregateExec, collect},
    prelude::{SessionConfig, SessionContext},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{annulus, answer, config, plan, stock, text};

/// How the numbers of a table's rows are chosen, from which its keys are computed.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// Each number in some rows, one after the other.
    Sorted,
    /// Runs of random numbers.
    Runs,
    /// Random numbers.
    Random,
    /// Sorted in the first half, then few numbers in random order.
    Changing,
}

/// Returns `rows` numbers below `most` in this order.
fn numbers(order: Order, rows: usize, most: i64, rng: &mut StdRng) -> Vec<i64> {
    let mut numbers = Vec::with_capacity(rows);
    let mut next = 0;
    while numbers.len() < rows {
        let (number, times) = match order {
            Order::Sorted => (next, rng.random_range(1..9)),
            Order::Changing if numbers.len() < rows / 2 => (next, rng.random_range(2..9)),
            Order::Changing => (rng.random_range(0..20), 1),
            Order::Runs => (rng.random_range(0..most), rng.random_range(1..9)),
            Order::Random => (rng.random_range(0..most), 1),
        };
        next += 1;
        numbers.extend(std::iter::repeat_n(number, times));
    }
    numbers.truncate(rows);
    numbers
}

/// Returns a batch with columns of many types, whose values the numbers determine, and a value `v`
/// that differs from row to row.
fn batch(numbers: &[i64], first: i64) -> RecordBatch {
    // Nulls in all key columns but one.
    let some = |number: &i64| (number % 13 != 5).then_some(*number);
    let texts = numbers.iter().map(|number| some(number).map(|number| format!("text number {number}")));
    let texts: Vec<_> = texts.collect();
    let floats = numbers.iter().map(|number| match number % 7 {
        0 => Some(-0.0),
        1 => Some(0.0),
        2 => Some(f64::NAN),
        3 => None,
        _ => Some(*number as f64 / 4.0),
    });
    let decimals = Decimal128Array::from_iter(numbers.iter().map(|number| some(number).map(i128::from)));
    let decimals = decimals.with_precision_and_scale(20, 2).unwrap();
    let lists = numbers.iter().map(|number| some(number).map(|number| vec![Some((number % 50) as i32), None]));
    let few = numbers.iter().map(|number| some(number).map(|number| ["x", "y", "z"][number as usize % 3]));
    let values = (first..first + numbers.len() as i64).map(|value| (value % 11 != 3).then_some(value * 37 % 1001));
    let columns: [(&str, ArrayRef); 10] = [
        ("number", Arc::new(Int64Array::from_iter_values(numbers.iter().copied()))),
        ("maybe", Arc::new(Int64Array::from_iter(numbers.iter().map(some)))),
        ("text", Arc::new(StringArray::from(texts.clone()))),
        ("shown", Arc::new(StringViewArray::from_iter(texts))),
        ("float", Arc::new(Float64Array::from_iter(floats))),
        ("decimal", Arc::new(decimals)),
        ("flag", Arc::new(BooleanArray::from_iter(numbers.iter().map(|number| some(number).map(|n| n % 2 == 0))))),
        ("day", Arc::new(Date32Array::from_iter(numbers.iter().map(|number| some(number).map(|n| n as i32 / 3))))),
        ("few", Arc::new(few.collect::<DictionaryArray<Int32Type>>())),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
    ];
    let values: (&str, ArrayRef) = ("v", Arc::new(Int64Array::from_iter(values)));
    let columns = columns.into_iter().chain([values]).map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Registers `t`, with a partition for each of the numbers, in batches of up to 100 rows.
fn with_table(session: SessionContext, partitions: &[Vec<i64>]) -> SessionContext {
    let batches =
        |numbers: &Vec<i64>| numbers.chunks(100).zip((0..).step_by(100)).map(|(some, at)| batch(some, at)).collect();
    let schema: Arc<Schema> = batch(&[], 0).schema();
    let table = MemTable::try_new(schema, partitions.iter().map(batches).collect()).unwrap();
    session.register_table("t", Arc::new(table)).unwrap();
    session
}

/// Sets thresholds that are reached soon.
fn soon(mut config: SessionConfig) -> SessionConfig {
    let options = &mut config.options_mut().execution;
    options.skip_partial_aggregation_probe_rows_threshold = 300;
    options.skip_partial_aggregation_probe_ratio_threshold = 0.5;
    config
}

/// Returns our first steps in a plan, from above.
fn first_steps(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn ExecutionPlan>> {
    let mut found = Vec::new();
    plan.apply(|node| {
        found.extend((node.as_ref() as &dyn Any).is::<RunAggregateExec>().then(|| Arc::clone(node)));
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    found
}

/// Returns a metric of the only first step of `plan`.
fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let [step] = &first_steps(plan)[..] else { panic!("{}", text(plan)) };
    let metrics = step.metrics().unwrap();
    match name {
        "output_rows" => metrics.output_rows().unwrap(),
        name => metrics.sum_by_name(name).map_or(0, |value| value.as_usize()),
    }
}

const AGGREGATES: &str = "count(*), sum(v), avg(v), min(text), max(v) FILTER (WHERE v % 3 = 1), count(DISTINCT v), \
                          round(stddev(v), 6), first_value(v ORDER BY v), array_sort(array_agg(v))";

#[tokio::test]
async fn answers_are_those_of_stock() {
    let groupings = [
        "number",
        "maybe",
        "text",
        "shown",
        "float",
        "decimal",
        "flag",
        "day",
        "few",
        "list",
        "flag, few, day",
        "number % 10",
        "shown, float",
        "list, number",
    ];
    for (seed, order) in [Order::Sorted, Order::Runs, Order::Random, Order::Changing].into_iter().enumerate() {
        let mut rng = StdRng::seed_from_u64(seed as u64);
        let partitions: Vec<_> = (0..3).map(|_| numbers(order, 2500, 900, &mut rng)).collect();
        for thresholds in [SessionConfig::from, soon] {
            let sessions = [stock(config(2)), annulus(thresholds(config(2).with_batch_size(128)))];
            let sessions = sessions.map(|session| with_table(session, &partitions));
            for grouping in groupings {
                let sql = format!("SELECT {grouping}, {AGGREGATES} FROM t GROUP BY {grouping}");
                let [mut expected, mut ours] =
                    [answer(&sessions[0], &sql).await.unwrap(), answer(&sessions[1], &sql).await.unwrap()];
                // The signs of zeros that are one group depend on which comes first.
                [&mut expected, &mut ours].into_iter().flatten().for_each(|line| *line = line.replace("-0.0|", "0.0|"));
                expected.sort();
                ours.sort();
                let different = expected.iter().zip(&ours).find(|(expected, ours)| expected != ours);
                assert_eq!(different, None, "{order:?}, {sql}");
                assert_eq!(ours.len(), expected.len(), "{order:?}, {sql}");
                assert_eq!(first_steps(&plan(&sessions[1], &sql).await).len(), 1, "{sql}");
            }
        }
    }
}

#[tokio::test]
async fn plans_name_the_operator_and_find_the_stock_one() {
    let session = with_table(annulus(config(2)), &[vec![1, 2], vec![3]]);
    let sql = "SELECT number, sum(v) FROM t GROUP BY number";
    let ours = plan(&session, sql).await;
    assert!(text(&ours).contains("RunAggregateExec: mode=Partial, gby=[number@0 as number], aggr=[sum(t.v)]"));
    assert!(first_steps(&ours)[0].is::<AggregateExec>());
    session.sql("SET annulus.groupings = never").await.unwrap();
    let plan = plan(&session, sql).await;
    assert!(!text(&plan).contains("RunAggregate"), "{}", text(&plan));
    assert!(first_steps(&plan).is_empty(), "{}", text(&plan));
}

/// A grouping that is not one of those keeps DataFusion's operator.
#[tokio::test]
async fn other_groupings_stay() {
    let session = with_table(annulus(config(2)), &[vec![1, 2], vec![3]]);
    for sql in [
        "SELECT number, flag, sum(v) FROM t GROUP BY CUBE (number, flag)",
        "SELECT sum(v) FROM t",
        "SELECT DISTINCT number FROM t LIMIT 2",
        "SELECT number, array_agg(v ORDER BY v) FROM t GROUP BY number",
    ] {
        let plan = plan(&session, sql).await;
        assert!(first_steps(&plan).is_empty(), "{sql}: {}", text(&plan));
    }
}

#[tokio::test]
async fn a_step_that_gives_up_merges_runs() {
    let mut rng = StdRng::seed_from_u64(7);
    let session = with_table(annulus(soon(config(2))), &[numbers(Order::Sorted, 20_000, 0, &mut rng)]);
    let plan = plan(&session, "SELECT number, sum(v), avg(v) FROM t GROUP BY number").await;
    let rows: usize =
        collect(Arc::clone(&plan), session.task_ctx()).await.unwrap().iter().map(|batch| batch.num_rows()).sum();
    assert!(metric(&plan, "skipped_aggregation_rows") > 19_000);
    assert!(metric(&plan, "merged_rows") > 14_000);
    // Runs end where batches do.
    let passed = metric(&plan, "output_rows");
    assert!(rows <= passed && passed <= rows + 200, "{passed} for {rows} groups");
}

/// With few groups, a look-up costs less than it takes to find runs.
#[tokio::test]
async fn runs_of_few_groups_are_not_looked_for() {
    let mut rng = StdRng::seed_from_u64(11);
    let session = with_table(annulus(config(2)), &[numbers(Order::Runs, 20_000, 1000, &mut rng)]);
    for (grouping, merges) in [("number", true), ("number % 3", false)] {
        let plan = plan(&session, &format!("SELECT {grouping}, sum(v) FROM t GROUP BY {grouping}")).await;
        collect(Arc::clone(&plan), session.task_ctx()).await.unwrap();
        // The first batches of 100 rows do not tell that there are few groups.
        assert_eq!(metric(&plan, "merged_rows") > 1000, merges, "{grouping}");
    }
}

/// After the runs have ended, few groups are looked up again, instead of passing on every row.
#[tokio::test]
async fn a_step_looks_groups_up_again_when_runs_end() {
    let mut rng = StdRng::seed_from_u64(8);
    let session = with_table(annulus(soon(config(2))), &[numbers(Order::Changing, 40_000, 0, &mut rng)]);
    let plan = plan(&session, "SELECT number, sum(v) FROM t GROUP BY number").await;
    let rows: usize =
        collect(Arc::clone(&plan), session.task_ctx()).await.unwrap().iter().map(|batch| batch.num_rows()).sum();
    assert!(metric(&plan, "skipped_aggregation_rows") > 19_000);
    let passed = metric(&plan, "output_rows");
    assert!(passed <= rows + 300, "{passed} for {rows} groups");
}

/// Returns a session whose first steps never give up, with this much memory.
fn limited(bytes: usize) -> SessionContext {
    let mut config = config(2).with_batch_size(256);
    config.options_mut().execution.skip_partial_aggregation_probe_ratio_threshold = 1.0;
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).build_arc().unwrap();
    let state = SessionStateBuilder::new_from_existing(annulus(config).state()).with_runtime_env(runtime);
    SessionContext::new_with_state(state.build())
}

const COUNTS: &str = "SELECT number, shown, count(*), sum(v), min(text) FROM t GROUP BY number, shown";

#[tokio::test]
async fn groups_that_do_not_fit_in_memory_are_passed_on() {
    let mut rng = StdRng::seed_from_u64(9);
    for order in [Order::Runs, Order::Random] {
        let partitions = [numbers(order, 30_000, 20_000, &mut rng)];
        let mut passed = Vec::new();
        for bytes in [1 << 19, 1 << 30] {
            let session = with_table(limited(bytes), &partitions);
            let step = first_steps(&plan(&session, COUNTS).await).remove(0);
            let batches = collect(Arc::clone(&step), session.task_ctx()).await.unwrap();
            assert_eq!(session.runtime_env().memory_pool.reserved(), 0);
            let counts = batches.iter().flat_map(|batch| batch.column(2).as_primitive::<Int64Type>().values());
            assert_eq!(counts.sum::<i64>(), 30_000, "{order:?}, {bytes} bytes");
            passed.push(metric(&step, "output_rows"));
        }
        assert!(passed[0] > passed[1], "{order:?}: {passed:?}");
    }
}

#[tokio::test]
async fn answers_in_little_memory_are_those_of_stock() {
    let mut rng = StdRng::seed_from_u64(10);
    for order in [Order::Sorted, Order::Runs, Order::Random] {
        let partitions: Vec<_> = (0..2).map(|_| numbers(order, 30_000, 20_000, &mut rng)).collect();
        let mut expected = answer(&with_table(stock(config(2)), &partitions), COUNTS).await.unwrap();
        let session = with_table(limited(8 << 20), &partitions);
        let mut ours = answer(&session, COUNTS).await.unwrap();
        expected.sort();
        ours.sort();
        assert!(ours == expected, "{order:?}");
        assert_eq!(session.runtime_env().memory_pool.reserved(), 0, "{order:?}");
    }
}
