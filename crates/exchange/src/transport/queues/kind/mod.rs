//! The queues themselves. They are not ours, so models have others in their place: a kind for
//! [`LockFree`] and [`Locked`], and the queue of one pair for [`Pairs`].

#[cfg(not(loom))]
mod lock_free;
#[cfg(not(loom))]
mod locked;
#[cfg(loom)]
mod modelled;
#[cfg(loom)]
mod modelled_pair;
mod pairs;

use std::sync::Arc as StdArc;

#[cfg(loom)]
pub(in crate::transport) use self::modelled::{Modelled as LockFree, Modelled as Locked};
pub(in crate::transport) use self::pairs::Pairs;
#[cfg(not(loom))]
pub(in crate::transport) use self::{lock_free::LockFree, locked::Locked};

use crate::stats::ExchangeStats;

/// A kind of queue.
pub(in crate::transport) trait Kind: Sized + Send + Sync + 'static {
    type Push<T: Send + Sync + 'static>: PushEnd<T>;
    type Pop<T: Send + Sync + 'static>: PopEnd<T>;

    /// Creates the ends of all producers and of all consumers. A consumer's queue is full with
    /// `bound` values; producers that race may exceed that by one value each.
    fn queues<T: Send + Sync + 'static>(producers: usize, consumers: usize, bound: usize) -> Ends<Self, T>;
}

/// The ends of all producers and of all consumers.
pub(in crate::transport) type Ends<K, T> = (Vec<<K as Kind>::Push<T>>, Vec<<K as Kind>::Pop<T>>);

/// A producer's end of all the queues that it pushes to.
pub(in crate::transport) trait PushEnd<T>: Send {
    /// Returns whether the queue to this consumer has room.
    fn has_room(&self, consumer: usize) -> bool;

    /// Pushes a value to a queue which had room when this producer last looked.
    fn push(&mut self, consumer: usize, value: StdArc<T>, stats: &mut ExchangeStats);
}

/// A consumer's end of all the queues to it.
pub(in crate::transport) trait PopEnd<T>: Send {
    /// Takes the oldest value of a queue.
    fn pop(&mut self, stats: &mut ExchangeStats) -> Option<StdArc<T>>;

    /// Returns the number of values in the queues. At least those that the caller knows of.
    fn len(&self) -> usize;

    /// Returns whether waiting producers are worth waking: each queue that they may wait for is at
    /// most half full.
    fn is_low(&self) -> bool;
}
