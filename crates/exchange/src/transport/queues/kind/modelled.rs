//! The queue of the models, on loom's mutex.

use std::{collections::VecDeque, sync::Arc as StdArc};

use loom::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use super::{Kind, PopEnd, PushEnd};
use crate::stats::ExchangeStats;

/// A queue for each consumer, on loom's mutex.
pub(in crate::transport) struct Modelled;

struct Queue<T> {
    values: Mutex<VecDeque<StdArc<T>>>,
    len: AtomicUsize,
}

pub(in crate::transport) struct End<T> {
    queues: Arc<Vec<Queue<T>>>,
    consumer: usize,
    bound: usize,
}

impl<T> End<T> {
    fn with<R>(&self, consumer: usize, f: impl FnOnce(&mut VecDeque<StdArc<T>>) -> R) -> R {
        let queue = &self.queues[consumer];
        let mut values = queue.values.lock().unwrap();
        let result = f(&mut values);
        // Read-modify-write, as a real queue's counters are: loom would let a plain load miss
        // a store before a fence.
        queue.len.swap(values.len(), Relaxed);
        result
    }

    fn len(&self, consumer: usize) -> usize {
        self.queues[consumer].len.load(Relaxed)
    }
}

impl Kind for Modelled {
    type Push<T: Send + Sync + 'static> = End<T>;
    type Pop<T: Send + Sync + 'static> = End<T>;

    fn queues<T: Send + Sync + 'static>(
        producers: usize,
        consumers: usize,
        bound: usize,
    ) -> (Vec<End<T>>, Vec<End<T>>) {
        let queue = |_| Queue { values: Mutex::new(VecDeque::new()), len: AtomicUsize::new(0) };
        let queues = Arc::new((0..consumers).map(queue).collect::<Vec<_>>());
        let end = |consumer| End { queues: Arc::clone(&queues), consumer, bound };
        ((0..producers).map(end).collect(), (0..consumers).map(end).collect())
    }
}

impl<T: Send + Sync> PushEnd<T> for End<T> {
    fn has_room(&self, consumer: usize) -> bool {
        self.len(consumer) < self.bound
    }

    fn push(&mut self, consumer: usize, value: StdArc<T>, _: &mut ExchangeStats) {
        self.with(consumer, |values| values.push_back(value));
    }
}

impl<T: Send + Sync> PopEnd<T> for End<T> {
    fn pop(&mut self, _: &mut ExchangeStats) -> Option<StdArc<T>> {
        self.with(self.consumer, VecDeque::pop_front)
    }

    fn is_low(&self) -> bool {
        self.len(self.consumer) <= self.bound / 2
    }
}
