//! Hash joins whose sides change places while they run.

mod common;

use std::sync::Arc;

use annulus_datafusion::SharedHashJoinExec;
use common::{Plan, Step, batch, context, eventually, poll_once, rows, run, scripted, stock_join, within};
use datafusion::{
    common::{JoinSide, JoinType},
    execution::{
        TaskContext,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, Column},
    },
    physical_plan::{
        ExecutionPlan,
        coalesce_partitions::CoalescePartitionsExec,
        common::collect,
        joins::{
            HashJoinExec,
            utils::{ColumnIndex, JoinFilter},
        },
    },
};
use futures::StreamExt;

/// The rows of a build side from which on its sides may change places.
const OPEN_FROM: usize = 100;

fn limited(bytes: usize) -> Arc<RuntimeEnv> {
    RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).build_arc().unwrap()
}

fn unlimited() -> Arc<TaskContext> {
    context(Arc::new(RuntimeEnv::default()), 16)
}

fn open(stock: &HashJoinExec) -> Arc<SharedHashJoinExec> {
    Arc::new(SharedHashJoinExec::try_new(stock, "a test").unwrap().open_from(OPEN_FROM))
}

fn inner(left: Plan, right: Plan) -> Arc<SharedHashJoinExec> {
    open(&stock_join((left, right), JoinType::Inner, None))
}

/// Returns how often the sides have changed places, and the rows of the table.
fn swaps(join: &SharedHashJoinExec) -> (usize, usize) {
    let metrics = join.metrics().unwrap();
    let value = |name| metrics.sum_by_name(name).map_or(0, |value| value.as_usize());
    (value("swapped_sides"), value("build_input_rows"))
}

/// Two partitions of 100 rows each, of which 10 and 100 are in a left side of 600 rows.
fn few() -> Plan {
    let at = |start| vec![Step::Batch(batch(start, 40)), Step::Yield, Step::Batch(batch(start + 40, 60))];
    scripted(vec![at(590), at(500)]).0
}

fn sorted(found: Vec<Vec<String>>) -> Vec<String> {
    let mut all = found.concat();
    all.sort_unstable();
    all
}

/// `l.v + r.v > 1110`, over one column of each side, the right one first.
fn filter() -> JoinFilter {
    let side = |side| ColumnIndex { index: 1, side };
    let column = |name, index| Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>;
    let sum = Arc::new(BinaryExpr::new(column("r", 0), Operator::Plus, column("l", 1)));
    let field = common::schema().field(1).clone();
    let limit = datafusion::physical_expr::expressions::lit(datafusion::common::ScalarValue::Int64(Some(1110)));
    let schema = arrow::datatypes::Schema::new(vec![field.clone().with_name("r"), field.with_name("l")]);
    let above = Arc::new(BinaryExpr::new(sum, Operator::Gt, limit));
    JoinFilter::new(above, vec![side(JoinSide::Right), side(JoinSide::Left)], Arc::new(schema))
}

#[tokio::test]
async fn the_smaller_side_becomes_the_build_side() {
    for filter in [None, Some(filter())] {
        for projection in [None, Some(vec![3, 0]), Some(vec![1])] {
            let stock = |left| {
                let stock = stock_join((left, few()), JoinType::Inner, filter.clone());
                stock.builder().with_projection(projection.clone()).build().unwrap()
            };
            let one = Arc::new(CoalescePartitionsExec::new(rows(3, 4, 50).0));
            let expected = sorted(run(Arc::new(stock(one as _)), &unlimited()).await.unwrap());
            assert!(expected.len() > 10, "{expected:?}");
            let ours = open(&stock(rows(3, 4, 50).0));
            let found = within("a join", run(Arc::clone(&ours) as _, &unlimited())).await.unwrap();
            assert_eq!((sorted(found), swaps(&ours)), (expected, (1, 200)), "{filter:?} {projection:?}");
        }
    }
}

#[tokio::test]
async fn a_larger_probe_side_stays_one() {
    // It has more than half as many rows, in batches of which some are read ahead.
    let right = || rows(2, 10, 20).0;
    let expected =
        sorted(run(common::shared_join((rows(3, 4, 50).0, right()), JoinType::Inner), &unlimited()).await.unwrap());
    let ours = inner(rows(3, 4, 50).0, right());
    let found = within("a join", run(Arc::clone(&ours) as _, &unlimited())).await.unwrap();
    assert_eq!((sorted(found), swaps(&ours)), (expected, (0, 600)));
}

#[tokio::test]
async fn small_build_sides_and_promises_keep_their_place() {
    let small = inner(rows(1, 1, 99).0, rows(2, 1, 5).0);
    assert_eq!(run(Arc::clone(&small) as _, &unlimited()).await.unwrap().concat().len(), 10);
    assert_eq!(swaps(&small), (0, 99));
    for kind in common::JOINS.into_iter().filter(|kind| *kind != JoinType::Inner) {
        let ours = open(&stock_join((rows(3, 4, 50).0, few()), kind, None));
        let expected = sorted(run(common::shared_join((rows(3, 4, 50).0, few()), kind), &unlimited()).await.unwrap());
        assert_eq!(sorted(run(Arc::clone(&ours) as _, &unlimited()).await.unwrap()), expected);
        assert_eq!(swaps(&ours), (0, 600), "{kind}");
    }
    let limited = inner(rows(3, 4, 50).0, few()).with_fetch(Some(3)).unwrap();
    run(Arc::clone(&limited), &unlimited()).await.unwrap();
    assert_eq!(swaps(limited.downcast_ref().unwrap()), (0, 600));
}

/// The streams of other partitions may come when one has ended.
#[tokio::test]
async fn partitions_that_are_drained_one_after_the_other_keep_the_sides() {
    let expected = sorted(run(inner(rows(3, 4, 50).0, few()), &unlimited()).await.unwrap());
    let (ours, context) = (inner(rows(3, 4, 50).0, few()), unlimited());
    let mut found = Vec::new();
    for partition in 0..2 {
        let stream = ours.execute(partition, Arc::clone(&context)).unwrap();
        found.push(common::lines(&within("a partition", collect(stream)).await.unwrap()));
    }
    assert_eq!((sorted(found), swaps(&ours)), (expected, (0, 600)));
}

/// One stream may take all rows, and another none.
#[tokio::test]
async fn a_stream_that_nobody_polls_holds_up_no_other() {
    let expected = sorted(run(inner(rows(3, 4, 50).0, few()), &unlimited()).await.unwrap());
    let (ours, context) = (inner(rows(3, 4, 50).0, few()), unlimited());
    let streams: Vec<_> = (0..2).map(|partition| ours.execute(partition, Arc::clone(&context)).unwrap()).collect();
    let mut found = Vec::new();
    for stream in streams {
        found.push(common::lines(&within("a partition", collect(stream)).await.unwrap()));
    }
    assert!(found[1].is_empty());
    assert_eq!((sorted(found), swaps(&ours)), (expected, (1, 200)));
}

#[tokio::test]
async fn errors_and_panics_of_a_probe_side_that_is_read_ahead_reach_every_output() {
    for (step, text) in [(Step::Error, "scripted error"), (Step::Panic, "scripted panic")] {
        let failing = scripted(vec![vec![Step::Batch(batch(0, 10)), Step::Yield, step], vec![Step::Hang]]).0;
        let runtime = limited(1 << 20);
        let context = context(Arc::clone(&runtime), 16);
        let ours = inner(rows(3, 4, 50).0, failing);
        let streams: Vec<_> = (0..2).map(|partition| ours.execute(partition, Arc::clone(&context)).unwrap()).collect();
        for stream in streams {
            let error = within("the error", collect(stream)).await.unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
        eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
    }
}

#[tokio::test]
async fn dropped_streams_stop_what_is_read_ahead() {
    let (right, alive) = scripted(vec![vec![Step::Batch(batch(0, 10)), Step::Hang]; 2]);
    let runtime = limited(1 << 20);
    let context = context(Arc::clone(&runtime), 16);
    let ours = inner(rows(3, 4, 50).0, right);
    let mut streams: Vec<_> = (0..2).map(|partition| ours.execute(partition, Arc::clone(&context)).unwrap()).collect();
    assert!(streams.iter_mut().all(|stream| poll_once(stream).is_pending()));
    assert_eq!(Arc::strong_count(&alive), 5);
    for _ in 0..100 {
        tokio::task::yield_now().await;
        assert!(streams.iter_mut().all(|stream| poll_once(stream).is_pending()));
    }
    drop(streams);
    eventually("the inputs are dropped", || Arc::strong_count(&alive) == 3).await;
    eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
}

/// Its producers must not wait for it.
#[tokio::test]
async fn the_partition_of_a_dropped_stream_goes_at_once() {
    let (left, _) = scripted(vec![vec![Step::Hang]]);
    let (right, alive) = scripted(vec![vec![Step::Batch(batch(0, 10))]; 2]);
    let (ours, context) = (inner(left, right), unlimited());
    let mut streams: Vec<_> = (0..2).map(|partition| ours.execute(partition, Arc::clone(&context)).unwrap()).collect();
    assert!(streams.iter_mut().all(|stream| poll_once(stream).is_pending()));
    assert_eq!(Arc::strong_count(&alive), 5);
    streams.pop();
    assert_eq!(Arc::strong_count(&alive), 4);
}

/// The pool grants the rows of the build side and their table, but not the rows read ahead.
#[tokio::test]
async fn without_memory_to_read_ahead_the_sides_keep_their_places() {
    let right = || scripted(vec![vec![Step::Batch(batch(0, 140))]; 2]).0;
    let expected = sorted(run(inner(rows(3, 4, 50).0, right()), &unlimited()).await.unwrap());
    let mut kept = 0;
    for kib in [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 128, 256] {
        let runtime = limited(kib << 10);
        let ours = inner(rows(3, 4, 50).0, right());
        let context = context(Arc::clone(&runtime), 16);
        let found = within("a join", run(Arc::clone(&ours) as _, &context)).await.unwrap();
        assert_eq!(sorted(found), expected, "{kib} KiB");
        kept += usize::from(swaps(&ours).0 == 0);
        drop((ours, context));
        eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
    }
    assert!(kept > 0 && kept < 12, "{kept}");
}

#[tokio::test]
async fn a_turned_join_gives_its_memory_back_with_its_last_row() {
    let runtime = limited(1 << 20);
    let context = context(Arc::clone(&runtime), 16);
    let ours = inner(rows(3, 4, 50).0, few());
    let mut streams: Vec<_> = (0..2).map(|partition| ours.execute(partition, Arc::clone(&context)).unwrap()).collect();
    for stream in &mut streams {
        while within("a batch", stream.next()).await.transpose().unwrap().is_some() {}
    }
    assert_eq!((swaps(&ours).0, runtime.memory_pool.reserved()), (1, 0));
}
