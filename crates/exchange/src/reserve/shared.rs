//! The state that the handles of an exchange share: the claim words, the gate, the live handles,
//! and the first error.

use std::{
    sync::{Arc, OnceLock},
    task::Waker,
};

use annulus_rows::partition::Modulo;
use annulus_sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use arrow::{array::RecordBatch, datatypes::SchemaRef};

use super::{
    chunk::{Chunk, ChunkShape},
    claim::{ClaimWord, CountedChunk},
    gate::Gate,
    order,
    queue::{Item, Queue, RefusedItem},
};
use crate::{
    activity::Activity,
    config::ExchangeConfig,
    error::ExchangeError,
    overflow::{Overflow, OverflowBytes},
    stats::ExchangeStats,
    wake::AllCalls,
};

pub(crate) struct ReserveCore {
    pub(crate) shape: ChunkShape,
    pub(crate) modulo: Modulo,
    pub(crate) full_batches: bool,
    pub(crate) gate: Gate,
    pub(crate) overflow: Arc<dyn Overflow>,
    consumers: Box<[PerConsumer]>,
    overflow_bytes: OverflowBytes,
    activity: Activity,
    /// The number of producers that may still hand over rows. This count is exact; those of
    /// `activity` are hints.
    unfinished: AtomicUsize,
    live_consumers: AtomicUsize,
    stopped: OnceLock<ExchangeError>,
}

/// The claim word and the queue of one consumer.
struct PerConsumer {
    claim_word: ClaimWord<Chunk>,
    /// Whether the consumer is gone, so that its rows need not be copied.
    gone: AtomicBool,
    queue: Queue,
}

impl ReserveCore {
    pub(crate) fn new(config: &ExchangeConfig, schema: SchemaRef, overflow: Arc<dyn Overflow>) -> Self {
        let limit = (config.groups + 1) * config.group_slots();
        let shape = ChunkShape::new(schema, config, config.consumers + limit);
        let capacity = shape.capacity as u32;
        let per_consumer =
            |_| PerConsumer { claim_word: ClaimWord::new(capacity), gone: AtomicBool::new(false), queue: Queue::new() };
        Self {
            shape,
            modulo: Modulo::new(config.consumers),
            full_batches: config.full_batches,
            gate: Gate::new(limit, config.producers),
            overflow,
            consumers: (0..config.consumers).map(per_consumer).collect(),
            overflow_bytes: OverflowBytes::new(config.overflow_bytes),
            activity: Activity::new(config.producers),
            unfinished: AtomicUsize::new(config.producers),
            live_consumers: AtomicUsize::new(config.consumers),
            stopped: OnceLock::new(),
        }
    }

    pub(crate) fn claim_word(&self, consumer: usize) -> &ClaimWord<Chunk> {
        &self.consumers[consumer].claim_word
    }

    pub(crate) fn queue(&self, consumer: usize) -> &Queue {
        &self.consumers[consumer].queue
    }

    /// Returns whether the consumer still wants its rows.
    pub(crate) fn wants(&self, consumer: usize) -> bool {
        !self.consumers[consumer].gone.load(Relaxed)
    }

    /// Returns the number of consumers, N.
    pub(crate) fn consumers(&self) -> usize {
        self.consumers.len()
    }

    /// Returns the reason why the exchange accepts no more rows, if there is one.
    pub(crate) fn refusal(&self) -> Option<ExchangeError> {
        if let Some(error) = self.stopped.get() {
            return Some(error.clone());
        }
        (self.live_consumers.load(Relaxed) == 0).then_some(ExchangeError::ConsumersGone)
    }

    /// Returns the error that stopped the exchange, if one did.
    pub(crate) fn stop_error(&self) -> Option<&ExchangeError> {
        self.stopped.get()
    }

    /// Stops the exchange. The first error is kept. Wakes all waiting handles, even if a waker
    /// panics.
    pub(crate) fn stop(&self, error: ExchangeError, stats: &mut ExchangeStats) {
        if self.stopped.set(error).is_err() {
            return;
        }
        let mut calls = AllCalls::default();
        for consumer in &self.consumers {
            calls.call(|| {
                if let Some(waker) = consumer.queue.waker(stats) {
                    stats.wakeups += 1;
                    waker.wake();
                }
            });
        }
        calls.call(|| self.gate.wake_producers(stats));
        calls.finish();
    }

    /// Wakes a consumer whose waker was taken from its queue.
    pub(crate) fn feed(&self, waker: Option<Waker>, stats: &mut ExchangeStats) {
        if let Some(waker) = waker {
            self.gate.feed();
            stats.wakeups += 1;
            waker.wake();
        }
    }

    /// Creates an empty chunk. Its memory is accounted for if the budget allows.
    pub(crate) fn fresh_chunk(&self) -> Box<CountedChunk<Chunk>> {
        let bytes = self.shape.fixed_bytes();
        let reserved = if self.overflow.try_reserve(bytes) { bytes } else { 0 };
        CountedChunk::new(self.shape.chunk(reserved), self.shape.capacity as u32)
    }

    /// Gives back a chunk that is not needed.
    pub(crate) fn discard(&self, open: CountedChunk<Chunk>) {
        self.overflow.release(open.chunk.reserved_bytes);
    }

    /// Hands a whole chunk to its consumer: in memory if the budget allows, else through the
    /// embedder's disk.
    pub(crate) fn deliver(&self, consumer: usize, open: Box<CountedChunk<Chunk>>, stats: &mut ExchangeStats) {
        // R7: a claim that was given up unwritten was completed after the stop, so the stop is visible
        // here.
        if !self.wants(consumer) || self.stop_error().is_some() {
            return self.discard(*open);
        }
        let rows = open.rows() as u64;
        let bytes = open.chunk.memory_bytes();
        let mut held = self.held(&open);
        let over = if self.gate.queue() { bytes } else { 0 };
        if over > 0 {
            stats.overflow_rows += rows;
            stats.overflow_bytes += bytes as u64;
        }
        let within = self.overflow_bytes.try_add(over);
        let item = if within && held.grow_to(bytes) {
            Item::Chunk { open, reserved: held.keep(), over }
        } else {
            self.overflow_bytes.subtract(if within { over } else { 0 });
            match self.spill(consumer, *open, held) {
                Ok(item) => item,
                Err(error) => {
                    self.gate.dequeue(stats);
                    return self.stop(error, stats);
                }
            }
        };
        match self.queue(consumer).push(item, stats) {
            Ok(waker) => self.feed(waker, stats),
            Err(RefusedItem(item)) => self.take(item, stats, |_| ()),
        }
    }

    fn spill(&self, consumer: usize, open: CountedChunk<Chunk>, held: Held<'_>) -> Result<Item, ExchangeError> {
        let batch = self.batch(open)?;
        let spilled = self.overflow.spill(consumer, batch).map(Item::Spilled).map_err(ExchangeError::Stopped);
        drop(held);
        spilled
    }

    /// Returns the accounting of a chunk, which is undone when it is dropped, unless it is kept.
    fn held(&self, open: &CountedChunk<Chunk>) -> Held<'_> {
        Held { overflow: &*self.overflow, bytes: open.chunk.reserved_bytes }
    }

    /// Returns the rows of a whole chunk.
    pub(crate) fn batch(&self, open: CountedChunk<Chunk>) -> Result<RecordBatch, ExchangeError> {
        let rows = open.rows();
        // SAFETY: the chunk is whole. Every claim was completed with Release, and the last completion
        // acquired them (R3).
        unsafe { open.chunk.into_batch(&self.shape, rows) }.map_err(ExchangeError::from)
    }

    /// Undoes the accounting of an item that has left its queue, and passes it to `then`.
    pub(crate) fn take<R>(&self, item: Item, stats: &mut ExchangeStats, then: impl FnOnce(Item) -> R) -> R {
        if let Item::Chunk { reserved, over, .. } = &item {
            self.overflow.release(*reserved);
            self.overflow_bytes.subtract(*over);
        }
        self.gate.dequeue(stats);
        then(item)
    }

    /// Hands over the rows of a consumer's open chunk.
    pub(crate) fn flush(&self, consumer: usize, stats: &mut ExchangeStats) {
        if let Some(open) = self.claim_word(consumer).seal() {
            self.deliver(consumer, open, stats);
        }
    }

    /// Takes the rows of a consumer's open chunk, for the consumer itself.
    pub(crate) fn take_open(&self, consumer: usize) -> Option<Item> {
        let open = self.claim_word(consumer).seal()?;
        if self.stop_error().is_some() {
            // R7, as in `deliver`.
            self.discard(*open);
            return None;
        }
        self.gate.queue();
        let reserved = open.chunk.reserved_bytes;
        Some(Item::Chunk { open, reserved, over: 0 })
    }

    /// Counts a producer as idle: its input has nothing ready. If all producers are idle, the rows
    /// in open chunks go to the waiting consumers.
    pub(crate) fn producer_idles(&self, stats: &mut ExchangeStats) {
        let all_idle = self.activity.idle();
        stats.shared_ops += 1;
        self.flush_if(all_idle, stats);
    }

    /// Counts a producer as no longer idle: its input has rows again.
    pub(crate) fn producer_resumes(&self, stats: &mut ExchangeStats) {
        self.activity.resume();
        stats.shared_ops += 1;
    }

    /// Ends a producer that has sent all its rows. The last one ends the consumers' streams.
    pub(crate) fn producer_finishes(&self, stats: &mut ExchangeStats) {
        let all_idle = self.activity.finish();
        self.flush_if(all_idle, stats);
        stats.shared_ops += 2;
        // Only now, when all rows that this producer took out of a claim word are in its queue (R8).
        if self.unfinished.fetch_sub(1, order::last_finish()) > 1 {
            return;
        }
        for consumer in 0..self.consumers.len() {
            self.flush(consumer, stats);
            let waker = self.queue(consumer).end(stats);
            self.feed(waker, stats);
        }
    }

    /// Returns whether no producer has anything to send at the moment.
    pub(crate) fn all_idle(&self) -> bool {
        self.activity.all_idle()
    }

    /// Hands the rows in open chunks to the waiting consumers if no producer is at work. The fence
    /// of `Activity` stands between the count of the caller and the look for them.
    fn flush_if(&self, all_idle: bool, stats: &mut ExchangeStats) {
        if all_idle && self.gate.anyone_starves() {
            for consumer in 0..self.consumers.len() {
                if self.queue(consumer).is_awaited(stats) {
                    self.flush(consumer, stats);
                }
            }
        }
    }

    /// Removes a consumer that is gone: frees its rows, and no more are copied for it.
    pub(crate) fn consumer_leaves(&self, consumer: usize, stats: &mut ExchangeStats) {
        self.consumers[consumer].gone.store(true, Relaxed);
        let (items, waker) = self.queue(consumer).close(stats);
        if waker.is_some() {
            self.gate.feed();
        }
        let mut calls = AllCalls::default();
        calls.call(|| drop(waker));
        for item in items {
            calls.call(|| self.take(item, stats, |_| ()));
        }
        if let Some(open) = self.claim_word(consumer).seal() {
            calls.call(|| self.discard(*open));
        }
        self.live_consumers.fetch_sub(1, Relaxed);
        calls.call(|| self.gate.wake_producers(stats));
        calls.finish();
    }
}

/// Accounted bytes, which are released even if the embedder's code panics.
struct Held<'a> {
    overflow: &'a dyn Overflow,
    bytes: usize,
}

impl Held<'_> {
    fn grow_to(&mut self, bytes: usize) -> bool {
        let granted = bytes <= self.bytes || self.overflow.try_reserve(bytes - self.bytes);
        if granted {
            self.bytes = self.bytes.max(bytes);
        }
        granted
    }

    fn keep(mut self) -> usize {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.overflow.release(self.bytes);
        }
    }
}

impl Drop for ReserveCore {
    fn drop(&mut self) {
        for consumer in &self.consumers {
            if let Some(open) = consumer.claim_word.seal() {
                self.overflow.release(open.chunk.reserved_bytes);
            }
        }
    }
}
