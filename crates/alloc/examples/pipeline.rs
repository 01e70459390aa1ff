//! Passes batches of columns between threads, as queries do, with about 47 MiB in use, and prints the most
//! memory that was resident, and the time on cores. `limit` and `blocks` ask for less memory.

use std::{
    env, fs, hint,
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use annulus_alloc::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

type Batch = Vec<Vec<u8>>;

const THREADS: usize = 4;
const ROUNDS: u64 = 6;
const BATCHES: usize = 1500;
/// The bytes that a consumer collects before it frees them.
const COLLECTED: usize = 12 << 20;

fn main() {
    match env::args().nth(1).as_deref() {
        Some("limit") => annulus_alloc::limit(0),
        Some("blocks") => annulus_alloc::serve_large_blocks(),
        _ => {}
    }
    let most = AtomicU64::new(0);
    for round in 0..ROUNDS {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| sync_channel(2)).unzip();
        thread::scope(|scope| {
            for seed in 1..=THREADS as u64 {
                let senders: Vec<_> = senders.clone();
                scope.spawn(move || produce(&senders, seed + round * 31));
            }
            drop(senders);
            receivers.into_iter().for_each(|batches| drop(scope.spawn(|| consume(batches, &most))));
        });
    }
    let ticks = fs::read_to_string("/proc/self/stat").expect("Linux");
    let ticks: u64 = ticks.split(' ').skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    println!("at most {} MiB resident, {} ms on cores", most.into_inner() >> 10, ticks * 10);
}

fn produce(consumers: &[SyncSender<Batch>], mut random: u64) {
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for _ in 0..BATCHES {
        let rows = 1000 + next(8000) as usize;
        let widths = [1, 4, 8, 8, 16, 1 + next(60) as usize];
        let batch = widths.map(|width| column(rows * width)).into();
        let plan: Vec<_> = (0..200).map(|number| Box::new([number; 12])).collect();
        hint::black_box(&plan);
        consumers[next(THREADS as u64) as usize].send(batch).expect("a consumer takes all batches");
    }
}

/// Returns a column that has grown, as builders let it.
fn column(bytes: usize) -> Vec<u8> {
    let mut column = Vec::new();
    while column.len() < bytes {
        column.resize((2 * column.len()).clamp(1024.min(bytes), bytes), 1);
    }
    column
}

fn consume(batches: Receiver<Batch>, most: &AtomicU64) {
    let (mut collected, mut bytes) = (Vec::new(), 0);
    for (batch, number) in batches.into_iter().zip(1_u64..) {
        bytes += batch.iter().map(Vec::len).sum::<usize>();
        collected.push(batch);
        if number % 200 == 0 {
            most.fetch_max(resident_kib(), Relaxed);
        }
        if bytes > COLLECTED {
            collected.clear();
            bytes = 0;
        }
    }
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).expect("a number")
}
