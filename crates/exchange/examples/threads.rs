//! Two producer threads and four consumer threads: every row reaches consumer `hash % 4`.
//!
//! `cargo run -p annulus-exchange --example threads`

use std::{error::Error, sync::Arc, thread};

use annulus_exchange::{Consumer, Delivery, ExchangeConfig, Unlimited, exchange};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};

fn main() -> Result<(), Box<dyn Error>> {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let batch = RecordBatch::try_from_iter([("id", ids)])?;
    let hashes: Vec<u64> = (0..1000).collect();

    let (producers, consumers) = exchange(&ExchangeConfig::new(2, 4), batch.schema(), Arc::new(Unlimited))?;
    thread::scope(|scope| {
        for mut producer in producers {
            let (batch, hashes) = (batch.clone(), &hashes);
            scope.spawn(move || {
                producer.send_blocking(batch, hashes).expect("the consumers are there");
                producer.finish();
            });
        }
        for (number, consumer) in consumers.into_iter().enumerate() {
            scope.spawn(move || println!("consumer {number}: {} rows", count(consumer)));
        }
    });
    Ok(())
}

fn count(mut consumer: Consumer) -> usize {
    let mut rows = 0;
    while let Some(delivery) = consumer.recv_blocking() {
        // `Unlimited` spills nothing, so every delivery is a batch.
        if let Delivery::Batch(batch) = delivery.expect("no producer fails") {
            rows += batch.num_rows();
        }
    }
    rows
}
