//! How band joins end: normally, early, with an error, or under a memory limit.

mod common;

use std::{sync::Arc, task::Poll};

use annulus_datafusion::BandJoinExec;
use common::{
    JOINS, Step,
    bands::{Expr, band, binary, number, stock},
    batch, context, eventually, poll_once, rows, run, schema, scripted, within,
};
use datafusion::{
    common::JoinType,
    error::DataFusionError,
    execution::{
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    logical_expr::Operator,
    physical_expr::expressions::Column,
    physical_plan::{
        ExecutionPlan,
        coalesce_partitions::CoalescePartitionsExec,
        common::collect,
        joins::NestedLoopJoinExec,
        test::exec::{BlockingExec, PanicExec, assert_strong_count_converges_to_zero},
    },
};
use futures::StreamExt;

fn unlimited() -> Arc<RuntimeEnv> {
    Arc::new(RuntimeEnv::default())
}

fn limited(bytes: usize) -> Arc<RuntimeEnv> {
    RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).build_arc().unwrap()
}

fn sorted(partitions: Vec<Vec<String>>) -> Vec<String> {
    let mut rows = partitions.concat();
    rows.sort_unstable();
    rows
}

#[tokio::test]
async fn many_partitions_on_either_side() {
    let context = context(unlimited(), 100);
    for kind in JOINS {
        let one = Arc::new(CoalescePartitionsExec::new(rows(3, 4, 50).0));
        let expected = run(stock((one, rows(2, 3, 150).0), kind, (1, 2), None), &context).await.unwrap();
        assert_eq!(expected.len(), 2);
        let ours = band((rows(3, 4, 50).0, rows(2, 3, 150).0), kind);
        let found = run(Arc::clone(&ours) as _, &context).await.unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(sorted(found), sorted(expected.clone()), "{kind:?}");
        // A plan can be run again.
        assert_eq!(sorted(run(ours, &context).await.unwrap()), sorted(expected), "{kind:?}");
    }
}

#[tokio::test]
async fn a_large_build_side_is_sorted_by_all_threads_and_may_lose_all_its_rows() {
    let context = context(unlimited(), 8192);
    for kind in [JoinType::Inner, JoinType::LeftAnti] {
        let ours = band((rows(4, 10, 2000).0, rows(2, 10, 4000).0), kind);
        let found = within("a large join", run(Arc::clone(&ours) as _, &context)).await.unwrap().concat();
        // Each row finds four, except for those at the ends.
        assert_eq!(found.len(), if kind == JoinType::Inner { 4 * 80_000 - 4 } else { 0 });
        let metrics = ours.metrics().unwrap();
        assert_eq!(metrics.output_rows(), Some(found.len()));
        assert_eq!(metrics.sum_by_name("build_input_rows").unwrap().as_usize(), 80_000);
        assert_eq!(metrics.sum_by_name("input_rows").unwrap().as_usize(), 80_000);
        assert!(metrics.sum_by_name("build_mem_used").unwrap().as_usize() > 80_000 * 16);
    }
}

#[tokio::test]
async fn an_error_of_the_left_side_reaches_every_output() {
    let failing = || scripted(vec![vec![Step::Batch(batch(0, 10)), Step::Yield, Step::Error], vec![Step::Hang]]).0;
    let context = context(unlimited(), 4);
    let ours = band((failing(), rows(3, 2, 10).0), JoinType::Inner);
    for partition in 0..3 {
        let mut stream = ours.execute(partition, Arc::clone(&context)).unwrap();
        let error = within("the error", stream.next()).await.unwrap().unwrap_err();
        assert!(matches!(error, DataFusionError::Shared(_)) && error.to_string().contains("scripted error"), "{error}");
        assert!(within("the end", stream.next()).await.is_none());
    }
    // Each partition of the right side is read by one output.
    let ours = band((rows(3, 2, 10).0, failing()), JoinType::Full);
    let error = within("the error", collect(ours.execute(0, context).unwrap())).await.unwrap_err();
    assert!(error.to_string().contains("scripted error"), "{error}");
}

#[tokio::test]
async fn a_panic_of_the_left_side_reaches_every_output() {
    let left = Arc::new(PanicExec::new(schema(), 2).with_partition_panic(0, 3).with_partition_panic(1, 4));
    let ours = band((left, rows(3, 1, 10).0), JoinType::Inner);
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
    let ours = band((left, right), JoinType::Inner);
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
    let ours = band((left, rows(2, 1, 10).0), JoinType::Left);
    let mut streams: Vec<_> = (0..2).map(|partition| ours.execute(partition, Arc::clone(&context)).unwrap()).collect();
    assert!(streams.iter_mut().all(|stream| poll_once(stream).is_pending()));
    eventually("rows are accounted for", || runtime.memory_pool.reserved() > 0).await;
    drop(streams);
    eventually("the inputs are dropped", || Arc::strong_count(&alive) == 4).await;
    eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
    drop(ours);
}

#[tokio::test]
async fn a_partition_executed_after_another_was_dropped_has_all_its_rows() {
    let context = context(unlimited(), 16);
    let sides = || (rows(3, 20, 64).0, rows(2, 20, 64).0);
    let expected = run(band(sides(), JoinType::Inner), &common::apart(&context)).await.unwrap();
    let ours = band(sides(), JoinType::Inner);
    let mut first = ours.execute(0, Arc::clone(&context)).unwrap();
    within("a batch", first.next()).await.unwrap().unwrap();
    drop(first);
    let second = ours.execute(1, Arc::clone(&context)).unwrap();
    let second = within("the second partition", collect(second)).await.unwrap();
    assert_eq!(common::lines(&second), expected[1]);
}

#[tokio::test]
async fn rows_that_do_not_fit_into_the_pool_and_may_not_be_written() {
    let disabled = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let builder = RuntimeEnvBuilder::new().with_memory_limit(100_000, 1.0).with_disk_manager_builder(disabled);
    let runtime = builder.build_arc().unwrap();
    let context = context(Arc::clone(&runtime), 1000);
    let ours = band((rows(2, 10, 1000).0, rows(2, 1, 100).0), JoinType::Inner);
    let error = within("the refusal", run(ours, &context)).await.unwrap_err();
    assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
    assert!(error.to_string().contains("enable the disk manager"), "{error}");
    eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
}

/// The left side takes several times the memory that there is.
#[tokio::test]
async fn a_left_side_larger_than_memory_is_joined_from_disk() {
    for kind in JOINS {
        let sides = || (rows(3, 10, 1000).0, rows(2, 10, 2000).0);
        let expected = run(band(sides(), kind), &context(unlimited(), 1000)).await.unwrap();
        let runtime = limited(700_000);
        let ours = band(sides(), kind);
        let found =
            within("the join", run(Arc::clone(&ours) as _, &context(Arc::clone(&runtime), 1000))).await.unwrap();
        assert_eq!(sorted(found), sorted(expected), "{kind:?}");
        let metrics = ours.metrics().unwrap();
        assert!(metrics.spilled_bytes().unwrap() > 30_000 * 8, "{metrics:?}");
        assert_eq!(metrics.sum_by_name("build_input_rows").unwrap().as_usize(), 30_000);
        drop(ours);
        eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
        eventually("files are removed", || runtime.disk_manager.used_disk_space() == 0).await;
    }
}

/// With a filter, all matches of a row may be in one part, and what the filter drops in another.
#[tokio::test]
async fn a_filter_on_pairs_with_parts_on_disk() {
    for kind in JOINS {
        let (l, r): (Expr, Expr) = (Arc::new(Column::new("l", 0)), Arc::new(Column::new("r", 1)));
        let odd = binary(binary(l, Operator::Plus, r), Operator::Modulo, number(3));
        let rest = || Some(binary(Arc::clone(&odd), Operator::Eq, number(1)));
        let sides = || (rows(3, 10, 1000).0, rows(2, 10, 1000).0);
        let ours = |sides| BandJoinExec::try_new(&stock(sides, kind, (9, 9), rest()), "a test").unwrap().unwrap();
        let expected = run(Arc::new(ours(sides())), &context(unlimited(), 1000)).await.unwrap();
        let limited = Arc::new(ours(sides()));
        let found = within("the join", run(Arc::clone(&limited) as _, &context(self::limited(700_000), 1000))).await;
        assert_eq!(sorted(found.unwrap()), sorted(expected), "{kind:?}");
        assert!(limited.metrics().unwrap().spilled_bytes().unwrap() > 0);
    }
}

#[tokio::test]
async fn a_full_disk_and_a_dropped_stream_leave_no_files() {
    let disk = DiskManagerBuilder::default().with_max_temp_directory_size(50_000);
    let builder = RuntimeEnvBuilder::new().with_memory_limit(700_000, 1.0).with_disk_manager_builder(disk);
    let runtime = builder.build_arc().unwrap();
    let ours = band((rows(3, 10, 1000).0, rows(2, 1, 100).0), JoinType::Inner);
    let error = within("the error", run(ours, &context(Arc::clone(&runtime), 1000))).await.unwrap_err();
    assert!(
        error.to_string().contains("increasing the config: `datafusion.runtime.max_temp_directory_size`"),
        "{error}"
    );
    eventually("files are removed", || runtime.disk_manager.used_disk_space() == 0).await;

    let runtime = limited(700_000);
    let ours = band((rows(3, 10, 1000).0, rows(2, 10, 2000).0), JoinType::Inner);
    let context = context(Arc::clone(&runtime), 1000);
    let mut streams: Vec<_> = (0..2).map(|partition| ours.execute(partition, Arc::clone(&context)).unwrap()).collect();
    within("a batch", streams[0].next()).await.unwrap().unwrap();
    assert!(runtime.disk_manager.used_disk_space() > 0);
    drop(streams);
    eventually("files are removed", || runtime.disk_manager.used_disk_space() == 0).await;
    eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
}

#[tokio::test]
async fn a_small_pool_makes_small_morsels() {
    let sides = || (rows(2, 1, 100).0, rows(2, 50, 500).0);
    let unlimited = context(unlimited(), 1000);
    let expected = run(band(sides(), JoinType::Full), &unlimited).await.unwrap();
    // Each output partition of the right side has 25,000 rows, of 16 bytes, but room for about 1500.
    let runtime = limited(300_000);
    let limited = context(Arc::clone(&runtime), 1000);
    let ours = band(sides(), JoinType::Full);
    let found = within("the join", run(Arc::clone(&ours) as _, &limited)).await.unwrap();
    assert_eq!(sorted(found), sorted(expected));
    eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
}

#[tokio::test]
async fn a_join_without_output_lets_other_tasks_run() {
    // All pairs are within the band, and the filter drops them.
    let (l, r): (Expr, Expr) = (Arc::new(Column::new("l", 0)), Arc::new(Column::new("r", 1)));
    let sides = (rows(1, 1, 1000).0, rows(1, 1, 1000).0);
    let stock = stock(
        sides,
        JoinType::Inner,
        (5000, 5000),
        Some(binary(binary(l, Operator::Plus, r), Operator::Lt, number(0))),
    );
    let ours = BandJoinExec::try_new(&stock, "a test").unwrap().unwrap();
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
    // A million pairs.
    assert!(pending > 10, "{pending}");
    assert_eq!(ours.metrics().unwrap().sum_by_name("band_pairs").unwrap().as_usize(), 1_000_000);
}

#[tokio::test]
async fn one_row_with_many_partners_makes_batches_of_the_usual_size() {
    let sides = (rows(2, 1, 50_000).0, rows(1, 1, 1).0);
    let ours = BandJoinExec::try_new(&stock(sides, JoinType::Inner, (0, 1 << 40), None), "a test").unwrap().unwrap();
    let mut stream = ours.execute(0, context(unlimited(), 1000)).unwrap();
    let mut sizes = vec![];
    while let Some(batch) = within("a batch", stream.next()).await {
        sizes.push(batch.unwrap().num_rows());
    }
    assert_eq!(sizes.iter().sum::<usize>(), 100_000);
    assert!(sizes.iter().all(|&size| size <= 1000));
}

#[test]
fn what_the_merge_join_cannot_evaluate_stays_stock() {
    let sides = || (rows(1, 1, 1).0, rows(1, 1, 1).0);
    let (left, right) = sides();
    let all = Arc::new(NestedLoopJoinExec::try_new(left, right, None, &JoinType::Inner, None).unwrap());
    assert!(BandJoinExec::try_new(&all, "a test").unwrap().is_none());
}
