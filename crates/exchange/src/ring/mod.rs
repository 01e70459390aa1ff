//! A ring of slots whose values every consumer reads.
//!
//! M producers publish values, and each of N consumers visits every value by reference. All
//! consumers see the same order. A publish is one `fetch_add` and one store, independent of M and
//! N. The ring does not depend on Arrow, on runtimes or on partitioning. `PROTOCOL.md` beside this
//! file has the states, the access rules, and the reasons why nothing hangs.
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use annulus_exchange::ring::{Next, RingConfig, ring};
//!
//! let (mut producers, mut consumers) = ring(RingConfig::new(1, 2).with_slots(4));
//! let mut producer = producers.remove(0);
//! producer.try_send("hello").expect("a free slot");
//! producer.finish();
//!
//! for consumer in &mut consumers {
//!     let mut seen = vec![];
//!     let next = consumer.next(|value| {
//!         seen.push(*value);
//!         ControlFlow::Continue(())
//!     })?;
//!     assert_eq!((next, seen), (Next::Visited(1), vec!["hello"]));
//! }
//! # Ok::<(), annulus_exchange::ExchangeError>(())
//! ```

mod consumer;
mod lease;
mod order;
mod producer;
mod shared;
mod slot;
mod state;

pub use crate::admission::Admission;
pub(crate) use consumer::StopHandle;
pub use consumer::{Next, RingConsumer};
pub use lease::HandOver;
pub use producer::{RingProducer, TrySendError};

use annulus_sync::Arc;

use self::shared::RingCore;

/// The shape of a ring. Each number counts as 1 if it is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingConfig {
    /// The number of producers, M.
    pub producers: usize,
    /// The number of consumers, N.
    pub consumers: usize,
    /// The number of groups, with the one that fills: 2 by default, so that producers fill one
    /// while consumers read the other. The ring is full with `groups * slots` values in flight, and
    /// never holds more than `groups * slots + producers - 1` of them.
    pub groups: usize,
    /// The number of slots of a group, G: by default one for each producer. Waiting consumers are
    /// woken once for each group.
    pub slots: usize,
}

impl RingConfig {
    /// Creates the default shape for this number of producers and consumers.
    pub fn new(producers: usize, consumers: usize) -> Self {
        Self { producers, consumers, groups: 2, slots: producers }
    }

    /// Sets the number of [groups](Self::groups).
    #[must_use]
    pub fn with_groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    /// Sets the number of [slots of a group](Self::slots).
    #[must_use]
    pub fn with_slots(self, slots: usize) -> Self {
        Self { slots, ..self }
    }
}

/// Creates a ring, and returns the handles of its producers and of its consumers.
///
/// Each handle is for one thread or task at a time. All memory of the ring is allocated here.
pub fn ring<T: Send + Sync>(config: RingConfig) -> (Vec<RingProducer<T>>, Vec<RingConsumer<T>>) {
    let (producers, consumers) = (config.producers.max(1), config.consumers.max(1));
    let shared = Arc::new(RingCore::new(producers, consumers, config.groups.max(1), config.slots.max(1)));
    let producers = (0..producers).map(|index| RingProducer::new(Arc::clone(&shared), index)).collect();
    let consumers = (0..consumers).map(|index| RingConsumer::new(Arc::clone(&shared), index)).collect();
    (producers, consumers)
}
