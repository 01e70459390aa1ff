//! `Ring<T>`: groups of slots that every consumer reads.
//!
//! M producers publish values, and each of N consumers visits every value by reference, in one
//! common order. A publish is one `fetch_add` and one store, whatever M and N. The ring knows
//! nothing of Arrow, of runtimes or of partitioning. `PROTOCOL.md` beside this file has the states,
//! the rules of who may touch what, and why nobody hangs.

mod consumer;
mod lease;
mod order;
mod parked;
mod producer;
mod shared;
mod slot;
mod state;
mod wait;

pub use consumer::{Next, RingConsumer};
pub use lease::HandOver;
pub use producer::{Admission, RingProducer, TrySendError};
pub(crate) use wait::block_on;

use annulus_sync::Arc;

use self::shared::Shared;

/// The shape of a ring. Each number counts as 1 if it is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingConfig {
    /// Number of producers, M.
    pub producers: usize,
    /// Number of consumers, N.
    pub consumers: usize,
    /// Groups, K: the ring counts as full with `groups * slots` values in flight. At most
    /// `groups * slots + producers - 1` values are ever in it.
    pub groups: usize,
    /// Slots of a group, G: consumers that wait are woken once per so many values.
    pub slots: usize,
}

/// Make a ring, and the handles of its producers and of its consumers.
///
/// Each handle is for one thread or task at a time. All memory of the ring is allocated here.
pub fn ring<T: Send + Sync>(config: RingConfig) -> (Vec<RingProducer<T>>, Vec<RingConsumer<T>>) {
    let (producers, consumers) = (config.producers.max(1), config.consumers.max(1));
    let shared = Arc::new(Shared::new(producers, consumers, config.groups.max(1), config.slots.max(1)));
    let producers = (0..producers).map(|index| RingProducer::new(Arc::clone(&shared), index)).collect();
    let consumers = (0..consumers).map(|index| RingConsumer::new(Arc::clone(&shared), index)).collect();
    (producers, consumers)
}
