//! The rows that were taken off a transport on behalf of a slow consumer, so that the others can
//! continue.

use std::{
    collections::VecDeque,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use annulus_rows::gather::BatchBuilder;
use arrow::array::RecordBatch;

use super::PublishCore;
use crate::{contract::Unread, error::ExchangeError, indexed::IndexedBatch, overflow::Delivery, stats::ExchangeStats};

/// The overflow of one consumer, in one ring. It is locked only while the transport is full and a
/// consumer starves, and when it is emptied.
#[derive(Default)]
pub(super) struct Laggard {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// The last rows, fewer than a batch.
    builder: Option<BatchBuilder>,
    /// The bytes that are accounted for them. None if the budget has refused them, which spills no
    /// batch before it is full, or after an [`append`](Laggard::append).
    open_bytes: usize,
    /// Complete batches, oldest first. `None` is one that a producer is accounting for, or
    /// spilling.
    items: VecDeque<Option<Item>>,
    gone: bool,
}

/// A complete batch, and the bytes that are accounted for it.
type Item = (Delivery, usize);

impl Laggard {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies the rows of `consumer` out of batches of the transport, to accounted memory or else
    /// to disk. The transport sees to it that one producer at a time does so for a consumer in a
    /// ring.
    pub(super) fn push(
        consumer: usize,
        ring: usize,
        batches: &mut dyn Unread<IndexedBatch>,
        shared: &PublishCore,
        stats: &mut ExchangeStats,
    ) -> Result<(), ExchangeError> {
        // Not under the lock: taking values off the transport wakes other handles, whose code may call
        // this. The consumer sees none of the rows before the hand-over ends.
        // Taken with the first batch: without one, the consumer does not know of this hand-over, and
        // may look for the rows in the builder meanwhile.
        let mut taken = None;
        let take = || {
            let mut queue = shared.laggard(consumer, ring).lock();
            let (gone, builder, open_bytes) = (queue.gone, queue.builder.take(), mem::take(&mut queue.open_bytes));
            drop(queue);
            // They are accounted for again, with the rows that come, once a hand-over.
            shared.forget(open_bytes);
            (!gone).then(|| builder.unwrap_or_else(|| shared.builder()))
        };
        let mut kept = AccountedItems { shared, items: VecDeque::new() };
        let mut whole = Vec::new();
        // If this fails, none of the rows are delivered: the exchange stops before the consumer
        // sees any later row.
        batches.try_for_each(&mut |batch| {
            stats.locks += u64::from(taken.is_none());
            let Some(builder) = taken.get_or_insert_with(take) else { return Ok(()) };
            copy(batch, consumer, builder, &mut whole, stats)?;
            for batch in whole.drain(..) {
                kept.items.push_back(Some(keep(consumer, batch, shared, stats)?));
            }
            Ok::<_, ExchangeError>(())
        })?;
        let Some(builder) = taken.flatten() else { return Ok(()) };
        let open_bytes = builder.allocated_bytes();
        let open_bytes = if shared.account(open_bytes) { open_bytes } else { 0 };
        let mut queue = shared.laggard(consumer, ring).lock();
        stats.locks += 1;
        if queue.gone {
            drop(queue);
            shared.forget(open_bytes);
            return Ok(());
        }
        queue.builder = Some(builder);
        queue.open_bytes = open_bytes;
        queue.items.append(&mut kept.items);
        Ok(())
    }

    /// Copies the rows of `consumer` out of one batch, as [`push`](Self::push) does, for a
    /// transport of which several producers may do so at once. No consumer looks for the rows
    /// before all of them have ended.
    ///
    /// The lock orders the rows. The embedder is called without it: a spill may run another
    /// producer.
    pub(super) fn append(
        consumer: usize,
        batch: &IndexedBatch,
        shared: &PublishCore,
        stats: &mut ExchangeStats,
    ) -> Result<(), ExchangeError> {
        let laggard = shared.laggard(consumer, 0);
        let mut whole = Vec::new();
        stats.locks += 1;
        let mut queue = laggard.lock();
        if queue.gone {
            return Ok(());
        }
        let first = queue.items.len();
        copy(batch, consumer, queue.builder.get_or_insert_with(|| shared.builder()), &mut whole, stats)?;
        queue.items.resize_with(first + whole.len(), || None);
        drop(queue);
        for (place, batch) in (first..).zip(whole) {
            let mut kept =
                AccountedItems { shared, items: VecDeque::from([Some(keep(consumer, batch, shared, stats)?)]) };
            stats.locks += 1;
            // There is no such place if the consumer went away.
            if let Some(item) = laggard.lock().items.get_mut(place) {
                *item = kept.items.pop_front().flatten();
            }
        }
        Ok(())
    }

    /// Returns the next rows, oldest first.
    pub(super) fn pop(
        &self,
        shared: &PublishCore,
        stats: &mut ExchangeStats,
    ) -> Result<Option<Delivery>, ExchangeError> {
        stats.locks += 1;
        // What the embedder's code does on a release must not find the lock held.
        let mut queue = self.lock();
        match queue.items.pop_front() {
            Some(Some((delivery, bytes))) => {
                drop(queue);
                shared.forget(bytes);
                return Ok(Some(delivery));
            }
            // Its producer has failed, which is what the transport reports next.
            Some(None) => return Ok(None),
            None => {}
        }
        let (builder, open_bytes) = (queue.builder.take(), mem::take(&mut queue.open_bytes));
        drop(queue);
        shared.forget(open_bytes);
        let Some(mut builder) = builder else { return Ok(None) };
        let rest = builder.finish()?;
        if let Some(rest) = &rest {
            count(rest, stats);
        }
        Ok(rest.map(Delivery::Batch))
    }

    /// Frees the rows of a consumer that is gone, and accepts no more rows.
    pub(super) fn close(&self, shared: &PublishCore) {
        let mut queue = self.lock();
        queue.gone = true;
        let (builder, items) = (queue.builder.take(), mem::take(&mut queue.items));
        let open_bytes = mem::take(&mut queue.open_bytes);
        drop(queue);
        drop(builder);
        let kept = AccountedItems { shared, items };
        shared.forget(open_bytes);
        drop(kept);
    }
}

/// Batches that are not in a queue. Unless they are put there, their accounting is undone.
struct AccountedItems<'a> {
    shared: &'a PublishCore,
    items: VecDeque<Option<Item>>,
}

impl Drop for AccountedItems<'_> {
    fn drop(&mut self) {
        for (_, bytes) in self.items.drain(..).flatten() {
            self.shared.forget(bytes);
        }
    }
}

impl PublishCore {
    /// Accounts for rows in memory beyond the bound, and returns whether limit and budget allow
    /// them.
    fn account(&self, bytes: usize) -> bool {
        if !self.overflow_bytes.try_add(bytes) {
            return false;
        }
        let reserved = self.indexer.overflow.try_reserve(bytes);
        if !reserved {
            self.overflow_bytes.subtract(bytes);
        }
        reserved
    }

    /// Undoes the accounting of rows that have left memory.
    fn forget(&self, bytes: usize) {
        if bytes > 0 {
            self.overflow_bytes.subtract(bytes);
            self.indexer.overflow.release(bytes);
        }
    }
}

/// Appends the rows of `consumer` to its builder, and the batches that this completes to `whole`.
fn copy(
    batch: &IndexedBatch,
    consumer: usize,
    builder: &mut BatchBuilder,
    whole: &mut Vec<RecordBatch>,
    stats: &mut ExchangeStats,
) -> Result<(), ExchangeError> {
    let bytes = batch.copy_rows(consumer, builder, |batch| {
        whole.push(batch);
        Ok(())
    })?;
    stats.bytes_copied += bytes as u64;
    Ok(())
}

fn keep(
    consumer: usize,
    batch: RecordBatch,
    shared: &PublishCore,
    stats: &mut ExchangeStats,
) -> Result<Item, ExchangeError> {
    let bytes = count(&batch, stats);
    if shared.account(bytes) {
        return Ok((Delivery::Batch(batch), bytes));
    }
    let spilled = shared.indexer.overflow.spill(consumer, batch).map_err(ExchangeError::Stopped)?;
    Ok((Delivery::Spilled(spilled), 0))
}

fn count(batch: &RecordBatch, stats: &mut ExchangeStats) -> usize {
    let bytes = batch.get_array_memory_size();
    stats.overflow_rows += batch.num_rows() as u64;
    stats.overflow_bytes += bytes as u64;
    bytes
}
