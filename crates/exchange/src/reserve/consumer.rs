//! The consumer's side: takes whole chunks from its queue.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use super::{
    queue::{Item, QueueOutcome},
    shared::ReserveCore,
};
use crate::{
    error::{ExchangeError, StopError},
    overflow::Delivery,
    stats::ExchangeStats,
};

pub(crate) struct ReserveConsumer {
    index: usize,
    shared: Arc<ReserveCore>,
    done: bool,
    waiting_since: Option<Instant>,
    stats: ExchangeStats,
}

impl ReserveConsumer {
    pub(crate) fn new(index: usize, shared: Arc<ReserveCore>) -> Self {
        Self { index, shared, done: false, waiting_since: None, stats: ExchangeStats::default() }
    }

    pub(crate) fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Delivery, ExchangeError>>> {
        let polled = self.poll_found(cx);
        if polled.is_pending() {
            if self.waiting_since.is_none() {
                self.waiting_since = Some(Instant::now());
                self.stats.waits += 1;
            }
            return Poll::Pending;
        }
        if let Some(since) = self.waiting_since.take() {
            self.stats.wait_ns += since.elapsed().as_nanos() as u64;
        }
        polled
    }

    fn poll_found(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Delivery, ExchangeError>>> {
        if self.done {
            return Poll::Ready(None);
        }
        let shared = Arc::clone(&self.shared);
        let queue = shared.queue(self.index);
        if let Some(answer) = self.stopped() {
            return answer;
        }
        if let Poll::Ready(found) = queue.pop(&mut self.stats) {
            return self.accept(found);
        }
        match queue.pop_or_wait(cx.waker(), || shared.gate.starve(), &mut self.stats) {
            Ok(found) => return self.accept(found),
            Err(true) => shared.gate.wake_producers(&mut self.stats),
            Err(false) => {}
        }
        // Checked again: all of this may have changed before the waker was registered.
        if let Some(answer) = self.stopped() {
            return answer;
        }
        if shared.all_idle()
            && let Poll::Ready(found) = queue.pop_or_else(|| shared.take_open(self.index), &mut self.stats)
        {
            return self.accept(found);
        }
        Poll::Pending
    }

    fn stopped(&mut self) -> Option<Poll<Option<Result<Delivery, ExchangeError>>>> {
        let error = self.shared.stop_error()?.clone();
        self.done = true;
        Some(Poll::Ready(Some(Err(error))))
    }

    fn accept(&mut self, found: QueueOutcome) -> Poll<Option<Result<Delivery, ExchangeError>>> {
        let (item, starved) = match found {
            QueueOutcome::Item(item, starved) => (Some(item), starved),
            QueueOutcome::End(starved) => (None, starved),
        };
        if starved {
            self.shared.gate.feed();
        }
        let Some(item) = item else {
            // The end may follow an error that came after the check above.
            if let Some(answer) = self.stopped() {
                return answer;
            }
            self.done = true;
            return Poll::Ready(None);
        };
        self.stats.batches += 1;
        let shared = Arc::clone(&self.shared);
        let delivery = shared.take(item, &mut self.stats, |item| match item {
            Item::Chunk { open, .. } => shared.batch(*open).map(Delivery::Batch),
            Item::Spilled(spilled) => Ok(Delivery::Spilled(spilled)),
        });
        if let Ok(Delivery::Batch(batch)) = &delivery {
            self.stats.rows += batch.num_rows() as u64;
        }
        Poll::Ready(Some(delivery))
    }

    pub(crate) fn stop(&mut self, error: StopError) {
        self.shared.stop(ExchangeError::Stopped(error), &mut self.stats);
    }

    pub(crate) fn stats(&self) -> ExchangeStats {
        self.stats
    }
}

impl Drop for ReserveConsumer {
    fn drop(&mut self) {
        self.shared.consumer_leaves(self.index, &mut self.stats);
    }
}
