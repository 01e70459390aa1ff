//! The overflow of the batch strategy: producers hand rows over at the same time, and while the
//! overflow runs other producers. A spill that waits for itself hangs its test.
#![cfg(not(loom))]

use std::{
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use annulus_exchange::{Consumer, Delivery, ExchangeConfig, Overflow, Producer, SpilledBatch, StopError, exchange};
use annulus_transports::Rival;
use arrow::{
    array::{AsArray, Int64Array, RecordBatch},
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
};

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, false)]))
}

/// Sends these keys, each to the consumer of its remainder.
fn send(producer: &mut Producer, keys: Range<i64>) -> Result<(), String> {
    let hashes: Vec<u64> = keys.clone().map(|key| key as u64).collect();
    let batch = RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from_iter_values(keys))]).unwrap();
    producer.send_hashed(batch, &hashes).map_err(|refused| refused.error.to_string())
}

/// Returns the keys of a consumer as they come.
fn drain(consumer: &mut Consumer) -> Vec<i64> {
    let mut keys = Vec::new();
    while let Some(delivery) = consumer.recv_blocking() {
        let batch = match delivery.unwrap() {
            Delivery::Batch(batch) => batch,
            Delivery::Spilled(spilled) => *spilled.0.downcast().unwrap(),
        };
        keys.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
    }
    keys
}

/// No memory, and a disk in memory. The first spill runs another producer.
#[derive(Default)]
struct Inline {
    other: Mutex<Option<Producer>>,
    spills: AtomicUsize,
}

impl Overflow for Inline {
    fn try_reserve(&self, _: usize) -> bool {
        false
    }
    fn release(&self, _: usize) {}
    fn spill(&self, _: usize, batch: RecordBatch) -> Result<SpilledBatch, StopError> {
        self.spills.fetch_add(1, SeqCst);
        let other = self.other.lock().unwrap().take();
        if let Some(mut other) = other {
            send(&mut other, 100..107).unwrap();
            other.finish();
        }
        Ok(SpilledBatch(Box::new(batch)))
    }
}

fn config(producers: usize, consumers: usize) -> ExchangeConfig {
    ExchangeConfig::new(producers, consumers).with_batch_rows(2).with_strategy(Rival::Batch.strategy())
}

#[test]
fn a_spill_may_run_another_producer() {
    let overflow = Arc::new(Inline::default());
    let (mut producers, mut consumers) = exchange(&config(2, 1), schema(), Arc::clone(&overflow) as _).unwrap();
    *overflow.other.lock().unwrap() = producers.pop();
    let mut producer = producers.pop().unwrap();
    send(&mut producer, 0..5).unwrap();
    send(&mut producer, 5..9).unwrap();
    producer.finish();
    let keys = drain(&mut consumers[0]);
    let (own, other): (Vec<i64>, Vec<i64>) = keys.into_iter().partition(|key| *key < 100);
    assert_eq!(own, (0..9).collect::<Vec<_>>());
    assert_eq!(other, (100..107).collect::<Vec<_>>());
}

#[test]
fn producers_that_spill_at_once_keep_the_order_of_each() {
    let (producers, consumers) = exchange(&config(4, 3), schema(), Arc::new(Inline::default())).unwrap();
    thread::scope(|scope| {
        for (first, mut producer) in (0..).step_by(10_000).zip(producers) {
            scope.spawn(move || {
                for start in (first..first + 1000).step_by(10) {
                    send(&mut producer, start..start + 10).unwrap();
                }
                producer.finish();
            });
        }
    });
    for (remainder, mut consumer) in (0..).zip(consumers) {
        let mut keys = drain(&mut consumer);
        // Stable: the keys of a producer keep their order.
        keys.sort_by_key(|key| key / 10_000);
        let sent = (0..4).flat_map(|producer| producer * 10_000..producer * 10_000 + 1000);
        assert_eq!(keys, sent.filter(|key| key % 3 == remainder).collect::<Vec<_>>());
    }
}

#[test]
fn a_producer_that_spills_sees_a_stop() {
    let overflow = Arc::new(Inline::default());
    let (mut producers, consumers) = exchange(&config(2, 3), schema(), Arc::clone(&overflow) as _).unwrap();
    let mut producer = producers.remove(0);
    send(&mut producer, 0..6).unwrap();
    producers.remove(0).fail(Box::<dyn std::error::Error + Send + Sync>::from("no network").into());
    let spills = overflow.spills.load(SeqCst);
    let refused = send(&mut producer, 6..12).expect_err("the exchange is stopped");
    assert!(refused.contains("no network"), "{refused}");
    assert_eq!(overflow.spills.load(SeqCst), spills, "nothing more is spilled");

    // The same for consumers that went away.
    let (mut producers, gone) = exchange(&config(1, 3), schema(), overflow).unwrap();
    send(&mut producers[0], 0..6).unwrap();
    drop((consumers, gone));
    assert!(send(&mut producers[0], 6..12).is_err());
}

/// A disk that is full, and no memory.
struct Full;

impl Overflow for Full {
    fn try_reserve(&self, _: usize) -> bool {
        false
    }
    fn release(&self, _: usize) {}
    fn spill(&self, _: usize, _: RecordBatch) -> Result<SpilledBatch, StopError> {
        Err(Box::<dyn std::error::Error + Send + Sync>::from("the disk is full").into())
    }
}

#[test]
fn a_full_disk_is_the_error_of_every_handle() {
    let (mut producers, mut consumers) = exchange(&config(1, 2), schema(), Arc::new(Full)).unwrap();
    let refused = send(&mut producers[0], 0..100).expect_err("the disk is full");
    assert!(refused.contains("the disk is full"), "{refused}");
    drop(producers);
    let error = consumers[1].recv_blocking().unwrap().unwrap_err();
    assert!(error.to_string().contains("the disk is full"), "{error}");
}
