//! The producer's side: waits for admission, then claims, copies and completes.

use std::{
    ops::Range,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use annulus_rows::{partition::RowIndex, rows_bytes};
use arrow::array::RecordBatch;

use super::{
    chunk::Chunk,
    claim::Claim,
    copy::{Combiner, Order, Segment, copy_batches},
    shared::ReserveCore,
};
use crate::{
    error::{ExchangeError, SendError, StopError},
    stats::ExchangeStats,
};

/// The number of consumers from which combining is faster than gathering.
const COMBINE_MIN_CONSUMERS: usize = 8;
/// The number of rows left free between consumers in the combining buffer. The consumers' runs have
/// about the same length, often a power of two. Without gaps, all of them would be written to the
/// same few sets of the first-level cache.
const COMBINE_GAP: u32 = 8;
/// The number of rows per consumer, on average, until which a producer holds batches back. Shorter
/// runs cost more to place than to copy.
const RUN_ROWS: usize = 256;
/// The largest number of batches that a producer holds back, if the budget allows.
const MAX_HELD: usize = 8;

pub(crate) struct ReserveProducer {
    index: usize,
    shared: Arc<ReserveCore>,
    rows: RowIndex,
    claims: Vec<Claim<Chunk>>,
    segments: Vec<Segment>,
    combiner: Combiner,
    /// The batches that are not copied yet, so that runs get longer. `rows` has their rows, and
    /// `held_bytes` bytes are accounted for them.
    held: Vec<RecordBatch>,
    held_bytes: usize,
    /// The number of held rows at which they are copied.
    flush_rows: usize,
    idle: bool,
    waiting_since: Option<Instant>,
    finished: bool,
    stats: ExchangeStats,
}

impl ReserveProducer {
    pub(crate) fn new(index: usize, shared: Arc<ReserveCore>) -> Self {
        let rows = RUN_ROWS * shared.consumers();
        let hold = shared.consumers() >= COMBINE_MIN_CONSUMERS && rows > shared.shape.capacity;
        let flush_rows = if hold { rows } else { 0 };
        Self {
            index,
            shared,
            rows: RowIndex::new(),
            claims: Vec::new(),
            segments: Vec::new(),
            combiner: Combiner::default(),
            held: Vec::new(),
            held_bytes: 0,
            flush_rows,
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
        self.stats.batches += 1;
        self.stats.rows += batch.num_rows() as u64;
        if self.held.is_empty() {
            self.rows.clear();
        }
        self.rows.add_hashes(hashes, &self.shared.modulo);
        if self.flush_rows == 0 {
            self.held.push(batch);
            self.flush();
            return Ok(());
        }
        let bytes = rows_bytes(&batch);
        let accounted = self.shared.overflow.try_reserve(bytes);
        self.held_bytes += if accounted { bytes } else { 0 };
        self.held.push(batch);
        if !accounted || self.rows.targets().len() >= self.flush_rows || self.held.len() >= MAX_HELD {
            self.flush();
        }
        Ok(())
    }

    /// Copies the batches that are held.
    fn flush(&mut self) {
        if self.held.is_empty() || self.shared.refusal().is_some() {
            return;
        }
        let combine = self.shared.consumers() >= COMBINE_MIN_CONSUMERS;
        let mut in_flight = InFlight { producer: self };
        let ReserveProducer { rows, .. } = &mut *in_flight.producer;
        let placed = if combine { rows.place(COMBINE_GAP) } else { rows.group() };
        if let Err(error) = placed {
            let producer = &mut *in_flight.producer;
            return producer.shared.stop(error.into(), &mut producer.stats);
        }
        in_flight.producer.claim();
        in_flight.copy(combine);
        in_flight.producer.complete();
    }

    /// Claims a range for every row whose consumer is still there.
    fn claim(&mut self) {
        let shared = &*self.shared;
        let capacity = shared.shape.capacity as u32;
        for consumer in 0..shared.consumers() {
            let Range { start: mut first, end } = self.rows.range(consumer);
            if first == end || !shared.wants(consumer) {
                continue;
            }
            while first < end {
                let rows = capacity.min(end - first);
                self.stats.shared_ops += shared.claim_word(consumer).claim(
                    rows,
                    || shared.fresh_chunk(),
                    |open| shared.discard(*open),
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
        // In order, because a producer's rows keep their order. One by one, because a delivery may
        // panic.
        self.segments.reverse();
        while let Some(segment) = self.segments.pop() {
            if let Some(open) = segment.claim.complete(capacity) {
                self.shared.deliver(segment.consumer as usize, open, &mut self.stats);
            }
        }
    }

    pub(crate) fn has_overflow(&self) -> bool {
        self.shared.gate.is_over()
    }

    pub(crate) fn idle(&mut self) {
        self.flush();
        if !self.shared.full_batches && !std::mem::replace(&mut self.idle, true) {
            self.shared.producer_idles(&mut self.stats);
        }
    }

    pub(crate) fn finish(mut self) -> ExchangeStats {
        if std::mem::take(&mut self.idle) {
            self.shared.producer_resumes(&mut self.stats);
        }
        self.flush();
        self.shared.producer_finishes(&mut self.stats);
        self.finished = true;
        self.stats
    }

    /// Stops the exchange after a call of this producer has panicked: its rows may be incomplete.
    pub(crate) fn lost(&mut self) {
        self.shared.stop(ExchangeError::ProducerLost { producer: self.index }, &mut self.stats);
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
        self.shared.overflow.release(self.held_bytes);
        if !self.finished {
            self.lost();
        }
    }
}

/// The batches that are being copied, and their claims until these are completed. If claims are
/// left when this is dropped, there was a panic and their rows are not written. So the exchange is
/// stopped, and then the claims are completed (R7).
struct InFlight<'a> {
    producer: &'a mut ReserveProducer,
}

impl InFlight<'_> {
    fn copy(&mut self, combine: bool) {
        let ReserveProducer { shared, rows, segments, combiner, stats, held, .. } = &mut *self.producer;
        let order = if combine {
            Order::Combine(rows.positions(), *rows.offsets().last().unwrap_or(&0))
        } else {
            Order::Gather(rows.rows().as_slice())
        };
        // SAFETY: the order was made from one hash a row, and the segments cover it. `Producer` has checked
        // the number of hashes and the schema. More than one batch is held only with `combine`.
        let cost = unsafe { copy_batches(held, &shared.shape, order, segments, combiner) };
        stats.bytes_copied += cost.bytes;
        stats.shared_ops += cost.shared_ops;
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let ReserveProducer { index, shared, claims, segments, stats, held, held_bytes, .. } = &mut *self.producer;
        held.clear();
        shared.overflow.release(std::mem::take(held_bytes));
        if claims.is_empty() && segments.is_empty() {
            return;
        }
        shared.stop(ExchangeError::ProducerLost { producer: *index }, stats);
        for claim in claims.drain(..).chain(segments.drain(..).map(|segment| segment.claim)) {
            if let Some(open) = claim.complete(shared.shape.capacity as u32) {
                shared.discard(*open);
            }
        }
    }
}
