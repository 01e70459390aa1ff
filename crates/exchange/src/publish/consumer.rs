//! The consumer's side: collects its rows of each batch that was passed on into output batches.

use std::{
    collections::VecDeque,
    ops::ControlFlow,
    sync::Arc,
    task::{Context, Poll},
};

use annulus_rows::gather::BatchBuilder;

use super::PublishCore;
use crate::{
    contract::Receiver,
    error::{ExchangeError, StopError},
    indexed::IndexedBatch,
    overflow::Delivery,
    ring::Next,
    stats::ExchangeStats,
};

pub(crate) struct PublishConsumer {
    receiver: Box<dyn Receiver<IndexedBatch>>,
    shared: Arc<PublishCore>,
    builder: BatchBuilder,
    /// Complete batches. One publish may complete several.
    whole: VecDeque<Delivery>,
    /// Whether rows of this consumer were taken off the transport; they come first.
    relieved: bool,
    done: bool,
    stats: ExchangeStats,
}

type DeliveryPoll = Poll<Option<Result<Delivery, ExchangeError>>>;

impl PublishConsumer {
    pub(super) fn new(receiver: Box<dyn Receiver<IndexedBatch>>, shared: Arc<PublishCore>) -> Self {
        let builder = shared.builder();
        let (whole, stats) = (VecDeque::new(), ExchangeStats::default());
        Self { receiver, shared, builder, whole, relieved: false, done: false, stats }
    }

    pub(crate) fn poll_recv(&mut self, cx: &mut Context<'_>) -> DeliveryPoll {
        let received = self.poll_delivery(cx);
        match &received {
            Poll::Ready(Some(Ok(Delivery::Batch(batch)))) => self.stats.rows += batch.num_rows() as u64,
            Poll::Ready(Some(Err(_)) | None) => self.done = true,
            _ => {}
        }
        received
    }

    fn poll_delivery(&mut self, cx: &mut Context<'_>) -> DeliveryPoll {
        if self.done {
            return Poll::Ready(None);
        }
        loop {
            if let Some(delivery) = self.whole.pop_front() {
                return Poll::Ready(Some(Ok(delivery)));
            }
            if self.relieved {
                match self.take_relieved() {
                    Ok(true) => continue,
                    Ok(false) => self.relieved = false,
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            }
            match self.poll_receiver(cx) {
                Poll::Ready(Ok(Next::Visited(_))) => {}
                Poll::Ready(Ok(Next::Relieved)) => self.relieved = true,
                Poll::Ready(Ok(Next::Finished)) => return Poll::Ready(self.collected().transpose()),
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                // No producer has anything ready. The rows collected until now may be the last ones
                // for a long time.
                Poll::Pending if self.shared.activity.all_idle() && self.builder.num_rows() > 0 => {
                    return Poll::Ready(self.collected().transpose());
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn poll_receiver(&mut self, cx: &mut Context<'_>) -> Poll<Result<Next, ExchangeError>> {
        let Self { receiver, builder, whole, stats, .. } = self;
        let index = receiver.index();
        let mut failed = None;
        let next = receiver.poll_next(cx, &mut |batch| {
            let copied = batch.copy_rows(index, builder, |batch| {
                whole.push_back(Delivery::Batch(batch));
                Ok(())
            });
            match copied {
                Ok(bytes) => stats.bytes_copied += bytes as u64,
                Err(error) => failed = Some(error),
            }
            if whole.is_empty() && failed.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        failed.map_or(next, |error| Poll::Ready(Err(error)))
    }

    /// Moves a batch to `whole`: first the rows that were collected, then those that were taken off
    /// the transport for this consumer. Returns false if no rows are left.
    fn take_relieved(&mut self) -> Result<bool, ExchangeError> {
        if let Some(batch) = self.collected()? {
            self.whole.push_back(batch);
            return Ok(true);
        }
        for laggard in self.shared.laggards_of(self.receiver.index()) {
            if let Some(next) = laggard.pop(&self.shared, &mut self.stats)? {
                self.whole.push_back(next);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the rows that were collected, though the batch is not full.
    pub(crate) fn take_incomplete(&mut self) -> Result<Option<Delivery>, ExchangeError> {
        if self.done {
            return Ok(None);
        }
        let taken = match self.whole.pop_front() {
            None => self.collected()?,
            whole => whole,
        };
        if let Some(Delivery::Batch(batch)) = &taken {
            self.stats.rows += batch.num_rows() as u64;
        }
        Ok(taken)
    }

    fn collected(&mut self) -> Result<Option<Delivery>, ExchangeError> {
        Ok(self.builder.finish()?.map(Delivery::Batch))
    }

    pub(crate) fn stop(&mut self, error: StopError) {
        self.receiver.stop(error);
    }

    pub(crate) fn stats(&self) -> ExchangeStats {
        let mut total = self.receiver.stats();
        total += self.stats;
        total
    }
}

impl Drop for PublishConsumer {
    fn drop(&mut self) {
        for laggard in self.shared.laggards_of(self.receiver.index()) {
            laggard.close(&self.shared);
        }
    }
}
