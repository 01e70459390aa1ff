//! Many seeded schedules of the ring on real threads, with small and odd shapes. A run ends by
//! itself or the test hangs.
#![cfg(not(loom))]

use std::{
    collections::VecDeque,
    ops::ControlFlow,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use annulus_exchange::{
    ExchangeError,
    ring::{HandOver, Next, RingConfig, RingConsumer, RingProducer, TrySendError, ring},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// A value that counts how many values of its kind are alive.
#[derive(Debug)]
struct Item {
    producer: usize,
    number: u64,
    alive: Arc<AtomicUsize>,
}

impl Item {
    fn new(producer: usize, number: u64, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self { producer, number, alive: Arc::clone(alive) }
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

type Seen = Vec<(usize, u64)>;
type Overflow = Vec<Mutex<VecDeque<(usize, u64)>>>;

struct Random(StdRng);

impl Random {
    fn new(seed: u64, stream: u64) -> Self {
        Self(StdRng::seed_from_u64(seed * 10_000 + stream))
    }
    /// Returns a number from 0 to `limit` - 1.
    fn below(&mut self, limit: usize) -> usize {
        self.0.random_range(0..limit)
    }
}

/// One schedule: its shape, and its faults.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    seed: u64,
    config: RingConfig,
    items: u64,
    /// The chance in 1000, per call, that a consumer is dropped; the same for a handle that stops
    /// the ring.
    leave: usize,
    stop: usize,
    /// Consumers below this index yield after each call.
    slow: usize,
}

/// The end of a handle's thread.
#[derive(Debug)]
enum End {
    Finished(Seen),
    Left,
    Failed(ExchangeError),
}

fn hand_over(overflow: &Overflow) -> impl FnMut(usize, &mut HandOver<'_, Item>) -> Result<(), ExchangeError> {
    |consumer, items| {
        let mut overflow = overflow[consumer].lock().unwrap();
        items.try_for_each(|item| {
            overflow.push_back((item.producer, item.number));
            Ok(())
        })
    }
}

fn produce(
    mut producer: RingProducer<Item>,
    schedule: Schedule,
    overflow: &Overflow,
    alive: &Arc<AtomicUsize>,
) -> Option<ExchangeError> {
    let index = producer.index();
    let mut random = Random::new(schedule.seed, index as u64);
    for number in 0..schedule.items {
        if random.below(1000) < schedule.stop {
            producer.stop(Box::<dyn std::error::Error + Send + Sync>::from("by a producer").into());
        }
        if random.below(4) == 0 {
            producer.idle();
            thread::yield_now();
        }
        let mut item = Item::new(index, number, alive);
        if random.below(3) == 0 {
            item = match producer.try_send(item) {
                Ok(()) => continue,
                Err(TrySendError::Full(back)) => back,
                Err(TrySendError::Closed(closed)) => return Some(closed.error),
            };
        }
        if let Err(back) = producer.send(item, hand_over(overflow)) {
            assert_eq!((back.value.producer, back.value.number), (index, number));
            return Some(back.error);
        }
    }
    let stats = producer.finish();
    assert_eq!(stats.batches, schedule.items);
    None
}

fn consume(mut consumer: RingConsumer<Item>, schedule: Schedule, overflow: &Overflow) -> End {
    let index = consumer.index();
    let mut random = Random::new(schedule.seed, 1000 + index as u64);
    let mut seen = Vec::new();
    loop {
        if random.below(1000) < schedule.leave {
            return End::Left;
        }
        if random.below(1000) < schedule.stop {
            consumer.stop(Box::<dyn std::error::Error + Send + Sync>::from("by a consumer").into());
        }
        let most = 1 + random.below(4);
        let mut visited = 0;
        let next = consumer.next(|item| {
            seen.push((item.producer, item.number));
            visited += 1;
            if visited < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        match next {
            Ok(Next::Visited(count)) => assert_eq!(count, visited),
            Ok(Next::Relieved) => seen.extend(overflow[index].lock().unwrap().drain(..)),
            Ok(Next::Finished) => return End::Finished(seen),
            Err(error) => return End::Failed(error),
        }
        for _ in 0..if index < schedule.slow { 20 } else { 0 } {
            thread::yield_now();
        }
    }
}

/// Checks that every item was seen once, and each producer's items in order.
fn check_complete(schedule: Schedule, seen: &Seen) {
    let mut expected = vec![0; schedule.config.producers];
    for &(producer, number) in seen {
        assert_eq!(number, expected[producer], "of producer {producer} in {schedule:?}");
        expected[producer] += 1;
    }
    assert_eq!(expected, vec![schedule.items; schedule.config.producers], "{schedule:?}");
}

fn run(schedule: Schedule) -> (Vec<Option<ExchangeError>>, Vec<End>) {
    let alive = Arc::new(AtomicUsize::new(0));
    let overflow: Overflow = (0..schedule.config.consumers).map(|_| Mutex::default()).collect();
    let (producers, consumers) = ring(schedule.config);
    let (overflow, alive_items) = (&overflow, &alive);
    let outcome = thread::scope(|scope| {
        let producers: Vec<_> = producers
            .into_iter()
            .map(|producer| scope.spawn(move || produce(producer, schedule, overflow, alive_items)))
            .collect();
        let consumers: Vec<_> =
            consumers.into_iter().map(|consumer| scope.spawn(move || consume(consumer, schedule, overflow))).collect();
        let errors = producers.into_iter().map(|thread| thread.join().unwrap()).collect();
        (errors, consumers.into_iter().map(|thread| thread.join().unwrap()).collect())
    });
    assert_eq!(alive.load(Ordering::Relaxed), 0, "values outlive the ring in {schedule:?}");
    outcome
}

fn shape(random: &mut Random) -> RingConfig {
    RingConfig::new(1 + random.below(4), 1 + random.below(4))
        .with_groups(1 + random.below(3))
        .with_slots(1 + random.below(4))
}

#[test]
fn every_item_reaches_every_consumer_once_in_order() {
    for seed in 0..150 {
        let config = shape(&mut Random::new(seed, 99));
        let schedule = Schedule { seed, config, items: 60, leave: 0, stop: 0, slow: 0 };
        let (errors, ends) = run(schedule);
        assert!(errors.iter().all(Option::is_none), "{errors:?} in {schedule:?}");
        for end in ends {
            let End::Finished(seen) = end else { panic!("{end:?} in {schedule:?}") };
            check_complete(schedule, &seen);
        }
    }
}

#[test]
fn slow_consumers_are_relieved() {
    for seed in 0..100 {
        let config = shape(&mut Random::new(seed, 98));
        let schedule = Schedule { seed, config, items: 60, leave: 0, stop: 0, slow: config.consumers / 2 };
        for end in run(schedule).1 {
            let End::Finished(seen) = end else { panic!("{end:?} in {schedule:?}") };
            check_complete(schedule, &seen);
        }
    }
}

#[test]
fn consumers_that_leave_hold_nobody_up() {
    for seed in 0..150 {
        let config = shape(&mut Random::new(seed, 97));
        let schedule = Schedule { seed, config, items: 60, leave: 30, stop: 0, slow: config.consumers / 3 };
        let (errors, ends) = run(schedule);
        let all_left = ends.iter().all(|end| matches!(end, End::Left));
        for end in ends {
            match end {
                End::Finished(seen) => check_complete(schedule, &seen),
                End::Left => {}
                // A producer with this error goes away without `finish`, which has no further effect.
                End::Failed(error) => panic!("{error} in {schedule:?}"),
            }
        }
        for error in errors.into_iter().flatten() {
            assert!(all_left && matches!(error, ExchangeError::ConsumersGone), "{error} in {schedule:?}");
        }
    }
}

#[test]
fn a_stop_reaches_everybody_with_the_first_error() {
    for seed in 0..200 {
        let config = shape(&mut Random::new(seed, 96));
        let schedule = Schedule { seed, config, items: 100, leave: 3, stop: 5, slow: 1 };
        let (errors, ends) = run(schedule);
        let mut first = None;
        let failed = ends.into_iter().filter_map(|end| if let End::Failed(error) = end { Some(error) } else { None });
        for error in errors.into_iter().flatten().chain(failed) {
            if matches!(error, ExchangeError::ConsumersGone) {
                continue;
            }
            let text = error.to_string();
            assert_eq!(first.get_or_insert_with(|| text.clone()), &text, "{schedule:?}");
        }
    }
}
