//! The nearest of random vectors: for each of `ROWS` left rows, the 10 nearest of `ROWS` right rows.
//!
//! `cargo bench -p annulus-join --bench vectors [-- ROWS ELEMENTS THREADS]`. Each figure is the best of
//! three runs: in seconds; in 10^9 operations a second, with two operations for each element of each
//! pair; and in 10^9 operations for each second that a thread had a processor, for machines that do
//! other work as well. Some lists are first checked against a loop over all pairs.

use std::{ops::Range, sync::Arc, thread, time::Instant};

use annulus_join::{NearestLists, RightVectors, VectorBlock, VectorMetric, nearest_vectors};
use arrow::{
    array::{Array, ArrayRef, AsArray, FixedSizeListArray, Float32Array},
    compute::cast,
    datatypes::{DataType, Field, Float64Type},
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const K: usize = 10;
const ROUNDS: usize = 3;

fn main() {
    let arguments: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let argument = |place: usize, default| arguments.get(place).copied().unwrap_or(default);
    let (rows, elements, threads) = (argument(0, 10_000), argument(1, 384), argument(2, 2));
    let (left, right) = (random(rows, elements, 1), random(rows, elements, 2));
    println!("{rows} x {rows} x {elements}: {:>24}{:>12}{:>22}", "seconds", "GFLOP/s", "GFLOP/s a processor");
    for threads in 1..=threads {
        for metric in [VectorMetric::InnerProduct, VectorMetric::CosineDistance, VectorMetric::Euclidean] {
            measure([&left, &right], metric, threads);
        }
        let half = DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Float16, true)), elements as i32);
        let [left, right] = [&left, &right].map(|vectors| cast(vectors, &half).expect("floats become smaller ones"));
        measure([&left, &right], VectorMetric::InnerProduct, threads);
    }
    println!("peak memory {} MiB", status("VmHWM:").unwrap_or(0) / 1024);
}

/// Returns vectors of numbers that are nearly normal.
fn random(rows: usize, elements: usize, seed: u64) -> ArrayRef {
    let mut state = seed;
    let mut number = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32
    };
    let values = (0..rows * elements).map(|_| number() + number() + number() + number() - 2.0);
    let values = Arc::new(Float32Array::from_iter_values(values));
    let field = Arc::new(Field::new("item", DataType::Float32, true));
    Arc::new(FixedSizeListArray::new(field, elements as i32, values, None))
}

fn measure(sides: [&ArrayRef; 2], metric: VectorMetric, threads: usize) {
    let rows = sides[0].len();
    let DataType::FixedSizeList(field, elements) = sides[0].data_type() else { unreachable!("made as such") };
    let prepare = |side: &ArrayRef| VectorBlock::try_new(side, metric).expect("vectors");
    let [left, right] = [prepare(sides[0]), prepare(sides[1])];
    let ties = vec![0; rows];
    let some = rows.min(20);
    assert_eq!(nearest(&left, 0..some, &right, &ties), by_loop(sides, some, metric), "the lists are not exact");
    let (mut best, mut best_processor) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        let (start, processor) = (Instant::now(), processor_seconds());
        thread::scope(|scope| {
            for thread in 0..threads {
                let (left, right, ties) = (&left, &right, &ties);
                let rows = thread * rows / threads..(thread + 1) * rows / threads;
                scope.spawn(move || nearest(left, rows, right, ties));
            }
        });
        best = best.min(start.elapsed().as_secs_f64());
        best_processor = best_processor.min(processor_seconds() - processor);
    }
    let operations = 2.0 * (rows * rows) as f64 * f64::from(*elements) / 1e9;
    let name = format!("{metric:?}, {}, {threads} threads", field.data_type());
    println!("{name:44}{best:>8.2}{:>12.1}{:>22.1}", operations / best, operations / best_processor);
}

/// Returns the rows of each list, the nearest first.
fn nearest(left: &VectorBlock, rows: Range<usize>, right: &VectorBlock, ties: &[u64]) -> Vec<u32> {
    let mut lists = NearestLists::new(rows.len(), K);
    let right = RightVectors { block: right, ties, first_row: 0 };
    nearest_vectors(left, rows.clone(), right, &mut lists, &mut || Ok(())).expect("vectors of one length");
    (0..rows.len()).flat_map(|row| lists.sort(row).iter().map(|it| it.row).collect::<Vec<_>>()).collect()
}

/// Returns the rows of the lists of some left rows, by a loop over all pairs.
fn by_loop(sides: [&ArrayRef; 2], some: usize, metric: VectorMetric) -> Vec<u32> {
    let [left, right] = sides.map(|side| {
        let values = cast(side.as_fixed_size_list().values(), &DataType::Float64).expect("floats become larger ones");
        values.as_primitive::<Float64Type>().values().to_vec()
    });
    let elements = left.len() / sides[0].len();
    let (left, right) = (left.chunks(elements).take(some), right.chunks(elements));
    let lists = left.map(|a| {
        let results = right.clone().map(|b| metric.distance_word(scalar(metric, a, b)));
        let mut list: Vec<_> = results.zip(0u32..).collect();
        list.sort_unstable();
        list.truncate(K);
        list
    });
    lists.flatten().map(|(_, row)| row).collect()
}

fn scalar(metric: VectorMetric, a: &[f64], b: &[f64]) -> f64 {
    let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).fold(0.0, |sum, (a, b)| sum + a * b);
    let similarity = || sum(a, b) / (sum(a, a).sqrt() * sum(b, b).sqrt());
    match metric {
        VectorMetric::InnerProduct => sum(a, b),
        VectorMetric::CosineSimilarity => similarity(),
        VectorMetric::CosineDistance => 1.0 - similarity(),
        VectorMetric::Euclidean => a.iter().zip(b).fold(0.0, |sum, (a, b)| sum + (a - b) * (a - b)).sqrt(),
    }
}

/// Returns the seconds that the threads of this process had a processor, in hundredths.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Returns a number of the process's status.
fn status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}
