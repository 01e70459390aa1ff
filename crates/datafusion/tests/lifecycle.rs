//! How executions end: normally, early, with an error, or under a memory limit.

mod common;

use std::sync::Arc;

use annulus_datafusion::{AnnulusConfig, ExchangeTuning, RingRepartitionExec, exchange_report};
use common::{
    Step, Way, batch, context, eventually, poll_once, ring, ring_on, rows, run, schema, scripted, stock, ways, within,
};
use datafusion::{
    error::DataFusionError,
    execution::{
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    physical_plan::{
        ExecutionPlan,
        common::collect,
        test::exec::{BarrierExec, BlockingExec, ErrorExec, PanicExec, assert_strong_count_converges_to_zero},
    },
};
use futures::StreamExt;

fn unlimited() -> Arc<RuntimeEnv> {
    Arc::new(RuntimeEnv::default())
}

fn limited(bytes: usize) -> Arc<RuntimeEnv> {
    RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).build_arc().unwrap()
}

#[tokio::test]
async fn an_error_reaches_every_output_once() {
    for way in ways() {
        an_error_reaches_every_output_once_on(way).await;
    }
}

async fn an_error_reaches_every_output_once_on(way: Way) {
    let (input, _) = scripted(vec![vec![Step::Batch(batch(0, 10)), Step::Yield, Step::Error], vec![Step::Hang]]);
    let ours = ring_on(way, input, 3);
    let context = context(unlimited(), 4);
    for partition in 0..3 {
        let mut stream = ours.execute(partition, Arc::clone(&context)).unwrap();
        let mut errors = vec![];
        within("the end of a failed stream", async {
            while let Some(item) = stream.next().await {
                errors.extend(item.err());
            }
        })
        .await;
        let [error] = &errors[..] else { panic!("{} errors", errors.len()) };
        assert!(matches!(error, DataFusionError::Shared(_)) && error.to_string().contains("scripted error"), "{error}");
    }
}

#[tokio::test]
async fn a_panic_reaches_every_output() {
    let input = Arc::new(PanicExec::new(schema(), 2).with_partition_panic(0, 3).with_partition_panic(1, 4));
    let ours = ring(input, 3);
    let context = context(unlimited(), 4);
    let streams: Vec<_> = (0..3).map(|partition| ours.execute(partition, Arc::clone(&context)).unwrap()).collect();
    for stream in streams {
        let error = within("the panic", collect(stream)).await.unwrap_err();
        assert!(error.to_string().contains("PanickingStream did panic"), "{error}");
    }
}

#[tokio::test]
async fn an_input_that_cannot_be_executed() {
    let ours = ring(Arc::new(ErrorExec::new()), 2);
    let error = ours.execute(0, context(unlimited(), 4)).err().unwrap();
    assert!(error.to_string().contains("ErrorExec, unsurprisingly, errored in partition 0"), "{error}");
}

#[tokio::test]
async fn dropping_the_streams_stops_the_inputs() {
    let input = Arc::new(BlockingExec::new(schema(), 2));
    let refs = input.refs();
    let ours = ring(input, 2);
    let context = context(unlimited(), 4);
    let mut streams: Vec<_> = (0..2).map(|partition| ours.execute(partition, Arc::clone(&context)).unwrap()).collect();
    assert!(streams.iter_mut().all(|stream| poll_once(stream).is_pending()));
    drop((ours, streams));
    assert_strong_count_converges_to_zero(refs).await;
}

#[tokio::test]
async fn dropping_the_last_stream_stops_the_inputs_though_the_plan_lives() {
    let (input, alive) = scripted(vec![vec![Step::Batch(batch(0, 10)), Step::Hang]; 3]);
    let ours = ring(input, 2);
    let context = context(unlimited(), 4);
    let mut streams: Vec<_> = (0..2).map(|partition| ours.execute(partition, Arc::clone(&context)).unwrap()).collect();
    let first = within("a row before the inputs hang", streams[0].next()).await;
    assert!(first.unwrap().unwrap().num_rows() > 0);
    drop(streams);
    // One of the counted references is ours, and three are the plan's.
    eventually("the inputs are dropped", || Arc::strong_count(&alive) == 4).await;
    drop(ours);
}

#[tokio::test]
async fn a_partition_executed_after_another_was_dropped_has_all_its_rows() {
    for way in ways() {
        a_partition_executed_after_another_was_dropped_has_all_its_rows_on(way).await;
    }
}

async fn a_partition_executed_after_another_was_dropped_has_all_its_rows_on(way: Way) {
    let context = context(unlimited(), 16);
    let expected = run(Arc::new(stock(rows(3, 20, 64).0, 2)), &context).await.unwrap();
    let ours = ring_on(way, rows(3, 20, 64).0, 2);
    let mut first = ours.execute(0, Arc::clone(&context)).unwrap();
    within("a batch", first.next()).await.unwrap().unwrap();
    drop(first);
    let second = ours.execute(1, Arc::clone(&context)).unwrap();
    let second = within("the second partition", collect(second)).await.unwrap();
    assert_eq!(common::lines(&second).len(), expected[1].len());
}

#[tokio::test]
async fn a_partition_can_be_executed_once_until_the_state_is_reset() {
    let ours = ring(rows(2, 2, 10).0, 2);
    let context = context(unlimited(), 4);
    let all = run(Arc::clone(&ours) as _, &context).await.unwrap();
    let error = ours.execute(1, Arc::clone(&context)).err().unwrap();
    assert!(matches!(error, DataFusionError::Internal(_)) && error.to_string().contains("executed twice"), "{error}");
    let again = run(Arc::clone(&ours).reset_state().unwrap(), &context).await.unwrap();
    assert_eq!(again.concat().len(), all.concat().len());
    assert!(ours.execute(2, context).is_err());
}

#[tokio::test]
async fn one_partition_after_the_other_spills_and_cleans_up() {
    for way in ways() {
        one_partition_after_the_other_spills_and_cleans_up_on(way).await;
    }
}

async fn one_partition_after_the_other_spills_and_cleans_up_on(way: Way) {
    const LIMIT: usize = 64 * 1024;
    let runtime = limited(LIMIT);
    let context = context(Arc::clone(&runtime), 128);
    let ours = ring_on(way, rows(4, 100, 256).0, 4);
    let mut count = 0;
    for partition in 0..4 {
        let stream = ours.execute(partition, Arc::clone(&context)).unwrap();
        count += common::lines(&within("a partition alone", collect(stream)).await.unwrap()).len();
        assert!(runtime.memory_pool.reserved() <= LIMIT);
    }
    assert_eq!(count, 4 * 100 * 256);
    let metrics = ours.metrics().unwrap();
    assert!(metrics.spilled_rows().unwrap() > 0 && metrics.sum_by_name("overflow_rows").unwrap().as_usize() > 0);
    let report = exchange_report(&(ours as _));
    assert_eq!((report.exchanges, report.rows), (1, 4 * 100 * 256));
    assert!(report.bytes > 0 && report.peak_bytes > 0 && report.peak_bytes <= LIMIT as u64);
    eventually("nothing is left", || {
        runtime.memory_pool.reserved() == 0 && runtime.disk_manager.used_disk_space() == 0
    })
    .await;
}

#[tokio::test]
async fn a_slow_consumer_gets_its_rows_in_order_and_holds_nobody_up() {
    for way in ways() {
        a_slow_consumer_gets_its_rows_in_order_and_holds_nobody_up_on(way).await;
    }
}

async fn a_slow_consumer_gets_its_rows_in_order_and_holds_nobody_up_on(way: Way) {
    let runtime = limited(32 * 1024);
    let context = context(Arc::clone(&runtime), 64);
    let ours = ring_on(way, rows(1, 200, 200).0, 2);
    let mut slow = ours.execute(0, Arc::clone(&context)).unwrap();
    let mut fast = ours.execute(1, Arc::clone(&context)).unwrap();
    let (mut values, mut turn) = (vec![], 0);
    let mut keep = |batch: arrow::array::RecordBatch| {
        values
            .extend(common::lines(&[batch]).iter().map(|line| line.split_once('|').unwrap().1.parse::<i64>().unwrap()));
    };
    while let Some(batch) = within("the fast partition", fast.next()).await {
        batch.unwrap();
        turn += 1;
        if turn % 10 == 0 {
            keep(within("the slow partition", slow.next()).await.unwrap().unwrap());
        }
    }
    while let Some(batch) = within("the rest of the slow partition", slow.next()).await {
        keep(batch.unwrap());
    }
    assert!(values.len() > 10_000 && values.is_sorted());
    assert!(ours.metrics().unwrap().spill_count().unwrap() > 0);
    drop(slow);
    eventually("nothing is left", || {
        runtime.memory_pool.reserved() == 0 && runtime.disk_manager.used_disk_space() == 0
    })
    .await;
}

#[tokio::test]
async fn a_dropped_partition_gives_up_its_files_at_once() {
    // All rows have one key, and so one partition.
    let one = |index: i64| batch(0, 1009 * 2).slice((index % 2) as usize * 1009, 1);
    let steps = (0..50).map(|index| Step::Batch(one(index))).chain([Step::Hang]).collect::<Vec<_>>();
    let placed = stock(scripted(vec![vec![steps[0].clone()]]).0, 2);
    let placed = run(Arc::new(placed), &context(unlimited(), 1)).await.unwrap();
    let busy = usize::from(placed[0].is_empty());

    let runtime = limited(1);
    let context = context(Arc::clone(&runtime), 1);
    let ours = ring(scripted(vec![steps]).0, 2);
    let mut starving = ours.execute(1 - busy, Arc::clone(&context)).unwrap();
    let unread = ours.execute(busy, Arc::clone(&context)).unwrap();
    eventually("something was spilled", || {
        assert!(poll_once(&mut starving).is_pending());
        runtime.disk_manager.used_disk_space() > 0
    })
    .await;
    drop(unread);
    eventually("the files are gone", || runtime.disk_manager.used_disk_space() == 0).await;
}

#[tokio::test]
async fn the_overflow_limit_spills_where_the_pool_would_not() {
    let runtime = unlimited();
    let context = context(Arc::clone(&runtime), 64);
    let options = AnnulusConfig { overflow_limit: 1, ..Default::default() };
    let tuning = ExchangeTuning { groups: 1, ..Default::default() };
    let ours = Arc::new(RingRepartitionExec::try_tuned(stock(rows(2, 50, 200).0, 2), options, tuning).unwrap());
    for partition in 0..2 {
        within("a partition alone", collect(ours.execute(partition, Arc::clone(&context)).unwrap())).await.unwrap();
    }
    assert!(ours.metrics().unwrap().spilled_rows().unwrap() > 0);
    // Memory up to the exchange's bound is used: two open chunks, four queued chunks, and those
    // that four claims close.
    let chunk = 64 * (1 << 10) / 50;
    assert!(exchange_report(&(ours as _)).peak_bytes <= 10 * chunk);
}

#[tokio::test]
async fn without_a_disk_the_error_names_the_remedy() {
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(1024, 1.0).with_disk_manager_builder(disk);
    let context = context(runtime.build_arc().unwrap(), 64);
    let ours = ring(rows(2, 100, 200).0, 2);
    let error = within("the error", collect(ours.execute(0, Arc::clone(&context)).unwrap())).await.unwrap_err();
    assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
    assert!(error.to_string().contains("raise the memory limit"), "{error}");
}

#[tokio::test]
async fn a_starving_output_is_served_though_another_is_never_polled() {
    for way in ways() {
        a_starving_output_is_served_though_another_is_never_polled_on(way).await;
    }
}

async fn a_starving_output_is_served_though_another_is_never_polled_on(way: Way) {
    let data = (0..4).map(|input| (0..50).map(|index| batch(input * 10_000 + index * 100, 100)).collect()).collect();
    let input = Arc::new(BarrierExec::new(data, schema()).with_log(false));
    let ours = ring_on(way, Arc::clone(&input) as _, 3);
    let context = context(limited(16 * 1024), 32);
    let never = ours.execute(2, Arc::clone(&context)).unwrap();
    let polled = (0..2).map(|partition| collect(ours.execute(partition, Arc::clone(&context)).unwrap()));
    let polled = futures::future::try_join_all(polled);
    let (_, found) = within("the polled partitions", futures::future::join(input.wait(), polled)).await;
    let found = common::lines(&found.unwrap().concat()).len();
    let rest = common::lines(&within("the last partition", collect(never)).await.unwrap()).len();
    assert_eq!(found + rest, 4 * 50 * 100);
}

#[tokio::test]
async fn an_input_that_pauses_does_not_make_small_batches() {
    for way in ways() {
        an_input_that_pauses_does_not_make_small_batches_on(way).await;
    }
}

async fn an_input_that_pauses_does_not_make_small_batches_on(way: Way) {
    let pausing =
        |input: i64| (0..8).flat_map(move |index| [Step::Batch(batch(input * 80 + index * 10, 10)), Step::Yield]);
    let (input, _) = scripted((0..2).map(|input| pausing(input).collect()).collect());
    let ours = ring_on(way, input, 3);
    let context = context(unlimited(), 1000);
    let streams = (0..3).map(|partition| collect(ours.execute(partition, Arc::clone(&context)).unwrap()));
    let outputs = futures::future::try_join_all(streams).await.unwrap();
    assert_eq!(outputs.iter().flatten().map(|batch| batch.num_rows()).sum::<usize>(), 160);
    assert!(outputs.iter().all(|batches| batches.len() == 1), "{way:?}: {outputs:?}");
}
