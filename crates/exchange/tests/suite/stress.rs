//! Many seeded schedules of the whole exchange on real threads, with small and odd shapes, on every
//! path. A run ends by itself or the test hangs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use annulus_exchange::{
    Consumer, DataPath, Delivery, ExchangeConfig, ExchangeError, Overflow, Producer, SpilledBatch, StopError, Strategy,
    exchange,
};
use arrow::{
    array::{AsArray, Int64Array, RecordBatch, StringViewArray},
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::strategies;

/// One schedule: its shape, and its faults.
#[derive(Clone, Debug)]
struct Schedule {
    seed: u64,
    config: ExchangeConfig,
    batches: usize,
    /// The number of bytes that may be reserved.
    budget: usize,
    /// Whether one thread drains the consumers one after another, instead of one thread each.
    in_turn: bool,
    /// The chances in 1000, per call: that a consumer is dropped, that a handle fails or a producer
    /// is lost, and that a disk is full.
    leave: u32,
    fail: u32,
    full: u32,
}

impl Schedule {
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let strategy = strategies::for_schedule(seed);
        let path = [DataPath::Auto, DataPath::Gather, DataPath::Cluster][random.random_range(0..3)];
        let path = if strategy == Strategy::Reserve { DataPath::Auto } else { path };
        let config = ExchangeConfig::new(random.random_range(1..4), random.random_range(1..5))
            .with_batch_rows(random.random_range(1..20))
            .with_groups(random.random_range(1..3))
            .with_slots(random.random_range(0..3))
            .with_overflow_bytes([0, 2000, usize::MAX][random.random_range(0..3)])
            .with_domains(random.random_range(1..4))
            .with_strategy(strategy)
            .with_path(path);
        let mut chance = |most: u32| if random.random_bool(0.3) { random.random_range(0..most) } else { 0 };
        let (leave, fail, full) = (chance(60), chance(20), chance(300));
        let budget = [0, 3000, 30_000, usize::MAX][random.random_range(0..4)];
        let (in_turn, batches) = (random.random_bool(0.2), random.random_range(0..25));
        Self { seed, config, batches, budget, in_turn, leave, fail, full }
    }

    fn random(&self, stream: u64) -> StdRng {
        StdRng::seed_from_u64(self.seed.wrapping_mul(1000).wrapping_add(stream + 1))
    }
}

/// The end of a handle's thread.
#[derive(Debug, PartialEq)]
enum End {
    Finished,
    Left,
    Failed,
}

/// A budget, and a disk in memory that is full after some number of spills.
struct Budget {
    limit: usize,
    used: AtomicUsize,
    spills_left: AtomicUsize,
}

impl Overflow for Budget {
    fn try_reserve(&self, bytes: usize) -> bool {
        let grow = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, grow).is_ok()
    }
    fn release(&self, bytes: usize) {
        assert!(self.used.fetch_sub(bytes, Ordering::SeqCst) >= bytes, "more was released than reserved");
    }
    fn spill(&self, _: usize, batch: RecordBatch) -> Result<SpilledBatch, StopError> {
        let take = |left: usize| left.checked_sub(1);
        match self.spills_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
            Ok(_) => Ok(SpilledBatch(Box::new(batch))),
            Err(_) => Err(stop_error("the disk is full")),
        }
    }
}

fn stop_error(text: &str) -> StopError {
    Box::<dyn std::error::Error + Send + Sync>::from(text).into()
}

fn schema() -> SchemaRef {
    let fields = [("key", DataType::Int64, false), ("text", DataType::Utf8View, true)];
    Arc::new(Schema::new(fields.map(|(name, kind, nullable)| Field::new(name, kind, nullable)).to_vec()))
}

fn text(key: i64) -> Option<String> {
    (key % 4 != 0).then(|| format!("{key}{}", "-".repeat((key % 19) as usize)))
}

fn batch(keys: std::ops::Range<i64>) -> (RecordBatch, Vec<u64>) {
    let texts: StringViewArray = keys.clone().map(text).collect();
    let hashes = keys.clone().map(|key| key as u64).collect();
    let keys = Int64Array::from_iter_values(keys);
    (RecordBatch::try_new(schema(), vec![Arc::new(keys), Arc::new(texts)]).unwrap(), hashes)
}

/// Returns the first key of a producer; its keys are consecutive, within its own million.
fn first_key(producer: usize) -> i64 {
    producer as i64 * 1_000_000
}

fn produce(mut producer: Producer, index: usize, schedule: &Schedule) -> (End, i64) {
    let mut random = schedule.random(index as u64);
    let mut next = first_key(index);
    for _ in 0..schedule.batches {
        if random.random_range(0..1000) < schedule.fail {
            match random.random_bool(0.5) {
                true => producer.fail(stop_error("a producer failed")),
                false => drop(producer),
            }
            return (End::Failed, next);
        }
        if random.random_bool(0.2) {
            producer.idle();
            thread::yield_now();
        }
        let (rows, hashes) = batch(next..next + random.random_range(0..40));
        next += hashes.len() as i64;
        match producer.send_blocking(rows, &hashes) {
            Ok(()) => {}
            Err(refused) if matches!(refused.error, ExchangeError::ConsumersGone) => {
                producer.finish();
                return (End::Left, next);
            }
            Err(_) => return (End::Failed, next),
        }
    }
    if random.random_bool(0.3) {
        producer.idle();
    }
    producer.finish();
    (End::Finished, next)
}

fn consume(mut consumer: Consumer, index: usize, schedule: &Schedule) -> (End, Vec<i64>) {
    let mut random = schedule.random(100 + index as u64);
    let mut keys = Vec::new();
    loop {
        if random.random_range(0..1000) < schedule.leave {
            return (End::Left, keys);
        }
        if random.random_range(0..1000) < schedule.fail {
            consumer.fail(stop_error("a consumer failed"));
            return (End::Failed, keys);
        }
        if index == 0 {
            thread::yield_now();
        }
        match consumer.recv_blocking() {
            None => return (End::Finished, keys),
            Some(Err(_)) => {
                assert!(consumer.recv_blocking().is_none(), "the end follows the error");
                return (End::Failed, keys);
            }
            Some(Ok(Delivery::Batch(batch))) => collect(&batch, &mut keys),
            Some(Ok(Delivery::Spilled(spilled))) => collect(spilled.0.downcast_ref().unwrap(), &mut keys),
        }
    }
}

fn collect(batch: &RecordBatch, keys: &mut Vec<i64>) {
    let texts = batch.column(1).as_string_view();
    for (key, found) in batch.column(0).as_primitive::<Int64Type>().values().iter().zip(texts) {
        assert_eq!(found, text(*key).as_deref());
        keys.push(*key);
    }
}

fn run(schedule: &Schedule) {
    let budget = Arc::new(Budget {
        limit: schedule.budget,
        used: AtomicUsize::new(0),
        spills_left: AtomicUsize::new(if schedule.full > 0 { schedule.full as usize } else { usize::MAX }),
    });
    let (producers, consumers) = exchange(&schedule.config, schema(), Arc::clone(&budget) as _).unwrap();
    let (sent, received) = thread::scope(|scope| {
        let producers = producers.into_iter().enumerate();
        let producers: Vec<_> =
            producers.map(|(index, producer)| scope.spawn(move || produce(producer, index, schedule))).collect();
        let consumers = consumers.into_iter().enumerate();
        let received: Vec<_> = if schedule.in_turn {
            consumers.map(|(index, consumer)| consume(consumer, index, schedule)).collect()
        } else {
            let threads = consumers.map(|(index, consumer)| scope.spawn(move || consume(consumer, index, schedule)));
            threads.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect()
        };
        (producers.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>(), received)
    });
    check(schedule, &sent, received);
    assert_eq!(budget.used.load(Ordering::SeqCst), 0, "reserved bytes remain");
}

fn check(schedule: &Schedule, sent: &[(End, i64)], received: Vec<(End, Vec<i64>)>) {
    let consumers = schedule.config.consumers as i64;
    let failed = |end: &End| *end == End::Failed;
    let healthy = !sent.iter().any(|(end, _)| failed(end)) && !received.iter().any(|(end, _)| failed(end));
    assert!(healthy || schedule.fail + schedule.full > 0);
    for (index, (end, mut keys)) in received.into_iter().enumerate() {
        if sent.len() == 1 {
            assert!(keys.is_sorted(), "the rows of a single producer keep their order");
        }
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "no row arrives twice");
        assert!(keys.iter().all(|key| key % consumers == index as i64));
        if end == End::Finished {
            let sent = sent.iter().enumerate().flat_map(|(producer, (_, next))| first_key(producer)..*next);
            assert_eq!(keys, sent.filter(|key| key % consumers == index as i64).collect::<Vec<_>>());
        }
    }
}

#[test]
fn every_key_once_or_an_error() {
    for seed in 0..strategies::SCHEDULES {
        let schedule = Schedule::new(seed);
        let outcome = std::panic::catch_unwind(|| run(&schedule));
        assert!(outcome.is_ok(), "{schedule:?}");
    }
}
