//! Random schedules of polls and drops over inputs that yield, end, fail, panic or hang. In every
//! case nothing is left behind, and no row is missing unless an input failed.

mod common;

use std::{sync::Arc, task::Poll};

use common::{Step, batch, context, eventually, poll_once, ring_on, scripted, ways};
use datafusion::{
    execution::{SendableRecordBatchStream, runtime_env::RuntimeEnvBuilder},
    physical_plan::ExecutionPlan,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

const SCHEDULES: u64 = 1_200;

/// The inputs of a schedule.
#[derive(Default)]
struct Inputs {
    scripts: Vec<Vec<Step>>,
    rows: usize,
    ends_well: bool,
}

fn inputs(random: &mut StdRng) -> Inputs {
    let mut inputs = Inputs { ends_well: true, ..Default::default() };
    for _ in 0..random.random_range(1..=4) {
        let mut steps = vec![];
        for _ in 0..random.random_range(0..12) {
            if random.random_bool(0.3) {
                steps.push(Step::Yield);
            }
            let rows = random.random_range(0..60);
            steps.push(Step::Batch(batch(inputs.rows as i64, rows)));
            inputs.rows += rows as usize;
        }
        let end = match random.random_range(0..20) {
            0 => Some(Step::Error),
            1 => Some(Step::Panic),
            2 => Some(Step::Hang),
            _ => None,
        };
        inputs.ends_well &= end.is_none();
        steps.extend(end);
        inputs.scripts.push(steps);
    }
    inputs
}

/// The results of the streams.
struct Outcome {
    rows: usize,
    failed: bool,
    dropped: bool,
}

/// Polls and drops streams at random until all have ended, or the schedule is cancelled.
async fn drive(random: &mut StdRng, mut streams: Vec<SendableRecordBatchStream>, patient: bool) -> Outcome {
    let mut outcome = Outcome { rows: 0, failed: false, dropped: false };
    let polls = if patient { usize::MAX } else { random.random_range(0..200) };
    for _ in 0..polls {
        if streams.is_empty() {
            return outcome;
        }
        let chosen = random.random_range(0..streams.len());
        if !patient && random.random_bool(0.02) {
            drop(streams.swap_remove(chosen));
            outcome.dropped = true;
            continue;
        }
        match poll_once(&mut streams[chosen]) {
            Poll::Ready(Some(Ok(batch))) => outcome.rows += batch.num_rows(),
            Poll::Ready(Some(Err(_))) => outcome.failed = true,
            Poll::Ready(None) => drop(streams.swap_remove(chosen)),
            Poll::Pending => tokio::task::yield_now().await,
        }
    }
    outcome.dropped |= !streams.is_empty();
    outcome
}

async fn schedule(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let limit = if random.random_bool(0.5) { 2_000 } else { 1 << 30 };
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(limit, 1.0).build_arc().unwrap();
    let context = context(Arc::clone(&runtime), random.random_range(1..40));
    let Inputs { scripts, rows, ends_well } = inputs(&mut random);
    // A hung input never ends, so only a schedule without one may wait for the end.
    let patient = random.random_bool(0.5) && ends_well;
    let inputs = scripts.len();
    let (input, alive) = scripted(scripts);
    let ways: Vec<_> = ways().collect();
    let ours = ring_on(ways[seed as usize % ways.len()], input, random.random_range(1..=5));
    let streams = (0..ours.properties().partitioning.partition_count()).map(|partition| {
        let executed = ours.execute(partition, Arc::clone(&context));
        executed.unwrap()
    });
    let streams = streams.collect();
    let outcome = drive(&mut random, streams, patient).await;
    assert!(!(outcome.failed && ends_well), "seed {seed}: an error from nowhere");
    if ends_well && !outcome.dropped {
        assert_eq!(outcome.rows, rows, "seed {seed}");
    }
    let tasks = tokio::runtime::Handle::current().metrics();
    eventually(&format!("seed {seed}: nothing is left"), || {
        tasks.num_alive_tasks() == 0
            && Arc::strong_count(&alive) == 1 + inputs
            && runtime.memory_pool.reserved() == 0
            && runtime.disk_manager.used_disk_space() == 0
    })
    .await;
}

#[test]
fn random_schedules_leave_nothing_behind() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for seed in 0..SCHEDULES {
            schedule(seed).await;
        }
    });
}
