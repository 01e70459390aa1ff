//! How a join that spills ends: normally, early, with an error, or with a panic. Nothing is left.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use arrow::array::RecordBatch;
use datafusion::{
    common::JoinType,
    execution::{SendableRecordBatchStream, runtime_env::RuntimeEnv},
    physical_plan::{ExecutionPlan, common::collect, display::DisplayableExecutionPlan},
};
use futures::StreamExt;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    common::{JOINS, Plan, Step, batch, context, lines, poll_once, rows, run, scripted, shared_join, within},
    support::{Failing, Watched, metric, sorted},
};

/// Two tables of 6000 rows each, of which 4000 have partners, in two and three partitions.
fn sides() -> (Plan, Plan) {
    let shifted =
        (0..3).map(|input| (0..10).map(|at| Step::Batch(batch(2000 + (input * 10 + at) * 200, 200))).collect());
    (rows(2, 15, 200).0, scripted(shifted.collect()).0)
}

const LITTLE: usize = 60_000;

#[tokio::test]
async fn all_join_types_spill_and_leave_nothing() {
    let unlimited = context(Arc::new(RuntimeEnv::default()), 100);
    for kind in JOINS {
        let expected = sorted(run(shared_join(sides(), kind), &unlimited).await.unwrap());
        let watched = Watched::new(LITTLE);
        let ours = shared_join(sides(), kind);
        let found = sorted(within("the join", run(Arc::clone(&ours) as _, &watched.context())).await.unwrap());
        assert!(found == expected, "{kind:?}");
        assert!(metric(&[ours as _], "spilled_rows") > 6000, "{kind:?}");
        watched.expect_nothing().await;
    }
}

#[tokio::test]
async fn rows_stay_in_the_partition_of_the_probe_side() {
    let unlimited = context(Arc::new(RuntimeEnv::default()), 100);
    for kind in [JoinType::Inner, JoinType::Right, JoinType::RightSemi, JoinType::RightAnti, JoinType::RightMark] {
        let expected = run(shared_join(sides(), kind), &unlimited).await.unwrap();
        let found = run(shared_join(sides(), kind), &Watched::new(LITTLE).context()).await.unwrap();
        for (mut expected, mut found) in expected.into_iter().zip(found) {
            expected.sort_unstable();
            found.sort_unstable();
            assert!(found == expected, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn partitions_can_be_drained_one_after_the_other_in_any_order() {
    let unlimited = context(Arc::new(RuntimeEnv::default()), 100);
    for kind in JOINS {
        let expected = sorted(run(shared_join(sides(), kind), &unlimited).await.unwrap());
        for order in [[0, 1, 2], [2, 0, 1]] {
            let watched = Watched::new(LITTLE);
            let ours = shared_join(sides(), kind);
            let mut found = Vec::new();
            for partition in order {
                let stream = ours.execute(partition, watched.context()).unwrap();
                found.push(lines(&within("a partition", collect(stream)).await.unwrap()));
            }
            assert!(sorted(found) == expected, "{kind:?}");
            watched.expect_nothing().await;
        }
    }
}

/// No stream waits for another one.
#[tokio::test]
async fn streams_that_are_not_polled_do_not_keep_others_from_their_end() {
    for kind in [JoinType::Inner, JoinType::Left, JoinType::RightMark] {
        let watched = Watched::new(LITTLE);
        let ours = shared_join(sides(), kind);
        let mut streams: Vec<_> = (0..3).map(|partition| ours.execute(partition, watched.context()).unwrap()).collect();
        // The second one begins, and is then left alone at any point.
        let mut begun = streams.remove(1);
        for _ in 0..40 {
            let _ = poll_once(&mut begun);
            tokio::task::yield_now().await;
        }
        for stream in streams {
            within("a stream", collect(stream)).await.unwrap();
        }
        drop((begun, ours));
        watched.expect_nothing().await;
    }
}

#[tokio::test]
async fn a_limit_ends_one_stream_and_not_the_others() {
    let watched = Watched::new(LITTLE);
    let ours = (shared_join(sides(), JoinType::Inner) as Plan).with_fetch(Some(700)).unwrap();
    let found = within("the limit", run(Arc::clone(&ours), &watched.context())).await.unwrap();
    assert!(found.iter().all(|rows| rows.len() == 700), "{:?}", found.iter().map(Vec::len).collect::<Vec<_>>());
    drop(ours);
    watched.expect_nothing().await;
}

#[tokio::test]
async fn after_an_error_of_either_side_nothing_is_left() {
    let failing = Failing { inputs: [2, 3], batches: (10, 300), pool: LITTLE };
    failing.expect_nothing_left(|sides, kind| shared_join(sides, kind)).await;
}

#[tokio::test]
async fn streams_that_are_dropped_at_any_moment_leave_nothing() {
    let unlimited = context(Arc::new(RuntimeEnv::default()), 100);
    let mut expected = JOINS.map(|_| None);
    for seed in 0..200 {
        let mut random = StdRng::seed_from_u64(seed);
        let (kind, watched) = (seed as usize % JOINS.len(), Watched::new(LITTLE));
        let ours = shared_join(sides(), JOINS[kind]);
        let mut streams: Vec<Option<SendableRecordBatchStream>> =
            (0..3).map(|partition| Some(ours.execute(partition, watched.context()).unwrap())).collect();
        // The first streams go early, the last one at the end or later.
        let mut end = || {
            let most = random.random_range(1..600);
            random.random_range(0..most)
        };
        let ends: [usize; 3] = std::array::from_fn(|_| end());
        let keeps_last = seed % 4 == 0;
        let mut last: Vec<RecordBatch> = Vec::new();
        for round in 0..600 {
            for (at, slot) in streams.iter_mut().enumerate() {
                let Some(stream) = slot else { continue };
                if round >= ends[at] && !(keeps_last && at == 2) {
                    *slot = None;
                } else if let std::task::Poll::Ready(Some(batch)) = poll_once(stream)
                    && at == 2
                {
                    last.push(batch.unwrap());
                }
            }
            tokio::task::yield_now().await;
        }
        if keeps_last {
            // The stream that is left has all its rows. Those of the build side alone are for the last stream to
            // end, which never comes if another one was dropped.
            let mut stream = streams[2].take().unwrap();
            while let Some(batch) = within("the last stream", stream.next()).await {
                last.push(batch.unwrap());
            }
            drop(stream);
            if expected[kind].is_none() {
                expected[kind] = Some(run(shared_join(sides(), JOINS[kind]), &unlimited).await.unwrap());
            }
            if [JoinType::Inner, JoinType::Right, JoinType::RightSemi, JoinType::RightAnti].contains(&JOINS[kind]) {
                let (mut found, mut expected) = (lines(&last), expected[kind].as_ref().unwrap()[2].clone());
                found.sort_unstable();
                expected.sort_unstable();
                assert!(found == expected, "seed {seed}");
            }
        }
        drop((streams, ours));
        watched.expect_nothing().await;
    }
}

#[tokio::test]
async fn the_limit_of_the_disk_is_an_error_that_says_so() {
    for disk_bytes in [1, 10_000, 50_000, 150_000] {
        let watched = Watched::with_disk(LITTLE, disk_bytes);
        let error = run(shared_join(sides(), JoinType::Full), &watched.context()).await.unwrap_err().to_string();
        let named = ["cannot write them to disk", "datafusion.runtime.max_temp_directory_size", "more memory"];
        assert!(named.iter().all(|part| error.contains(part)), "{error}");
        watched.expect_nothing().await;
    }
}

#[tokio::test]
async fn memory_stays_within_the_pool() {
    // 9.6 MB of rows on the build side, and more with their table.
    let unlimited = context(Arc::new(RuntimeEnv::default()), 8192);
    let sides = || (rows(2, 50, 6000).0, rows(2, 5, 6000).0);
    let expected = run(shared_join(sides(), JoinType::RightSemi), &unlimited).await.unwrap().concat().len();
    for limit in [1 << 20, 4 << 20] {
        let watched = Watched::new(limit);
        let ours = shared_join(sides(), JoinType::RightSemi);
        let found = run(Arc::clone(&ours) as _, &context(Arc::clone(&watched.runtime), 8192)).await.unwrap();
        assert_eq!(found.concat().len(), expected);
        let peak = watched.pool.peak.load(Relaxed);
        assert!(peak <= limit + limit / 8, "{peak} of {limit}");
        // It uses what it has.
        assert!(peak >= limit / 2, "{peak} of {limit}");
        let spilled = metric(&[ours as _], "spilled_rows");
        assert!(spilled > 100_000, "{spilled} rows");
        watched.expect_nothing().await;
    }
}

/// The parts of one division are joined before the next part is divided.
#[tokio::test]
async fn few_files_are_there_at_once() {
    let watched = Watched::new(20_000);
    let ours: Plan = shared_join((rows(2, 50, 400).0, rows(1, 100, 200).0), JoinType::Inner);
    let mut stream = ours.execute(0, watched.context()).unwrap();
    let mut most = 0;
    while let Some(batch) = within("a batch", stream.next()).await {
        batch.unwrap();
        most = most.max(watched.runtime.disk_manager.spilling_progress().active_files_count);
    }
    let files = metric(&[ours], "spill_count");
    assert!(files > 400 && most < 150, "{most} files at once, {files} in all");
}

#[tokio::test]
async fn the_metrics_are_shown() {
    let watched = Watched::new(LITTLE);
    let ours: Plan = shared_join(sides(), JoinType::Inner);
    run(Arc::clone(&ours), &watched.context()).await.unwrap();
    let text = DisplayableExecutionPlan::with_metrics(ours.as_ref()).indent(false).to_string();
    let names =
        ["spill_count", "spilled_bytes", "spilled_rows", "spilled_parts", "spill_depth", "spill_blocks", "skewed"];
    for name in names {
        assert!(text.contains(name), "{name} in {text}");
    }
    assert!(text.contains("build_input_rows=6.00 K") && metric(&[Arc::clone(&ours)], "input_rows") == 6000, "{text}");
    // A join that does not spill does not mention it.
    let ours: Plan = shared_join(sides(), JoinType::Inner);
    run(Arc::clone(&ours), &context(Arc::new(RuntimeEnv::default()), 100)).await.unwrap();
    let text = DisplayableExecutionPlan::with_metrics(ours.as_ref()).indent(false).to_string();
    assert!(!text.contains("spill"), "{text}");
}
