//! A queue of `rtrb` for each pair of a producer and a consumer.

use std::sync::Arc;

use annulus_exchange::{
    ExchangeStats,
    plug::{Kind, PopEnd, PushEnd},
};

#[cfg(loom)]
use super::modelled_pair as rtrb;

/// A queue for each pair of a producer and a consumer, of `rtrb`.
pub(crate) struct Pairs;

pub(crate) struct PairsPush<T> {
    queues: Vec<rtrb::Producer<Arc<T>>>,
}

pub(crate) struct PairsPop<T> {
    queues: Vec<rtrb::Consumer<Arc<T>>>,
    /// The producer whose queue is looked at first.
    next: usize,
}

impl Kind for Pairs {
    type Push<T: Send + Sync + 'static> = PairsPush<T>;
    type Pop<T: Send + Sync + 'static> = PairsPop<T>;

    /// Each pair has its share of the bound, and a slot more, so that a producer
    /// can write while its consumer reads.
    fn queues<T: Send + Sync + 'static>(
        producers: usize,
        consumers: usize,
        bound: usize,
    ) -> (Vec<PairsPush<T>>, Vec<PairsPop<T>>) {
        let capacity = bound.div_ceil(producers) + 1;
        let mut pops: Vec<_> = (0..consumers).map(|_| PairsPop { queues: Vec::new(), next: 0 }).collect();
        let mut push = |_| {
            let queue = |pop: &mut PairsPop<T>| {
                let (producer, consumer) = rtrb::RingBuffer::new(capacity);
                pop.queues.push(consumer);
                producer
            };
            PairsPush { queues: pops.iter_mut().map(queue).collect() }
        };
        let pushes = (0..producers).map(&mut push).collect();
        (pushes, pops)
    }
}

impl<T: Send + Sync> PushEnd<T> for PairsPush<T> {
    fn has_free_slot(&self, consumer: usize) -> bool {
        !self.queues[consumer].is_full()
    }

    fn push(&mut self, consumer: usize, value: Arc<T>, counts: &mut ExchangeStats) {
        counts.handoffs += 1;
        let pushed = self.queues[consumer].push(value);
        debug_assert!(pushed.is_ok(), "the only producer has seen a free slot");
    }
}

impl<T: Send + Sync> PopEnd<T> for PairsPop<T> {
    /// Takes a value of each queue in turn.
    fn pop(&mut self, counts: &mut ExchangeStats) -> Option<Arc<T>> {
        for _ in 0..self.queues.len() {
            let popped = self.queues[self.next].pop();
            self.next = (self.next + 1) % self.queues.len();
            if let Ok(value) = popped {
                counts.handoffs += 1;
                return Some(value);
            }
        }
        None
    }

    fn values(&self) -> usize {
        self.queues.iter().map(rtrb::Consumer::slots).sum()
    }

    fn is_low(&self) -> bool {
        // Producers wait for different queues here, so any that is low counts.
        self.queues.iter().any(|queue| queue.slots() <= queue.buffer().capacity() / 2)
    }
}
