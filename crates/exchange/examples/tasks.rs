//! Two producers and four consumers as tasks of tokio: every row reaches consumer `hash % 4`.
//!
//! `cargo run -p annulus-exchange --example tasks`

use std::{error::Error, future::poll_fn, sync::Arc};

use annulus_exchange::{Admission, Consumer, Delivery, ExchangeConfig, ExchangeError, Producer, Unlimited, exchange};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use tokio::task::{JoinSet, yield_now};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let batch = RecordBatch::try_from_iter([("id", ids)])?;
    let (producers, consumers) = exchange(&ExchangeConfig::new(2, 4), batch.schema(), Arc::new(Unlimited))?;
    let senders: JoinSet<_> = producers.into_iter().map(|producer| send(producer, batch.clone())).collect();
    let receivers: JoinSet<_> = consumers.into_iter().map(count).collect();
    let sent = senders.join_all().await.into_iter().sum::<Result<u64, ExchangeError>>()?;
    let received = receivers.join_all().await.into_iter().sum::<Result<usize, ExchangeError>>()?;
    println!("{sent} rows sent, {received} received");
    Ok(())
}

async fn send(mut producer: Producer, batch: RecordBatch) -> Result<u64, ExchangeError> {
    let hashes: Vec<u64> = (0..batch.num_rows() as u64).collect();
    while poll_fn(|cx| producer.poll_ready(cx)).await? == Admission::Yield {
        yield_now().await; // the consumers' turn
    }
    producer.send_hashed(batch, &hashes).map_err(|refused| refused.error)?;
    // Before it awaits an input that has nothing ready, a producer calls `producer.idle()`.
    Ok(producer.finish().rows)
}

async fn count(mut consumer: Consumer) -> Result<usize, ExchangeError> {
    let mut rows = 0;
    while let Some(delivery) = poll_fn(|cx| consumer.poll_recv(cx)).await {
        // `Unlimited` spills nothing, so every delivery is a batch.
        if let Delivery::Batch(batch) = delivery? {
            rows += batch.num_rows();
        }
    }
    Ok(rows)
}
