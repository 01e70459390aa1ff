//! What the handles of an exchange share: the lanes, the gate, who is alive, and the first error.

use std::sync::{Arc, OnceLock};

use arrow::{array::RecordBatch, datatypes::SchemaRef};

use super::{
    chunk::{Chunk, ChunkShape},
    gate::Gate,
    lane::{Lane, Open},
    queue::{Closed, Item, Queue},
};
use crate::{
    activity::Activity,
    config::ExchangeConfig,
    error::ExchangeError,
    overflow::{Beyond, Overflow},
    partition::Modulo,
    stats::ExchangeStats,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

pub(crate) struct Shared {
    pub(crate) shape: ChunkShape,
    pub(crate) modulo: Modulo,
    pub(crate) gate: Gate,
    pub(crate) overflow: Arc<dyn Overflow>,
    consumers: Box<[PerConsumer]>,
    beyond: Beyond,
    activity: Activity,
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
        let per_consumer = |_| PerConsumer {
            lane: Lane::new(capacity),
            gone: AtomicBool::new(false),
            queue: Queue::default(),
        };
        Self {
            shape,
            modulo: Modulo::new(config.consumers),
            gate: Gate::new(limit, config.producers),
            overflow,
            consumers: (0..config.consumers).map(per_consumer).collect(),
            beyond: Beyond::new(config.overflow_bytes),
            activity: Activity::new(config.producers),
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
        !self.consumers[consumer].gone.load(Ordering::Relaxed)
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
        (self.live_consumers.load(Ordering::SeqCst) == 0).then_some(ExchangeError::ConsumersGone)
    }

    /// The error that stopped the exchange, if one did.
    pub(crate) fn stop_error(&self) -> Option<&ExchangeError> {
        self.stopped.get()
    }

    /// Stops the exchange with the first error given; all who wait are woken.
    pub(crate) fn stop(&self, error: ExchangeError, stats: &mut ExchangeStats) {
        if self.stopped.set(error).is_err() {
            return;
        }
        for consumer in &self.consumers {
            if let Some(waker) = consumer.queue.wake(stats) {
                stats.wakeups += 1;
                waker.wake();
            }
        }
        self.gate.wake_producers(stats);
    }

    /// An empty chunk; its memory is accounted for if the budget allows.
    pub(crate) fn fresh_chunk(&self) -> Box<Open<Chunk>> {
        let bytes = self.shape.fixed_bytes();
        let reserved = if self.overflow.try_reserve(bytes) { bytes } else { 0 };
        Open::new(self.shape.chunk(reserved), self.shape.capacity as u32)
    }

    /// Gives back a chunk that nobody needs.
    pub(crate) fn discard(&self, open: Box<Open<Chunk>>) {
        self.overflow.release(open.chunk.reserved_bytes);
    }

    /// Hands a whole chunk to its consumer: through memory if that is accounted for, else through the embedder's disk.
    pub(crate) fn deliver(&self, consumer: usize, open: Box<Open<Chunk>>, stats: &mut ExchangeStats) {
        if !self.wants(consumer) {
            return self.discard(open);
        }
        let rows = open.rows() as u64;
        let (bytes, reserved) = (open.chunk.memory_bytes(), open.chunk.reserved_bytes);
        let over = if self.gate.is_over() { bytes } else { 0 };
        if over > 0 {
            stats.overflow_rows += rows;
            stats.overflow_bytes += bytes as u64;
        }
        let within = self.beyond.try_add(over);
        let accounted = within && (bytes <= reserved || self.overflow.try_reserve(bytes - reserved));
        let item = if accounted {
            self.gate.queue();
            Item::Chunk { open, reserved: bytes.max(reserved), over }
        } else {
            self.beyond.subtract(if within { over } else { 0 });
            match self.spill(consumer, open) {
                Ok(item) => item,
                Err(error) => return self.stop(error, stats),
            }
        };
        match self.queue(consumer).push(item, stats) {
            Ok(Some(waker)) => {
                self.gate.feed();
                stats.wakeups += 1;
                waker.wake();
            }
            Ok(None) => {}
            Err(Closed(item)) => self.take(item, stats, |_| ()),
        }
    }

    fn spill(&self, consumer: usize, open: Box<Open<Chunk>>) -> Result<Item, ExchangeError> {
        let reserved = open.chunk.reserved_bytes;
        let spilled = self
            .batch(open)
            .and_then(|batch| self.overflow.spill(consumer, batch).map(Item::Spilled).map_err(ExchangeError::Stopped));
        self.overflow.release(reserved);
        spilled
    }

    /// The rows of a whole chunk.
    pub(crate) fn batch(&self, open: Box<Open<Chunk>>) -> Result<RecordBatch, ExchangeError> {
        let rows = open.rows();
        // SAFETY: the chunk is whole: every claim was completed with Release and the last completion acquired them (R3).
        unsafe { open.chunk.into_batch(&self.shape, rows) }.map_err(ExchangeError::from)
    }

    /// An item has left its queue: gives back what it occupied, and passes it on.
    pub(crate) fn take<R>(&self, item: Item, stats: &mut ExchangeStats, then: impl FnOnce(Item) -> R) -> R {
        if let Item::Chunk { reserved, over, .. } = &item {
            self.overflow.release(*reserved);
            self.beyond.subtract(*over);
            self.gate.dequeue(1, stats);
        }
        then(item)
    }

    /// Hands over what a consumer's open chunk has.
    pub(crate) fn flush(&self, consumer: usize, stats: &mut ExchangeStats) {
        if let Some(open) = self.lane(consumer).seal() {
            self.deliver(consumer, open, stats);
        }
    }

    /// A producer's input has nothing ready. If that holds for all, rows in open chunks go to those who wait.
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
        stats.shared_ops += 1;
        if !self.activity.finish() {
            return self.flush_if_all_idle(stats);
        }
        for consumer in 0..self.consumers.len() {
            self.flush(consumer, stats);
            if let Some(waker) = self.queue(consumer).end(stats) {
                self.gate.feed();
                stats.wakeups += 1;
                waker.wake();
            }
        }
    }

    /// Whether no producer has anything to send for now.
    pub(crate) fn all_idle(&self) -> bool {
        self.activity.all_idle()
    }

    fn flush_if_all_idle(&self, stats: &mut ExchangeStats) {
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
        self.consumers[consumer].gone.store(true, Ordering::Relaxed);
        let (items, starved) = self.queue(consumer).close(stats);
        if starved {
            self.gate.feed();
        }
        for item in items {
            self.take(item, stats, |_| ());
        }
        if let Some(open) = self.lane(consumer).seal() {
            self.discard(open);
        }
        self.live_consumers.fetch_sub(1, Ordering::SeqCst);
        self.gate.wake_producers(stats);
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
