//! Whole batches, one consumer after the other.

use super::{MAX_CONSUMERS, Target};

/// The consumers of one producer's batches in turn, beginning at a place of its own so that short inputs spread.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    next: usize,
    consumers: usize,
}

impl RoundRobin {
    /// For one of `producers` producers: it begins at consumer `producer * consumers / producers`. Counts are brought
    /// into `1..=MAX_CONSUMERS`.
    pub fn new(producer: usize, producers: usize, consumers: usize) -> Self {
        let consumers = consumers.clamp(1, MAX_CONSUMERS);
        let next = producer.saturating_mul(consumers) / producers.max(1) % consumers;
        Self { next, consumers }
    }

    /// The consumer of the next batch.
    pub fn next_target(&mut self) -> Target {
        let target = self.next;
        self.next = (target + 1) % self.consumers;
        target as Target
    }
}
