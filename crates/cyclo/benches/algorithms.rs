//! The constants of the cost model that chooses between hash and merge, in nanoseconds a row:
//! preparing a row of the build side and one of the probe side, and joining a row.
//!
//! `cargo bench -p annulus-cyclo --bench algorithms`. Each figure is the median of five runs on one
//! thread, the two algorithms in turn. The number of pairs is checked.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use annulus_cyclo::{Condition, JoinSpec, Share};
use annulus_join::{JoinType, KeyPair, MergeCondition, OutputSpec, Partitions, Side, Sides};
use annulus_roundabout::{Host, RingConfig};
use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray},
    datatypes::SchemaRef,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 5;
const BATCH_ROWS: usize = 8192;

fn main() {
    println!("{:34}{:>8}{:>10}{:>10}{:>10}", "", "", "build", "probe", "join");
    // The rows of the build side and of the probe side, in powers of two.
    for (build, probe) in [(12, 20), (16, 20), (20, 20), (22, 22), (20, 19), (20, 18), (20, 17), (23, 20), (21, 16)] {
        measure(1 << build, 1 << probe, false, false);
    }
    for (build, probe) in [(20, 20), (20, 18), (23, 20)] {
        measure(1 << build, 1 << probe, false, true);
    }
    for (build, probe) in [(12, 20), (16, 20), (20, 20), (20, 18), (20, 17)] {
        measure(1 << build, 1 << probe, true, false);
    }
    measure(1 << 20, 1 << 20, true, true);
}

/// Measures both algorithms.
fn measure(build_rows: usize, probe_rows: usize, text: bool, sorted: bool) {
    let (build, probe) = (side(build_rows, build_rows, text, sorted), side(probe_rows, build_rows, text, sorted));
    let schema = build[0].schema();
    let specs = [hash(build_rows), merge()].map(|condition| spec(&schema, condition));
    let mut rounds = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        for (spec, rounds) in specs.iter().zip(&mut rounds) {
            rounds.push(run(spec, &build, &probe));
        }
    }
    let keys = if text { "text" } else { "i64" };
    let order = if sorted { "sorted" } else { "random" };
    for (name, mut rounds) in ["hash", "merge"].into_iter().zip(rounds) {
        let mut median = |phase: usize, rows: usize| {
            rounds.sort_unstable_by_key(|times: &[Duration; 3]| times[phase]);
            rounds[ROUNDS / 2][phase].as_nanos() as f64 / rows as f64
        };
        let (build, prepare, join) = (median(0, build_rows), median(1, probe_rows), median(2, probe_rows));
        let label = format!("{build_rows}, {probe_rows} {keys}, {order}");
        println!("{label:34}{name:>8}{build:>10.1}{prepare:>10.1}{join:>10.1}");
    }
}

/// Returns the times to prepare the build side, to prepare the probe side, and to join.
fn run(spec: &JoinSpec, build: &[RecordBatch], probe: &[RecordBatch]) -> [Duration; 3] {
    let config = RingConfig::default();
    let mut host = Host::single_host(&config).expect("a host");
    let start = Instant::now();
    drop(Share::prepare(spec, build.to_vec(), Vec::new()).expect("a build side"));
    let built = start.elapsed();
    let start = Instant::now();
    drop(Share::prepare(spec, Vec::new(), probe.to_vec()).expect("fragments"));
    let prepared = start.elapsed();
    let share = Share::prepare(spec, build.to_vec(), probe.to_vec()).expect("both sides");
    let rows = AtomicUsize::new(0);
    let start = Instant::now();
    let emit = |_, batch: RecordBatch| {
        rows.fetch_add(batch.num_rows(), Relaxed);
        Ok(())
    };
    share.revolve(&mut host, &emit).expect("a join");
    let joined = start.elapsed();
    host.finish().expect("an end");
    assert_eq!(rows.into_inner(), probe.iter().map(RecordBatch::num_rows).sum::<usize>());
    [built, prepared, joined]
}

fn spec(schema: &SchemaRef, condition: Condition) -> JoinSpec {
    let schemas = Sides { left: Arc::clone(schema), right: Arc::clone(schema) };
    let output =
        OutputSpec::new(JoinType::Inner, Side::Left, schemas).with_columns(Sides { left: vec![1], right: vec![1] });
    JoinSpec::new(output, condition, RingConfig::default().fragment_bytes as usize)
}

fn hash(build_rows: usize) -> Condition {
    let partitions = Partitions::for_rows(build_rows);
    Condition::Hash { build: vec![0], probe: vec![0], nulls_equal: false, partitions }
}

fn merge() -> Condition {
    Condition::Merge(Box::new(MergeCondition {
        equal: vec![KeyPair { build: 0, probe: 0 }],
        ..MergeCondition::default()
    }))
}

/// Returns `rows` rows whose keys are the numbers below `keys`, each about equally often, and a
/// number.
fn side(rows: usize, keys: usize, text: bool, sorted: bool) -> Vec<RecordBatch> {
    // An odd factor permutes the numbers below a power of two.
    let key = |row: usize| if sorted { row * keys / rows } else { row.wrapping_mul(0x9E37_79B1) % keys };
    let batch = |start: usize| {
        let numbers: Int64Array = (start..rows.min(start + BATCH_ROWS)).map(|row| Some(key(row) as i64)).collect();
        let texts = || numbers.iter().flatten().map(|key| Some(format!("key {key:012}"))).collect::<StringArray>();
        let keys: ArrayRef = if text { Arc::new(texts()) } else { Arc::new(numbers.clone()) };
        RecordBatch::try_from_iter([("key", keys), ("number", Arc::new(numbers) as ArrayRef)]).expect("a batch")
    };
    (0..rows).step_by(BATCH_ROWS).map(batch).collect()
}
