//! What the exchange reports to the embedder's memory accounting.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
};

use annulus_exchange::{
    Consumer, DataPath, Delivery, ExchangeConfig, Overflow, Producer, SpilledBatch, StopError, Strategy, exchange,
    ring::Admission,
};
use arrow::{
    array::{ArrayRef, RecordBatch, StringViewArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};

use super::bounded_transports;

/// The bytes of a row's text.
const TEXT: usize = 1000;

/// Memory without a limit, and the bytes of it that are reserved.
#[derive(Default)]
struct Meter(AtomicUsize);

impl Meter {
    fn reserved(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Overflow for Meter {
    fn try_reserve(&self, bytes: usize) -> bool {
        self.0.fetch_add(bytes, SeqCst);
        true
    }
    fn release(&self, bytes: usize) {
        self.0.fetch_sub(bytes, SeqCst);
    }
    fn spill(&self, _: usize, batch: RecordBatch) -> Result<SpilledBatch, StopError> {
        Ok(SpilledBatch(Box::new(batch)))
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("text", DataType::Utf8View, false)]))
}

fn texts(rows: usize) -> RecordBatch {
    let column: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..rows).map(|row| format!("{row:TEXT$}"))));
    RecordBatch::try_new(schema(), vec![column]).unwrap()
}

/// Creates an exchange of one producer, whose output batches have 128 rows.
fn metered(strategy: Strategy, path: DataPath, consumers: usize) -> (Producer, Vec<Consumer>, Arc<Meter>) {
    let meter = Arc::new(Meter::default());
    let config = ExchangeConfig::new(1, consumers).with_batch_rows(128).with_groups(1).with_slots(1);
    let config = config.with_strategy(strategy).with_path(path);
    let (mut producers, consumers) = exchange(&config, schema(), Arc::clone(&meter) as _).unwrap();
    (producers.pop().unwrap(), consumers, meter)
}

/// Sends the rows to the consumers in turn.
fn send(producer: &mut Producer, batch: RecordBatch) {
    let hashes: Vec<u64> = (0..batch.num_rows() as u64).collect();
    assert!(producer.send_hashed(batch, &hashes).is_ok());
}

/// The rows that a slow consumer's overflow collects count before they are a batch. They are given
/// back when the consumer takes them, and when it goes away.
#[test]
fn a_slow_consumers_open_batch_counts() {
    for strategy in bounded_transports() {
        for (path, leaves) in [(DataPath::Gather, false), (DataPath::Gather, true), (DataPath::Cluster, false)] {
            let (mut producer, mut consumers, meter) = metered(strategy, path, 2);
            let mut slow = consumers.pop().unwrap();
            let mut cx = Context::from_waker(Waker::noop());
            let mut sent = 0;
            while sent < 10 {
                while consumers[0].poll_recv(&mut cx).is_ready() {}
                match producer.poll_ready(&mut cx) {
                    Poll::Ready(Ok(Admission::Granted)) => {
                        send(&mut producer, texts(4));
                        sent += 1;
                    }
                    Poll::Ready(Ok(Admission::Yield)) => {}
                    other => panic!("{strategy} {path}: {other:?}"),
                }
            }
            // Fewer rows than a batch, nearly all of which were taken off the transport.
            let reserved = meter.reserved();
            assert!(reserved >= 2 * sent * TEXT, "{strategy} {path}: {reserved}");
            producer.finish();
            if leaves {
                drop(slow);
            } else {
                let mut rows = 0;
                while let Some(delivery) = slow.recv_blocking() {
                    let Delivery::Batch(batch) = delivery.unwrap() else { panic!("nothing was spilled") };
                    rows += batch.num_rows();
                }
                assert_eq!(rows, 2 * sent);
            }
            while consumers[0].recv_blocking().is_some() {}
            assert_eq!(meter.reserved(), 0, "{strategy} {path}");
        }
    }
}
