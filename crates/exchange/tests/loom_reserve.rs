//! Models of the handles of the path of reserved ranges: admission, waking, flushing, ends and
//! departures. Loom runs them through every interleaving up to a number of preemptions. A handle
//! that is not woken is a deadlock to loom. The claim words' own models are inside the crate, where loom
//! can watch rows.
#![cfg(loom)]

mod bell;

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Waker},
};

use annulus_exchange::{
    Consumer, Delivery, ExchangeConfig, ExchangeError, Overflow, Producer, SpilledBatch, StopError, Strategy, exchange,
    ring::Admission,
};
use arrow::{
    array::{AsArray, Int64Array, RecordBatch},
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
};
use bell::{block_on, model};
use loom::thread;

/// A budget, and a disk that is always full.
struct Budget {
    left: AtomicUsize,
    /// The number of requests that it answers before it panics.
    answers: AtomicUsize,
}

impl Overflow for Budget {
    fn try_reserve(&self, bytes: usize) -> bool {
        let answer = |answers: usize| answers.checked_sub(1);
        // Without the panic hook, which would print a thousand of them.
        if self.answers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, answer).is_err() {
            resume_unwind(Box::new("a bug of the embedder"));
        }
        self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(bytes)).is_ok()
    }
    fn release(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::SeqCst);
    }
    fn spill(&self, _: usize, _: RecordBatch) -> Result<SpilledBatch, StopError> {
        Err("the disk is full".into_error())
    }
}

trait IntoError {
    fn into_error(self) -> StopError;
}

impl IntoError for &str {
    fn into_error(self) -> StopError {
        Box::<dyn std::error::Error + Send + Sync>::from(self).into()
    }
}

const BUDGET: usize = 1 << 20;

struct Handles {
    producers: Vec<Producer>,
    consumers: Vec<Consumer>,
    budget: Arc<Budget>,
}

/// Returns an exchange that is full with two queued chunks (for one producer).
fn handles(producers: usize, consumers: usize, batch_rows: usize, budget: usize) -> Handles {
    let config = ExchangeConfig::new(producers, consumers).with_batch_rows(batch_rows).with_strategy(Strategy::Reserve);
    let budget = Arc::new(Budget { left: AtomicUsize::new(budget), answers: AtomicUsize::new(usize::MAX) });
    let (producers, consumers) = exchange(&config, schema(), Arc::clone(&budget) as _).unwrap();
    Handles { producers, consumers, budget }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, false)]))
}

/// Sends each key to consumer `key / 10`.
fn send(producer: &mut Producer, keys: &[i64]) {
    let batch = RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(keys.to_vec()))]).unwrap();
    let hashes: Vec<u64> = keys.iter().map(|key| *key as u64 / 10).collect();
    // A producer that is refused notices in another way.
    let _ = producer.send_hashed(batch, &hashes);
}

fn ready(producer: &mut Producer) -> Result<(), ExchangeError> {
    block_on(|cx| producer.poll_ready(cx)).map(|admission| assert_eq!(admission, Admission::Granted))
}

/// Asks until the answer is an error: a producer may be woken for another reason.
fn refused(producer: &mut Producer) -> ExchangeError {
    loop {
        match ready(producer) {
            Ok(()) => thread::yield_now(),
            Err(error) => return error,
        }
    }
}

fn keys(delivery: Delivery) -> Vec<i64> {
    let Delivery::Batch(batch) = delivery else { panic!("nothing is spilled here") };
    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
}

fn receive(consumer: &mut Consumer) -> Option<Result<Vec<i64>, ExchangeError>> {
    block_on(|cx| consumer.poll_recv(cx)).map(|delivery| delivery.map(keys))
}

fn receive_all(consumer: &mut Consumer) -> Vec<i64> {
    let mut all = Vec::new();
    while let Some(some) = receive(consumer) {
        all.extend(some.unwrap());
    }
    all
}

/// Makes the consumer wait, with a waker that does nothing.
fn starve(consumer: &mut Consumer) {
    assert!(consumer.poll_recv(&mut Context::from_waker(Waker::noop())).is_pending());
}

/// The last producer to end hands over the rows that another one left, even if it has never sent
/// anything itself.
#[test]
fn last_to_finish_hands_over() {
    model(4, || {
        let Handles { mut producers, mut consumers, .. } = handles(2, 1, 4, BUDGET);
        let (two, mut one) = (producers.pop().unwrap(), producers.pop().unwrap());
        let first = thread::spawn(move || {
            send(&mut one, &[1]);
            one.finish();
        });
        two.finish();
        first.join().unwrap();
        assert_eq!(receive_all(&mut consumers[0]), [1]);
    });
}

/// A producer that ends finds all others idle and takes an open chunk, while the last of them ends,
/// too. The stream must not end before that chunk is queued.
#[test]
fn end_waits_for_a_flush() {
    model(2, || {
        let Handles { mut producers, mut consumers, .. } = handles(2, 1, 4, BUDGET);
        let (mut two, mut one) = (producers.pop().unwrap(), producers.pop().unwrap());
        send(&mut one, &[1]);
        two.idle();
        starve(&mut consumers[0]);
        let first = thread::spawn(move || one.finish());
        let second = thread::spawn(move || two.finish());
        assert_eq!(receive_all(&mut consumers[0]), [1]);
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// A producer turns idle while a consumer begins to wait for the rows of a chunk that is not full.
#[test]
fn idle_meets_starving() {
    model(4, || {
        let Handles { mut producers, mut consumers, .. } = handles(1, 1, 4, BUDGET);
        let mut producer = producers.pop().unwrap();
        send(&mut producer, &[1]);
        let idle = thread::spawn(move || {
            producer.idle();
            producer
        });
        assert_eq!(receive(&mut consumers[0]).unwrap().unwrap(), [1]);
        let _producer = idle.join().unwrap();
    });
}

/// One consumer waits for a flush while another is fed before it has begun to wait. The starving
/// consumers are counted correctly.
#[test]
fn feeding_one_leaves_the_other_counted() {
    model(2, || {
        let Handles { mut producers, mut consumers, .. } = handles(1, 2, 2, BUDGET);
        let (mut fed, mut waiting) = (consumers.pop().unwrap(), consumers.pop().unwrap());
        let mut producer = producers.pop().unwrap();
        send(&mut producer, &[1]);
        let sender = thread::spawn(move || {
            send(&mut producer, &[10, 11]);
            producer.idle();
            producer
        });
        let other = thread::spawn(move || {
            assert_eq!(receive(&mut fed).unwrap().unwrap(), [10, 11]);
            fed
        });
        assert_eq!(receive(&mut waiting).unwrap().unwrap(), [1]);
        let _handles = (sender.join().unwrap(), other.join().unwrap());
    });
}

/// A consumer takes its open chunk itself while the only producer continues. The rows stay in
/// order.
#[test]
fn own_flush_keeps_order() {
    model(4, || {
        let Handles { mut producers, mut consumers, .. } = handles(1, 1, 2, BUDGET);
        let mut producer = producers.pop().unwrap();
        send(&mut producer, &[1]);
        producer.idle();
        let sender = thread::spawn(move || {
            send(&mut producer, &[2, 3]);
            send(&mut producer, &[4]);
            producer.finish();
        });
        assert_eq!(receive_all(&mut consumers[0]), [1, 2, 3, 4]);
        sender.join().unwrap();
    });
}

/// The queues are full. The producer continues when they are half empty.
#[test]
fn half_empty_wakes() {
    model(4, || {
        let Handles { mut producers, mut consumers, .. } = handles(1, 1, 1, BUDGET);
        let mut producer = producers.pop().unwrap();
        send(&mut producer, &[1, 2]);
        let sender = thread::spawn(move || {
            ready(&mut producer).unwrap();
            producer
        });
        assert_eq!(receive(&mut consumers[0]).unwrap().unwrap(), [1]);
        let _producer = sender.join().unwrap();
    });
}

/// The queues are full of chunks that are not taken. The producer continues when another consumer
/// begins to wait.
#[test]
fn starving_wakes() {
    model(4, || {
        let Handles { mut producers, mut consumers, .. } = handles(1, 2, 1, BUDGET);
        let mut producer = producers.pop().unwrap();
        send(&mut producer, &[10, 11]);
        let sender = thread::spawn(move || {
            ready(&mut producer).unwrap();
            send(&mut producer, &[1]);
            producer
        });
        assert_eq!(receive(&mut consumers[0]).unwrap().unwrap(), [1]);
        let _producer = sender.join().unwrap();
    });
}

/// A parked producer and a waiting consumer are woken when the exchange is stopped.
#[test]
fn stop_wakes_all() {
    model(4, || {
        let Handles { mut producers, mut consumers, .. } = handles(1, 3, 1, BUDGET);
        let mut producer = producers.pop().unwrap();
        let (failing, _unpolled, mut waiting) =
            (consumers.pop().unwrap(), consumers.pop().unwrap(), consumers.pop().unwrap());
        send(&mut producer, &[10, 11]);
        let sender = thread::spawn(move || refused(&mut producer));
        let waiter = thread::spawn(move || receive(&mut waiting).unwrap().unwrap_err());
        failing.fail("enough".into_error());
        assert!(matches!(sender.join().unwrap(), ExchangeError::Stopped(_)));
        assert!(matches!(waiter.join().unwrap(), ExchangeError::Stopped(_)));
    });
}

/// A parked producer is woken when the last consumer is dropped.
#[test]
fn last_consumer_leaves() {
    model(4, || {
        let Handles { mut producers, mut consumers, .. } = handles(1, 2, 1, BUDGET);
        let mut producer = producers.pop().unwrap();
        send(&mut producer, &[10, 11]);
        drop(consumers.remove(0));
        let sender = thread::spawn(move || refused(&mut producer));
        drop(consumers);
        assert!(matches!(sender.join().unwrap(), ExchangeError::ConsumersGone));
    });
}

/// A consumer is dropped while a chunk is being delivered to it. Its accounted bytes are released
/// once.
#[test]
fn consumer_leaves_amid_delivery() {
    model(4, || {
        let Handles { mut producers, mut consumers, budget } = handles(1, 2, 2, BUDGET);
        let mut producer = producers.pop().unwrap();
        send(&mut producer, &[1]);
        let leaver = consumers.remove(0);
        let sender = thread::spawn(move || {
            send(&mut producer, &[2, 3]);
            producer.finish();
        });
        drop(leaver);
        sender.join().unwrap();
        assert!(receive(&mut consumers[0]).is_none());
        drop(consumers);
        assert_eq!(budget.left.load(Ordering::SeqCst), BUDGET);
    });
}

/// Rows are lost for lack of memory and disk. The consumer gets the error, however soon the end
/// follows.
#[test]
fn error_comes_before_the_end() {
    model(4, || {
        let Handles { mut producers, mut consumers, budget } = handles(1, 1, 1, 0);
        let mut producer = producers.pop().unwrap();
        let sender = thread::spawn(move || {
            send(&mut producer, &[1]);
            producer.finish();
        });
        assert!(matches!(receive(&mut consumers[0]), Some(Err(ExchangeError::Stopped(_)))));
        assert!(receive(&mut consumers[0]).is_none());
        sender.join().unwrap();
        assert_eq!(budget.left.load(Ordering::SeqCst), 0);
    });
}

/// A producer panics with claimed rows that it never writes, in a chunk that another one completes.
/// No consumer sees these rows.
#[test]
fn unwritten_rows_are_never_shown() {
    model(2, || {
        let Handles { mut producers, mut consumers, budget } = handles(2, 2, 2, BUDGET);
        let (mut two, mut one) = (producers.pop().unwrap(), producers.pop().unwrap());
        budget.answers.store(1, Ordering::SeqCst);
        let first = thread::spawn(move || {
            let _ = catch_unwind(AssertUnwindSafe(|| send(&mut one, &[1, 10])));
        });
        let second = thread::spawn(move || {
            let _ = catch_unwind(AssertUnwindSafe(|| send(&mut two, &[2])));
            two
        });
        assert!(matches!(receive(&mut consumers[0]), Some(Err(ExchangeError::ProducerLost { .. }))));
        first.join().unwrap();
        drop((second.join().unwrap(), consumers));
        assert_eq!(budget.left.load(Ordering::SeqCst), BUDGET);
    });
}
