//! A hand-over of a slow consumer's rows that fails or panics half-way.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
};

use annulus_exchange::{
    Admission, Consumer, DataPath, Delivery, ExchangeConfig, Overflow, Producer, SpilledBatch, StopError, exchange,
};
use arrow::{
    array::{AsArray, Int64Array, RecordBatch},
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
};

use super::ways;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, false)]))
}

/// Sends these keys, each to the consumer of its remainder.
fn send(producer: &mut Producer, keys: std::ops::Range<i64>) -> bool {
    let hashes: Vec<u64> = keys.clone().map(|key| key as u64).collect();
    let batch = RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from_iter_values(keys))]).unwrap();
    producer.send_hashed(batch, &hashes).is_ok()
}

/// Polls its consumer whenever it is woken, as a runtime on another thread might at that moment.
#[derive(Default)]
struct Eager {
    consumer: Mutex<Option<Consumer>>,
    keys: Mutex<Vec<i64>>,
    failed: AtomicBool,
}

impl Eager {
    /// Takes the available rows; returns false if the consumer has to wait.
    fn poll(self: &Arc<Self>) -> bool {
        let waker = Waker::from(Arc::clone(self));
        let mut consumer = self.consumer.lock().unwrap();
        let consumer = consumer.as_mut().unwrap();
        loop {
            match consumer.poll_recv(&mut Context::from_waker(&waker)) {
                Poll::Pending => return false,
                Poll::Ready(None) => return true,
                Poll::Ready(Some(Ok(Delivery::Spilled(spilled)))) => self.collect(spilled.0.downcast_ref().unwrap()),
                Poll::Ready(Some(Ok(Delivery::Batch(batch)))) => self.collect(&batch),
                Poll::Ready(Some(Err(_))) => self.failed.store(true, SeqCst),
            }
        }
    }

    fn collect(&self, batch: &RecordBatch) {
        self.keys.lock().unwrap().extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
    }
}

impl Wake for Eager {
    fn wake(self: Arc<Self>) {
        self.poll();
    }
}

/// No memory, and a disk that takes three rows. After that its consumer asks for rows, and the
/// spill fails or panics.
struct ThreeRows {
    reader: Arc<Eager>,
    left: AtomicUsize,
    panics: bool,
}

impl Overflow for ThreeRows {
    fn try_reserve(&self, _: usize) -> bool {
        false
    }
    fn release(&self, _: usize) {}
    fn spill(&self, _: usize, batch: RecordBatch) -> Result<SpilledBatch, StopError> {
        if self.left.fetch_sub(1, SeqCst) > 0 {
            return Ok(SpilledBatch(Box::new(batch)));
        }
        self.left.store(0, SeqCst);
        assert!(!self.reader.poll(), "its rows are being handed over");
        assert!(!self.panics, "embedder");
        Err(Box::<dyn std::error::Error + Send + Sync>::from("the disk is full").into())
    }
}

/// A hand-over that ends in the middle of a batch. Its consumer gets the error before it can see
/// that batch in the transport, or anything after the rows that were lost with the hand-over.
#[test]
fn a_hand_over_that_fails_half_way_is_an_error_before_any_later_row() {
    // A batch that was kept for all consumers is handed over to none. Reserved ranges hand rows over
    // when their chunks are whole.
    let handing_over = ways().filter(|(strategy, path)| !strategy.keeps_all() && *path != DataPath::Auto);
    for ((strategy, path), panics) in handing_over.flat_map(|way| [(way, false), (way, true)]) {
        let reader = Arc::new(Eager::default());
        let overflow = ThreeRows { reader: Arc::clone(&reader), left: AtomicUsize::new(3), panics };
        let config = ExchangeConfig::new(1, 2).with_batch_rows(1).with_groups(1).with_slots(2);
        let config = config.with_strategy(strategy).with_path(path);
        let (mut producers, mut consumers) = exchange(&config, schema(), Arc::new(overflow)).unwrap();
        let (mut producer, mut starves) = (producers.pop().unwrap(), consumers.pop().unwrap());
        *reader.consumer.lock().unwrap() = consumers.pop();

        let mut cx = Context::from_waker(Waker::noop());
        let mut next = 0;
        let ends = || {
            loop {
                while starves.poll_recv(&mut cx).is_ready() {}
                match producer.poll_ready(&mut cx) {
                    Poll::Ready(Err(_)) => break,
                    Poll::Ready(Ok(Admission::Granted)) if next < 64 => {
                        assert!(send(&mut producer, next..next + 4));
                        next += 4;
                    }
                    Poll::Ready(Ok(Admission::Granted)) => panic!("{strategy} {path}: nothing was handed over"),
                    _ => {}
                }
            }
        };
        assert_eq!(catch_unwind(AssertUnwindSafe(ends)).is_err(), panics);

        assert!(reader.poll(), "{strategy} {path}: the consumer did not get the error");
        assert!(reader.failed.load(SeqCst));
        let keys = reader.keys.lock().unwrap();
        let in_order = (0..).step_by(2).zip(keys.iter()).all(|(expected, key)| expected == *key);
        assert!(in_order, "{strategy} {path}: {keys:?}");
    }
}
