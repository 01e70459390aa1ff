//! The rows that were taken off a transport on behalf of a slow consumer, so that the others can
//! continue.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use annulus_rows::gather::BatchBuilder;
use arrow::array::RecordBatch;

use super::{Shared, indexed::IndexedBatch};
use crate::{error::ExchangeError, overflow::Delivery, stats::ExchangeStats, transport::Unread};

/// The overflow of one consumer, in one lane. It is locked only while the transport is full and a
/// consumer starves, and when it is emptied.
#[derive(Default)]
pub(super) struct Laggard {
    queue: Mutex<Queue>,
    /// Held during a hand-over if the transport does not see to it that there is one at a time.
    turn: Mutex<()>,
}

#[derive(Default)]
struct Queue {
    builder: Option<BatchBuilder>,
    items: VecDeque<(Delivery, usize)>,
    gone: bool,
}

impl Laggard {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies the rows of `consumer` out of batches of the transport, to accounted memory or else
    /// to disk.
    pub(super) fn push(
        consumer: usize,
        lane: usize,
        batches: &mut dyn Unread<IndexedBatch>,
        shared: &Shared,
        stats: &mut ExchangeStats,
    ) -> Result<(), ExchangeError> {
        // Not under the lock: taking values off the transport wakes other handles, whose code may call
        // this. Only one producer at a time hands over rows of this consumer in a lane, and the
        // consumer sees none of them before the hand-over ends.
        let turn = || shared.laggard(consumer, lane).turn.lock().unwrap_or_else(PoisonError::into_inner);
        let _turn = shared.keeps_all.then(turn);
        let fresh = || BatchBuilder::new(Arc::clone(&shared.schema), shared.batch_rows, Arc::clone(&shared.pool));
        // Taken with the first batch: without one, the consumer does not know of this hand-over, and
        // may look for the rows in the builder meanwhile.
        let mut taken = None;
        let take = || {
            let mut queue = shared.laggard(consumer, lane).lock();
            (!queue.gone).then(|| queue.builder.take().unwrap_or_else(fresh))
        };
        let mut kept = Kept { shared, items: VecDeque::new() };
        let mut whole = Vec::new();
        // If this fails, none of the rows are delivered: the exchange stops before the consumer
        // sees any later row.
        batches.try_for_each(&mut |batch| {
            stats.locks += u64::from(taken.is_none());
            let Some(builder) = taken.get_or_insert_with(take) else { return Ok(()) };
            stats.bytes_copied += batch.copy_rows(consumer, builder, |batch| {
                whole.push(batch);
                Ok(())
            })? as u64;
            for batch in whole.drain(..) {
                kept.items.push_back(keep(consumer, batch, shared, stats)?);
            }
            Ok::<_, ExchangeError>(())
        })?;
        let Some(builder) = taken.flatten() else { return Ok(()) };
        let mut queue = shared.laggard(consumer, lane).lock();
        stats.locks += 1;
        if !queue.gone {
            queue.builder = Some(builder);
            queue.items.append(&mut kept.items);
        }
        Ok(())
    }

    /// Returns the next rows, oldest first.
    pub(super) fn pop(&self, shared: &Shared, stats: &mut ExchangeStats) -> Result<Option<Delivery>, ExchangeError> {
        stats.locks += 1;
        // What the embedder's code does on a release must not find the lock held.
        let mut queue = self.lock();
        if let Some((delivery, reserved)) = queue.items.pop_front() {
            drop(queue);
            shared.forget(reserved);
            return Ok(Some(delivery));
        }
        let builder = queue.builder.take();
        drop(queue);
        let Some(mut builder) = builder else { return Ok(None) };
        let rest = builder.finish()?;
        if let Some(rest) = &rest {
            count(rest, stats);
        }
        Ok(rest.map(Delivery::Batch))
    }

    /// Frees the rows of a consumer that is gone, and accepts no more rows.
    pub(super) fn close(&self, shared: &Shared) {
        let mut queue = self.lock();
        queue.gone = true;
        let (builder, items) = (queue.builder.take(), std::mem::take(&mut queue.items));
        drop(queue);
        drop(builder);
        for (_, reserved) in items {
            shared.forget(reserved);
        }
    }
}

/// Rows that are not in the queue yet. If they are never added, their accounting is undone.
struct Kept<'a> {
    shared: &'a Shared,
    items: VecDeque<(Delivery, usize)>,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        for (_, reserved) in self.items.drain(..) {
            self.shared.forget(reserved);
        }
    }
}

impl Shared {
    /// Undoes the accounting of rows that have left memory.
    fn forget(&self, bytes: usize) {
        self.beyond.subtract(bytes);
        self.overflow.release(bytes);
    }
}

fn keep(
    consumer: usize,
    batch: RecordBatch,
    shared: &Shared,
    stats: &mut ExchangeStats,
) -> Result<(Delivery, usize), ExchangeError> {
    let bytes = count(&batch, stats);
    if shared.beyond.try_add(bytes) {
        if shared.overflow.try_reserve(bytes) {
            return Ok((Delivery::Batch(batch), bytes));
        }
        shared.beyond.subtract(bytes);
    }
    let spilled = shared.overflow.spill(consumer, batch).map_err(ExchangeError::Stopped)?;
    Ok((Delivery::Spilled(spilled), 0))
}

fn count(batch: &RecordBatch, stats: &mut ExchangeStats) -> usize {
    let bytes = batch.get_array_memory_size();
    stats.overflow_rows += batch.num_rows() as u64;
    stats.overflow_bytes += bytes as u64;
    bytes
}
