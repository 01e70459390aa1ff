//! A custom [`Overflow`]: rows for a slow consumer may take 64 KiB of memory. Further rows go to a
//! store of the embedder, here the heap.
//!
//! `cargo run -p annulus-exchange --example overflow`

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use annulus_exchange::{
    Consumer, Delivery, ExchangeConfig, ExchangeError, Overflow, SpilledBatch, StopError, exchange,
};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};

const LIMIT: usize = 64 << 10;

#[derive(Default)]
struct Budget {
    used: AtomicUsize,
}

impl Overflow for Budget {
    fn try_reserve(&self, bytes: usize) -> bool {
        self.used.fetch_update(Relaxed, Relaxed, |used| (used + bytes <= LIMIT).then_some(used + bytes)).is_ok()
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }

    fn spill(&self, _consumer: usize, batch: RecordBatch) -> Result<SpilledBatch, StopError> {
        // A real implementation writes a file, and returns what it needs to read the rows back.
        Ok(SpilledBatch(Box::new(batch)))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..8192));
    let batch = RecordBatch::try_from_iter([("id", ids)])?;
    let (mut producers, mut consumers) =
        exchange(&ExchangeConfig::new(1, 2), batch.schema(), Arc::new(Budget::default()))?;
    let (mut producer, mut hungry, slow) = (producers.remove(0), consumers.remove(1), consumers.remove(0));
    thread::scope(|scope| {
        // This consumer waits for rows, so the producer is never blocked, although the other
        // consumer reads nothing.
        scope.spawn(move || assert!(hungry.recv_blocking().is_none()));
        for _ in 0..100 {
            producer.send_blocking(batch.clone(), &[0; 8192]).expect("the consumers are there");
        }
        producer.finish();
    });
    let (in_memory, spilled) = receive(slow)?;
    println!("{in_memory} rows from memory, {spilled} that were spilled");
    Ok(())
}

fn receive(mut consumer: Consumer) -> Result<(usize, usize), ExchangeError> {
    let (mut in_memory, mut spilled) = (0, 0);
    while let Some(delivery) = consumer.recv_blocking() {
        match delivery? {
            Delivery::Batch(batch) => in_memory += batch.num_rows(),
            Delivery::Spilled(SpilledBatch(place)) => {
                spilled += place.downcast::<RecordBatch>().map_or(0, |batch| batch.num_rows());
            }
        }
    }
    Ok((in_memory, spilled))
}
