//! The producer's side: indexes each batch, clusters it if the path asks for that, and publishes
//! it.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use arrow::array::RecordBatch;

use super::{PublishCore, laggard::Laggard};
use crate::{
    admission::Admission,
    contract::Sender,
    error::{ExchangeError, SendError, StopError},
    indexed::IndexedBatch,
    ring::TrySendError,
    stats::ExchangeStats,
};

pub(crate) struct PublishProducer {
    sender: Box<dyn Sender<IndexedBatch>>,
    shared: Arc<PublishCore>,
    /// Whether the rows of this producer go to the overflow, as those before them did.
    spills: bool,
    idle: bool,
    finished: bool,
    /// The counters that the transport does not keep.
    stats: ExchangeStats,
}

impl PublishProducer {
    pub(super) fn new(sender: Box<dyn Sender<IndexedBatch>>, shared: Arc<PublishCore>) -> Self {
        Self { sender, shared, spills: false, idle: false, finished: false, stats: ExchangeStats::default() }
    }

    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<Admission, ExchangeError>> {
        let Self { sender, shared, stats, .. } = self;
        sender.poll_ready(cx, &mut |consumer, ring, batches| Laggard::push(consumer, ring, batches, shared, stats))
    }

    pub(crate) fn send_hashed(&mut self, batch: RecordBatch, hashes: &[u64]) -> Result<(), SendError<RecordBatch>> {
        if std::mem::take(&mut self.idle) {
            self.shared.activity.resume();
            self.stats.shared_ops += 1;
        }
        let indexed = match self.shared.indexer.index(&batch, hashes, &mut self.stats) {
            Ok(indexed) => indexed,
            Err(error) => return Err(SendError { value: batch, error }),
        };
        self.spills |= self.shared.keeps_all && !indexed.is_accounted();
        if self.spills {
            return self.spill(batch, &indexed);
        }
        match self.sender.try_send(indexed) {
            Ok(()) => {
                self.stats.rows += batch.num_rows() as u64;
                Ok(())
            }
            Err(TrySendError::Closed(refused)) => Err(SendError { value: batch, error: refused.error }),
            Err(TrySendError::Full(_)) => Err(SendError { value: batch, error: ExchangeError::Full }),
        }
    }

    /// Copies the rows of a batch to the overflow of each consumer. They are delivered after all
    /// that the transport keeps.
    fn spill(&mut self, batch: RecordBatch, indexed: &IndexedBatch) -> Result<(), SendError<RecordBatch>> {
        for consumer in 0..self.shared.consumers {
            if let Some(error) = self.sender.error() {
                return Err(SendError { value: batch, error });
            }
            if let Err(error) = Laggard::append(consumer, indexed, &self.shared, &mut self.stats) {
                // Other consumers may have their rows already.
                match &error {
                    ExchangeError::Stopped(stop) => self.sender.stop(Arc::clone(stop)),
                    _ => self.sender.lost(),
                }
                return Err(SendError { value: batch, error });
            }
        }
        self.stats.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Returns false: rows beyond the bound are moved out of the transport at once.
    pub(crate) fn has_overflow(&self) -> bool {
        false
    }

    pub(crate) fn idle(&mut self) {
        if !self.shared.full_batches && !std::mem::replace(&mut self.idle, true) {
            self.stats.shared_ops += 1;
            if self.shared.activity.idle() {
                self.sender.wake_consumers();
            }
        }
        self.sender.idle();
    }

    pub(crate) fn finish(mut self) -> ExchangeStats {
        if self.leave() {
            self.sender.wake_consumers();
        }
        let mut total = self.sender.end();
        total += self.stats;
        total
    }

    /// Counts this producer as ended. Returns whether all that are left are idle: then their
    /// consumers must be woken.
    fn leave(&mut self) -> bool {
        if std::mem::replace(&mut self.finished, true) {
            return false;
        }
        if std::mem::take(&mut self.idle) {
            self.shared.activity.resume();
        }
        self.shared.activity.finish()
    }

    /// Stops the exchange after a call of this producer has panicked: its rows may be incomplete.
    pub(crate) fn lost(&mut self) {
        self.sender.lost();
    }

    pub(crate) fn stop(&mut self, error: StopError) {
        self.sender.stop(error);
    }

    pub(crate) fn stats(&self) -> ExchangeStats {
        let mut total = self.sender.stats();
        total += self.stats;
        total
    }
}

impl Drop for PublishProducer {
    fn drop(&mut self) {
        self.leave();
    }
}
