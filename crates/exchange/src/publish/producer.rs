//! The producer's side: indexes each batch, clusters it if the path asks for that, and publishes
//! it.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use arrow::array::RecordBatch;

use super::{Shared, indexed::IndexedBatch, laggard::Laggard};
use crate::{
    error::{ExchangeError, SendError, StopError},
    ring::{Admission, RingProducer, TrySendError},
    stats::ExchangeStats,
};

pub(crate) struct PublishProducer {
    ring: RingProducer<IndexedBatch>,
    shared: Arc<Shared>,
    idle: bool,
    finished: bool,
    /// The counters that the ring does not keep.
    stats: ExchangeStats,
}

impl PublishProducer {
    pub(super) fn new(ring: RingProducer<IndexedBatch>, shared: Arc<Shared>) -> Self {
        Self { ring, shared, idle: false, finished: false, stats: ExchangeStats::default() }
    }

    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<Admission, ExchangeError>> {
        let Self { ring, shared, stats, .. } = self;
        ring.poll_ready(cx, |consumer, batches| Laggard::push(consumer, batches, shared, stats))
    }

    pub(crate) fn send_hashed(&mut self, batch: RecordBatch, hashes: &[u64]) -> Result<(), SendError<RecordBatch>> {
        if std::mem::take(&mut self.idle) {
            self.shared.activity.resume();
            self.stats.shared_ops += 1;
        }
        let indexed = match IndexedBatch::try_new(&batch, hashes, &self.shared, &mut self.stats) {
            Ok(indexed) => indexed,
            Err(error) => return Err(SendError { value: batch, error }),
        };
        match self.ring.try_send(indexed) {
            Ok(()) => {
                self.stats.rows += batch.num_rows() as u64;
                Ok(())
            }
            Err(TrySendError::Closed(refused)) => Err(SendError { value: batch, error: refused.error }),
            Err(TrySendError::Full(_)) => Err(SendError { value: batch, error: ExchangeError::Full }),
        }
    }

    /// Returns false: rows beyond the bound are moved out of the ring at once.
    pub(crate) fn is_crowded(&self) -> bool {
        false
    }

    pub(crate) fn idle(&mut self) {
        if !self.shared.full_batches && !std::mem::replace(&mut self.idle, true) {
            self.shared.activity.idle();
            self.stats.shared_ops += 1;
            if self.shared.activity.all_idle() {
                self.ring.wake_consumers();
            }
        }
        self.ring.idle();
    }

    pub(crate) fn finish(mut self) -> ExchangeStats {
        self.leave();
        if self.shared.activity.all_idle() {
            self.ring.wake_consumers();
        }
        let mut total = self.ring.end();
        total += self.stats;
        total
    }

    fn leave(&mut self) {
        if !std::mem::replace(&mut self.finished, true) {
            if std::mem::take(&mut self.idle) {
                self.shared.activity.resume();
            }
            self.shared.activity.finish();
        }
    }

    /// Stops the exchange after a call of this producer has panicked: its rows may be incomplete.
    pub(crate) fn lost(&mut self) {
        self.ring.lost();
    }

    pub(crate) fn stop(&mut self, error: StopError) {
        self.ring.stop(error);
    }

    pub(crate) fn stats(&self) -> ExchangeStats {
        let mut total = self.ring.stats();
        total += self.stats;
        total
    }
}

impl Drop for PublishProducer {
    fn drop(&mut self) {
        self.leave();
    }
}
