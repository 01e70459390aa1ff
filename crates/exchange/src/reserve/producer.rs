//! The producer's side: admission, then claim, copy, complete.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use arrow::array::RecordBatch;

use super::{
    chunk::Chunk,
    copy::{Segment, copy_batch},
    lane::Claim,
    shared::Shared,
};
use crate::{
    error::{ExchangeError, SendError},
    partition::RowIndex,
    stats::ExchangeStats,
};

pub(crate) struct ReserveProducer {
    index: usize,
    shared: Arc<Shared>,
    rows: RowIndex,
    claims: Vec<Claim<Chunk>>,
    segments: Vec<Segment>,
    /// The consumer of each segment.
    owners: Vec<u32>,
    idle: bool,
    waiting_since: Option<Instant>,
    finished: bool,
    stats: ExchangeStats,
}

impl ReserveProducer {
    pub(crate) fn new(index: usize, shared: Arc<Shared>) -> Self {
        Self {
            index,
            shared,
            rows: RowIndex::new(),
            claims: Vec::new(),
            segments: Vec::new(),
            owners: Vec::new(),
            idle: false,
            waiting_since: None,
            finished: false,
            stats: ExchangeStats::default(),
        }
    }

    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ExchangeError>> {
        if let Some(answer) = self.admission() {
            return Poll::Ready(answer);
        }
        self.shared.gate.park(self.index, cx.waker(), &mut self.stats);
        if let Some(answer) = self.admission() {
            return Poll::Ready(answer);
        }
        if self.waiting_since.is_none() {
            self.waiting_since = Some(Instant::now());
            self.stats.waits += 1;
        }
        Poll::Pending
    }

    fn admission(&mut self) -> Option<Result<(), ExchangeError>> {
        let answer = match self.shared.refusal() {
            Some(error) => Err(error),
            None if self.shared.gate.admits() => Ok(()),
            None => return None,
        };
        if let Some(since) = self.waiting_since.take() {
            self.stats.wait_ns += since.elapsed().as_nanos() as u64;
        }
        Some(answer)
    }

    pub(crate) fn send_hashed(&mut self, batch: RecordBatch, hashes: &[u64]) -> Result<(), SendError<RecordBatch>> {
        if let Some(error) = self.shared.refusal() {
            return Err(SendError { value: batch, error });
        }
        if std::mem::take(&mut self.idle) {
            self.shared.producer_resumes(&mut self.stats);
        }
        self.rows.fill_from_hashes(hashes, &self.shared.modulo);
        self.claim();
        let in_flight = InFlight { producer: self };
        let producer = &*in_flight.producer;
        // SAFETY: the index was made from one hash a row, and the facade has checked the hashes' number and the schema.
        let cost =
            unsafe { copy_batch(&batch, &producer.shared.shape, producer.rows.rows().as_slice(), &producer.segments) };
        in_flight.producer.stats.bytes_copied += cost.bytes;
        in_flight.producer.stats.shared_ops += cost.shared_ops;
        drop(in_flight);
        self.stats.batches += 1;
        self.stats.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Claims room for every row that somebody wants.
    fn claim(&mut self) {
        let shared = &*self.shared;
        let capacity = shared.shape.capacity as u32;
        let offsets = self.rows.offsets();
        for (consumer, bounds) in offsets.windows(2).enumerate() {
            let (mut first, end) = (bounds[0], bounds[1]);
            if first == end || !shared.wants(consumer) {
                continue;
            }
            while first < end {
                let rows = capacity.min(end - first);
                self.stats.shared_ops += shared.lane(consumer).claim(
                    rows,
                    || shared.fresh_chunk(),
                    |open| shared.discard(open),
                    &mut self.claims,
                );
                for claim in self.claims.drain(..) {
                    let len = claim.len;
                    self.segments.push(Segment { claim, first });
                    self.owners.push(consumer as u32);
                    first += len;
                }
            }
        }
    }

    fn complete(&mut self) {
        let capacity = self.shared.shape.capacity as u32;
        self.stats.shared_ops += self.segments.len() as u64;
        for (segment, consumer) in self.segments.drain(..).zip(self.owners.drain(..)) {
            if let Some(open) = segment.claim.complete(capacity) {
                self.shared.deliver(consumer as usize, open, &mut self.stats);
            }
        }
    }

    pub(crate) fn idle(&mut self) {
        if !std::mem::replace(&mut self.idle, true) {
            self.shared.producer_idles(&mut self.stats);
        }
    }

    pub(crate) fn finish(&mut self) {
        if !std::mem::replace(&mut self.finished, true) {
            if std::mem::take(&mut self.idle) {
                self.shared.producer_resumes(&mut self.stats);
            }
            self.shared.producer_finishes(&mut self.stats);
        }
    }

    pub(crate) fn stop(&mut self, error: ExchangeError) {
        self.shared.stop(error, &mut self.stats);
    }

    pub(crate) fn stats(&self) -> ExchangeStats {
        self.stats
    }
}

impl Drop for ReserveProducer {
    fn drop(&mut self) {
        if !self.finished {
            self.stop(ExchangeError::ProducerLost { producer: self.index });
            self.finish();
        }
    }
}

/// Claims between claim and completion. Dropping it completes them, also when the copy panics: the rows are then not
/// what they should be, so the exchange is stopped first.
struct InFlight<'a> {
    producer: &'a mut ReserveProducer,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let producer = self.producer.index;
            self.producer.stop(ExchangeError::ProducerLost { producer });
        }
        self.producer.complete();
    }
}
