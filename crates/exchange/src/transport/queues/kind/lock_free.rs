//! Crossbeam's bounded queue for each consumer.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;

use super::{Kind, PopEnd, PushEnd};
use crate::stats::ExchangeStats;

/// A queue for each consumer, of crossbeam.
pub(in crate::transport) struct LockFree;

pub(in crate::transport) struct LockFreePush<T> {
    queues: Arc<[ArrayQueue<Arc<T>>]>,
    bound: usize,
}

pub(in crate::transport) struct LockFreePop<T> {
    queues: Arc<[ArrayQueue<Arc<T>>]>,
    consumer: usize,
    bound: usize,
}

impl Kind for LockFree {
    type Push<T: Send + Sync + 'static> = LockFreePush<T>;
    type Pop<T: Send + Sync + 'static> = LockFreePop<T>;

    fn queues<T: Send + Sync + 'static>(
        producers: usize,
        consumers: usize,
        bound: usize,
    ) -> (Vec<LockFreePush<T>>, Vec<LockFreePop<T>>) {
        let queues: Arc<[_]> = (0..consumers).map(|_| ArrayQueue::new(bound + producers - 1)).collect();
        let push = |_| LockFreePush { queues: Arc::clone(&queues), bound };
        let pop = |consumer| LockFreePop { queues: Arc::clone(&queues), consumer, bound };
        ((0..producers).map(push).collect(), (0..consumers).map(pop).collect())
    }
}

impl<T: Send + Sync> PushEnd<T> for LockFreePush<T> {
    fn has_free_slot(&self, consumer: usize) -> bool {
        self.queues[consumer].len() < self.bound
    }

    fn push(&mut self, consumer: usize, value: Arc<T>, stats: &mut ExchangeStats) {
        stats.shared_ops += 1;
        stats.handoffs += 1;
        let pushed = self.queues[consumer].push(value);
        debug_assert!(pushed.is_ok(), "each producer exceeds the bound by at most one value");
    }
}

impl<T: Send + Sync> PopEnd<T> for LockFreePop<T> {
    fn pop(&mut self, stats: &mut ExchangeStats) -> Option<Arc<T>> {
        let popped = self.queues[self.consumer].pop();
        stats.shared_ops += u64::from(popped.is_some());
        popped
    }

    fn values(&self) -> usize {
        self.queues[self.consumer].len()
    }

    fn is_low(&self) -> bool {
        self.values() <= self.bound / 2
    }
}
