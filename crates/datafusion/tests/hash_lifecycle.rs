//! How hash joins with one table end: normally, early, with an error, or under a memory limit.

mod common;

use std::{sync::Arc, task::Poll};

use annulus_datafusion::SharedHashJoinExec;
use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch},
    datatypes::{DataType, Field, Schema},
};
use common::{
    JOINS, Plan, Step, batch, context, eventually, poll_once, rows, run, schema, scripted, shared_join, stock_join,
    within,
};
use datafusion::{
    common::{JoinSide, JoinType},
    error::DataFusionError,
    execution::{
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, PhysicalSortExpr,
        expressions::{BinaryExpr, Column, lit},
    },
    physical_plan::{
        ExecutionPlan,
        coalesce_partitions::CoalescePartitionsExec,
        common::collect,
        joins::utils::{ColumnIndex, JoinFilter},
        metrics::MetricValue,
        sorts::sort::SortExec,
        test::exec::{BlockingExec, PanicExec, assert_strong_count_converges_to_zero},
    },
};
use futures::StreamExt;

type Expr = Arc<dyn PhysicalExpr>;

fn unlimited() -> Arc<RuntimeEnv> {
    Arc::new(RuntimeEnv::default())
}

fn limited(bytes: usize) -> Arc<RuntimeEnv> {
    RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).build_arc().unwrap()
}

/// Returns an input with one partition, of `count` rows with the same key.
fn equal_keys(count: usize) -> Plan {
    scripted(vec![vec![Step::Batch(equal_rows(count))]]).0
}

fn equal_rows(count: usize) -> RecordBatch {
    let column = || Arc::new(Int64Array::from_value(7, count)) as ArrayRef;
    RecordBatch::try_new(schema(), vec![column(), column()]).unwrap()
}

fn sorted(partitions: Vec<Vec<String>>) -> Vec<String> {
    let mut rows = partitions.concat();
    rows.sort_unstable();
    rows
}

/// The values of 400 rows of one side are also in the other side, of 600 rows.
fn overlapping() -> (Plan, Plan) {
    let shifted = (0..2).map(|input| (0..3).map(|at| Step::Batch(batch(200 + (input * 3 + at) * 100, 100))).collect());
    (rows(3, 4, 50).0, scripted(shifted.collect()).0)
}

#[tokio::test]
async fn many_partitions_on_either_side_and_a_second_execution() {
    let context = context(unlimited(), 100);
    for kind in JOINS {
        let (left, right) = overlapping();
        let one = Arc::new(CoalescePartitionsExec::new(left));
        let expected = run(Arc::new(stock_join((one, right), kind, None)), &context).await.unwrap();
        assert_eq!(expected.len(), 2);
        let ours = shared_join(overlapping(), kind);
        let found = run(Arc::clone(&ours) as _, &context).await.unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(sorted(found), sorted(expected.clone()), "{kind:?}");
        // A plan can be run again.
        assert_eq!(sorted(run(ours, &context).await.unwrap()), sorted(expected), "{kind:?}");
    }
}

/// The build side of the lower join is read though that of the upper one never ends.
#[tokio::test]
async fn build_sides_of_a_chain_are_read_at_once() {
    let (first, first_alive) = scripted(vec![vec![Step::Hang]]);
    let (second, second_alive) = rows(2, 3, 10);
    let lower = shared_join((second, equal_keys(5)), JoinType::LeftSemi);
    let upper = shared_join((first, lower), JoinType::Inner);
    let stream = upper.execute(0, context(unlimited(), 10)).unwrap();
    assert_eq!(Arc::strong_count(&second_alive), 5);
    eventually("the lower build side is read", || Arc::strong_count(&second_alive) == 3).await;
    assert_eq!(Arc::strong_count(&first_alive), 3);
    drop((stream, upper));
    eventually("the upper build side is dropped", || Arc::strong_count(&first_alive) == 1).await;
}

#[tokio::test]
async fn partitions_can_be_drained_one_after_the_other() {
    let context = context(unlimited(), 16);
    for kind in JOINS {
        let expected = sorted(run(shared_join(overlapping(), kind), &context).await.unwrap());
        for order in [[0, 1], [1, 0]] {
            let ours = shared_join(overlapping(), kind);
            let mut found = Vec::new();
            for partition in order {
                let stream = ours.execute(partition, Arc::clone(&context)).unwrap();
                found.push(common::lines(&within("a partition", collect(stream)).await.unwrap()));
            }
            assert_eq!(sorted(found), expected, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn an_error_of_the_build_side_reaches_every_output() {
    let failing = || scripted(vec![vec![Step::Batch(batch(0, 10)), Step::Yield, Step::Error], vec![Step::Hang]]).0;
    let runtime = limited(1 << 20);
    let context = context(Arc::clone(&runtime), 4);
    let ours = shared_join((failing(), rows(3, 2, 10).0), JoinType::Inner);
    for partition in 0..3 {
        let mut stream = ours.execute(partition, Arc::clone(&context)).unwrap();
        let error = within("the error", stream.next()).await.unwrap().unwrap_err();
        assert!(matches!(error, DataFusionError::Shared(_)) && error.to_string().contains("scripted error"), "{error}");
        assert!(within("the end", stream.next()).await.is_none());
    }
    eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
    // Each partition of the probe side is read by one output.
    let ours = shared_join((rows(3, 2, 10).0, failing()), JoinType::Full);
    let error = within("the error", collect(ours.execute(0, context).unwrap())).await.unwrap_err();
    assert!(error.to_string().contains("scripted error"), "{error}");
}

#[tokio::test]
async fn a_panic_of_the_build_side_reaches_every_output() {
    let left = Arc::new(PanicExec::new(schema(), 2).with_partition_panic(0, 3).with_partition_panic(1, 4));
    let ours = shared_join((left, rows(3, 1, 10).0), JoinType::Inner);
    let context = context(unlimited(), 4);
    let streams: Vec<_> = (0..3).map(|partition| ours.execute(partition, Arc::clone(&context)).unwrap()).collect();
    for stream in streams {
        let error = within("the panic", collect(stream)).await.unwrap_err();
        assert!(error.to_string().contains("PanickingStream did panic"), "{error}");
    }
}

#[tokio::test]
async fn dropping_the_streams_stops_the_inputs() {
    let (left, right) = (Arc::new(BlockingExec::new(schema(), 2)), Arc::new(BlockingExec::new(schema(), 2)));
    let refs = [left.refs(), right.refs()];
    let ours = shared_join((left, right), JoinType::Inner);
    let context = context(unlimited(), 4);
    let mut streams: Vec<_> = (0..2).map(|partition| ours.execute(partition, Arc::clone(&context)).unwrap()).collect();
    assert!(streams.iter_mut().all(|stream| poll_once(stream).is_pending()));
    drop((ours, streams));
    for refs in refs {
        assert_strong_count_converges_to_zero(refs).await;
    }
}

#[tokio::test]
async fn dropping_the_last_stream_frees_all_though_the_plan_lives() {
    let (left, alive) = scripted(vec![vec![Step::Batch(batch(0, 10)), Step::Hang]; 3]);
    let runtime = limited(1 << 20);
    let context = context(Arc::clone(&runtime), 4);
    let ours = shared_join((left, rows(2, 1, 10).0), JoinType::Left);
    let mut streams: Vec<_> = (0..2).map(|partition| ours.execute(partition, Arc::clone(&context)).unwrap()).collect();
    assert!(streams.iter_mut().all(|stream| poll_once(stream).is_pending()));
    eventually("rows are accounted for", || runtime.memory_pool.reserved() > 0).await;
    drop(streams);
    eventually("the inputs are dropped", || Arc::strong_count(&alive) == 4).await;
    eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
    drop(ours);
}

#[tokio::test]
async fn a_partition_may_never_be_executed() {
    let runtime = limited(1 << 20);
    let context = context(Arc::clone(&runtime), 16);
    let expected = run(shared_join(overlapping(), JoinType::Inner), &context).await.unwrap();
    let ours = shared_join(overlapping(), JoinType::Inner);
    let first = within("the partition", collect(ours.execute(0, Arc::clone(&context)).unwrap())).await.unwrap();
    assert_eq!(common::lines(&first), expected[0]);
    // The other partition may still come.
    assert!(runtime.memory_pool.reserved() > 0);
    drop(ours);
    eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
}

#[tokio::test]
async fn a_partition_executed_after_another_was_dropped_has_all_its_rows() {
    let context = context(unlimited(), 16);
    let expected = run(shared_join(overlapping(), JoinType::Right), &context).await.unwrap();
    let ours = shared_join(overlapping(), JoinType::Right);
    let mut first = ours.execute(0, Arc::clone(&context)).unwrap();
    within("a batch", first.next()).await.unwrap().unwrap();
    drop(first);
    let second = ours.execute(1, Arc::clone(&context)).unwrap();
    let second = within("the second partition", collect(second)).await.unwrap();
    assert_eq!(common::lines(&second), expected[1]);
}

#[tokio::test]
async fn rows_that_do_not_fit_into_the_pool_are_an_error_without_a_disk() {
    // Too small for the rows, and for the rows and their table.
    for bytes in [100_000, 400_000] {
        let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).with_disk_manager_builder(disk);
        let runtime = runtime.build_arc().unwrap();
        let context = context(Arc::clone(&runtime), 1000);
        let ours = shared_join((rows(2, 10, 1000).0, rows(2, 1, 100).0), JoinType::Inner);
        let error = within("the refusal", run(ours, &context)).await.unwrap_err();
        assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
        let text = error.to_string();
        assert!(text.contains("SharedHashJoinExec") && text.contains("prefer_hash_join"), "{error}");
        eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
    }
}

/// The message is that of the operator which has no memory, not of the join above it.
#[tokio::test]
async fn an_input_that_does_not_fit_into_the_pool_says_so() {
    let runtime = limited(100_000);
    let sort = PhysicalSortExpr::new_default(Arc::new(Column::new("v", 1))).desc();
    let sorted = Arc::new(SortExec::new([sort].into(), rows(1, 20, 1000).0));
    let ours = shared_join((sorted, rows(2, 1, 100).0), JoinType::Inner);
    let error = within("the refusal", run(ours, &context(Arc::clone(&runtime), 1000))).await.unwrap_err();
    assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
    assert!(!error.to_string().contains("build side"), "{error}");
    eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
}

#[tokio::test]
async fn batches_that_share_memory_are_accounted_for_once() {
    // 320,000 bytes in 1000 slices.
    let (whole, runtime) = (batch(0, 20_000), limited(5_000_000));
    let slices = (0..1000).map(|at| Step::Batch(whole.slice(at * 20, 20)));
    let left = scripted(vec![slices.collect()]).0;
    let ours = shared_join((left, rows(1, 1, 100).0), JoinType::RightSemi);
    let found = run(ours, &context(Arc::clone(&runtime), 1000)).await.unwrap();
    assert_eq!(found.concat().len(), 100);
    eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
}

#[tokio::test]
async fn a_row_with_a_million_partners_makes_small_batches() {
    let (probe, alive) = scripted(vec![vec![Step::Batch(equal_rows(1)), Step::Hang]]);
    let ours = shared_join((equal_keys(1_000_000), probe), JoinType::Inner);
    let mut stream = ours.execute(0, context(unlimited(), 1000)).unwrap();
    let mut found = 0;
    while found < 1_000_000 {
        let batch = within("a batch", stream.next()).await.unwrap().unwrap();
        // The pairs that are looked up at once.
        assert!(batch.num_rows() <= 2 * annulus_join::MOST_PAIRS, "{}", batch.num_rows());
        found += batch.num_rows();
    }
    assert_eq!(found, 1_000_000);
    drop(stream);
    eventually("the input is dropped", || Arc::strong_count(&alive) == 2).await;
}

#[tokio::test]
async fn a_limit_ends_a_join_within_the_partners_of_a_row() {
    // After its first row the probe side never goes on, so the join must not wait for it.
    for kind in [JoinType::Inner, JoinType::Left, JoinType::Right, JoinType::Full] {
        let probe = scripted(vec![vec![Step::Batch(equal_rows(1)), Step::Hang]]).0;
        let ours = shared_join((equal_keys(1_000_000), probe), kind);
        let ours = (ours as Arc<dyn ExecutionPlan>).with_fetch(Some(1500)).unwrap();
        assert!((ours.as_ref() as &dyn std::any::Any).is::<SharedHashJoinExec>());
        let found = within("the limit", collect(ours.execute(0, context(unlimited(), 1000)).unwrap())).await.unwrap();
        assert_eq!(found.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1500, "{kind:?}");
    }
}

#[tokio::test]
async fn a_limit_ends_a_join_though_its_batch_is_not_full() {
    for kind in [JoinType::Inner, JoinType::Left, JoinType::RightSemi] {
        let probe = scripted(vec![vec![Step::Batch(equal_rows(2)), Step::Batch(equal_rows(3)), Step::Hang]]).0;
        let ours = shared_join((equal_keys(1), probe), kind) as Plan;
        let ours = ours.with_fetch(Some(4)).unwrap();
        let found = within("the limit", collect(ours.execute(0, context(unlimited(), 1000)).unwrap())).await.unwrap();
        assert_eq!(found.iter().map(|batch| batch.num_rows()).sum::<usize>(), 4, "{kind:?}");
    }
}

#[tokio::test]
async fn the_metrics_of_a_join() {
    let ours = shared_join(overlapping(), JoinType::RightSemi);
    let found = run(Arc::clone(&ours) as _, &context(unlimited(), 100)).await.unwrap().concat();
    let metrics = ours.metrics().unwrap();
    let value = |name| metrics.sum_by_name(name).unwrap().as_usize();
    assert_eq!(metrics.output_rows(), Some(found.len()));
    assert_eq!([value("build_input_rows"), value("input_rows")], [600, 600]);
    let batches = metrics.sum(|metric| matches!(metric.value(), MetricValue::OutputBatches(_)));
    let bytes = metrics.sum(|metric| matches!(metric.value(), MetricValue::OutputBytes(_)));
    assert!(batches.unwrap().as_usize() >= 2 && bytes.unwrap().as_usize() >= found.len() * 16);
    assert!(value("build_mem_used") > 600 * 8 && value("build_time") > 0);
}

#[tokio::test]
async fn a_join_without_output_lets_other_tasks_run() {
    // All pairs have equal keys, and the filter drops them.
    let side = |side| ColumnIndex { index: 1, side };
    let schema = Schema::new(["l", "r"].map(|name| Field::new(name, DataType::Int64, false)).to_vec());
    let (l, r): (Expr, Expr) = (Arc::new(Column::new("l", 0)), Arc::new(Column::new("r", 1)));
    let sum = Arc::new(BinaryExpr::new(l, Operator::Plus, r));
    let never = Arc::new(BinaryExpr::new(sum, Operator::Lt, lit(0_i64)));
    let filter = JoinFilter::new(never, vec![side(JoinSide::Left), side(JoinSide::Right)], Arc::new(schema));
    let stock = stock_join((equal_keys(3000), equal_keys(3000)), JoinType::Inner, Some(filter));
    let ours = SharedHashJoinExec::try_new(&stock, "a test").unwrap();
    let mut stream = ours.execute(0, context(unlimited(), 8192)).unwrap();
    let mut pending = 0;
    let end = within("the end", async {
        loop {
            match poll_once(&mut stream) {
                Poll::Ready(end) => return end,
                Poll::Pending => pending += 1,
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(end.is_none());
    // Nine million pairs.
    assert!(pending > 2, "{pending}");
}
