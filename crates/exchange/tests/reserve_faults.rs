//! Code of the embedder that panics or drops handles when the reserved-range path calls it.
#![cfg(not(loom))]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
};

use annulus_exchange::{
    Consumer, Delivery, ExchangeConfig, ExchangeError, Overflow, Producer, SpilledBatch, StopError, Strategy,
    Unlimited, exchange,
};
use arrow::{
    array::{Int64Array, RecordBatch},
    datatypes::{DataType, Field, Schema, SchemaRef},
};

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, false)]))
}

fn handles(
    producers: usize,
    consumers: usize,
    batch_rows: usize,
    overflow: Arc<dyn Overflow>,
) -> (Vec<Producer>, Vec<Consumer>) {
    let config = ExchangeConfig::new(producers, consumers).with_batch_rows(batch_rows).with_strategy(Strategy::Reserve);
    exchange(&config, schema(), overflow).unwrap()
}

fn send(producer: &mut Producer, keys: std::ops::Range<i64>) -> Result<(), ExchangeError> {
    let hashes: Vec<u64> = keys.clone().map(|key| key as u64).collect();
    let batch = RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from_iter_values(keys))]).unwrap();
    producer.send_hashed(batch, &hashes).map_err(|refused| refused.error)
}

/// A budget that grants this number of reservations, and panics at each later one.
struct Panics {
    grants: AtomicUsize,
    used: AtomicUsize,
}

impl Overflow for Panics {
    fn try_reserve(&self, bytes: usize) -> bool {
        let grant = |grants: usize| grants.checked_sub(1);
        self.grants.fetch_update(Ordering::SeqCst, Ordering::SeqCst, grant).expect("a bug of the embedder");
        self.used.fetch_add(bytes, Ordering::SeqCst);
        true
    }
    fn release(&self, bytes: usize) {
        assert!(self.used.fetch_sub(bytes, Ordering::SeqCst) >= bytes, "more was released than reserved");
    }
    fn spill(&self, _: usize, _: RecordBatch) -> Result<SpilledBatch, StopError> {
        unreachable!("the budget never refuses")
    }
}

/// A panic between the claims of a batch. Every handle gets an error, later batches are refused,
/// and nothing stays reserved. No row of the chunks that the others complete is delivered, because
/// some were never written.
#[test]
fn panic_between_claims() {
    let budget = Arc::new(Panics { grants: AtomicUsize::new(1), used: AtomicUsize::new(0) });
    let (mut producers, mut consumers) = handles(2, 2, 4, Arc::clone(&budget) as _);
    let [first, second] = &mut producers[..] else { unreachable!() };
    assert!(catch_unwind(AssertUnwindSafe(|| send(first, 0..4))).is_err());
    for producer in [first, second] {
        assert!(matches!(send(producer, 4..8), Err(ExchangeError::ProducerLost { producer: 0 })));
    }
    for consumer in &mut consumers {
        assert!(matches!(consumer.recv_blocking(), Some(Err(ExchangeError::ProducerLost { producer: 0 }))));
        assert!(consumer.recv_blocking().is_none());
    }
    drop((producers, consumers));
    assert_eq!(budget.used.load(Ordering::SeqCst), 0);
}

/// A waker that keeps a producer alive, like a task without another owner.
struct OwnsProducer(#[expect(dead_code, reason = "it is there to be dropped")] Mutex<Option<Producer>>);

impl Wake for OwnsProducer {
    fn wake(self: Arc<Self>) {}
}

fn owner_of(producer: Producer) -> Waker {
    Waker::from(Arc::new(OwnsProducer(Mutex::new(Some(producer)))))
}

/// A consumer's new waker replaces one whose drop ends a producer. The producer locks that
/// consumer's queue.
#[test]
fn replaced_waker_of_a_consumer_owns_a_producer() {
    let (mut producers, mut consumers) = handles(1, 1, 4, Arc::new(Unlimited));
    let consumer = &mut consumers[0];
    let waker = owner_of(producers.pop().unwrap());
    assert!(consumer.poll_recv(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    let answer = consumer.poll_recv(&mut Context::from_waker(Waker::noop()));
    assert!(!matches!(answer, std::task::Poll::Ready(Some(Ok(_)) | None)));
    assert!(matches!(consumer.recv_blocking(), Some(Err(ExchangeError::ProducerLost { producer: 0 })) | None));
}

/// The same for a parked producer: the waker's drop ends another producer, which wakes the parked
/// ones.
#[test]
fn replaced_waker_of_a_producer_owns_another() {
    let (mut producers, _consumers) = handles(2, 1, 1, Arc::new(Unlimited));
    let waker = owner_of(producers.pop().unwrap());
    let producer = &mut producers[0];
    send(producer, 0..4).unwrap();
    assert!(producer.poll_ready(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    let answer = producer.poll_ready(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(answer, std::task::Poll::Ready(Err(ExchangeError::ProducerLost { producer: 1 }))));
}

/// A waker that panics, or counts its calls.
enum Bell {
    Panics,
    Counts(AtomicUsize),
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        match &*self {
            Self::Panics => panic!("on purpose"),
            Self::Counts(calls) => drop(calls.fetch_add(1, Ordering::SeqCst)),
        }
    }
}

/// Returns a waker that counts its calls, between two that panic.
fn wakers() -> (Arc<Bell>, [Waker; 3]) {
    let counts = Arc::new(Bell::Counts(AtomicUsize::new(0)));
    let panics = || Waker::from(Arc::new(Bell::Panics));
    (Arc::clone(&counts), [panics(), Waker::from(counts), panics()])
}

fn calls(bell: &Bell) -> usize {
    match bell {
        Bell::Panics => 0,
        Bell::Counts(calls) => calls.load(Ordering::SeqCst),
    }
}

#[test]
fn a_stop_wakes_everybody_though_wakers_panic() {
    let (mut producers, mut consumers) = handles(3, 3, 4, Arc::new(Unlimited));
    let (bell, wakers) = wakers();
    for (consumer, waker) in consumers.iter_mut().zip(&wakers) {
        assert!(consumer.poll_recv(&mut Context::from_waker(waker)).is_pending());
    }
    let producer = producers.pop().unwrap();
    let stop = catch_unwind(AssertUnwindSafe(|| producer.fail(Arc::new(std::fmt::Error))));
    assert!(stop.is_err());
    assert_eq!(calls(&bell), 1);
}

#[test]
fn producers_at_the_gate_are_woken_though_wakers_panic() {
    let (mut producers, mut consumers) = handles(3, 1, 1, Arc::new(Unlimited));
    let (bell, wakers) = wakers();
    send(&mut producers[0], 0..16).unwrap();
    for (producer, waker) in producers.iter_mut().zip(&wakers) {
        assert!(producer.poll_ready(&mut Context::from_waker(waker)).is_pending());
    }
    let receive =
        AssertUnwindSafe(|| while consumers[0].poll_recv(&mut Context::from_waker(Waker::noop())).is_ready() {});
    assert!(catch_unwind(receive).is_err());
    assert_eq!(calls(&bell), 1);
}

#[test]
fn a_consumer_that_leaves_is_told_of_though_wakers_panic() {
    let (mut producers, mut consumers) = handles(3, 1, 1, Arc::new(Unlimited));
    let (bell, wakers) = wakers();
    send(&mut producers[0], 0..16).unwrap();
    for (producer, waker) in producers.iter_mut().zip(&wakers) {
        assert!(producer.poll_ready(&mut Context::from_waker(waker)).is_pending());
    }
    let consumer = consumers.pop().unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(consumer))).is_err());
    assert_eq!(calls(&bell), 1);
    for producer in &mut producers {
        assert!(matches!(send(producer, 0..4), Err(ExchangeError::ConsumersGone)));
    }
}

/// Counts the reserved bytes, up to a limit; discards spilled rows.
struct Budget {
    limit: usize,
    used: AtomicUsize,
}

impl Budget {
    fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0) })
    }
}

impl Overflow for Budget {
    fn try_reserve(&self, bytes: usize) -> bool {
        let grow = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, grow).is_ok()
    }
    fn release(&self, bytes: usize) {
        assert!(self.used.fetch_sub(bytes, Ordering::SeqCst) >= bytes, "more was released than reserved");
    }
    fn spill(&self, _: usize, _: RecordBatch) -> Result<SpilledBatch, StopError> {
        Ok(SpilledBatch(Box::new(())))
    }
}

/// If the budget refuses everything, the backlog goes to disk. Producers still wait for their
/// consumers.
#[test]
fn a_spilled_backlog_holds_producers_back() {
    let budget = Budget::new(0);
    let (mut producers, mut consumers) = handles(1, 1, 4, Arc::clone(&budget) as _);
    let producer = &mut producers[0];
    let ready = |producer: &mut Producer| producer.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready();
    let mut sent = 0;
    while ready(producer) {
        send(producer, 4 * sent..4 * sent + 4).unwrap();
        sent += 1;
        assert!(sent < 100, "no consumer reads, but the producer continues");
    }
    for _ in 0..sent {
        assert!(matches!(consumers[0].recv_blocking(), Some(Ok(Delivery::Spilled(_)))));
    }
    assert!(ready(producer));
}

/// Batches that a producer holds back to make runs longer are accounted for. If the budget refuses,
/// the producer holds none back.
#[test]
fn batches_held_back_are_accounted_for() {
    const CONSUMERS: usize = 256;
    for limit in [usize::MAX, 0] {
        let budget = Budget::new(limit);
        let (mut producers, consumers) = handles(1, CONSUMERS, 1024, Arc::clone(&budget) as _);
        send(&mut producers[0], 0..1000).unwrap();
        send(&mut producers[0], 0..1000).unwrap();
        let held = budget.used.load(Ordering::SeqCst);
        assert_eq!(held, if limit == 0 { 0 } else { 2 * 1000 * size_of::<i64>() });
        drop(producers);
        drop(consumers);
        assert_eq!(budget.used.load(Ordering::SeqCst), 0);
    }
}
