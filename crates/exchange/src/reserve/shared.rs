//! What the handles of an exchange share: the lanes, the gate, who is alive, and the first error.

use std::{
    sync::{Arc, OnceLock},
    task::Waker,
};

use annulus_rows::partition::Modulo;
use annulus_sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use arrow::{array::RecordBatch, datatypes::SchemaRef};

use super::{
    chunk::{Chunk, ChunkShape},
    gate::Gate,
    lane::{Lane, Open},
    order,
    queue::{Closed, Item, Queue},
};
use crate::{
    activity::Activity,
    config::ExchangeConfig,
    error::ExchangeError,
    overflow::{Beyond, Overflow},
    stats::ExchangeStats,
    wake::AllCalls,
};

pub(crate) struct Shared {
    pub(crate) shape: ChunkShape,
    pub(crate) modulo: Modulo,
    pub(crate) full_batches: bool,
    pub(crate) gate: Gate,
    pub(crate) overflow: Arc<dyn Overflow>,
    consumers: Box<[PerConsumer]>,
    beyond: Beyond,
    activity: Activity,
    /// Producers that may still hand something over. Other than `activity` counts, which only
    /// guess.
    unfinished: AtomicUsize,
    live_consumers: AtomicUsize,
    stopped: OnceLock<ExchangeError>,
}

/// The lane and the queue of one consumer.
struct PerConsumer {
    lane: Lane<Chunk>,
    /// The consumer is gone: its rows need not be copied.
    gone: AtomicBool,
    queue: Queue,
}

impl Shared {
    pub(crate) fn new(config: &ExchangeConfig, schema: SchemaRef, overflow: Arc<dyn Overflow>) -> Self {
        let limit = (config.groups + 1) * config.slots();
        let shape = ChunkShape::new(schema, config, config.consumers + limit);
        let capacity = shape.capacity as u32;
        let per_consumer =
            |_| PerConsumer { lane: Lane::new(capacity), gone: AtomicBool::new(false), queue: Queue::new() };
        Self {
            shape,
            modulo: Modulo::new(config.consumers),
            full_batches: config.full_batches,
            gate: Gate::new(limit, config.producers),
            overflow,
            consumers: (0..config.consumers).map(per_consumer).collect(),
            beyond: Beyond::new(config.overflow_bytes),
            activity: Activity::new(config.producers),
            unfinished: AtomicUsize::new(config.producers),
            live_consumers: AtomicUsize::new(config.consumers),
            stopped: OnceLock::new(),
        }
    }

    pub(crate) fn lane(&self, consumer: usize) -> &Lane<Chunk> {
        &self.consumers[consumer].lane
    }

    pub(crate) fn queue(&self, consumer: usize) -> &Queue {
        &self.consumers[consumer].queue
    }

    /// Whether rows for this consumer are still wanted.
    pub(crate) fn wants(&self, consumer: usize) -> bool {
        !self.consumers[consumer].gone.load(Relaxed)
    }

    /// Number of consumers, N.
    pub(crate) fn consumers(&self) -> usize {
        self.consumers.len()
    }

    /// Why the exchange takes no more rows, if it does not.
    pub(crate) fn refusal(&self) -> Option<ExchangeError> {
        if let Some(error) = self.stopped.get() {
            return Some(error.clone());
        }
        (self.live_consumers.load(Relaxed) == 0).then_some(ExchangeError::ConsumersGone)
    }

    /// The error that stopped the exchange, if one did.
    pub(crate) fn stop_error(&self) -> Option<&ExchangeError> {
        self.stopped.get()
    }

    /// Stops the exchange with the first error given; all who wait are woken, whichever waker
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

    /// A consumer's waker was taken from its queue.
    pub(crate) fn feed(&self, waker: Option<Waker>, stats: &mut ExchangeStats) {
        if let Some(waker) = waker {
            self.gate.feed();
            stats.wakeups += 1;
            waker.wake();
        }
    }

    /// An empty chunk; its memory is accounted for if the budget allows.
    pub(crate) fn fresh_chunk(&self) -> Box<Open<Chunk>> {
        let bytes = self.shape.fixed_bytes();
        let reserved = if self.overflow.try_reserve(bytes) { bytes } else { 0 };
        Open::new(self.shape.chunk(reserved), self.shape.capacity as u32)
    }

    /// Gives back a chunk that nobody needs.
    pub(crate) fn discard(&self, open: Open<Chunk>) {
        self.overflow.release(open.chunk.reserved_bytes);
    }

    /// Hands a whole chunk to its consumer: through memory if that is accounted for, else through
    /// the embedder's disk.
    pub(crate) fn deliver(&self, consumer: usize, open: Box<Open<Chunk>>, stats: &mut ExchangeStats) {
        // R7: a claim that was given up unwritten was completed after the exchange was stopped, so we see
        // the stop.
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
        let within = self.beyond.try_add(over);
        let item = if within && held.grow_to(bytes) {
            Item::Chunk { open, reserved: held.keep(), over }
        } else {
            self.beyond.subtract(if within { over } else { 0 });
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
            Err(Closed(item)) => self.take(item, stats, |_| ()),
        }
    }

    fn spill(&self, consumer: usize, open: Open<Chunk>, held: Held<'_>) -> Result<Item, ExchangeError> {
        let batch = self.batch(open)?;
        let spilled = self.overflow.spill(consumer, batch).map(Item::Spilled).map_err(ExchangeError::Stopped);
        drop(held);
        spilled
    }

    /// What is accounted for a chunk, to be given back unless it is kept.
    fn held(&self, open: &Open<Chunk>) -> Held<'_> {
        Held { overflow: &*self.overflow, bytes: open.chunk.reserved_bytes }
    }

    /// The rows of a whole chunk.
    pub(crate) fn batch(&self, open: Open<Chunk>) -> Result<RecordBatch, ExchangeError> {
        let rows = open.rows();
        // SAFETY: the chunk is whole: every claim was completed with Release and the last completion
        // acquired them (R3).
        unsafe { open.chunk.into_batch(&self.shape, rows) }.map_err(ExchangeError::from)
    }

    /// An item has left its queue: gives back what it occupied, and passes it on.
    pub(crate) fn take<R>(&self, item: Item, stats: &mut ExchangeStats, then: impl FnOnce(Item) -> R) -> R {
        if let Item::Chunk { reserved, over, .. } = &item {
            self.overflow.release(*reserved);
            self.beyond.subtract(*over);
        }
        self.gate.dequeue(stats);
        then(item)
    }

    /// Hands over what a consumer's open chunk has.
    pub(crate) fn flush(&self, consumer: usize, stats: &mut ExchangeStats) {
        if let Some(open) = self.lane(consumer).seal() {
            self.deliver(consumer, open, stats);
        }
    }

    /// What a consumer's open chunk has, for the consumer itself.
    pub(crate) fn take_open(&self, consumer: usize) -> Option<Item> {
        let open = self.lane(consumer).seal()?;
        if self.stop_error().is_some() {
            // R7, as in `deliver`.
            self.discard(*open);
            return None;
        }
        self.gate.queue();
        let reserved = open.chunk.reserved_bytes;
        Some(Item::Chunk { open, reserved, over: 0 })
    }

    /// A producer's input has nothing ready. If that holds for all, rows in open chunks go to those
    /// who wait.
    pub(crate) fn producer_idles(&self, stats: &mut ExchangeStats) {
        self.activity.idle();
        stats.shared_ops += 1;
        self.flush_if_all_idle(stats);
    }

    /// Its input has something again.
    pub(crate) fn producer_resumes(&self, stats: &mut ExchangeStats) {
        self.activity.resume();
        stats.shared_ops += 1;
    }

    /// A producer has sent all; the last one ends the consumers' streams.
    pub(crate) fn producer_finishes(&self, stats: &mut ExchangeStats) {
        self.activity.finish();
        self.flush_if_all_idle(stats);
        stats.shared_ops += 2;
        // Only now: whatever this producer took out of a lane is in its queue (R8).
        if self.unfinished.fetch_sub(1, order::last_finish()) > 1 {
            return;
        }
        for consumer in 0..self.consumers.len() {
            self.flush(consumer, stats);
            let waker = self.queue(consumer).end(stats);
            self.feed(waker, stats);
        }
    }

    /// Whether no producer has anything to send for now.
    pub(crate) fn all_idle(&self) -> bool {
        self.activity.all_idle()
    }

    fn flush_if_all_idle(&self, stats: &mut ExchangeStats) {
        order::fence_turns_idle();
        if self.all_idle() && self.gate.anyone_starves() {
            for consumer in 0..self.consumers.len() {
                if self.queue(consumer).is_awaited(stats) {
                    self.flush(consumer, stats);
                }
            }
        }
    }

    /// A consumer is gone: what it has is freed, and nothing more is copied for it.
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
        if let Some(open) = self.lane(consumer).seal() {
            calls.call(|| self.discard(*open));
        }
        self.live_consumers.fetch_sub(1, Relaxed);
        calls.call(|| self.gate.wake_producers(stats));
        calls.finish();
    }
}

/// Bytes that are accounted for, and given back also if the embedder's code panics.
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

impl Drop for Shared {
    fn drop(&mut self) {
        for consumer in &self.consumers {
            if let Some(open) = consumer.lane.seal() {
                self.overflow.release(open.chunk.reserved_bytes);
            }
        }
    }
}
