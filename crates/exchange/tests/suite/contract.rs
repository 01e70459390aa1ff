//! The promises of an exchange, with threads.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
};

use annulus_exchange::{
    Admission, Consumer, Delivery, ExchangeConfig, ExchangeError, Overflow, Producer, RowsError, SpilledBatch,
    StopError, Strategy, exchange,
};
use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringViewArray},
    buffer::Buffer,
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
};

use super::{Way, ways};

/// Those that deliver rows before every producer has finished.
fn streaming() -> impl Iterator<Item = Way> {
    ways().filter(|(strategy, _)| !strategy.keeps_all())
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, false),
        Field::new("flag", DataType::Boolean, true),
        Field::new("text", DataType::Utf8View, true),
    ]))
}

fn text(key: i64) -> Option<String> {
    (key % 5 != 0).then(|| format!("{key}{}", "-".repeat((key % 23) as usize)))
}

fn flag(key: i64) -> Option<bool> {
    (key % 3 != 0).then_some(key % 2 == 0)
}

fn batch(keys: impl Iterator<Item = i64>) -> RecordBatch {
    let keys: Vec<i64> = keys.collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(keys.clone())),
        Arc::new(keys.iter().map(|key| flag(*key)).collect::<BooleanArray>()),
        Arc::new(keys.iter().map(|key| text(*key)).collect::<StringViewArray>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn hash(key: i64) -> u64 {
    (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)
}

/// Sends the first `batches` batches of a producer: 1 to 300 rows each, with keys that no other
/// batch has.
fn send_all(mut producer: Producer, producer_index: usize, batches: usize) {
    for number in 0..batches {
        let first = ((producer_index * batches + number) * 1000) as i64;
        let rows = 1 + (hash(first) % 300) as i64;
        let hashes: Vec<u64> = (first..first + rows).map(hash).collect();
        producer.send_blocking(batch(first..first + rows), &hashes).unwrap();
        if number % 7 == 3 {
            producer.idle();
        }
    }
    producer.finish();
}

fn expected(producers: usize, batches: usize) -> usize {
    (0..producers * batches).map(|number| 1 + (hash(number as i64 * 1000) % 300) as usize).sum()
}

/// Checks every value of a delivered batch and counts its keys.
fn check(batch: &RecordBatch, consumer: usize, consumers: usize, keys: &mut HashMap<i64, usize>) {
    let flags = batch.column(1).as_boolean();
    let texts = batch.column(2).as_string_view();
    for (row, key) in batch.column(0).as_primitive::<Int64Type>().values().iter().enumerate() {
        assert_eq!((hash(*key) % consumers as u64) as usize, consumer);
        assert_eq!(flags.is_valid(row).then(|| flags.value(row)), flag(*key));
        assert_eq!(texts.is_valid(row).then(|| texts.value(row).to_string()), text(*key));
        *keys.entry(*key).or_default() += 1;
    }
}

/// A budget, and a disk in memory.
#[derive(Default)]
struct Budget {
    limit: usize,
    used: AtomicUsize,
    peak: AtomicUsize,
    spilled_rows: Mutex<HashMap<usize, usize>>,
}

impl Budget {
    fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, ..Self::default() })
    }
}

impl Overflow for Budget {
    fn try_reserve(&self, bytes: usize) -> bool {
        let grow = |used: usize| (used + bytes <= self.limit).then_some(used + bytes);
        let granted = self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, grow).is_ok();
        self.peak.fetch_max(self.used.load(Ordering::SeqCst), Ordering::SeqCst);
        granted
    }
    fn release(&self, bytes: usize) {
        assert!(self.used.fetch_sub(bytes, Ordering::SeqCst) >= bytes, "more was released than reserved");
    }
    fn spill(&self, consumer: usize, batch: RecordBatch) -> Result<SpilledBatch, StopError> {
        *self.spilled_rows.lock().unwrap().entry(consumer).or_default() += batch.num_rows();
        Ok(SpilledBatch(Box::new(batch)))
    }
}

fn rows_of(delivery: Delivery) -> RecordBatch {
    match delivery {
        Delivery::Batch(batch) => batch,
        Delivery::Spilled(spilled) => *spilled.0.downcast().expect("what this test spilled"),
    }
}

fn drain(mut consumer: Consumer, index: usize, consumers: usize) -> HashMap<i64, usize> {
    let mut keys = HashMap::new();
    while let Some(delivery) = consumer.recv_blocking() {
        check(&rows_of(delivery.unwrap()), index, consumers, &mut keys);
    }
    assert!(consumer.recv_blocking().is_none(), "the end is final");
    keys
}

/// Reads until the error that ended the exchange, after which there is nothing.
fn error_of(mut consumer: Consumer) -> ExchangeError {
    let error = std::iter::from_fn(|| consumer.recv_blocking()).find_map(Result::err).expect("an end with an error");
    assert!(consumer.recv_blocking().is_none());
    error
}

fn config((strategy, path): Way, producers: usize, consumers: usize) -> ExchangeConfig {
    let config = ExchangeConfig::new(producers, consumers).with_batch_rows(100).with_domains(2);
    config.with_strategy(strategy).with_path(path)
}

#[test]
fn every_row_arrives_once_at_its_consumer() {
    for way in ways() {
        for (producers, consumers) in [(1, 1), (2, 3), (3, 2), (1, 40), (4, 16)] {
            let budget = Budget::new(usize::MAX);
            let handles = exchange(&config(way, producers, consumers), schema(), Arc::clone(&budget) as _).unwrap();
            let mut keys = HashMap::new();
            thread::scope(|scope| {
                for (index, producer) in handles.0.into_iter().enumerate() {
                    scope.spawn(move || send_all(producer, index, 60));
                }
                let drains = handles.1.into_iter().enumerate();
                let drains: Vec<_> =
                    drains.map(|(index, consumer)| scope.spawn(move || drain(consumer, index, consumers))).collect();
                keys.extend(drains.into_iter().flat_map(|drain| drain.join().unwrap()));
            });
            assert_eq!(keys.len(), expected(producers, 60), "{way:?} {producers} {consumers}");
            assert!(keys.values().all(|count| *count == 1));
            assert_eq!(budget.used.load(Ordering::SeqCst), 0, "{way:?}: everything reserved is released");
        }
    }
}

#[test]
fn one_producer_keeps_the_order() {
    for way in ways() {
        let (producers, consumers) = exchange(&config(way, 1, 3), schema(), Budget::new(20_000)).unwrap();
        thread::scope(|scope| {
            for producer in producers {
                scope.spawn(|| send_all(producer, 0, 100));
            }
            for mut consumer in consumers {
                scope.spawn(move || {
                    let mut last = -1;
                    while let Some(delivery) = consumer.recv_blocking() {
                        let batch = rows_of(delivery.unwrap());
                        for key in batch.column(0).as_primitive::<Int64Type>().values() {
                            assert!(*key > last);
                            last = *key;
                        }
                    }
                });
            }
        });
    }
}

/// Reserved ranges keep the order of an only producer: chunks are passed on as they become whole.
#[test]
fn each_producer_keeps_its_order_among_others() {
    const BATCHES: usize = 100;
    for way in ways().filter(|(strategy, _)| *strategy != Strategy::Reserve) {
        let (producers, consumers) = exchange(&config(way, 3, 3), schema(), Budget::new(20_000)).unwrap();
        thread::scope(|scope| {
            for (index, producer) in producers.into_iter().enumerate() {
                scope.spawn(move || send_all(producer, index, BATCHES));
            }
            for mut consumer in consumers {
                scope.spawn(move || {
                    let mut last = [-1; 3];
                    while let Some(delivery) = consumer.recv_blocking() {
                        for key in rows_of(delivery.unwrap()).column(0).as_primitive::<Int64Type>().values() {
                            let producer = *key as usize / (BATCHES * 1000);
                            assert!(*key > last[producer], "{way:?}: {key} after {last:?}");
                            last[producer] = *key;
                        }
                    }
                    assert!(last.iter().all(|key| *key >= 0), "{way:?}: rows of each producer");
                });
            }
        });
    }
}

#[test]
fn all_rows_may_be_for_one_consumer() {
    const KEYS: std::ops::Range<i64> = 0..6000;
    for way in ways() {
        let budget = Budget::new(20_000);
        let (producers, consumers) = exchange(&config(way, 2, 4), schema(), Arc::clone(&budget) as _).unwrap();
        let mut received = Vec::new();
        thread::scope(|scope| {
            for (index, mut producer) in producers.into_iter().enumerate() {
                scope.spawn(move || {
                    for first in KEYS.step_by(50).skip(index).step_by(2) {
                        producer.send_blocking(batch(first..first + 50), &[4 * 7 + 2; 50]).unwrap();
                    }
                    producer.finish();
                });
            }
            let drain = |mut consumer: Consumer| {
                let mut keys: Vec<i64> = Vec::new();
                while let Some(delivery) = consumer.recv_blocking() {
                    keys.extend(rows_of(delivery.unwrap()).column(0).as_primitive::<Int64Type>().values());
                }
                keys
            };
            let drains: Vec<_> = consumers.into_iter().map(|consumer| scope.spawn(move || drain(consumer))).collect();
            received.extend(drains.into_iter().map(|drain| drain.join().unwrap()));
        });
        let mut skewed = received.remove(2);
        assert!(received.iter().all(Vec::is_empty), "{way:?}: rows for others");
        skewed.sort_unstable();
        assert_eq!(skewed, KEYS.collect::<Vec<_>>(), "{way:?}");
        assert_eq!(budget.used.load(Ordering::SeqCst), 0, "{way:?}");
    }
}

/// Batches that were sent. They know which of them are still referenced.
#[derive(Default)]
struct Sent(Mutex<Vec<Buffer>>);

impl Sent {
    /// Returns a batch whose references are counted.
    fn batch(&self, keys: impl Iterator<Item = i64>) -> RecordBatch {
        let batch = batch(keys);
        self.0.lock().unwrap().push(batch.column(0).as_primitive::<Int64Type>().values().inner().clone());
        batch
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn alive(&self) -> usize {
        self.0.lock().unwrap().iter().filter(|keys| keys.strong_count() > 1).count()
    }
}

#[test]
fn a_producer_thread_that_panics_ends_the_exchange_and_leaks_nothing() {
    for way in ways() {
        let (budget, sent) = (Budget::new(usize::MAX), Sent::default());
        let (mut producers, consumers) = exchange(&config(way, 3, 3), schema(), Arc::clone(&budget) as _).unwrap();
        let sent = &sent;
        let send = move |producer: &mut Producer, number: i64| {
            let keys = number * 1000..number * 1000 + 90;
            producer.send_blocking(sent.batch(keys.clone()), &keys.map(hash).collect::<Vec<_>>())
        };
        thread::scope(|scope| {
            let mut panics = producers.remove(1);
            let panics = scope.spawn(move || {
                (0..5).for_each(|number| send(&mut panics, number).map_err(|refused| refused.error).unwrap());
                // Without the hook's message.
                std::panic::resume_unwind(Box::new("the producer's own trouble"));
            });
            for mut producer in producers {
                scope.spawn(move || {
                    // Its inputs never end.
                    let refused = (5..).find_map(|number| send(&mut producer, number).err()).unwrap();
                    assert!(matches!(refused.error, ExchangeError::ProducerLost { producer: 1 }), "{way:?}: {refused}");
                });
            }
            for consumer in consumers {
                scope.spawn(move || {
                    let error = error_of(consumer);
                    assert!(matches!(error, ExchangeError::ProducerLost { producer: 1 }), "{way:?}: {error}");
                });
            }
            assert!(panics.join().is_err());
        });
        assert_eq!(sent.alive(), 0, "{way:?}: all batches are dropped");
        assert_eq!(budget.used.load(Ordering::SeqCst), 0, "{way:?}");
        assert_eq!(Arc::strong_count(&budget), 1, "{way:?}: the exchange is dropped");
    }
}

/// Sends batches of `rows` rows, one by a producer in turn, until none is admitted. Each batch has
/// as many rows for each consumer.
fn fill(producers: &mut [Producer], sent: &Sent, rows: usize) {
    let mut cx = Context::from_waker(Waker::noop());
    // A producer that yields is asked again: the consumers have not run.
    let mut admitted = |producer: &mut Producer| {
        (0..8).any(|_| matches!(producer.poll_ready(&mut cx), Poll::Ready(Ok(Admission::Granted))))
    };
    loop {
        let mut any = false;
        for producer in &mut *producers {
            if admitted(producer) {
                let hashes: Vec<u64> = (0..rows as u64).collect();
                producer.send_hashed(sent.batch(0..rows as i64), &hashes).map_err(|refused| refused.error).unwrap();
                any = true;
            }
        }
        if !any {
            return;
        }
    }
}

#[test]
fn no_more_batches_are_in_transit_than_the_groups_hold() {
    const ROWS: usize = 10;
    for way in streaming() {
        for (inputs, groups, slots) in [(1, 1, 2), (2, 1, 2), (2, 2, 4), (4, 3, 4), (3, 1, 6)] {
            // As PROTOCOL.md of the ring has it: other producers may have been admitted before.
            let bound = (groups + 1) * slots + inputs - 1;
            let config = config(way, inputs, 2).with_batch_rows(ROWS).with_full_batches(true);
            let config = config.with_groups(groups).with_slots(slots);
            let budget = Budget::new(usize::MAX);
            let (mut producers, mut consumers) = exchange(&config, schema(), Arc::clone(&budget) as _).unwrap();
            let sent = Sent::default();
            let what = format!("{way:?}, {inputs} producers, {groups} groups of {slots}");
            fill(&mut producers, &sent, 2 * ROWS);
            // The bound of reserved ranges counts the chunks of both consumers.
            let least = if way.0 == Strategy::Reserve { (groups + 1) * slots / 2 } else { groups * slots };
            assert!((least..=bound).contains(&sent.count()), "{what}: {}", sent.count());

            // One consumer reads what there is for it, and never looks for more; the other reads nothing.
            let mut read = 0;
            while read < sent.count() {
                let batch = rows_of(consumers[0].recv_blocking().unwrap().unwrap());
                assert_eq!(batch.num_rows(), ROWS, "{what}");
                read += 1;
                fill(&mut producers, &sent, 2 * ROWS);
                // All that were sent wait for the slow consumer.
                assert!(sent.count() <= bound, "{what}: {} in transit", sent.count());
                assert!(sent.alive() <= sent.count(), "{what}: {} alive", sent.alive());
            }
            for producer in producers {
                // A batch that is admitted may complete several chunks, of which the last are overflow.
                let overflow_rows = producer.finish().overflow_rows;
                assert!(overflow_rows == 0 || way.0 == Strategy::Reserve, "{what}: {overflow_rows} beyond the bound");
            }
            while let Some(delivery) = consumers[1].recv_blocking() {
                assert_eq!(rows_of(delivery.unwrap()).num_rows(), ROWS, "{what}");
                read += 1;
            }
            assert_eq!(read, 2 * sent.count(), "{what}");
            drop(consumers);
            assert_eq!((sent.alive(), budget.used.load(Ordering::SeqCst)), (0, 0), "{what}");
        }
    }
}

/// While a consumer starves, producers are admitted. What the slow one does not take leaves the
/// transport and is accounted for.
#[test]
fn what_is_sent_for_a_starving_consumer_leaves_the_transport() {
    const ROWS: usize = 10;
    for way in streaming() {
        let budget = Budget::new(usize::MAX);
        let config = config(way, 2, 2).with_batch_rows(ROWS).with_full_batches(true).with_groups(2);
        let (mut producers, mut consumers) = exchange(&config, schema(), Arc::clone(&budget) as _).unwrap();
        let sent = Sent::default();
        let bound = (2 + 1) * 2 + 2 - 1;
        let mut read = 0;
        while sent.count() < 200 {
            while consumers[0].poll_recv(&mut Context::from_waker(Waker::noop())).is_ready() {
                read += 1;
            }
            let before = sent.count();
            fill(&mut producers, &sent, 2 * ROWS);
            assert!(sent.count() > before, "{way:?}: a starving consumer is not fed");
            assert!(sent.alive() <= bound, "{way:?}: {} alive", sent.alive());
        }
        assert!(read > 150, "{way:?}: {read}");
        assert!(
            budget.peak.load(Ordering::SeqCst) > 150 * ROWS * size_of::<i64>(),
            "{way:?}: the rest is accounted for"
        );
        drop((producers, consumers));
        assert_eq!((sent.alive(), budget.used.load(Ordering::SeqCst)), (0, 0), "{way:?}");
    }
}

#[test]
fn a_consumer_that_is_not_polled_hangs_nobody_and_only_its_rows_spill() {
    for way in ways() {
        let (producers, consumers, batches) = (3, 4, 200);
        let budget = Budget::new(60_000);
        let handles = exchange(&config(way, producers, consumers), schema(), Arc::clone(&budget) as _).unwrap();
        let mut waiting = handles.1;
        let last = waiting.pop().unwrap();
        let mut keys = HashMap::new();
        thread::scope(|scope| {
            for (index, producer) in handles.0.into_iter().enumerate() {
                scope.spawn(move || send_all(producer, index, batches));
            }
            let drains = waiting.into_iter().enumerate();
            let drains: Vec<_> =
                drains.map(|(index, consumer)| scope.spawn(move || drain(consumer, index, consumers))).collect();
            keys.extend(drains.into_iter().flat_map(|drain| drain.join().unwrap()));
        });
        let late = drain(last, consumers - 1, consumers);
        assert!(budget.peak.load(Ordering::SeqCst) <= budget.limit);
        assert!(budget.spilled_rows.lock().unwrap().contains_key(&(consumers - 1)), "{way:?}: nothing was spilled");
        keys.extend(late);
        assert_eq!(keys.len(), expected(producers, batches), "{way:?}");
        assert_eq!(budget.used.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn the_first_error_reaches_everyone_once() {
    for way in ways() {
        let (mut producers, consumers) = exchange(&config(way, 2, 3), schema(), Budget::new(usize::MAX)).unwrap();
        thread::scope(|scope| {
            for consumer in consumers {
                scope.spawn(move || {
                    let error = error_of(consumer);
                    assert!(error.to_string().contains("the disk is on fire"), "{error}");
                });
            }
            producers
                .pop()
                .unwrap()
                .fail(Box::<dyn std::error::Error + Send + Sync>::from("the disk is on fire").into());
            let mut other = producers.pop().unwrap();
            let refused = other.send_blocking(batch(0..10), &[0; 10]).unwrap_err();
            assert_eq!(refused.value.num_rows(), 10, "the batch comes back");
            assert!(refused.error.to_string().contains("the disk is on fire"));
        });
    }
}

#[test]
fn a_lost_producer_is_an_error_and_lost_consumers_are_told() {
    for way in ways() {
        let (mut producers, mut consumers) = exchange(&config(way, 2, 2), schema(), Budget::new(usize::MAX)).unwrap();
        drop(producers.pop());
        let lost = consumers[0].recv_blocking().unwrap().unwrap_err();
        assert!(matches!(lost, ExchangeError::ProducerLost { producer: 1 }));

        let (mut producers, consumers) = exchange(&config(way, 1, 2), schema(), Budget::new(usize::MAX)).unwrap();
        drop(consumers);
        let refused = producers[0].send_blocking(batch(0..10), &[0; 10]).unwrap_err();
        assert!(matches!(refused.error, ExchangeError::ConsumersGone));
        producers.into_iter().for_each(|producer| {
            producer.finish();
        });
    }
}

#[test]
fn consumers_may_leave_at_any_time() {
    for way in ways() {
        for stay in 1..5 {
            let budget = Budget::new(30_000);
            let handles = exchange(&config(way, 2, 5), schema(), Arc::clone(&budget) as _).unwrap();
            thread::scope(|scope| {
                for (index, producer) in handles.0.into_iter().enumerate() {
                    scope.spawn(move || send_all(producer, index, 80));
                }
                for (index, mut consumer) in handles.1.into_iter().enumerate() {
                    scope.spawn(move || {
                        if index < stay {
                            drain(consumer, index, 5);
                            return;
                        }
                        for _ in 0..index {
                            consumer.recv_blocking();
                        }
                    });
                }
            });
            assert_eq!(budget.used.load(Ordering::SeqCst), 0, "{way:?} {stay}");
        }
    }
}

#[test]
fn rows_of_a_slow_input_are_not_withheld() {
    for way in streaming() {
        let (mut producers, mut consumers) = exchange(&config(way, 1, 1), schema(), Budget::new(usize::MAX)).unwrap();
        let mut producer = producers.pop().unwrap();
        producer.send_blocking(batch(0..7), &[0; 7]).unwrap();
        producer.idle();
        let received = rows_of(consumers[0].recv_blocking().unwrap().unwrap());
        assert_eq!(received.num_rows(), 7, "{way:?}");
        producer.send_blocking(batch(7..9), &[0; 2]).unwrap();
        producer.finish();
        assert_eq!(rows_of(consumers[0].recv_blocking().unwrap().unwrap()).num_rows(), 2);
    }
}

#[test]
fn only_full_batches_where_that_is_wished() {
    for way in streaming() {
        let config = config(way, 1, 1).with_batch_rows(10).with_full_batches(true).with_slots(8);
        let (mut producers, mut consumers) = exchange(&config, schema(), Budget::new(usize::MAX)).unwrap();
        let mut producer = producers.pop().unwrap();
        let consumer = &mut consumers[0];
        producer.send_blocking(batch(0..25), &[0; 25]).unwrap();
        producer.idle();
        for _ in 0..2 {
            assert_eq!(rows_of(consumer.recv_blocking().unwrap().unwrap()).num_rows(), 10, "{way:?}");
        }
        assert!(consumer.poll_recv(&mut Context::from_waker(Waker::noop())).is_pending(), "{way:?}");
        producer.idle();
        assert!(consumer.poll_recv(&mut Context::from_waker(Waker::noop())).is_pending(), "{way:?}");
        producer.finish();
        assert_eq!(rows_of(consumer.recv_blocking().unwrap().unwrap()).num_rows(), 5, "{way:?}");
        assert!(consumer.recv_blocking().is_none());
    }
}

#[test]
fn a_batch_says_how_much_memory_it_keeps() {
    for way in ways() {
        let config = config(way, 1, 1).with_batch_rows(1000);
        let (mut producers, mut consumers) = exchange(&config, schema(), Budget::new(usize::MAX)).unwrap();
        let mut producer = producers.pop().unwrap();
        producer.send_blocking(batch(0..1), &[0]).unwrap();
        producer.finish();
        let received = rows_of(consumers[0].recv_blocking().unwrap().unwrap());
        assert_eq!(received.num_rows(), 1);
        // An operator that reserves memory for the batch must see that it can take 999 more
        // rows.
        assert!(received.column(0).get_array_memory_size() >= 1000 * size_of::<i64>(), "{way:?}");
    }
}

#[test]
fn wrong_batches_come_back() {
    let other = Arc::new(Schema::new(vec![Field::new("key", DataType::Int32, false)]));
    for way in ways() {
        let (mut producers, _consumers) = exchange(&config(way, 1, 1), schema(), Budget::new(usize::MAX)).unwrap();
        let wrong = RecordBatch::new_empty(Arc::clone(&other));
        let wrong = producers[0].send_blocking(wrong, &[]).unwrap_err();
        assert!(matches!(wrong.error, ExchangeError::Rows(RowsError::Schema { .. })));
        let unhashed = producers[0].send_blocking(batch(0..3), &[1]).unwrap_err();
        let ExchangeError::Rows(RowsError::Argument { argument, .. }) = unhashed.error else { panic!("{unhashed}") };
        assert_eq!(argument, "number of hashes");
    }
    assert!(exchange(&ExchangeConfig::new(0, 1), schema(), Budget::new(0)).is_err());
}
