//! A queue under a mutex for each consumer.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use crossbeam_utils::CachePadded;

use super::{Kind, PopEnd, PushEnd};
use crate::stats::ExchangeStats;

/// A queue for each consumer, under a mutex.
pub(in crate::transport) struct Locked;

/// A queue, and its length for those that only ask whether there is room.
struct LockedQueue<T> {
    values: Mutex<VecDeque<Arc<T>>>,
    len: AtomicUsize,
}

impl<T> LockedQueue<T> {
    fn with<R>(&self, stats: &mut ExchangeStats, f: impl FnOnce(&mut VecDeque<Arc<T>>) -> R) -> R {
        stats.locks += 1;
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut values);
        self.len.store(values.len(), Relaxed);
        result
    }
}

pub(in crate::transport) struct LockedPush<T> {
    queues: Arc<[CachePadded<LockedQueue<T>>]>,
    bound: usize,
}

pub(in crate::transport) struct LockedPop<T> {
    queues: Arc<[CachePadded<LockedQueue<T>>]>,
    consumer: usize,
    bound: usize,
}

impl Kind for Locked {
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
    fn has_room(&self, consumer: usize) -> bool {
        self.queues[consumer].len.load(Relaxed) < self.bound
    }

    fn push(&mut self, consumer: usize, value: Arc<T>, stats: &mut ExchangeStats) {
        stats.handoffs += 1;
        self.queues[consumer].with(stats, |values| values.push_back(value));
    }
}

impl<T: Send + Sync> PopEnd<T> for LockedPop<T> {
    fn pop(&mut self, stats: &mut ExchangeStats) -> Option<Arc<T>> {
        self.queues[self.consumer].with(stats, VecDeque::pop_front)
    }

    fn len(&self) -> usize {
        self.queues[self.consumer].len.load(Relaxed)
    }

    fn is_low(&self) -> bool {
        self.len() <= self.bound / 2
    }
}
