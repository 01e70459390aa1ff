//! The producer's side: admission, then claim, copy, complete.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use arrow::array::RecordBatch;

use super::{
    chunk::Chunk,
    copy::{Combiner, Order, Segment, copy_batch},
    lane::Claim,
    shared::Shared,
};
use crate::{
    error::{ExchangeError, SendError, StopError},
    partition::RowIndex,
    stats::ExchangeStats,
};

/// From this many consumers on, combining beats gathering.
const COMBINE_MIN_CONSUMERS: usize = 8;

pub(crate) struct ReserveProducer {
    index: usize,
    shared: Arc<Shared>,
    rows: RowIndex,
    claims: Vec<Claim<Chunk>>,
    segments: Vec<Segment>,
    combiner: Combiner,
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
            combiner: Combiner::default(),
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
        let combine = self.shared.consumers() >= COMBINE_MIN_CONSUMERS;
        if combine {
            self.rows.place_from_hashes(hashes, &self.shared.modulo);
        } else {
            self.rows.fill_from_hashes(hashes, &self.shared.modulo);
        }
        self.claim();
        let mut in_flight = InFlight { producer: self };
        in_flight.copy(&batch, combine);
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
                    self.segments.push(Segment { claim, consumer: consumer as u32, first });
                    first += len;
                }
            }
        }
    }

    fn complete(&mut self) {
        let capacity = self.shared.shape.capacity as u32;
        self.stats.shared_ops += self.segments.len() as u64;
        for segment in self.segments.drain(..) {
            if let Some(open) = segment.claim.complete(capacity) {
                self.shared.deliver(segment.consumer as usize, open, &mut self.stats);
            }
        }
    }

    pub(crate) fn is_crowded(&self) -> bool {
        self.shared.gate.is_over()
    }

    pub(crate) fn idle(&mut self) {
        if !std::mem::replace(&mut self.idle, true) {
            self.shared.producer_idles(&mut self.stats);
        }
    }

    pub(crate) fn finish(mut self) -> ExchangeStats {
        self.end();
        self.stats
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.finished, true) {
            if std::mem::take(&mut self.idle) {
                self.shared.producer_resumes(&mut self.stats);
            }
            self.shared.producer_finishes(&mut self.stats);
        }
    }

    pub(crate) fn stop(&mut self, error: StopError) {
        self.shared.stop(ExchangeError::Stopped(error), &mut self.stats);
    }

    pub(crate) fn stats(&self) -> ExchangeStats {
        self.stats
    }
}

impl Drop for ReserveProducer {
    fn drop(&mut self) {
        if !self.finished {
            self.shared.stop(ExchangeError::ProducerLost { producer: self.index }, &mut self.stats);
            self.end();
        }
    }
}

/// Claims between claim and completion. Dropping it completes them, also when the copy panics: the rows are then not
/// what they should be, so the exchange is stopped first.
struct InFlight<'a> {
    producer: &'a mut ReserveProducer,
}

impl InFlight<'_> {
    fn copy(&mut self, batch: &RecordBatch, combine: bool) {
        let ReserveProducer { shared, rows, segments, combiner, stats, .. } = &mut *self.producer;
        let order = if combine { Order::Combine(rows.positions()) } else { Order::Gather(rows.rows().as_slice()) };
        // SAFETY: the order was made from one hash a row and the segments cover it; the facade has checked the number of
        // hashes and the schema.
        let cost = unsafe { copy_batch(batch, &shared.shape, order, segments, combiner) };
        stats.bytes_copied += cost.bytes;
        stats.shared_ops += cost.shared_ops;
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ReserveProducer { index, shared, stats, .. } = &mut *self.producer;
            shared.stop(ExchangeError::ProducerLost { producer: *index }, stats);
        }
        self.producer.complete();
    }
}
