//! The nearest rows of a million rows by a million, on a line and in the plane, including building the
//! index.
//!
//! `cargo bench -p annulus-join --bench nearest [-- THREADS]`. Each figure is the median of three
//! runs, in milliseconds. Some lists are first checked against all right rows.

use std::{
    thread,
    time::{Duration, Instant},
};

use annulus_join::{JoinError, LineIndex, NearestLists, Neighbour, PlaneFormula, PlaneIndex};
use arrow::array::Float64Array;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 3;
const ROWS: usize = 1 << 20;
const BATCH_ROWS: usize = 1 << 14;
/// The lists that are checked.
const CHECKED: usize = 20;

/// The coordinates of points.
#[derive(Clone)]
struct Points([Float64Array; 2]);

enum Index {
    Line(LineIndex),
    Plane(PlaneIndex),
}

fn main() {
    let threads = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(2);
    println!("{:36}{:>6}{:>10}{:>10}{:>10}{:>10}", "", "k", "build", "search", "total", "MB");
    let uniform = |seed| points(seed, |random| [random(), random()]);
    let sorted = |seed| {
        let mut values = uniform(seed).0[0].values().to_vec();
        values.sort_unstable_by(f64::total_cmp);
        Points([Float64Array::from(values.clone()), Float64Array::from(values)])
    };
    // A thousand towns of all sizes, and a few points far off.
    let towns = |seed| {
        points(seed, |random| {
            let (town, near) = ((random() * random() * 1000.0).floor(), [random() - 0.5, random() - 0.5]);
            let scale = if random() < 1e-5 { 1e12 } else { 1e-4 };
            [(town * 0.618).fract() + near[0] * scale, (town * 0.414).fract() + near[1] * scale]
        })
    };
    let few = |seed| points(seed, |random| [(random() * 100.0).floor(), (random() * 100.0).floor()]);
    let equal = |seed| points(seed, |_| [1.0, 1.0]);
    let build_line =
        |right: &Points, ties: &[u64]| Index::Line(LineIndex::try_new(&right.0[0], ties, 0, threads).expect("values"));
    let build_plane = |right: &Points, ties: &[u64]| {
        let [xs, ys] = &right.0;
        Index::Plane(PlaneIndex::try_new(xs, ys, PlaneFormula::Euclidean, ties, 0, threads).expect("points"))
    };
    for k in [1, 10] {
        measure("line, in random order", &uniform(1), &uniform(2), k, threads, build_line);
        measure("line, in order", &sorted(1), &sorted(2), k, threads, build_line);
        measure("line, 100 values", &few(1), &few(2), k, threads, build_line);
        measure("plane, uniform", &uniform(1), &uniform(2), k, threads, build_plane);
        measure("plane, towns and outliers", &towns(1), &towns(2), k, threads, build_plane);
        measure("plane, 10,000 places", &few(1), &few(2), k, threads, build_plane);
        measure("plane, all points equal", &equal(1), &equal(2), k, threads, build_plane);
    }
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let product = u128::from(*state) * u128::from(0xD6E8_FEB8_6659_FD93_u64);
    (product as u64) ^ (product >> 64) as u64
}

fn points(seed: u64, point: impl Fn(&mut dyn FnMut() -> f64) -> [f64; 2]) -> Points {
    let mut state = seed << 40;
    let mut unit = || (random(&mut state) >> 11) as f64 / (1_u64 << 53) as f64;
    let points: Vec<[f64; 2]> = (0..ROWS).map(|_| point(&mut unit)).collect();
    Points([0, 1].map(|axis| points.iter().map(|point| point[axis]).collect::<Vec<_>>().into()))
}

fn measure(
    name: &str,
    left: &Points,
    right: &Points,
    k: usize,
    threads: usize,
    build: impl Fn(&Points, &[u64]) -> Index,
) {
    let ties: Vec<u64> = (0..ROWS as u64).map(|mut row| random(&mut row)).collect();
    let (mut rounds, mut bytes): (Vec<[Duration; 2]>, _) = (Vec::new(), 0);
    for round in 0..ROUNDS {
        let start = Instant::now();
        let index = build(right, &ties);
        let built = start.elapsed();
        let lists = search(&index, left, k, threads);
        rounds.push([built, start.elapsed() - built]);
        bytes = index.memory_bytes();
        if round == 0 {
            check(name, &index, left, right, &ties, lists);
        }
    }
    let median = |phase: fn(&[Duration; 2]) -> Duration| {
        let mut times: Vec<Duration> = rounds.iter().map(phase).collect();
        times.sort_unstable();
        times[ROUNDS / 2].as_secs_f64() * 1e3
    };
    let (built, searched) = (median(|round| round[0]), median(|round| round[1]));
    let total = median(|round| round[0] + round[1]);
    println!("{name:36}{k:>6}{built:>10.0}{searched:>10.0}{total:>10.0}{:>10.1}", bytes as f64 / 1e6);
}

impl Index {
    fn memory_bytes(&self) -> usize {
        match self {
            Self::Line(index) => index.memory_bytes(),
            Self::Plane(index) => index.memory_bytes(),
        }
    }

    fn nearest(&self, left: &Points, lists: &mut NearestLists<u64>) -> Result<(), JoinError> {
        match self {
            Self::Line(index) => index.nearest(&left.0[0], lists, &mut || Ok(())),
            Self::Plane(index) => index.nearest(&left.0[0], &left.0[1], lists, &mut || Ok(())),
        }
    }
}

/// Returns the lists of all batches.
fn search(index: &Index, left: &Points, k: usize, threads: usize) -> Vec<NearestLists<u64>> {
    let batches: Vec<usize> = (0..ROWS).step_by(BATCH_ROWS).collect();
    let share = batches.len().div_ceil(threads);
    let of_batch = |&start: &usize| {
        let rows = BATCH_ROWS.min(ROWS - start);
        let mut lists = NearestLists::new(rows, k);
        let piece = Points(left.0.each_ref().map(|values| values.slice(start, rows)));
        index.nearest(&piece, &mut lists).expect("the search");
        lists
    };
    thread::scope(|scope| {
        let threads: Vec<_> = batches
            .chunks(share)
            .map(|batches| scope.spawn(move || batches.iter().map(of_batch).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
    })
}

fn check(name: &str, index: &Index, left: &Points, right: &Points, ties: &[u64], mut lists: Vec<NearestLists<u64>>) {
    for row in (0..ROWS).step_by(ROWS / CHECKED) {
        let found = lists[row / BATCH_ROWS].sort(row % BATCH_ROWS);
        let mut expected = NearestLists::new(1, found.len());
        for (other, &tie) in ties.iter().enumerate() {
            let differences = [0, 1].map(|axis| left.0[axis].value(row) - right.0[axis].value(other));
            let distance = match index {
                Index::Line(_) => differences[0].abs(),
                Index::Plane(_) => (differences[0] * differences[0] + differences[1] * differences[1]).sqrt(),
            };
            expected.offer(0, Neighbour { distance: distance.to_bits(), tie, row: other as u32 });
        }
        assert_eq!(found, expected.sort(0), "{name}");
    }
}
