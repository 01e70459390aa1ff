//! One input: hashes its batches and sends them to the exchange.

use std::{future::poll_fn, panic::AssertUnwindSafe, sync::Arc};

use annulus_exchange::{Admission, ExchangeError, ExchangeStats, Producer};
use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::SchemaRef,
};
use datafusion::{
    common::hash_utils::create_hashes,
    error::{DataFusionError, Result},
    execution::SendableRecordBatchStream,
    physical_expr::PhysicalExpr,
    physical_expr_common::utils::evaluate_expressions_to_arrays,
    physical_plan::{
        metrics::{ExecutionPlanMetricsSet, MetricBuilder, Time},
        repartition::REPARTITION_RANDOM_STATE,
    },
};
use futures::{FutureExt, StreamExt};
use tokio::task::{coop::consume_budget, yield_now};

use crate::{
    error::{from_exchange, from_panic, into_stop},
    metrics::ExchangeMetrics,
};

/// An input with its producer.
pub(crate) struct Feed {
    input: SendableRecordBatchStream,
    schema: SchemaRef,
    hasher: Hasher,
    sender: Sender,
    times: Times,
    budget: InputBudget,
}

/// The batches that an input sends, at least, before it lets an output run that it has woken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputBudget {
    pub(crate) batches: usize,
}

/// The times of an input, under the stock operator's names.
pub(crate) struct Times {
    fetch: Time,
    hash: Time,
    send: Time,
}

impl Times {
    pub(crate) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let time = |name: &'static str| MetricBuilder::new(metrics).subset_time(name, partition);
        Self { fetch: time("fetch_time"), hash: time("repartition_time"), send: time("send_time") }
    }
}

/// The reason why an input stopped early.
enum Interruption {
    /// The exchange accepts no more rows: it was stopped, or has no consumers left.
    Stopped,
    /// This input failed, or the copying of its rows.
    Failed(DataFusionError),
}

impl From<DataFusionError> for Interruption {
    fn from(error: DataFusionError) -> Self {
        Self::Failed(error)
    }
}

impl From<ExchangeError> for Interruption {
    fn from(error: ExchangeError) -> Self {
        match error {
            // The outputs already know why it was stopped.
            ExchangeError::Stopped(_) | ExchangeError::ProducerLost { .. } => Self::Stopped,
            other => Self::Failed(from_exchange(other)),
        }
    }
}

impl Feed {
    pub(crate) fn new(
        input: SendableRecordBatchStream,
        schema: SchemaRef,
        exprs: Vec<Arc<dyn PhysicalExpr>>,
        producer: Producer,
        times: Times,
        metrics: ExchangeMetrics,
        budget: InputBudget,
    ) -> Self {
        let hasher = Hasher { exprs, hashes: vec![] };
        let sender = Sender { producer: Some(producer), seen: ExchangeStats::default(), metrics };
        Self { input, schema, hasher, sender, times, budget }
    }

    /// Runs the input to its end. Errors and panics reach all outputs.
    pub(crate) async fn run(mut self) {
        let outcome = AssertUnwindSafe(self.pump()).catch_unwind().await;
        let Self { sender, .. } = self;
        match outcome {
            Ok(Ok(()) | Err(Interruption::Stopped)) => sender.finish(),
            Ok(Err(Interruption::Failed(error))) => sender.fail(error),
            Err(payload) => sender.fail(from_panic(payload.as_ref())),
        }
    }

    async fn pump(&mut self) -> Result<(), Interruption> {
        let Some(producer) = &mut self.sender.producer else { return Ok(()) };
        let mut sent = 0;
        loop {
            let fetch = self.times.fetch.timer();
            let next = poll_fn(|cx| {
                let next = self.input.poll_next_unpin(cx);
                if next.is_pending() {
                    sent = 0;
                    producer.idle();
                }
                next
            });
            let Some(batch) = next.await.transpose()? else { return Ok(()) };
            fetch.done();
            if batch.num_rows() == 0 {
                continue;
            }
            let batch = conform(batch, &self.schema)?;
            let hash = self.times.hash.timer();
            let hashes = self.hasher.hash(&batch)?;
            hash.done();

            let send = self.times.send.timer();
            while poll_fn(|cx| producer.poll_ready(cx)).await? == Admission::Yield {
                // Lets the outputs of this thread run first, and tasks that it can steal.
                yield_now().await;
            }
            let woken = producer.stats().wakeups;
            producer.send_hashed(batch, hashes).map_err(|refused| refused.error)?;
            send.done();
            sent += 1;
            let woke = producer.stats().wakeups > woken;
            if (woke && sent >= self.budget.batches) || producer.has_overflow() {
                // Lets consumers take their rows while they are in the cache, and free their memory.
                // But an input has data in the cache as well, such as a reader's buffers, and both
                // lose some of it with each turn of the other.
                yield_now().await;
                sent = 0;
            } else {
                // An input that is always ready must let other tasks run.
                consume_budget().await;
            }
        }
    }
}

/// Returns `batch` with exactly the plan's schema: the branches of a union may differ in
/// nullability and metadata.
fn conform(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if Arc::ptr_eq(batch.schema_ref(), schema) || batch.schema_ref() == schema {
        return Ok(batch);
    }
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let (_, columns, _) = batch.into_parts();
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &rows)?)
}

/// A producer whose counters are recorded however it ends.
struct Sender {
    producer: Option<Producer>,
    seen: ExchangeStats,
    metrics: ExchangeMetrics,
}

impl Sender {
    /// Records the counters. Call it before the producer ends: the outputs may end with it, and
    /// then the metrics are read.
    fn record(&mut self) -> Option<Producer> {
        let producer = self.producer.take()?;
        self.metrics.record_producer(producer.stats(), &mut self.seen);
        Some(producer)
    }

    fn finish(mut self) {
        if let Some(producer) = self.record() {
            let last = producer.finish();
            self.metrics.record_producer(last, &mut self.seen);
        }
    }

    fn fail(mut self, error: DataFusionError) {
        if let Some(producer) = self.record() {
            producer.fail(into_stop(error));
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.record();
    }
}

/// Computes the stock operator's hash of each row, bit for bit.
struct Hasher {
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    hashes: Vec<u64>,
}

impl Hasher {
    fn hash(&mut self, batch: &RecordBatch) -> Result<&[u64]> {
        let keys = evaluate_expressions_to_arrays(&self.exprs, batch)?;
        self.hashes.clear();
        self.hashes.resize(batch.num_rows(), 0);
        create_hashes(&keys, REPARTITION_RANDOM_STATE.random_state(), &mut self.hashes)?;
        Ok(&self.hashes)
    }
}
