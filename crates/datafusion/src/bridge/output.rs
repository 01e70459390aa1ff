//! One output: returns the batches of its consumer, reading spilled ones back from disk.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use annulus_exchange::{Consumer, Delivery, ExchangeError};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::internal_err,
    error::Result,
    execution::{RecordBatchStream, SendableRecordBatchStream},
    physical_plan::metrics::BaselineMetrics,
};
use futures::{Stream, StreamExt};

use super::{Inputs, flush::Flush, overflow::SessionOverflow};
use crate::{error::from_exchange, metrics::ExchangeMetrics};

/// A consumer's end of the exchange. Dropping it discards what was sent to it, also on disk.
pub(super) struct Receiver {
    pub(super) consumer: Consumer,
    pub(super) partition: usize,
    /// The batches spilled for this consumer, in order. Fetched when the first of them is due.
    pub(super) spilled: Option<SendableRecordBatchStream>,
    pub(super) overflow: Arc<SessionOverflow>,
    pub(super) metrics: ExchangeMetrics,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.metrics.record_consumer(self.consumer.stats());
        self.overflow.close(self.partition);
    }
}

/// The stream of one output partition.
pub(super) struct OutputStream {
    schema: SchemaRef,
    /// `None` once the stream has ended.
    open: Option<Open>,
    baseline: BaselineMetrics,
}

/// Field order is drop order: the consumer is dropped before the inputs.
struct Open {
    receiver: Receiver,
    inputs: Arc<Inputs>,
    started: bool,
    /// The next batch is on disk.
    reading: bool,
    flush: Option<Flush>,
}

impl OutputStream {
    pub(super) fn new(
        schema: SchemaRef,
        receiver: Receiver,
        inputs: Arc<Inputs>,
        flush: Option<Flush>,
        baseline: BaselineMetrics,
    ) -> Self {
        let open = Open { receiver, inputs, started: false, reading: false, flush };
        Self { schema, open: Some(open), baseline }
    }
}

impl Open {
    /// Waits for the next rows, for those of an incomplete batch until they are due.
    fn poll_delivery(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Delivery, ExchangeError>>> {
        loop {
            let received = self.receiver.consumer.poll_recv(cx);
            let Some(flush) = self.flush.as_mut().filter(|_| received.is_pending()) else { return received };
            if !flush.is_due(cx) {
                return Poll::Pending;
            }
            // Rows that were sent since the look above are found by the next one.
            if let Some(rows) = self.receiver.consumer.take_incomplete() {
                return Poll::Ready(Some(rows));
            }
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if !self.started {
            self.inputs.start();
            self.started = true;
        }
        if !self.reading {
            match ready!(self.poll_delivery(cx)) {
                Some(Ok(Delivery::Batch(batch))) => return Poll::Ready(Some(Ok(batch))),
                Some(Ok(Delivery::Spilled(_))) => self.reading = true,
                Some(Err(error)) => return Poll::Ready(Some(Err(from_exchange(error)))),
                None => return Poll::Ready(None),
            }
        }
        let Receiver { spilled, overflow, partition, .. } = &mut self.receiver;
        if spilled.is_none() {
            *spilled = overflow.reader(*partition);
        }
        let Some(spilled) = spilled else { return Poll::Ready(Some(internal_err!("a spilled batch has no file"))) };
        let batch = ready!(spilled.poll_next_unpin(cx));
        self.reading = false;
        Poll::Ready(Some(batch.unwrap_or_else(|| internal_err!("a spilled batch is missing on disk"))))
    }
}

impl Stream for OutputStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(open) = &mut this.open else { return Poll::Ready(None) };
        let next = {
            let _compute = this.baseline.elapsed_compute().timer();
            open.poll_next(cx)
        };
        if matches!(next, Poll::Ready(None | Some(Err(_)))) {
            this.open = None;
        }
        this.baseline.record_poll(next)
    }
}

impl RecordBatchStream for OutputStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
