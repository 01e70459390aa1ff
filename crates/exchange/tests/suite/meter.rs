//! An exchange whose memory is metered, and rows of long texts for it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use annulus_exchange::{
    Consumer, DataPath, ExchangeConfig, Overflow, Producer, SpilledBatch, StopError, Strategy, exchange,
};
use arrow::{
    array::{ArrayRef, RecordBatch, StringViewArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};

/// The bytes of a row's text.
pub const TEXT: usize = 1000;

/// Memory without a limit, and the bytes of it that are reserved.
#[derive(Default)]
pub struct Meter(AtomicUsize);

impl Meter {
    pub fn reserved(&self) -> usize {
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

pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("text", DataType::Utf8View, false)]))
}

pub fn texts(rows: usize) -> RecordBatch {
    let column: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..rows).map(|row| format!("{row:TEXT$}"))));
    RecordBatch::try_new(schema(), vec![column]).unwrap()
}

/// Creates an exchange of one producer, whose output batches have 128 rows.
pub fn metered(strategy: Strategy, path: DataPath, consumers: usize) -> (Producer, Vec<Consumer>, Arc<Meter>) {
    let meter = Arc::new(Meter::default());
    let config = ExchangeConfig::new(1, consumers).with_batch_rows(128).with_groups(1).with_slots(1);
    let config = config.with_strategy(strategy).with_path(path);
    let (mut producers, consumers) = exchange(&config, schema(), Arc::clone(&meter) as _).unwrap();
    (producers.pop().unwrap(), consumers, meter)
}

/// Sends the rows to the consumers in turn.
pub fn send(producer: &mut Producer, batch: RecordBatch) {
    let hashes: Vec<u64> = (0..batch.num_rows() as u64).collect();
    assert!(producer.send_hashed(batch, &hashes).is_ok());
}
