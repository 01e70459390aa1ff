//! The paper's tuples (an i32 key, an i64 payload) through the hash join on one host: its phases'
//! seconds, after the answer is checked against one that is computed without it.
//!
//! `cargo run --release -p annulus-join --example hash_join -- [million rows of each side]
//! [threads] [rounds] [partitions]`

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use annulus_join::{
    error::JoinError,
    hash::{BuildSide, Fragment, FragmentFormat, HashConfig, Morsel, Partitions},
    key::Keys,
    sink::PairSink,
};
use arrow::{
    array::{AsArray, Int32Array, Int64Array, RecordBatch},
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
};

/// Bytes of a fragment.
const FRAGMENT_BYTES: usize = 8 << 20;
const BATCH_ROWS: usize = 1 << 20;

/// Matches, and the sum of both payloads of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answer {
    matches: u64,
    sum: i64,
}

struct Sum<'a> {
    build: &'a [i64],
    probe: &'a [i64],
    answer: Answer,
}

impl PairSink for Sum<'_> {
    fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
        self.answer.matches += build.len() as u64;
        let mut sum = 0i64;
        for (&b, &p) in build.iter().zip(probe) {
            sum = sum.wrapping_add(self.build[b as usize]).wrapping_add(self.probe[p as usize]);
        }
        self.answer.sum = self.answer.sum.wrapping_add(sum);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<usize>());
    let mut next = |default| args.next().unwrap_or(Ok(default));
    let (rows, threads, rounds) = (next(20)? * 1_000_000, next(2)?, next(5)?);
    let partitions = match next(0)? {
        0 => Partitions::for_rows(rows),
        partitions => Partitions::at_least(partitions),
    };
    let (build, probe) = (side(rows, 1), side(rows, 2));
    let expected = expected(rows, &build, &probe);
    println!("{rows} rows a side, {} partitions, {threads} threads, {} matches", partitions.count(), expected.matches);
    let mut seconds = Vec::new();
    for _ in 0..rounds {
        seconds.push(round(&build, &probe, partitions, threads, expected)?);
    }
    for (phase, name) in ["prepare build", "prepare probe", "probe", "total"].iter().enumerate() {
        let mut of_phase: Vec<f64> = seconds.iter().map(|seconds| seconds[phase]).collect();
        of_phase.sort_by(f64::total_cmp);
        println!(
            "{name:>14} {:.3} s (median of {rounds}, from {:.3} to {:.3})",
            of_phase[rounds / 2],
            of_phase[0],
            of_phase[rounds - 1]
        );
    }
    Ok(())
}

/// Seconds of the phases, and of all.
fn round(
    build: &[RecordBatch],
    probe: &[RecordBatch],
    partitions: Partitions,
    threads: usize,
    expected: Answer,
) -> Result<[f64; 4], Box<dyn Error>> {
    let keys = || Keys::new(&schema(), &[0], false);
    let start = Instant::now();
    let build = BuildSide::prepare(keys()?, build.to_vec(), &HashConfig { partitions, threads })?;
    let built = start.elapsed();
    let format = Arc::new(FragmentFormat::new(keys()?, partitions)?);
    let fragments = Fragment::prepare(&format, probe.to_vec(), threads, FRAGMENT_BYTES)?;
    let prepared = start.elapsed();
    let answer = join(&build, &fragments, threads)?;
    let end = start.elapsed();
    assert_eq!(answer, expected);
    Ok([built, prepared - built, end - prepared, end].map(|time| time.as_secs_f64()))
}

fn join(build: &BuildSide, fragments: &[Fragment], threads: usize) -> Result<Answer, JoinError> {
    let morsels: Vec<(&Fragment, Morsel)> = fragments
        .iter()
        .flat_map(|fragment| fragment.morsels(threads).into_iter().map(move |morsel| (fragment, morsel)))
        .collect();
    let next = AtomicUsize::new(0);
    let run = || {
        let mut answer = Answer::default();
        while let Some((fragment, morsel)) = morsels.get(next.fetch_add(1, Relaxed)) {
            let mut sink = Sum { build: payloads(build.batch()), probe: payloads(fragment.batch()), answer };
            build.probe(fragment, morsel, &mut sink)?;
            answer = sink.answer;
        }
        Ok(answer)
    };
    let answers: Vec<Result<Answer, JoinError>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    answers.into_iter().try_fold(Answer::default(), |all, answer| {
        let answer = answer?;
        Ok(Answer { matches: all.matches + answer.matches, sum: all.sum.wrapping_add(answer.sum) })
    })
}

fn payloads(batch: &RecordBatch) -> &[i64] {
    batch.column(1).as_primitive::<Int64Type>().values()
}

fn schema() -> SchemaRef {
    let fields = vec![Field::new("key", DataType::Int32, false), Field::new("payload", DataType::Int64, false)];
    Arc::new(Schema::new(fields))
}

/// Keys are uniform over as many values as there are rows.
fn side(rows: usize, seed: u64) -> Vec<RecordBatch> {
    let schema = schema();
    let batch = |start: usize| {
        let numbers = start..rows.min(start + BATCH_ROWS);
        let keys: Int32Array = numbers.clone().map(|n| (random(seed << 32 | n as u64) % rows as u64) as i32).collect();
        let payloads: Int64Array = numbers.map(|n| random((seed + 2) << 32 | n as u64) as i64).collect();
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(keys), Arc::new(payloads)])
            .expect("the schema's columns")
    };
    (0..rows).step_by(BATCH_ROWS).map(batch).collect()
}

/// The answer from rows and sums of each key.
fn expected(rows: usize, build: &[RecordBatch], probe: &[RecordBatch]) -> Answer {
    let per_key = |side: &[RecordBatch]| {
        let mut sums = vec![(0u64, 0i64); rows];
        for batch in side {
            let keys = batch.column(0).as_primitive::<arrow::datatypes::Int32Type>().values();
            for (&key, &payload) in keys.iter().zip(payloads(batch)) {
                let sum = &mut sums[key as usize];
                *sum = (sum.0 + 1, sum.1.wrapping_add(payload));
            }
        }
        sums
    };
    per_key(build).into_iter().zip(per_key(probe)).fold(Answer::default(), |all, (b, p)| Answer {
        matches: all.matches + b.0 * p.0,
        sum: all.sum.wrapping_add(b.1.wrapping_mul(p.0 as i64)).wrapping_add(p.1.wrapping_mul(b.0 as i64)),
    })
}

/// SplitMix64's output function.
fn random(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}
