//! The queue for each consumer in the models: what loom sees of it is its length.

use std::{
    collections::VecDeque,
    sync::{Arc as StdArc, Mutex},
};

use loom::sync::{
    Arc,
    atomic::{
        AtomicUsize,
        Ordering::{AcqRel, Acquire, Relaxed},
    },
};

use super::{Kind, PopEnd, PushEnd, QueueEnds};
use crate::stats::ExchangeStats;

/// A queue for each consumer. The values are behind std's mutex, which is never contended in a
/// model's step. The length is loom's, so that a load of it may miss a push, as with a real queue.
pub(in crate::transport) struct ModelQueues;

struct Queue<T> {
    values: Mutex<VecDeque<StdArc<T>>>,
    len: AtomicUsize,
}

pub(in crate::transport) struct End<T> {
    queues: Arc<Vec<Queue<T>>>,
    consumer: usize,
    bound: usize,
}

impl Kind for ModelQueues {
    type Push<T: Send + Sync + 'static> = End<T>;
    type Pop<T: Send + Sync + 'static> = End<T>;

    fn queues<T: Send + Sync + 'static>(producers: usize, consumers: usize, bound: usize) -> QueueEnds<Self, T> {
        let queue = |_| Queue { values: Mutex::new(VecDeque::new()), len: AtomicUsize::new(0) };
        let queues = Arc::new((0..consumers).map(queue).collect::<Vec<_>>());
        let end = |consumer| End { queues: Arc::clone(&queues), consumer, bound };
        ((0..producers).map(end).collect(), (0..consumers).map(end).collect())
    }
}

impl<T: Send + Sync> PushEnd<T> for End<T> {
    fn has_free_slot(&self, consumer: usize) -> bool {
        self.queues[consumer].len.load(Relaxed) < self.bound
    }

    fn push(&mut self, consumer: usize, value: StdArc<T>, _: &mut ExchangeStats) {
        let queue = &self.queues[consumer];
        queue.len.fetch_add(1, AcqRel);
        queue.values.lock().unwrap().push_back(value);
    }
}

impl<T: Send + Sync> PopEnd<T> for End<T> {
    fn pop(&mut self, _: &mut ExchangeStats) -> Option<StdArc<T>> {
        let queue = &self.queues[self.consumer];
        if queue.len.load(Acquire) == 0 {
            return None;
        }
        let value = queue.values.lock().unwrap().pop_front();
        queue.len.fetch_sub(usize::from(value.is_some()), AcqRel);
        value
    }

    /// Returns the latest length, without loom: each stale one would be a branch of the model. A
    /// length that lacks a push would only wake more producers.
    fn values(&self) -> usize {
        self.queues[self.consumer].values.lock().unwrap().len()
    }

    fn is_low(&self) -> bool {
        self.values() <= self.bound / 2
    }
}
