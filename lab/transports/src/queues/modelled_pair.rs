//! The queue of a pair in the models, with the names of `rtrb`. What loom sees of it is its two
//! ends. As with `rtrb`, each side knows its own end, and keeps what it last saw of the other one.

use std::{
    cell::Cell,
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use loom::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Release},
};

/// The values are behind std's mutex, which is never contended in a model's step.
pub(super) struct RingBuffer<T> {
    values: Mutex<VecDeque<T>>,
    capacity: usize,
    /// The number of values that were taken.
    head: AtomicUsize,
    /// The number of values that were pushed.
    tail: AtomicUsize,
}

pub(super) struct Producer<T> {
    buffer: Arc<RingBuffer<T>>,
    tail: usize,
    cached_head: Cell<usize>,
}

pub(super) struct Consumer<T> {
    buffer: Arc<RingBuffer<T>>,
    head: usize,
    cached_tail: Cell<usize>,
}

/// The queue has no value.
pub(super) struct Empty;

impl<T> RingBuffer<T> {
    #[expect(clippy::new_ret_no_self, reason = "as `rtrb` has it")]
    pub(super) fn new(capacity: usize) -> (Producer<T>, Consumer<T>) {
        let (head, tail) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let buffer = Arc::new(Self { values: Mutex::new(VecDeque::new()), capacity, head, tail });
        let producer = Producer { buffer: Arc::clone(&buffer), tail: 0, cached_head: Cell::new(0) };
        (producer, Consumer { buffer, head: 0, cached_tail: Cell::new(0) })
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }
}

impl<T> Producer<T> {
    pub(super) fn is_full(&self) -> bool {
        let full = || self.tail - self.cached_head.get() == self.buffer.capacity;
        if full() {
            self.cached_head.set(self.buffer.head.load(Acquire));
        }
        full()
    }

    /// Pushes a value, or returns it if the queue is full.
    pub(super) fn push(&mut self, value: T) -> Result<(), T> {
        if self.is_full() {
            return Err(value);
        }
        self.buffer.values.lock().unwrap().push_back(value);
        self.tail += 1;
        self.buffer.tail.store(self.tail, Release);
        Ok(())
    }
}

impl<T> Consumer<T> {
    pub(super) fn pop(&mut self) -> Result<T, Empty> {
        if self.head == self.cached_tail.get() {
            self.cached_tail.set(self.buffer.tail.load(Acquire));
            if self.head == self.cached_tail.get() {
                return Err(Empty);
            }
        }
        let value = self.buffer.values.lock().unwrap().pop_front().expect("it was pushed before the end moved");
        self.head += 1;
        self.buffer.head.store(self.head, Release);
        Ok(value)
    }

    /// Returns the latest number of values, without loom: each stale one would be a branch of the
    /// model.
    pub(super) fn slots(&self) -> usize {
        self.buffer.values.lock().unwrap().len()
    }

    pub(super) fn buffer(&self) -> &RingBuffer<T> {
        &self.buffer
    }
}
