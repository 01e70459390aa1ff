//! The whole merge join, including sorting both sides, with two columns a side. Pairs are counted
//! and their payloads added up, and no output is built.
//!
//! `cargo bench -p annulus-join --bench merge [-- THREADS]`. Each figure is the median of five
//! runs, in milliseconds. The answer is first checked against one computed by another method.

use std::{
    collections::HashMap,
    ops::Bound,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use annulus_join::{
    Band, JoinError, KeyPair, MergeBuild, MergeCondition, MergeFragment, MergeJoin, Offset, PairSink, RequiredPairs,
};
use arrow::{
    array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch},
    datatypes::Int64Type,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 5;
const BATCH_ROWS: usize = 8192;
const FRAGMENT_BYTES: usize = 1 << 20;
const MORSEL_ROWS: u32 = 1 << 14;
const KEYS: KeyPair = KeyPair { build: 0, probe: 0 };

/// The number of pairs, and the sum of their payloads.
type Answer = (u64, i64);

fn main() {
    let threads = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(2);
    println!("{:36}{:>10}{:>10}{:>10}{:>10}{:>12}", "", "build", "probe", "join", "total", "pairs");
    let within = |by: i128| Bound::Included(Offset::Int(by));
    let band = MergeCondition {
        band: Some(Band { keys: KEYS, low: within(-5), high: within(4) }),
        ..MergeCondition::default()
    };
    let (build, probe) = (side(1 << 20, 1 << 20, 1), side(1 << 20, 1 << 20, 2));
    measure("band, 2 x 1 Mi i64, 10 matches", &band, (&build, &probe), band_answer(&build, &probe), threads, i64_keys);
    let spread = |side: &Side| Side { keys: side.keys.iter().map(|key| key << 40).collect(), ..side.clone() };
    let wide = MergeCondition {
        band: Some(Band { keys: KEYS, low: within(-5 << 40), high: within(4 << 40) }),
        ..MergeCondition::default()
    };
    let answer = band_answer(&build, &probe);
    measure("the same, keys over 60 bits", &wide, (&spread(&build), &spread(&probe)), answer, threads, i64_keys);
    let equal = MergeCondition { equal: vec![KEYS], ..MergeCondition::default() };
    let (build, probe) = (side(5_000_000, 5_000_000, 3), side(5_000_000, 5_000_000, 4));
    measure("equal, 2 x 5 M i32, 1 match", &equal, (&build, &probe), equal_answer(&build, &probe), threads, i32_keys);
    let (build, probe) = (side(20_000, 4, 5), side(20_000, 4, 6));
    measure(
        "equal, 2 x 20 k i32, 5 k matches",
        &equal,
        (&build, &probe),
        equal_answer(&build, &probe),
        threads,
        i32_keys,
    );
}

#[derive(Clone)]
struct Side {
    keys: Vec<i64>,
    payloads: Vec<i64>,
}

fn side(rows: u64, keys: u64, seed: u64) -> Side {
    let random = |row: u64| {
        let product = u128::from(row ^ (seed << 40) ^ 0x9E37_79B9_7F4A_7C15) * u128::from(0xD6E8_FEB8_6659_FD93_u64);
        (product as u64) ^ (product >> 64) as u64
    };
    let keys = (0..rows).map(|row| (random(row) % keys) as i64).collect();
    Side { keys, payloads: (0..rows).map(|row| (random(!row) % 1000) as i64).collect() }
}

fn i64_keys(keys: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(keys.to_vec()))
}

fn i32_keys(keys: &[i64]) -> ArrayRef {
    Arc::new(keys.iter().map(|&key| Some(key as i32)).collect::<Int32Array>())
}

/// Computes the answer from running sums of all payloads up to a key.
fn band_answer(build: &Side, probe: &Side) -> Answer {
    let most = build.keys.iter().copied().max().unwrap_or(0) as usize;
    let mut up_to = vec![(0_u64, 0_i64); most + 2];
    for (&key, payload) in build.keys.iter().zip(&build.payloads) {
        let slot = &mut up_to[key as usize + 1];
        *slot = (slot.0 + 1, slot.1 + payload);
    }
    for key in 1..up_to.len() {
        up_to[key] = (up_to[key].0 + up_to[key - 1].0, up_to[key].1 + up_to[key - 1].1);
    }
    let (mut pairs, mut sum) = (0, 0);
    for (key, payload) in probe.keys.iter().zip(&probe.payloads) {
        let place = |key: i64| up_to[(key.max(0) as usize).min(most + 1)];
        let (before, last) = (place(key - 5), place(key + 5));
        pairs += last.0 - before.0;
        sum += last.1 - before.1 + payload * (last.0 - before.0) as i64;
    }
    (pairs, sum)
}

fn equal_answer(build: &Side, probe: &Side) -> Answer {
    let mut by_key: HashMap<i64, Answer> = HashMap::new();
    for (&key, payload) in build.keys.iter().zip(&build.payloads) {
        let (rows, sum) = by_key.entry(key).or_default();
        (*rows, *sum) = (*rows + 1, *sum + payload);
    }
    let rows = probe.keys.iter().zip(&probe.payloads);
    rows.filter_map(|(key, payload)| by_key.get(key).map(|&(rows, sum)| (rows, sum + payload * rows as i64)))
        .fold((0, 0), |all, row| (all.0 + row.0, all.1 + row.1))
}

fn measure(
    name: &str,
    condition: &MergeCondition,
    (build, probe): (&Side, &Side),
    expected: Answer,
    threads: usize,
    keys: fn(&[i64]) -> ArrayRef,
) {
    let batches = |side: &Side| -> Vec<RecordBatch> {
        let rows = side.keys.chunks(BATCH_ROWS).zip(side.payloads.chunks(BATCH_ROWS));
        let batch = |(key, payload): (&[i64], &[i64])| {
            RecordBatch::try_from_iter([("key", keys(key)), ("payload", i64_keys(payload))]).expect("two columns")
        };
        rows.map(batch).collect()
    };
    let (build, probe) = (batches(build), batches(probe));
    let mut rounds: Vec<[Duration; 4]> = Vec::new();
    for _ in 0..ROUNDS {
        let (answer, times) = join(condition, build.clone(), probe.clone(), threads);
        assert_eq!(answer, expected, "{name}");
        rounds.push(times);
    }
    print!("{name:36}");
    for phase in 0..4 {
        let mut times: Vec<Duration> = rounds.iter().map(|times| times[phase]).collect();
        times.sort_unstable();
        print!("{:>10.1}", times[ROUNDS / 2].as_secs_f64() * 1e3);
    }
    println!("{:>12}", expected.0);
}

fn join(
    condition: &MergeCondition,
    build: Vec<RecordBatch>,
    probe: Vec<RecordBatch>,
    threads: usize,
) -> (Answer, [Duration; 4]) {
    let start = Instant::now();
    let join = MergeJoin::try_new(condition, &build[0].schema(), &probe[0].schema()).expect("keys of one type");
    let build = join.prepare_build(build, threads).expect("a build side");
    let build_time = start.elapsed();
    let fragments = join.prepare_probe(probe, FRAGMENT_BYTES, threads).expect("fragments");
    let probe_time = start.elapsed() - build_time;
    let fragments: Vec<(RecordBatch, OnceLock<MergeFragment>)> =
        fragments.into_iter().map(|fragment| (fragment, OnceLock::new())).collect();
    let morsels: Vec<(usize, u32)> = fragments
        .iter()
        .enumerate()
        .flat_map(|(index, (batch, _))| {
            (0..batch.num_rows() as u32).step_by(MORSEL_ROWS as usize).map(move |row| (index, row))
        })
        .collect();
    let next = AtomicU32::new(0);
    let work = || {
        let mut answer = (0, 0);
        while let Some(&(index, start)) = morsels.get(next.fetch_add(1, Relaxed) as usize) {
            let (batch, fragment) = &fragments[index];
            let fragment = fragment.get_or_init(|| join.fragment(batch).expect("a fragment"));
            let mut sum = Sum::new(&build, fragment);
            join.probe(&build, fragment, start..start + MORSEL_ROWS, RequiredPairs::All, &mut sum).expect("pairs");
            answer = (answer.0 + sum.answer.0, answer.1 + sum.answer.1);
        }
        answer
    };
    let answers: Vec<Answer> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker")).collect()
    });
    let total = start.elapsed();
    let answer = answers.into_iter().fold((0, 0), |all, part| (all.0 + part.0, all.1 + part.1));
    (answer, [build_time, probe_time, total - build_time - probe_time, total])
}

struct Sum<'a> {
    build: &'a [i64],
    probe: &'a [i64],
    answer: Answer,
}

impl<'a> Sum<'a> {
    fn new(build: &'a MergeBuild, fragment: &'a MergeFragment) -> Self {
        let payloads = |batch: &'a RecordBatch| batch.column(1).as_primitive::<Int64Type>().values().as_ref();
        Self { build: payloads(build.batch()), probe: payloads(fragment.batch()), answer: (0, 0) }
    }
}

impl PairSink for Sum<'_> {
    fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
        let sums =
            build.iter().zip(probe).map(|(&build, &probe)| self.build[build as usize] + self.probe[probe as usize]);
        self.answer = (self.answer.0 + build.len() as u64, self.answer.1 + sums.sum::<i64>());
        Ok(())
    }
}
