//! A queue under a mutex for each consumer.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use annulus_exchange::{
    ExchangeStats,
    plug::{Kind, PopEnd, PushEnd},
};
use crossbeam_utils::CachePadded;

/// A queue for each consumer, under a mutex, as the baseline of the ring's paper has it (section
/// 4). Wakers take the place of its condition variables, so that tasks can wait, too.
pub(crate) struct LockedQueues;

/// A queue, and its length for those that only ask for a free slot.
struct LockedQueue<T> {
    values: Mutex<VecDeque<Arc<T>>>,
    len: AtomicUsize,
}

impl<T> LockedQueue<T> {
    fn with<R>(&self, counts: &mut ExchangeStats, f: impl FnOnce(&mut VecDeque<Arc<T>>) -> R) -> R {
        counts.locks += 1;
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut values);
        self.len.store(values.len(), Relaxed);
        result
    }
}

pub(crate) struct LockedPush<T> {
    queues: Arc<[CachePadded<LockedQueue<T>>]>,
    bound: usize,
}

pub(crate) struct LockedPop<T> {
    queues: Arc<[CachePadded<LockedQueue<T>>]>,
    consumer: usize,
    bound: usize,
}

impl Kind for LockedQueues {
    type Push<T: Send + Sync + 'static> = LockedPush<T>;
    type Pop<T: Send + Sync + 'static> = LockedPop<T>;

    fn queues<T: Send + Sync + 'static>(
        producers: usize,
        consumers: usize,
        bound: usize,
    ) -> (Vec<LockedPush<T>>, Vec<LockedPop<T>>) {
        let queue = |_| {
            let values = Mutex::new(VecDeque::with_capacity(bound + producers - 1));
            CachePadded::new(LockedQueue { values, len: AtomicUsize::new(0) })
        };
        let queues: Arc<[_]> = (0..consumers).map(queue).collect();
        let push = |_| LockedPush { queues: Arc::clone(&queues), bound };
        let pop = |consumer| LockedPop { queues: Arc::clone(&queues), consumer, bound };
        ((0..producers).map(push).collect(), (0..consumers).map(pop).collect())
    }
}

impl<T: Send + Sync> PushEnd<T> for LockedPush<T> {
    fn has_free_slot(&self, consumer: usize) -> bool {
        self.queues[consumer].len.load(Relaxed) < self.bound
    }

    fn push(&mut self, consumer: usize, value: Arc<T>, counts: &mut ExchangeStats) {
        counts.handoffs += 1;
        self.queues[consumer].with(counts, |values| values.push_back(value));
    }
}

impl<T: Send + Sync> PopEnd<T> for LockedPop<T> {
    fn pop(&mut self, counts: &mut ExchangeStats) -> Option<Arc<T>> {
        self.queues[self.consumer].with(counts, VecDeque::pop_front)
    }

    fn values(&self) -> usize {
        self.queues[self.consumer].len.load(Relaxed)
    }

    fn is_low(&self) -> bool {
        self.values() <= self.bound / 2
    }
}
