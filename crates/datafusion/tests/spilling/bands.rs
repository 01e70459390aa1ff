//! Band joins whose left side is larger than memory. However they end, nothing is left.

use std::{sync::Arc, task::Poll};

use datafusion::{
    execution::{SendableRecordBatchStream, runtime_env::RuntimeEnv},
    physical_plan::ExecutionPlan,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    common::{JOINS, Plan, bands::band, context, eventually, poll_once, rows, run, within},
    full_disk::full_after,
    support::{Failing, Watched, metric, sorted},
};

/// Less than the left side takes.
const LITTLE: usize = 350_000;

/// Two tables of 18,000 rows, in three and in two partitions.
fn sides() -> (Plan, Plan) {
    (rows(3, 12, 500).0, rows(2, 18, 500).0)
}

/// Pools with room for some of the left side, and for nothing.
#[tokio::test]
async fn all_join_types_spill_and_leave_nothing() {
    let unlimited = context(Arc::new(RuntimeEnv::default()), 1000);
    for kind in JOINS {
        let expected = sorted(run(band(sides(), kind), &unlimited).await.unwrap());
        for pool in [LITTLE, 1] {
            let (watched, ours) = (Watched::new(pool), band(sides(), kind));
            let found = within("the join", run(Arc::clone(&ours) as _, &watched.context())).await.unwrap();
            assert!(sorted(found) == expected, "{kind:?} in {pool} bytes");
            assert!(metric(&[ours as _], "spilled_bytes") > 100_000, "{kind:?} in {pool} bytes");
            watched.expect_nothing().await;
        }
    }
}

#[tokio::test]
async fn streams_that_are_dropped_at_any_moment_leave_nothing() {
    for seed in 0..200 {
        let mut random = StdRng::seed_from_u64(seed);
        let (watched, ours) = (Watched::new(LITTLE), band(sides(), JOINS[seed as usize % JOINS.len()]));
        let start = |partition| Some(ours.execute(partition, watched.context()).unwrap());
        let mut streams: [Option<SendableRecordBatchStream>; 2] = std::array::from_fn(start);
        let ends: [usize; 2] = std::array::from_fn(|_| {
            let most = random.random_range(1..400);
            random.random_range(0..most)
        });
        for round in 0..400 {
            for (slot, end) in streams.iter_mut().zip(ends) {
                let Some(stream) = slot else { continue };
                if let Poll::Ready(Some(batch)) = poll_once(stream) {
                    batch.unwrap();
                }
                if round >= end {
                    *slot = None;
                }
            }
            tokio::task::yield_now().await;
        }
        drop((streams, ours));
        watched.expect_nothing().await;
    }
}

#[tokio::test]
async fn after_an_error_of_either_side_nothing_is_left() {
    let failing = Failing { inputs: [3, 2], batches: (12, 500), pool: LITTLE };
    failing.expect_nothing_left(|sides, kind| band(sides, kind)).await;
}

#[tokio::test]
async fn a_full_disk_is_an_error_that_says_so_and_leaves_nothing() {
    let (mut random, mut failed) = (StdRng::seed_from_u64(3), 0);
    for case in 0..60 {
        let (runtime, disk) = full_after(random.random_range(0..500_000), LITTLE);
        let ours = band(sides(), JOINS[case % JOINS.len()]);
        if let Err(error) = run(ours, &context(Arc::clone(&runtime), 100)).await {
            let text = error.to_string();
            assert!(text.contains("no storage space"), "{text}");
            failed += 1;
        }
        eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
        eventually("no file is left", || disk.spilling_progress().active_files_count == 0).await;
    }
    assert!((20..60).contains(&failed), "{failed} of 60 runs failed");
}
