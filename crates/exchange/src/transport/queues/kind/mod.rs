//! The queues themselves. They are not ours, so models have another one in their place.

#[cfg(not(loom))]
mod lock_free;
#[cfg(loom)]
mod modelled;

use std::sync::Arc as StdArc;

#[cfg(not(loom))]
pub(in crate::transport) use self::lock_free::LockFree;
#[cfg(loom)]
pub(in crate::transport) use self::modelled::ModelQueues as LockFree;

use crate::stats::ExchangeStats;

/// A kind of queue.
pub trait Kind: Sized + Send + Sync + 'static {
    /// The end of a producer.
    type Push<T: Send + Sync + 'static>: PushEnd<T>;
    /// The end of a consumer.
    type Pop<T: Send + Sync + 'static>: PopEnd<T>;

    /// Creates the ends of all producers and of all consumers. A consumer's queue is full with
    /// `bound` values; producers that race may exceed that by one value each.
    fn queues<T: Send + Sync + 'static>(producers: usize, consumers: usize, bound: usize) -> QueueEnds<Self, T>;
}

/// The ends of all producers and of all consumers.
pub type QueueEnds<K, T> = (Vec<<K as Kind>::Push<T>>, Vec<<K as Kind>::Pop<T>>);

/// A producer's end of all the queues that it pushes to.
pub trait PushEnd<T>: Send {
    /// Returns whether the queue to this consumer has a free slot.
    fn has_free_slot(&self, consumer: usize) -> bool;

    /// Pushes a value to a queue which had a free slot when this producer last looked.
    fn push(&mut self, consumer: usize, value: StdArc<T>, counts: &mut ExchangeStats);
}

/// A consumer's end of all the queues to it.
pub trait PopEnd<T>: Send {
    /// Takes the oldest value of a queue.
    fn pop(&mut self, counts: &mut ExchangeStats) -> Option<StdArc<T>>;

    /// Returns the number of values in the queues. At least those that the caller knows of.
    fn values(&self) -> usize;

    /// Returns whether waiting producers are worth waking: each queue that they may wait for is at
    /// most half full.
    fn is_low(&self) -> bool;
}
